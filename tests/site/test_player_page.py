"""The players of chapter 2 on the built page: by button, by key, in step, in words."""

from __future__ import annotations

import re

import pytest
from test_site import CHAPTERS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


ALL_DRAWN = """document.querySelectorAll(".tif:not(.tif .tif)").length ===
    document.querySelectorAll('script[type="application/vnd.jupyter.widget-view+json"]').length"""


@pytest.fixture
def page(visit):
    page = visit("chapters/02-batching.html").page
    page.wait_for_function(ALL_DRAWN)
    return page


@pytest.fixture
def player(page):
    """Static and continuous batching on one clock: 6 steps and 4."""
    return page.locator("#figure-two-seats .tif-player")


def step_of(player):
    """(k, N) of "Step k of N" in the live region."""
    told = re.match(
        r"Step (\d+) of (\d+)(?:, (?:[\d.]+ \w+|end))?\.", player.locator(".caption").inner_text()
    )
    return int(told[1]), int(told[2])


def test_every_figure_starts_still_at_its_first_step(page):
    players = page.locator(".tif-player")
    assert players.count() == 7
    page.wait_for_timeout(1500)
    for number in range(players.count()):
        assert step_of(players.nth(number))[0] == 1


def test_the_buttons_step_and_stop_at_both_ends(page, player):
    last = step_of(player)[1]
    player.get_by_label("Previous step").click()
    assert step_of(player) == (1, last)
    for number in range(2, last + 1):
        player.get_by_label("Next step").click()
        assert step_of(player) == (number, last)
    player.get_by_label("Next step").click()
    assert step_of(player) == (last, last)
    assert "idle seat-steps: 4" in player.locator(".title").first.inner_text()
    player.get_by_label("Restart").click()
    assert step_of(player) == (1, last)


def test_the_keys_work_with_focus_inside_and_only_there(page, player):
    last = step_of(player)[1]
    page.keyboard.press("ArrowRight")
    assert step_of(player)[0] == 1
    player.focus()
    for key, number in (("ArrowRight", 2), ("End", last), ("ArrowLeft", last - 1), ("Home", 1)):
        page.keyboard.press(key)
        assert step_of(player)[0] == number, key


def test_space_plays_to_the_end_and_stops(page):
    player = page.locator("#figure-rounds .tif-player")
    player.get_by_label("Speed").select_option("4")
    player.focus()
    page.keyboard.press(" ")
    assert player.get_by_label("Pause").count() == 1
    page.wait_for_timeout(2500)
    assert step_of(player) == (4, 4)
    assert player.get_by_label("Play", exact=True).count() == 1


def test_a_focused_scrubber_does_not_step_twice(page, player):
    player.get_by_label("Step", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert step_of(player)[0] == 2


def test_two_scenes_on_one_clock_stay_in_step(page, player):
    player.get_by_label("Next step").click()
    lines = player.locator("line.present").evaluate_all(
        "nodes => nodes.map(n => n.style.transform)"
    )
    assert len(lines) == 2
    assert lines[0] == lines[1]


def test_the_table_holds_every_frame_also_while_it_is_not_shown(page, player):
    rows = player.locator(".frames tbody tr")
    assert rows.count() == 6 + 4
    assert player.locator(".frames.unseen").count() == 1
    player.get_by_label("Show the steps as a table").click()
    assert player.locator(".frames.unseen").count() == 0
    assert "waiting: C" in rows.first.inner_text()


def test_the_figures_text_keeps_its_size_in_a_narrow_window(page):
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_timeout(300)
    sizes = page.locator(".tif-player svg text").evaluate_all(
        "nodes => nodes.map(n => n.getBoundingClientRect().height).filter(h => h > 0)"
    )
    assert min(sizes) >= 13
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_lane_names_stay_in_sight_while_a_long_figure_scrolls(page):
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_timeout(300)
    stage = page.locator("#figure-long-prompt .stage").first
    name = stage.locator(".names span").first
    before = name.bounding_box()["x"]
    assert stage.evaluate("(node) => { node.scrollLeft = 1e6; return node.scrollLeft; }") > 10
    assert name.bounding_box()["x"] == pytest.approx(before, abs=1)
    assert name.inner_text() == "A spans"


REACHED = """() => [...document.querySelectorAll(".tif :is(.stage, .frames)")]
  .filter((box) => getComputedStyle(box).overflowX === "auto")
  .map((box) => [box.scrollWidth > box.clientWidth, box.tabIndex === 0])"""


def test_a_drawing_wider_than_its_window_is_reached_and_scrolled_by_key(page):
    stage = page.locator("#figure-long-prompt .stage").first
    assert stage.get_attribute("tabindex") is None  # all of it is seen: nothing to stop at
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_timeout(300)
    boxes = page.evaluate(REACHED)
    assert [True, True] in boxes
    assert all(wide == reached for wide, reached in boxes)
    assert stage.get_attribute("role") == "group"
    assert re.match(r"Drawing: .*\(scrolls sideways\)", stage.get_attribute("aria-label"))
    player = page.locator("#figure-long-prompt .tif-player")
    player.focus()
    for _ in range(4):  # the tag of its conditions and its definition come first
        page.keyboard.press("Tab")
    assert stage.evaluate("(stage) => stage === document.activeElement")
    before = step_of(player)
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert stage.evaluate("(stage) => stage.scrollLeft") > 0
    assert step_of(player) == before


def test_after_a_click_into_a_wide_drawing_keys_step(page):
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_timeout(300)
    player = page.locator("#figure-long-prompt .tif-player")
    player.locator(".stage").first.click()
    page.keyboard.press("ArrowRight")
    assert step_of(player)[0] == 2


IN_SIGHT = """(stage) => [...stage.querySelectorAll(".mark.token .box")]
  .map((token) => token.getBoundingClientRect().x - stage.getBoundingClientRect().x)
  .filter((x) => x >= 0 && x < stage.clientWidth).length"""


def test_a_drawing_that_is_over_stays_in_sight_while_another_goes_on(visit):
    page = visit("chapters/11-parallelism.html", width=360).page
    page.wait_for_function(ALL_DRAWN)
    player = page.locator("#figure-real-ranks .tif-player")
    player.focus()
    page.keyboard.press("End")
    stages = player.locator(".stage")
    assert all(stages.nth(n).evaluate(IN_SIGHT) for n in range(stages.count()))


@pytest.mark.parametrize("path", CHAPTERS)
def test_in_a_narrow_window_every_box_that_scrolls_can_be_reached(visit, axe, path):
    page = visit(path, width=360).page
    page.wait_for_function(ALL_DRAWN)
    page.evaluate(axe)
    found = "async () => (await axe.run({ runOnly: ['scrollable-region-focusable'] })).violations"
    assert page.evaluate(found) == []


@pytest.mark.parametrize("width", [360, 800])
def test_nothing_floats_over_the_controls_of_a_figure(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("#figure-rounds").scroll_into_view_if_needed()
    page.mouse.wheel(0, -300)  # whoever scrolls up is offered the way to the top
    page.wait_for_timeout(300)
    assert not page.locator("#pst-back-to-top").is_visible()


def test_a_printed_page_shows_the_last_step(page):
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    players = page.locator(".tif-player")
    for number, last in (step_of(players.nth(n)) for n in range(players.count())):
        assert number == last


def test_a_board_moves_its_items_from_tray_to_tray(page):
    player = page.locator("#figure-rounds .tif-player")
    height = "node => new DOMMatrix(node.style.transform).f"
    item = player.locator(".item.c")
    waits = item.evaluate(height)
    player.get_by_label("Next step").click()
    assert item.evaluate(height) > waits + 40  # from waiting down to prefill
    assert player.locator(".item.a .cell").count() == 1  # a block of its cache
    player.get_by_label("Next step").click()
    player.get_by_label("Next step").click()
    assert "finished: A, C" in player.locator(".caption").inner_text()


def test_a_crowd_is_a_canvas_cut_at_now(page):
    player = page.locator("#figure-crowd .tif-player")
    canvas = player.locator("canvas").first
    out_of_sight = canvas.evaluate("node => node.toDataURL()")
    player.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # it is painted when it comes near
    assert canvas.evaluate("node => node.toDataURL()") != out_of_sight
    at_first = canvas.evaluate("node => node.toDataURL()")
    player.focus()
    page.keyboard.press("End")
    assert canvas.evaluate("node => node.toDataURL()") != at_first
    assert canvas.get_attribute("aria-label").startswith("Static")
    page.keyboard.press("Home")
    assert canvas.evaluate("node => node.toDataURL()") == at_first
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(100)
    assert canvas.evaluate("node => node.toDataURL()") != at_first
