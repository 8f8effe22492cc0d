"""Saved ipywidgets on the pages of a small book, built with the extensions of this one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import cannot
from playwright.sync_api import Browser, Route
from small_book import build
from test_access import SERIOUS
from test_site import FAINT_TEXT, LARGE_TEXT_CONTRAST, TEXT_CONTRAST, TOO_WIDE

from book._ext.ipywidgets_on_page import MANAGER, NOTE
from book.serve import server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

RUN = """import ipywidgets, lab
work = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 3)})
trace = lab.simulate(work, lab.Static(seats=1), lab.CostModel.equal_steps())"""
PLAYER = f"{RUN}\nlab.play(lab.timeline(trace))"
MIXED = f"{RUN}\nipywidgets.VBox([lab.play(lab.timeline(trace))])"
CONTROLS = """import ipywidgets
from IPython.display import display
seats = ipywidgets.IntSlider(value=7, min=1, max=9, description="Seats")
out = ipywidgets.Output()
with out:
    print("7 seats, 3 idle")
ipywidgets.VBox([seats, out])"""
LINKED = """moment, run = ipywidgets.IntSlider(description="Moment"), ipywidgets.Play()
tie = ipywidgets.jslink((run, "value"), (moment, "value"))
ipywidgets.HBox([run, moment])"""
LOST = """from IPython.display import display
display({"application/vnd.jupyter.widget-view+json": {"model_id": "gone", "version_major": 2,
    "version_minor": 0}, "text/plain": "gone"}, raw=True)"""
BOOK = {"plain": [PLAYER], "controls": [CONTROLS, LINKED], "broken": [MIXED, LOST]}
LOADED = """performance.getEntriesByType("resource")
  .map(({ name }) => new URL(name).pathname.split("/").at(-1))
  .filter((name) => ["require.js", "libembed-amd.js", "draw.js", "look.css"].includes(name))"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the small book's site, and what its build said."""
    if not MANAGER.is_dir():
        cannot("html-manager is not there: python book/vendor.py")
    return build(tmp_path_factory.mktemp("book"), BOOK)


@pytest.fixture(scope="module")
def address(built: tuple[Path, str]) -> Iterator[str]:
    """Where the small book is: `visit` opens its pages."""
    with server(built[0], 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_a_saved_control_is_drawn_with_its_value_and_the_line(visit: Callable[..., Any]):
    there = visit("controls.html")
    first = there.page.locator(".saved-ipywidget").first
    assert first.locator(".widget-readout").inner_text() == "7"
    assert first.get_by_role("slider", name="Seats").get_attribute("aria-valuetext") == "7"
    first.get_by_text("7 seats, 3 idle").wait_for()
    assert first.get_by_text(NOTE).is_visible()
    assert first.get_by_text("VBox(children=").is_hidden()
    loaded = there.page.evaluate(LOADED)
    assert sorted(loaded) == ["draw.js", "libembed-amd.js", "look.css", "require.js"]
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_controls_that_are_tied_together_stay_so_without_a_kernel(visit: Callable[..., Any]):
    there = visit("controls.html")
    second = there.page.locator(".saved-ipywidget").nth(1)
    second.get_by_role("slider", name="Moment").press("ArrowRight")
    assert second.locator(".widget-readout").inner_text() == "1"
    second.get_by_role("button", name="play").click()
    there.page.wait_for_function(
        "Number([...document.querySelectorAll('.widget-readout')].at(-1).textContent) > 2"
    )
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_everybody_can_read_and_name_the_controls(visit: Callable[..., Any], axe: str):
    page = visit("controls.html", theme="dark", width=360).page
    page.locator(".widget-readout").nth(1).wait_for()
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    assert page.evaluate(FAINT_TEXT, [TEXT_CONTRAST, LARGE_TEXT_CONTRAST]) == []
    assert page.evaluate(TOO_WIDE) == []


def test_a_page_with_figures_alone_loads_no_manager(visit: Callable[..., Any]):
    there = visit("plain.html")
    assert there.page.locator(".tif-player .count").is_visible()
    assert there.page.evaluate(LOADED) == []
    assert "saved-ipywidget" not in there.page.content()
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_without_scripts_the_text_form_and_the_line_stand(browser: Browser, address: str):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/controls.html")
    first = page.locator(".saved-ipywidget").first
    assert first.get_by_text("IntSlider(value=7").is_visible()
    assert first.get_by_text(NOTE).is_visible()
    context.close()


def test_a_module_that_is_not_there_is_asked_of_nobody(visit: Callable[..., Any]):
    def change(route: Route) -> None:
        text = route.fetch().text().replace('"@jupyter-widgets/output"', '"elsewhere"')
        route.fulfill(body=text, content_type="text/html")

    there = visit("plain.html")
    there.page.route("**/controls.html", change)
    there.open("controls.html")
    there.page.locator(".saved-ipywidget").nth(1).get_by_role("slider").wait_for()
    first = there.page.locator(".saved-ipywidget").first
    first.get_by_text("IntSlider(value=7").wait_for()
    assert there.errors == ["Could not load module elsewhere@1.0.0"]
    assert (there.foreign, there.not_ok) == ([], [])
    assert first.get_by_role("slider").count() == 0


def test_a_figure_within_ipywidgets_is_left_out_and_the_build_says_so(
    built: tuple[Path, str], visit: Callable[..., Any]
):
    assert built[1].count("WARNING: a page cannot draw Player within ipywidgets") == 1
    there = visit("broken.html")
    first = there.page.locator(".saved-ipywidget")
    assert first.get_by_text("Who sits where").is_visible()
    assert first.get_by_text(NOTE).is_visible()
    assert there.page.evaluate(LOADED) == []


def test_a_view_whose_model_was_not_saved_is_one_sentence(visit: Callable[..., Any]):
    there = visit("broken.html")
    sentence = "This figure could not start: its saved state is not on this page."
    assert there.page.get_by_text(sentence).is_visible()
    assert [error for error in there.errors if "its saved state" not in error] == []
