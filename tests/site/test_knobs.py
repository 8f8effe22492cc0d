"""Knobs on a page of their own: menus, and parts of one lane that are dragged by their ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_access import SERIOUS
from test_site import FAINT_TEXT, LARGE_TEXT_CONTRAST, TEXT_CONTRAST

import lab
from book.serve import server
from lab.figures.scene import Frame, Mark, Scene
from lab.widgets.modules import module, style

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

BEGINS = (
    "the client sends the first byte of its question over the network",
    "the server has it",
    "the first step starts",
)
PAGE = """<!doctype html><html lang="en" data-theme="THEME"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Knobs</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css"><body><main></main><script type="module">
  import widget from "./what_if.js";
  const values = await (await fetch("values.json")).json();
  const model = { get: (name) => values[name], on() {}, off() {}, send() {} };
  widget.render({ model, el: document.querySelector("main") });
</script>"""


def answer(begins: int, queue: int, prefill: int, step: int) -> tuple[Scene]:
    """One request: it queues, is prefilled, takes four steps, and then a database works."""
    parts = {"queue": queue, "prefill": prefill, "step": 4 * step, "database": 800}
    roles = ("waiting", "prefill", "decode", "elsewhere")
    marks, at = [], 0
    for (name, length), role in zip(parts.items(), roles, strict=True):
        marks.append(Mark(name, role, "A", at, at + length, f"{name} {length}", "A"))
        at += length
    first = (0, queue / 2, queue)[begins]
    ttft = Mark("TTFT", "span", "TTFT", first, queue + prefill, "TTFT", "A")
    e2e = Mark("E2E", "span", "E2E", 0, at, f"E2E {at}", "A")
    frames = tuple(Frame(mark.start, str(mark.start), mark.label) for mark in marks)
    words = {"conditions": "1 request", "tag": "given", "unit": "ms"}
    found = f"{at} ms in all, TTFT {queue + prefill - first:g} ms."
    return (
        Scene("Where does it go?", found, lanes=("E2E", "TTFT", "A"), marks=(e2e, ttft, *marks),
              frames=frames, **words),
    )  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the pages light.html and dark.html are."""
    knobs = {
        "begins": lab.Knob.choice("TTFT begins when", *BEGINS),
        "queue": lab.Knob(40, 0, 80, 10, unit="ms", label="queue"),
        "prefill": lab.Knob(60, 20, 100, 20, unit="ms", label="prefill"),
        "step": lab.Knob(20, 10, 30, 5, unit="ms", label="each step takes"),
    }
    widget = lab.what_if(answer, **knobs)
    values = {name: getattr(widget, name) for name in ("function", "knobs", "scenes", "baked")}
    assert widget.baked
    folder = tmp_path_factory.mktemp("knobs")
    for name, text in {
        "light.html": PAGE.replace("THEME", "light"),
        "dark.html": PAGE.replace("THEME", "dark"),
        "style.css": style(),
        "what_if.js": module("what_if"),
        "values.json": json.dumps(values),
    }.items():
        Path(folder, name).write_text(text, "utf-8")
    with server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture
def page(visit: Callable[..., Any]) -> Iterator[Any]:
    there = visit("light.html")
    there.page.locator(".count").wait_for()
    yield there.page
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def shown(page: Any) -> list[str]:
    """The captions of all frames."""
    return page.locator(".frames tbody tr td:last-child").all_inner_texts()


def captions(*values: int) -> list[str]:
    return [frame.caption for frame in answer(*values)[0].frames]


def drag(page: Any, grip: int, by: float) -> None:
    """Move a grip, counted from the left, by so many ms of the axis."""
    wide = page.locator(".mark.elsewhere .box").bounding_box()["width"]
    box = page.locator(".grip").nth(grip).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by * (wide + 3) / 800, y, steps=8)
    page.mouse.up()


def test_a_choice_is_a_menu_that_is_told_in_words(page: Any):
    menu = page.get_by_role("combobox", name="TTFT begins when")
    assert menu.locator("option").all_inner_texts() == list(BEGINS)
    menu.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    told = page.get_by_role("status").inner_text()
    assert told.startswith(f"TTFT begins when: {BEGINS[2]}. queue 40 ms.")
    assert "980 ms in all, TTFT 60 ms." in told
    assert page.locator(".ghost.thin").count() == 1
    assert page.locator("rect.ghost").count() == 0
    page.get_by_label("As in the book: set everything back").click()
    assert menu.input_value() == "0"


def test_the_end_of_a_part_is_dragged_in_steps_of_its_knob(page: Any):
    drag(page, 0, 22)
    assert shown(page) == captions(0, 60, 60, 20)
    assert page.locator("rect.ghost").count() == 4  # one grew, and three moved
    drag(page, 0, 300)
    assert shown(page) == captions(0, 80, 60, 20)
    before = page.locator("rect.ghost").first.bounding_box()["width"]
    now = page.locator(".mark.prefill .box").bounding_box()["width"]
    assert before == pytest.approx(now, abs=6)  # the queue was 60 when the second drag began


def test_a_part_that_is_a_multiple_of_its_knob_follows_the_pointer(page: Any):
    drag(page, 2, 21)  # four steps: 20 ms of the axis are 5 ms of each
    assert shown(page) == captions(0, 40, 60, 25)
    assert page.locator("rect.ghost").count() == 2  # queue and prefill stand where they stood


def test_a_part_that_is_gone_can_be_dragged_back(page: Any):
    drag(page, 0, -60)
    assert shown(page) == captions(0, 0, 60, 20)
    drag(page, 0, 30)
    assert shown(page) == captions(0, 30, 60, 20)


def test_what_is_done_elsewhere_is_an_outline_with_strokes_and_its_label(page: Any):
    page.get_by_label("queue: more").click()
    mark = page.locator(".mark.elsewhere")
    assert mark.locator("text").text_content() == "database 800"
    ink, on = (page.locator(f".mark.{role} text") for role in ("elsewhere", "decode"))
    fill = "(node) => getComputedStyle(node).fill"
    assert ink.evaluate(fill) != on.evaluate(fill)  # one stands on a card, one on a block
    assert mark.locator(".stroke").get_attribute("d").count("M") > 20


def test_in_forced_colours_its_label_stands_on_the_ground_that_the_reader_chose(page: Any):
    page.get_by_label("queue: more").click()
    page.emulate_media(forced_colors="active", color_scheme="dark")
    page.wait_for_timeout(400)  # colours take their time
    fill = "(node) => getComputedStyle(node).fill"
    assert page.locator(".mark.elsewhere .box").evaluate(fill) == "rgb(0, 0, 0)"
    assert page.locator(".mark.elsewhere text").evaluate(fill) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_telephone_shows_menu_parts_and_grips(visit: Callable[..., Any], axe: str, theme: str):
    page = visit(f"{theme}.html", width=360, theme=theme).page
    page.get_by_label("queue: less").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    menu = page.get_by_role("combobox", name="TTFT begins when").bounding_box()
    assert menu["height"] >= 36
    assert menu["x"] + menu["width"] <= 360
    lefts = [box.bounding_box()["x"] for box in page.locator(".grip").all()]
    assert len(lefts) == 3
    assert all(right - left > 14 for left, right in pairwise(lefts))
    tops = [grip.bounding_box()["y"] for grip in page.locator(".grip").all()]
    label = page.locator(".mark.elsewhere text").bounding_box()
    assert min(tops) > label["y"] + label["height"] - 2
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    assert page.evaluate(FAINT_TEXT, [TEXT_CONTRAST, LARGE_TEXT_CONTRAST]) == []
