"""Chapter 8 on the built page: the guess keeps its secret, the figures step and answer, and the
reader's own pass runs in the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.what_ifs.attention import merged_tiles

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

CHAPTER = "chapters/08-attention.html"


@pytest.fixture
def there(visit: Callable[..., Any]) -> Any:
    return visit(CHAPTER)


@pytest.fixture
def tiles(there: Any) -> Any:
    widget = there.page.locator("#figure-merged-tiles .tif-what-if")
    widget.locator(".frames tbody td").first.wait_for(state="attached")
    return widget


def captions(widget: Any) -> list[str]:
    return widget.locator(".frames tbody tr td:last-child").all_inner_texts()


def wanted(*values: int) -> list[str]:
    return [frame.caption for scene in merged_tiles(*values) for frame in scene.frames]


def test_before_the_guess_no_output_over_all_keys_is_shown(there: Any):
    guess = there.page.locator(".tif-check", has_text="What must be kept?")
    guess.wait_for()
    words = guess.inner_text()
    assert "3/2" not in words
    assert "4/3" not in words
    guess.get_by_role("button", name="Show me without guessing").click()
    assert "The mean of the outputs is 4/3" in guess.inner_text()
    assert guess.locator(".mark.kept").count() == 12


def test_a_pass_is_stepped_with_the_keys_and_ends_with_what_was_found(there: Any, tiles: Any):
    assert captions(tiles) == wanted(4, 4, 2, 0)
    player = tiles.locator(".tif-player")
    player.focus()
    assert "merged: 3/2" not in tiles.locator(".title").all_inner_texts()[-1]
    there.page.keyboard.press("ArrowRight")
    assert "2 tiles merged: 3/2." in " ".join(tiles.locator(".title").all_inner_texts())
    assert tiles.locator(".mark.future").count() == 0
    there.page.keyboard.press("Home")
    assert tiles.locator(".mark.future").count() > 0


def test_knobs_are_answered_without_python(there: Any, tiles: Any):
    tiles.get_by_label("order").select_option("last to first")
    assert captions(tiles) == wanted(4, 4, 2, 1)
    tiles.get_by_label("weight of key 1: more").click()
    tiles.get_by_label("tile of: less").click()
    assert captions(tiles) == wanted(5, 4, 1, 1)
    assert "the mean of those is" in tiles.get_by_role("status").inner_text()


def test_a_tile_that_is_cut_is_hatched_and_one_that_is_skipped_is_dashed(there: Any):
    figure = there.page.locator("#figure-causal-tiles .tif-player")
    figure.wait_for()
    figure.focus()
    there.page.keyboard.press("End")
    assert figure.locator(".mark.partly .hatch").count() == 3
    dashes = figure.locator(".mark.skipped .box").first.evaluate(
        "node => getComputedStyle(node).strokeDasharray"
    )
    assert dashes != "none"
    assert figure.locator(".mark.skipped text").first.text_content() == "skipped"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_kept_is_written_in_ink(visit: Callable[..., Any], theme: str):
    there = visit(CHAPTER, theme=theme)
    figure = there.page.locator("#figure-two-orders .tif-player")
    figure.wait_for()
    kept = figure.locator(".mark.kept.now text").first
    fill = "node => getComputedStyle(node).fill"
    title = figure.locator(".title").first.evaluate("node => getComputedStyle(node).color")
    assert kept.evaluate(fill) == title
    assert kept.evaluate(fill) != figure.locator(".mark.read.now text").first.evaluate(fill)


def test_on_a_narrow_page_every_block_of_the_decode_has_its_label(visit: Callable[..., Any]):
    there = visit(CHAPTER, width=360)
    figure = there.page.locator("#figure-paged-decode .tif-player")
    figure.wait_for()
    figure.focus()
    there.page.keyboard.press("End")
    boxes = figure.locator(".mark .box").count()
    assert figure.locator(".mark text").count() == boxes > 0


def test_the_readers_own_pass_runs_in_the_page(there: Any):
    there.page.set_default_timeout(120_000)
    cell = there.page.locator(".tif-try")
    cell.locator(".controls").get_by_role("button", name="Run").click()
    shown = cell.get_by_label("Result")
    shown.wait_for()
    assert "the output is 13/8." in shown.inner_text()
