"""The landing page's game, played by mouse and by key: the reader first, then the two rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Locator, Page, expect

import lab

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

TOC = yaml.safe_load((Path(__file__).parents[2] / "_toc.yml").read_text("utf-8"))
_, CHAPTER_1, *_ = (chapter["file"] for chapter in TOC["parts"][0]["chapters"])  # after chapter 0
WORK = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 4), "C": (0, 1, 2)})
RULES = {
    "Static batching": lab.Static(seats=2),
    "Continuous batching": lab.Continuous(seats=2),
}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Keys that play a hand, and what comes of it: ends of A, B and C, steps, idle seat-steps.
HANDS = {
    "nobody changes seats early": ("ab→→→→c→→", (2, 4, 6, 6, 4)),
    "C takes A's seat at once": ("ab→→c→→", (2, 4, 4, 4, 0)),
    "the long one last": ("ac→→b→→→→", (2, 6, 2, 6, 4)),
    "one at a time": ("a→→b→→→→c→→", (2, 6, 8, 8, 8)),
    "B gets up for C": ("ab→bc→→b→→→", (2, 6, 3, 6, 4)),
}


@pytest.fixture
def page(visit: Callable[..., Any]) -> Page:
    return visit("book/intro.html").page


@pytest.fixture
def game(page: Page) -> Locator:
    return page.locator(".tif-hand")


def press(game: Locator, keys: str) -> None:
    """`keys` with focus in the game: letters ask a request, arrows play and undo."""
    game.focus()
    for key in keys:
        game.page.keyboard.press({"→": "ArrowRight", "←": "ArrowLeft"}.get(key, key))


def accounts(game: Locator) -> dict[str, tuple[int, ...]]:
    """The rows of the comparison."""
    rows = game.locator(".accounts tbody tr").all()
    return {
        row.locator("th").inner_text(): tuple(map(int, row.locator("td").all_inner_texts()))
        for row in rows
    }


def of_lab(name: str) -> tuple[int, ...]:
    trace = lab.simulate(WORK, RULES[name], lab.CostModel.equal_steps())
    ends = [int(record.end or 0) for record in trace.requests]
    return (*ends, trace.num_steps, lab.occupancy(trace).idle)


def test_the_page_opens_with_the_game_and_without_its_answer(page: Page, game: Locator) -> None:
    assert game.bounding_box()["y"] < 400
    assert game.locator(".verdict").inner_text() == ""
    assert game.locator(".board .mark").count() == 0
    seen = page.locator("article").inner_text()
    assert "sooner" not in seen
    assert page.locator("article img").count() == 0


def test_nothing_moves_by_itself(page: Page, game: Locator) -> None:
    before = game.screenshot()
    page.wait_for_timeout(1500)
    assert game.screenshot() == before
    press(game, "ab→→c→→")
    assert game.get_by_label("Pause").count() == 0
    count = game.locator(".count").inner_text()
    page.wait_for_timeout(1500)
    assert game.locator(".count").inner_text() == count


@pytest.mark.parametrize("name", HANDS)
def test_a_hand_played_by_key_comes_to_its_account(game: Locator, name: str) -> None:
    keys, account = HANDS[name]
    press(game, keys)
    assert accounts(game)["Your hand"] == account


def test_the_rules_numbers_are_those_of_lab(game: Locator) -> None:
    press(game, "ab→→c→→")
    assert {name: accounts(game)[name] for name in RULES} == {n: of_lab(n) for n in RULES}


def test_two_hands_like_the_rules_own_are_like_theirs(game: Locator) -> None:
    press(game, HANDS["nobody changes seats early"][0])
    verdict = game.locator(".verdict")
    expect(verdict).to_contain_text("Beside static batching: everybody ended at the same step; as")
    expect(verdict).to_contain_text("Beside continuous batching: C ended 2 steps later; 4 more")
    expect(verdict).to_contain_text("fewer than 4 steps; yours took 6")


def test_the_reader_and_the_rules_are_drawn_on_one_axis_and_step_together(game: Locator) -> None:
    press(game, "ab→→c→→")
    figures = game.locator(".tif-player .stage svg[role=img]")
    shown = [figure for figure in figures.all() if figure.is_visible()]
    assert len(shown) == 3
    mine, _, continuous = (figure.locator(".mark .box") for figure in shown)
    places = "all => all.map((one) => [one, one.getBoundingClientRect()])"
    places += ".map(([, box]) => [Math.round(box.x), Math.round(box.width)])"
    assert mine.evaluate_all(places) == continuous.evaluate_all(places)
    game.get_by_label("Restart").click()
    game.get_by_label("Next step", exact=True).click()
    lines = "all => all.map((one) => one.style.transform)"
    present = game.locator(".verdict line.present").evaluate_all(lines)
    assert len(present) == 3
    assert len(set(present)) == 1


def test_a_hand_is_played_by_mouse_alone(page: Page, game: Locator) -> None:
    step = game.get_by_role("button", name="Play this step")
    for who in ("A", "B"):
        game.get_by_role("button", name=f"{who} needs").click()
    step.click()
    step.click()
    expect(game.get_by_role("button", name="A is done")).to_have_attribute("aria-disabled", "true")
    game.get_by_role("button", name="C needs 2 steps").click()
    expect(game.get_by_role("button", name="C needs")).to_have_attribute("aria-pressed", "true")
    step.click()
    step.click()
    assert accounts(game)["Your hand"] == (2, 4, 4, 4, 0)
    expect(game.get_by_role("status")).to_contain_text("All are done")


def test_tab_and_space_reach_every_control(page: Page, game: Locator) -> None:
    game.focus()
    names = []
    for _ in range(10):  # the tag comes first, and the way from its definition to the legend
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent"))
    assert names[0] == "given"
    wanted = ["A needs 2 steps", "B needs 4 steps", "C needs 2 steps", "Step ›", "↶ Undo"]
    begin = names.index(wanted[0])
    assert names[begin : begin + len(wanted)] == wanted
    assert any(name.startswith("Skip the game: ") for name in names[begin:])
    game.get_by_role("button", name="B needs").focus()
    page.keyboard.press(" ")
    expect(game.get_by_role("status")).to_have_text("B takes seat 1.")


def test_keys_outside_the_game_do_nothing(page: Page, game: Locator) -> None:
    page.keyboard.press("a")
    page.keyboard.press("ArrowRight")
    assert game.locator(".board .mark").count() == 0


def test_a_third_request_is_not_seated_and_nobody_is_no_step(game: Locator) -> None:
    press(game, "→")
    expect(game.get_by_role("status")).to_contain_text("Nobody sits")
    press(game, "abc")
    expect(game.get_by_role("status")).to_contain_text("A and B sit. Ask one to get up first")
    expect(game.get_by_role("button", name="C needs")).to_have_attribute("aria-pressed", "false")


def test_undo_takes_steps_back_also_after_the_end(game: Locator) -> None:
    press(game, "ab→→c→→")
    assert accounts(game)
    press(game, "←")
    assert accounts(game) == {}
    expect(game.get_by_role("button", name="C needs 1 more step")).to_be_visible()
    game.get_by_role("button", name="Undo the last step").click()
    press(game, "c→→c→→")
    assert accounts(game)["Your hand"] == (2, 4, 6, 6, 4)


def test_start_again_clears_the_board(game: Locator) -> None:
    press(game, "ab→→c→→")
    game.get_by_role("button", name="Start again").click()
    assert accounts(game) == {}
    assert game.locator(".board .mark").count() == 0
    expect(game.get_by_role("button", name="B needs 4 steps")).to_be_visible()


def test_who_gets_up_with_work_to_do_is_named_as_preempted(game: Locator) -> None:
    press(game, "ab→bc→")
    expect(game.get_by_role("status")).to_contain_text("B was preempted")
    press(game, "→b→→→")
    expect(game.locator(".verdict")).to_contain_text("You preempted somebody.")


@pytest.mark.parametrize("keys", ["", "ab→→c→→"], ids=["skipped", "played"])
def test_the_link_asks_the_question_of_chapter_1(page: Page, game: Locator, keys: str) -> None:
    press(game, keys)
    link = game.locator("a.onward")
    question = link.inner_text().split(": ", 1)[1]
    link.click()
    page.wait_for_url(f"**/{CHAPTER_1}.html")
    assert page.locator("h1").inner_text().startswith(question)


@pytest.mark.parametrize("keys", ["ab→", "ab→→c→→"], ids=["playing", "played"])
def test_the_game_fits_a_narrow_window(visit: Callable[..., Any], keys: str) -> None:
    there = visit("book/intro.html", width=360)
    game = there.page.locator(".tif-hand")
    press(game, keys)
    assert there.page.evaluate(OVERFLOW) == 0
    small = game.locator("button:visible, select:visible").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect()).filter((box) => box.height < 36)"
    )
    assert small == []
    assert there.errors == []


def test_focus_stays_in_the_game_when_its_last_step_is_played(page: Page, game: Locator) -> None:
    press(game, "ab→→")
    game.get_by_role("button", name="C needs").focus()
    page.keyboard.press("c")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert accounts(game)
    inside = "document.querySelector('.tif-hand').contains(document.activeElement)"
    assert page.evaluate(inside)


def test_who_is_seated_is_seen_on_the_board_in_its_own_colour(game: Locator) -> None:
    press(game, "ab")
    stroke = "one => getComputedStyle(one).stroke"
    planned = game.locator(".board .planned .box")
    colours = [one.evaluate(stroke) for one in planned.all()]
    press(game, "→")
    boxes = game.locator(".board .prefill .box")
    assert colours == [one.evaluate(stroke) for one in boxes.all()]
    assert len(set(colours)) == 2
