"""The block pool in a browser: drawn from a trace, read by keyboard, narrow, dark and printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page

import lab
from lab.figures.scene import Figure
from lab.what_ifs.blocks import SIZES, shared_beginning
from lab.widgets.modules import module, style

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A figure</title>
<meta name="viewport" content="width=device-width"><style>{style}
html[data-theme="dark"] body {{ background: #12161d }}</style></head><body><main id="here"></main>
<script type="application/json" id="values">{values}</script>
<script type="text/plain" id="source">{source}</script>
<script type="module">
  const text = (id) => document.getElementById(id).textContent;
  const file = new Blob([text("source")], {{ type: "text/javascript" }});
  const {{ default: widget }} = await import(URL.createObjectURL(file));
  const values = JSON.parse(text("values"));
  const nothing = () => {{}};
  const model = {{ get: (name) => values[name], set: nothing, save_changes: nothing, on: nothing }};
  widget.render({{ model, el: document.getElementById("here") }});
  document.body.dataset.drawn = "yes";
</script></body></html>"""


@contextmanager
def opened(
    browser: Browser, widget: str, values: dict[str, Any], width: int = 1000, theme: str = "light"
) -> Iterator[Page]:
    """A page with one widget in a state, and nothing that went wrong on it."""
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    state = json.dumps(values).replace("<", "\\u003c")
    page.set_content(PAGE.format(style=style(), source=module(widget), values=state))
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    page.wait_for_selector("body[data-drawn]")
    yield page
    assert errors == []
    context.close()


@contextmanager
def shown(browser: Browser, figure: Figure, **more: Any) -> Iterator[Page]:
    """A page with a player for the figure."""
    with opened(browser, "player", {"scenes": [figure.to_json()], "step": 0}, **more) as page:
        yield page


def forked() -> Figure:
    work = lab.Workload.given({"A": {"prompt": 6, "output": 5, "n": 2}, "B": (1, 5, 4)})
    policy = lab.Continuous(seats=3, blocks=10, block_tokens=4)
    return lab.block_pool(lab.simulate(work, policy, lab.CostModel.equal_steps()))


def walks() -> Figure:
    start = tuple(range(8))
    rows = {
        "A": (0, (*start, 8), 2),
        "B": (1, (*start, 20), 2),
        "C": (4, 14, 1),
        "D": (6, start, 1),
    }
    work = lab.Workload.given(rows)
    policy = lab.Continuous(seats=2, blocks=5, block_tokens=4, prefix_cache=True)
    return lab.prefix_tree(lab.simulate(work, policy, lab.CostModel.equal_steps()), work)


def cell(page: Page, number: int) -> Locator:
    return page.locator(".pool td").nth(number)


def seen(page: Page, number: int) -> list[str]:
    """What is written in a cell."""
    return " ".join(cell(page, number).locator("[aria-hidden]").all_inner_texts()).split()


def said(page: Page, number: int) -> str:
    """What a screen reader says of a cell."""
    return cell(page, number).locator(".unseen").inner_text()


def is_focused(there: Locator) -> bool:
    return bool(there.evaluate("node => node === document.activeElement"))


def test_cells_change_hands_from_step_to_step(browser: Browser) -> None:
    with shown(browser, forked()) as page:
        assert page.locator(".pool td").count() == 10
        assert "shared" in cell(page, 1).get_attribute("class")
        assert seen(page, 1) == ["1", "2/4", "A", "A#2", "forked"]
        assert seen(page, 5) == ["5", "free"]
        page.get_by_label("Next step").click()
        assert seen(page, 1) == ["1", "3/4", "A#2", "copied", "to", "2"]
        assert seen(page, 2) == ["2", "3/4", "A", "copy", "of", "1"]
        assert page.locator(".rows tr").first.inner_text().split("\t") == ["A", "0 → 01 → 2 (3/4)"]
        assert "A copies block 1 to block 2" in page.locator(".caption").inner_text()


def test_a_cell_looks_like_its_state_without_any_colour(browser: Browser) -> None:
    border = "node => getComputedStyle(node).borderTopStyle"
    with shown(browser, forked()) as page:
        styles = [cell(page, number).evaluate(border) for number in (0, 5)]
        assert styles == ["double", "dashed"]
        page.get_by_label("Next step").click()
        assert cell(page, 3).evaluate(border) == "solid"
        bar = cell(page, 4).locator(".bar span")
        part = "node => node.offsetWidth / node.parentNode.clientWidth"
        assert bar.evaluate(part) == pytest.approx(1 / 4, abs=0.02)


def test_arrows_walk_over_the_cells_and_escape_leaves_them(browser: Browser) -> None:
    with shown(browser, forked()) as page:
        assert page.locator('.pool td[tabindex="0"]').count() == 1
        cell(page, 0).focus()
        for key, number in (
            *(("ArrowRight", 1), ("ArrowDown", 9), ("ArrowLeft", 8), ("ArrowUp", 0), ("End", 7)),
            *(("ArrowDown", 7), ("Home", 0), ("ArrowLeft", 0)),
        ):
            page.keyboard.press(key)
            assert is_focused(cell(page, number)), key
        assert page.locator(".count").inner_text() == "1 / 6"
        assert said(page, 0) == "block 0, held by A, A#2, full, forked"
        page.keyboard.press("Escape")
        assert is_focused(page.locator(".tif-player"))
        page.keyboard.press("ArrowRight")
        assert page.locator(".count").inner_text() == "2 / 6"


def test_a_step_keeps_the_focus_where_it_is(browser: Browser) -> None:
    with shown(browser, forked()) as page:
        cell(page, 4).focus()
        page.get_by_label("Next step").evaluate("node => node.click()")
        assert is_focused(cell(page, 4))
        assert said(page, 4).startswith("block 4, held by B")


def test_rows_and_columns_have_names(browser: Browser) -> None:
    with shown(browser, forked()) as page:
        grid = page.get_by_role("grid")
        assert [grid.get_by_role(role).count() for role in ("gridcell", "rowheader")] == [10, 2]
        heads = grid.get_by_role("columnheader").all_inner_texts()
        assert heads == ["block", *(f"+{i}" for i in range(8))]
        assert "Which block belongs to whom?" in grid.get_attribute("aria-label")


@pytest.mark.parametrize("figure", [forked, walks])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_narrow_page_needs_no_sideways_scrolling(
    browser: Browser, figure: Callable[[], Figure], theme: str
) -> None:
    with shown(browser, figure(), width=360, theme=theme) as page:
        stage = page.locator(".stage")
        assert stage.evaluate("node => node.scrollWidth <= node.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        sizes = stage.locator("*").evaluate_all(
            "nodes => nodes.map((node) => parseFloat(getComputedStyle(node).fontSize))"
        )
        assert min(sizes) >= 13
        if figure is forked:
            assert page.locator(".pool tbody tr").count() == 4


def test_a_window_made_wide_gets_longer_rows(browser: Browser) -> None:
    with shown(browser, forked(), width=360) as page:
        cell(page, 5).focus()
        page.set_viewport_size({"width": 1000, "height": 900})
        page.wait_for_function("document.querySelectorAll('.pool tbody tr').length === 2")
        assert cell(page, 5).get_attribute("tabindex") == "0"


def test_a_printed_pool_shows_what_is_left_and_its_colours(browser: Browser) -> None:
    with shown(browser, forked()) as page:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".count").inner_text() == "6 / 6"
        page.emulate_media(media="print")
        assert page.locator(".frames").evaluate("node => getComputedStyle(node).clipPath") == "none"
        exact = "node => getComputedStyle(node).printColorAdjust"
        assert page.locator(".grid").evaluate(exact) == "exact"


def test_a_tree_shows_the_way_of_each_request(browser: Browser) -> None:
    with shown(browser, walks()) as page:
        lines = page.locator(".tree li > p")
        assert lines.all_inner_texts()[0].split() == ["block", "0", "ids", "0–3", "computed"]
        page.get_by_label("Next step").click()
        assert page.locator(".tree .hit").count() == 2
        assert "found" in lines.nth(1).inner_text()
        assert page.locator(".tree li li li").count() == 1
        page.get_by_label("Next step").click()
        struck = page.locator(".tree .evicted .name").first
        assert "line-through" in struck.evaluate(
            "node => getComputedStyle(node).textDecorationLine"
        )


def test_another_size_of_blocks_cuts_the_pool_anew(browser: Browser) -> None:
    widget = lab.what_if(
        shared_beginning,
        shared=lab.Knob(6, 0, 8, 1, "shared tokens", "tokens", kind="count"),
        size=lab.Knob.choice("tokens in a block", *map(str, SIZES), value=2),
    )
    names = ("function", "knobs", "scenes", "baked")
    with opened(browser, "what_if", {name: getattr(widget, name) for name in names}) as page:
        assert page.locator(".pool td").count() == 8
        page.get_by_label("tokens in a block").select_option("1")
        assert page.locator(".pool td").count() == 32
        assert "B finds 6 of 6 shared tokens" in page.locator(".tif-player .title").inner_text()
        assert "Outlined" not in page.get_by_role("status").inner_text()
        page.get_by_label("tokens in a block").select_option("8")
        assert page.locator(".pool td").count() == 4
        assert "B finds 0 of 6 shared tokens" in page.get_by_role("status").text_content()


@pytest.mark.parametrize("figure", [forked, walks])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_screen_reader_finds_nothing_to_stumble_over(
    browser: Browser, axe: str, figure: Callable[[], Figure], theme: str
) -> None:
    with shown(browser, figure(), theme=theme) as page:
        page.evaluate(axe)
        for _ in range(3):
            found = page.evaluate("async () => (await axe.run('.tif')).violations")
            assert [(one["id"], [n["html"] for n in one["nodes"]]) for one in found] == []
            page.get_by_label("Next step").click()
