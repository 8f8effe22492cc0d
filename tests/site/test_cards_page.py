"""Cards on a page of their own: cells are cut apart, a token passes, and the limit is dragged."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_access import SERIOUS
from test_knobs import PAGE

import lab
from book.serve import server
from lab.parallel.sketch import WAYS
from lab.what_ifs.parallel import cut_in_two
from lab.widgets.modules import module, style

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    widget = lab.what_if(
        cut_in_two,
        way=lab.Knob.choice("Cut", *WAYS),
        limit=lab.Knob(300, 100, 500, 50, "a card holds", "MB"),
    )
    folder: Path = tmp_path_factory.mktemp("cards")
    values = {name: getattr(widget, name) for name in ("function", "knobs", "scenes", "baked")}
    (folder / "values.json").write_text(json.dumps(values), encoding="utf-8")
    (folder / "what_if.js").write_text(module("what_if"), encoding="utf-8")
    (folder / "style.css").write_text(style(), encoding="utf-8")
    for theme in ("light", "dark"):
        page = PAGE.replace("THEME", theme)
        (folder / f"{theme}.html").write_text(page, encoding="utf-8")
    with server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(params=[900, 360])
def page(request: Any, browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    there = context.new_page()
    there.problems = []
    there.on("pageerror", lambda error: there.problems.append(str(error)))
    there.goto(f"{address}/light.html")
    there.locator(".card-box").first.wait_for()
    yield there
    assert there.problems == []
    context.close()


def told(page: Any) -> list[str]:
    """What the figure says in words."""
    return page.locator(".stage text").all_text_contents()


def places(page: Any) -> list[tuple[int, int]]:
    """Where each cell stands, in the order of the network, without those that are away."""
    found = page.evaluate(
        """() => [...document.querySelectorAll(".piece:not(.away)")].map((piece) => {
             const { x, y } = piece.getBoundingClientRect();
             return [Math.round(x), Math.round(y)];
           })"""
    )
    return [tuple(place) for place in found]


def go(page: Any, steps: int) -> None:
    page.get_by_label("Restart").click()
    for _ in range(steps):
        page.get_by_label("Next step").click()
    page.wait_for_timeout(400)


def test_the_network_is_cut_into_copies_that_do_not_fit(page):
    before = places(page)
    go(page, 1)
    after = places(page)
    assert len(set(before)) == 16, "a copy lies on what it is a copy of"
    assert len(set(after)) == 32
    assert told(page).count("400 of 300 MB: too much") == 2
    assert "it does not fit" in page.locator(".caption").inner_text()


def test_a_token_passes_and_messages_are_counted(page):
    page.locator("select").first.select_option("1")
    go(page, 2)
    assert told(page).count("works") == 2
    assert page.locator(".message").count() == 0
    assert page.locator(".piece.at-work").count() == 4
    go(page, 3)
    assert page.locator(".message").count() == 2
    words = " ".join(told(page))
    assert "all-gather" in words
    assert "2 sent" in words
    page.locator("select").first.select_option("3")
    go(page, 2)
    assert {"works", "idle"} <= set(told(page))
    assert page.locator(".card-box.idle").count() == 1


def test_a_second_choice_moves_the_same_cells(page):
    choice = page.locator("select").first
    choice.select_option("1")
    page.wait_for_timeout(400)
    columns = places(page)
    choice.select_option("2")
    page.wait_for_timeout(400)
    rows = places(page)
    assert len(columns) == len(rows) == 16
    moved = [a != b for a, b in zip(columns, rows, strict=True)]
    # of each layer one cell stays on device 0 and one on device 1, and the other two change
    assert moved == [False, True, True, False] * 4
    assert page.locator(".ghost").count() == 4


def test_the_limit_is_dragged_and_the_buttons_do_the_same(page):
    grip = page.locator(".grip").first.bounding_box()
    x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y, steps=3)
    page.mouse.move(x + 90, y, steps=5)
    page.mouse.up()
    assert "MB" in page.locator(".value").inner_text()
    assert int(page.locator(".value span").inner_text()) > 350
    title = page.locator(".tif-player .title")
    page.get_by_label("As in the book").click()
    for _ in range(2):
        page.get_by_label("a card holds: more").click()
    assert title.inner_text().startswith("Data parallel fits: 400 MB each on cards of 400 MB.")
    page.get_by_label("a card holds: less").click()
    assert title.inner_text().startswith("Data parallel does not fit")


def test_nothing_is_wider_than_the_window_and_no_words_overlap(page):
    go(page, 3)
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window
    overlaps = page.evaluate(
        """() => {
             const boxes = [...document.querySelectorAll(".stage text")]
               .filter((text) => text.textContent)
               .map((text) => [text.textContent, text.getBoundingClientRect()]);
             const cross = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
               && a.top < b.bottom - 3 && b.top < a.bottom - 3;
             return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
               .filter(([, b]) => cross(a, b)).map(([other]) => [one, other]));
           }"""
    )
    assert overlaps == []


def test_the_keys_step_and_no_serious_fault_of_access_is_found(page, axe):
    page.locator(".tif-player").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".count").inner_text().startswith("2 /")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document.querySelector('.tif')).then((r) => r.violations)")
    assert [fault["id"] for fault in found if fault["impact"] in SERIOUS] == []
