"""The what-ifs of chapter 2 on the built page: bars, buttons and sliders, and who answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.figures.scene import plain
from lab.what_ifs.batching import long_prompt, two_rules

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

CHAPTER = "chapters/02-batching.html"


@pytest.fixture
def there(visit: Callable[..., Any]) -> Any:
    return visit(CHAPTER)


@pytest.fixture
def seats(there: Any) -> Any:
    widget = there.page.locator("#figure-two-seats .tif-what-if")
    widget.locator(".frames tbody td").first.wait_for(state="attached")
    return widget


def table_of(widget: Any) -> list[str]:
    """The captions of all frames that the widget shows, of all its scenes in turn."""
    return widget.locator(".frames tbody tr td:last-child").all_inner_texts()


def captions(scenes: Any) -> list[str]:
    return [frame.caption for scene in scenes for frame in scene.frames]


def test_the_page_shows_the_books_result_before_anything_is_touched(seats: Any):
    assert table_of(seats) == captions(two_rules(2, 4, 2))
    assert seats.locator(".ghost").count() == 0


def test_a_button_changes_a_length_without_python(there: Any, seats: Any):
    seats.get_by_label("A needs: more").click()
    assert table_of(seats) == captions(two_rules(3, 4, 2))
    assert seats.locator(".ghost").count() > 0
    assert "A 3 steps." in seats.get_by_role("status").inner_text()
    assert "Outlined: what was there before." in seats.get_by_role("status").inner_text()
    more = seats.get_by_label("A needs: more")
    for _ in range(3):
        more.click()
    assert more.get_attribute("aria-disabled") == "true"
    more.press("Enter")  # nothing is beyond the last
    assert table_of(seats) == captions(two_rules(6, 4, 2))
    seats.get_by_label("As in the book: set everything back").click()
    assert table_of(seats) == captions(two_rules(2, 4, 2))
    assert not [url for url in requested(there) if "pyodide" in url]


def requested(there: Any) -> list[str]:
    return there.page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")


def test_the_end_of_a_bar_can_be_dragged(there: Any, seats: Any):
    seats.scroll_into_view_if_needed()
    grip = seats.locator(".grip.b").first
    box = grip.bounding_box()
    one_step = seats.locator(".mark.b .box").first.bounding_box()["width"]
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse = there.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x - one_step, y, steps=5)
    mouse.move(x - 2 * one_step, y, steps=5)
    mouse.up()
    assert table_of(seats) == captions(two_rules(2, 2, 2))
    ghost = seats.locator(".ghost.b").first.bounding_box()["width"]
    assert ghost > 3 * seats.locator(".mark.b .box").first.bounding_box()["width"]


def test_everything_can_be_changed_by_keyboard(there: Any, seats: Any):
    seats.get_by_label("C needs: less").focus()
    there.page.keyboard.press("Enter")
    assert table_of(seats) == captions(two_rules(2, 4, 1))
    there.page.keyboard.press("Tab")
    there.page.keyboard.press("Space")
    assert table_of(seats) == captions(two_rules(2, 4, 2))


def test_python_in_the_page_answers_a_slider_exactly_as_the_kernel_does(there: Any):
    widget = there.page.locator("#figure-long-prompt .tif-what-if")
    widget.scroll_into_view_if_needed()
    slider = widget.get_by_role("slider", name="C's prompt")
    slider.focus()
    for _ in range(3):  # the newest wins
        there.page.keyboard.press("ArrowRight")
    widget.get_by_text("Outlined").wait_for(timeout=90_000)
    kernels = long_prompt(prompt=2500, budget=401)
    assert table_of(widget) == captions(kernels)
    assert widget.locator(".title").all_inner_texts()[1:] == [s.finding for s in kernels]
    told = there.page.evaluate(
        """async () => (await tifPython.call("lab.what_ifs.batching:long_prompt",
        { prompt: 2500, budget: 401 })).result"""
    )
    assert told == json.loads(json.dumps(plain(kernels)))
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_a_page_without_python_keeps_its_figure_and_says_why(there: Any):
    there.page.evaluate("globalThis.tifPython = undefined")
    widget = there.page.locator("#figure-long-prompt .tif-what-if")
    widget.get_by_role("slider", name="token budget").focus()
    before = table_of(widget)
    there.page.keyboard.press("ArrowRight")
    widget.get_by_text("The figure stays as it was: this page has no Python.").wait_for()
    assert table_of(widget) == before


def test_a_what_if_fits_a_telephone(visit: Callable[..., Any]):
    page = visit(CHAPTER, width=320).page
    widget = page.locator("#figure-two-seats .tif-what-if")
    buttons = widget.locator(".knobs button")
    for number in range(7):  # Stop, the eighth, is there only while something is computed
        box = buttons.nth(number).bounding_box()
        assert box["width"] >= 36
        assert box["height"] >= 36
        assert box["x"] + box["width"] <= 320


def test_every_widget_of_the_chapter_is_alive(there: Any):
    page = there.page
    views = page.locator('script[type="application/vnd.jupyter.widget-view+json"]').count()
    assert views == 11
    widgets = page.locator(".tif:not(.tif .tif)")
    widgets.nth(views - 1).wait_for()  # they are drawn one after the other
    assert widgets.count() == views
    assert page.get_by_text("could not start").count() == 0
    assert there.errors == []
