"""Self-checks in a browser, without a chapter around them: every kind by mouse and by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

import lab
from lab.questions import more
from lab.widgets.modules import module, style
from lab.widgets.self_check import SelfCheck

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

HOST = "http://book.test"
DENIED = """Object.defineProperty(window, "localStorage",
  { get() { throw new DOMException("denied", "SecurityError") } })"""
PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Self-check</title>
<style>{style}</style><main id="place"></main><script type="module">
const state = {state};
const file = new Blob([{source}], {{ type: "text/javascript" }});
const widget = (await import(URL.createObjectURL(file))).default;
const hear = [];  // the kernel of this page knows one more variant than the widget carries
const model = {{ get: (name) => state[name], on: (name, call) => hear.push(call), off() {{}},
  send: ({{ id, parameters }}) => setTimeout(() => hear.at(-1)(parameters.number > 12
    ? {{ id, error: "there are no more" }} : {{ id, result: {further} }})) }};
widget.render({{ model, el: document.getElementById("place") }});
document.body.dataset.ready = "yes";
</script></html>"""


def quoted(value: object) -> str:
    """A value as JavaScript that may stand in a script element."""
    return json.dumps(value).replace("</", "<\\/")


def page_text(widget: SelfCheck, theme: str) -> str:
    state = {"exercises": widget.exercises, "scenes": widget.scenes}
    return PAGE.format(
        theme=theme,
        style=style(),
        state=quoted(state),
        source=quoted(module("self_check")),
        further=quoted(more("batching-idle-seats", 12)),
    )


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`show(widget)` opens a page with the widget alone; an error on it fails the test."""
    contexts, errors = [], []

    def open_page(
        widget: SelfCheck,
        *,
        width: int = 800,
        query: str = "",
        theme: str = "light",
        denied: bool = False,
    ) -> Page:
        def answer(route: Route) -> None:
            route.fulfill(body=page_text(widget, theme), content_type="text/html")

        contexts.append(browser.new_context(viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        if denied:
            page.add_init_script(DENIED)
        page.route(f"{HOST}/**", answer)
        page.goto(f"{HOST}/page{query}")
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def answer_of(widget: SelfCheck, exercise: int = 0, variant: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = widget.exercises[exercise]["variants"][variant]["answer"]
    return answer


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name)


def verdict(page: Page) -> str:
    return page.locator(".verdict").inner_text()


def tab_to(page: Page, wanted: Locator) -> None:
    """Reach a control as a reader without a mouse does."""
    for _ in range(60):
        if wanted.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("the Tab key does not lead there")


def press(page: Page, name: str) -> None:
    """Press a button from the keyboard; the focus must stay on it."""
    tab_to(page, button(page, name))
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"


# number


@pytest.fixture
def number() -> SelfCheck:
    return lab.self_check("batching-idle-seats")


def test_a_number_is_right_in_words_and_counts_as_solved(show: Any, number: SelfCheck):
    page = show(number)
    assert page.locator(".count").inner_text() == "0 of 1 solved"
    page.get_by_label("Your answer").fill(answer_of(number)["exact"])
    button(page, "Check").click()
    assert verdict(page).startswith("✓ Right.")
    assert page.locator(".count").inner_text() == "1 of 1 solved"
    assert page.locator(".solved").inner_text() == "✓ solved"


def test_a_known_wrong_number_hears_of_its_own_turn_by_key(show: Any, number: SelfCheck):
    page = show(number)
    field = page.get_by_label("Your answer")
    tab_to(page, field)
    for wrong in answer_of(number)["wrong"]:
        page.keyboard.press("Control+a")
        page.keyboard.type(wrong["exact"])
        page.keyboard.press("Enter")
        assert verdict(page) == f"✗ Not right. {wrong['says']}"
        assert field.evaluate("one => one === document.activeElement")
    assert page.locator(".verdict").get_attribute("role") == "status"


def test_what_is_no_number_is_no_attempt(show: Any, number: SelfCheck):
    page = show(number)
    page.get_by_label("Your answer").fill("many")
    button(page, "Check").click()
    assert verdict(page).startswith("Not checked. “many” is not a number.")
    assert page.locator(".attempts").count() == 0
    expect(button(page, "Show the worked answer")).to_have_attribute("aria-disabled", "true")


def test_a_number_may_be_given_in_another_unit_of_the_menu(show: Any):
    widget = lab.self_check("batching-first-token")
    answer, (_, other, *_) = answer_of(widget), answer_of(widget)["units"]
    page = show(widget)
    page.get_by_label("Your answer").fill(answer["exact"])
    page.get_by_label("Unit").select_option(other["name"])
    button(page, "Check").click()
    assert f"would be right in {answer['unit']}, and the unit says {other['name']}." in verdict(
        page
    )
    page.get_by_label("Your answer").fill(str(answer["value"] / other["factor"]))
    button(page, "Check").click()
    assert verdict(page).startswith("✓ Right.")


def test_hints_come_one_at_a_time_and_in_order(show: Any, number: SelfCheck):
    hints = number.exercises[0]["variants"][0]["hints"]
    page = show(number)
    for shown in range(len(hints)):
        assert page.locator(".hints li").all_inner_texts() == hints[:shown]
        press(page, f"Hint {shown + 1} of {len(hints)}")
    assert page.locator(".hints li").all_inner_texts() == hints
    press(page, "No more hints")
    assert page.locator(".hints li").count() == len(hints)


def test_the_worked_answer_opens_only_after_a_try(show: Any, number: SelfCheck):
    worked = number.exercises[0]["variants"][0]["worked"]
    page = show(number)
    press(page, "Show the worked answer")
    assert page.locator(".worked li").count() == 0
    page.get_by_label("Your answer").fill("77")
    press(page, "Check")
    press(page, "Show the worked answer")
    assert page.locator(".worked li").all_inner_texts() == worked
    press(page, "Hide the worked answer")
    assert page.locator(".worked li").count() == 0


def test_new_numbers_ask_afresh_then_come_from_the_kernel_and_then_again(
    show: Any, number: SelfCheck
):
    variants = number.exercises[0]["variants"]
    further = more("batching-idle-seats", 12)
    page = show(number)
    page.get_by_label("Your answer").fill("77")
    button(page, "Check").click()
    told = [*["New numbers."] * 12, "These numbers come again: there are no more"]
    for variant, says in zip((*variants[1:], further, variants[1]), told, strict=True):
        button(page, "New numbers").click()
        expect(page.get_by_label("Your answer")).to_have_value("")
        asked = "\n".join(page.locator(".question p").all_inner_texts())
        assert asked.splitlines()[0][:60] == variant["question"].replace("*", "")[:60]
        assert page.get_by_label("Your answer").input_value() == ""
        expect(page.locator(".verdict")).to_have_text(says)  # the kernel takes its time
        expect(button(page, "Show the worked answer")).to_have_attribute("aria-disabled", "true")
    page.get_by_label("Your answer").fill(variants[1]["answer"]["exact"])
    button(page, "Check").click()
    assert verdict(page).startswith("✓ Right.")


def test_the_focus_stays_on_new_numbers_of_its_exercise(show: Any):
    page = show(lab.self_check("batching-warm-up", "batching-idle-seats"))
    fresh = page.locator("#exercise-batching-idle-seats").get_by_role("button", name="New numbers")
    tab_to(page, fresh)
    for _ in range(13):  # the last two come from the kernel
        before = page.locator("#exercise-batching-idle-seats .question").inner_text()
        page.keyboard.press("Enter")
        expect(page.locator("#exercise-batching-idle-seats .question")).not_to_have_text(before)
        expect(fresh).to_be_focused()


def test_the_numbers_really_change(number: SelfCheck):
    assert len({one["question"] for one in number.exercises[0]["variants"]}) > 6


def test_a_seed_fixes_the_variant_and_takes_new_numbers_away(show: Any, number: SelfCheck):
    page = show(number, query="?seed=2026")
    page.get_by_label("Your answer").fill(answer_of(number, variant=2026 % 12)["exact"])
    button(page, "Check").click()
    assert verdict(page).startswith("✓ Right.")
    assert button(page, "New numbers").count() == 0


# choice, line, order, table


def test_a_single_choice_by_key_hears_of_the_option_that_was_picked(show: Any):
    widget = lab.self_check("batching-reserved-hour")
    options = answer_of(widget)["options"]
    page = show(widget)
    tab_to(page, page.get_by_role("radio").first)
    page.keyboard.press("Space")
    for option in options:
        press(page, "Check")
        head = "✓ Right." if option["right"] else "✗ Not right."
        assert verdict(page) == f"{head} {option['says']}"
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("ArrowDown")
    assert page.locator("fieldset legend").inner_text() == "Choose one"


def test_several_choices_are_answered_one_by_one(show: Any):
    widget = lab.self_check("batching-what-changes")
    options = answer_of(widget)["options"]
    wrong = next(i for i, option in enumerate(options) if not option["right"])
    page = show(widget)
    button(page, "Check").click()
    assert verdict(page) == "Not checked. Nothing is chosen yet."
    page.get_by_role("checkbox").nth(wrong).check()
    button(page, "Check").click()
    assert options[wrong]["says"] in verdict(page)
    assert page.get_by_label("not right").count() == 1
    for i, option in enumerate(options):
        page.get_by_role("checkbox").nth(i).set_checked(option["right"])
    button(page, "Check").click()
    assert verdict(page).startswith("✓ Right.")


def test_a_wrong_line_is_found_and_a_right_one_defended(show: Any):
    widget = lab.self_check("batching-wrong-line")
    answer = answer_of(widget)
    page = show(widget)
    for i, says in enumerate(answer["says"]):
        page.get_by_role("radio").nth(i).check()
        button(page, "Check").click()
        head = "✓ Right." if i == answer["wrong"] else "✗ Not right."
        assert verdict(page) == f"{head} {says}"


@pytest.fixture
def order() -> SelfCheck:
    return lab.self_check("batching-seat-changes-hands")


def rows(page: Page) -> list[str]:
    return page.locator("ol.order .text").all_inner_texts()


def test_an_order_is_made_with_the_keys_alone(show: Any, order: SelfCheck):
    items = answer_of(order)["items"]
    page = show(order)
    for place, item in enumerate(items):
        up = page.get_by_role("button", name=f"Move up: {item}", exact=True)
        tab_to(page, up)
        while rows(page).index(item) > place:
            page.keyboard.press("Enter")
            assert up.evaluate("one => one === document.activeElement")
        page.keyboard.press("Enter") if place == 0 else None
    assert rows(page) == items
    press(page, "Check")
    assert verdict(page).startswith("✓ Right.")
    assert "is now number" in page.locator("fieldset [role=status]").inner_text()


def test_an_order_is_made_by_dragging(show: Any, order: SelfCheck):
    answer = answer_of(order)
    page = show(order)
    for place, item in enumerate(answer["items"]):
        row = page.locator("ol.order li").nth(rows(page).index(item)).bounding_box()
        goal = page.locator("ol.order li").nth(place).bounding_box()
        page.mouse.move(row["x"] + 60, row["y"] + row["height"] / 2)
        page.mouse.down()
        page.mouse.move(goal["x"] + 60, goal["y"] + 4, steps=4)
        page.mouse.up()
    assert rows(page) == answer["items"]
    button(page, "Check").click()
    assert verdict(page).startswith("✓ Right.")


def test_a_known_wrong_order_hears_of_its_turn(show: Any, order: SelfCheck):
    answer = answer_of(order)
    wrong = answer["wrong"][0]
    page = show(order)
    for place, i in enumerate(wrong["order"]):
        item = answer["items"][i]
        while rows(page).index(item) > place:
            page.get_by_role("button", name=f"Move up: {item}", exact=True).click()
    button(page, "Check").click()
    assert verdict(page) == f"✗ Not right. {wrong['says']}"


def cells(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for row in answer["rows"] for cell in row if not isinstance(cell, str)]


def test_a_table_is_filled_by_key_and_judged_cell_by_cell(show: Any):
    widget = lab.self_check("batching-who-sits-where")
    answer = cells(answer_of(widget))
    page = show(widget)
    fields = page.locator("td input")
    assert fields.count() == len(answer)
    tab_to(page, fields.first)
    for cell in answer:
        page.keyboard.type(cell["text"].lower())
        page.keyboard.press("Tab")
    press(page, "Check")
    assert verdict(page).startswith("✓ Right.")
    fallible, wrong = next((i, c["wrong"][0]) for i, c in enumerate(answer) if c["wrong"])
    fields.nth(fallible).fill(wrong["text"])
    button(page, "Check").click()
    assert f"{len(answer) - 1} of {len(answer)} cells are right." in verdict(page)
    assert wrong["says"] in verdict(page)
    assert page.locator("td input[aria-invalid=true]").count() == 1
    assert page.get_by_label("not right").count() == 1


# guesses


@pytest.fixture
def scene() -> Any:
    work = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 4), "C": (0, 1, 2)})
    return lab.timeline(lab.simulate(work, lab.Continuous(seats=2), lab.CostModel.equal_steps()))


@pytest.fixture
def drawing(scene: Any) -> SelfCheck:
    return lab.guess("batching-draw-seats", scene)


def draw(page: Page, who: str, lane: str, start: int, stop: int) -> None:
    """Choose a bar from its menus."""
    page.get_by_label(f"{who}: where").select_option(lane)
    page.get_by_label(f"{who}: first step").select_option(f"step {start + 1}")
    page.get_by_label(f"{who}: how long").select_option(index=stop - start)


def test_nothing_of_the_figure_is_on_the_page_before_the_guess(
    show: Any, drawing: SelfCheck, scene: Any
):
    page = show(drawing)
    place = page.locator("#place")

    def shows(text: str) -> bool:
        return text in place.inner_html()

    hidden = [scene.title, scene.finding, scene.frames[1].caption, answer_of(drawing)["why"]]
    assert [text for text in hidden if shows(text)] == []
    assert page.locator(".tif-player").count() == 0
    button(page, "Show me without guessing").click()
    assert page.locator(".tif-player").count() == 1
    assert [text for text in (scene.title, hidden[2], hidden[3]) if not shows(text)] == []
    assert verdict(page).startswith("Not guessed.")
    button(page, "Guess again").click()
    assert [text for text in hidden if shows(text)] == []


def test_a_guess_is_drawn_with_the_keys_and_laid_over_the_truth(show: Any, drawing: SelfCheck):
    truth = answer_of(drawing)["truth"]
    page = show(drawing)
    for who, (lane, start, stop) in truth.items():
        for name, downs in (
            ("where", answer_of(drawing)["lanes"].index(lane) + 1),
            ("first step", start + 1),
            ("how long", stop - start),
        ):
            tab_to(page, page.get_by_label(f"{who}: {name}"))
            for _ in range(downs):
                page.keyboard.press("ArrowDown")
    press(page, "Commit my guess")
    assert verdict(page).startswith("✓ Your guess is right.")
    assert page.locator(".reveal .ghost").count() == 0


def test_a_drawn_guess_that_is_off_says_how_far(show: Any, drawing: SelfCheck):
    truth = answer_of(drawing)["truth"]
    page = show(drawing)
    button(page, "Commit my guess").click()
    assert "not drawn yet" in verdict(page)
    assert page.locator(".reveal .stage").count() == 0
    for who, (lane, start, stop) in truth.items():
        draw(page, who, lane, start + (who == "C"), stop + (who == "C"))
    button(page, "Commit my guess").click()
    assert "✗ Your guess is off." in verdict(page)
    assert "C starts 1 step earlier than you drew." in verdict(page)
    assert page.locator(".reveal .drawing .ghost").count() == 1
    assert page.get_by_label("A: where").is_disabled()


def test_a_bar_is_drawn_with_the_mouse_and_the_menus_follow(show: Any, drawing: SelfCheck):
    page = show(drawing)
    svg = page.locator(".drawing svg")
    ticks = svg.locator("line.tick")
    box = svg.bounding_box()
    first, third = (ticks.nth(i).bounding_box()["x"] for i in (0, 2))
    page.mouse.move(first + 8, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(third + 8, box["y"] + 44, steps=3)
    page.mouse.up()
    chosen = [page.get_by_label(f"A: {menu}") for menu in ("where", "first step", "how long")]
    texts = [menu.locator("option:checked").inner_text() for menu in chosen]
    assert texts == ["seat 1", "step 1", "3 steps"]
    assert page.get_by_label("Draw B in the figure").is_checked()


def test_a_guess_on_a_scale_stands_beside_the_truth_on_one_line(show: Any):
    widget = lab.guess("batching-one-go")
    exercises = json.loads(json.dumps(widget.exercises))
    answer = exercises[0]["variants"][0]["answer"]
    answer["low"] = answer["step"]  # an axis that does not begin at 0
    widget.set_trait("exercises", exercises)
    page = show(widget)
    button(page, "Commit my guess").click()
    assert verdict(page) == "Not committed. Nothing is written yet."
    tab_to(page, page.get_by_role("slider"))
    page.keyboard.press("Home")
    press(page, "Commit my guess")
    off = f"{answer['truth'] - answer['low']:g} {answer['unit']} too low"
    assert off in verdict(page)
    points = {
        kind: page.locator(f".point.{kind}").evaluate("one => parseFloat(one.style.left)")
        for kind in ("guess", "truth")
    }
    share = 100 * (answer["truth"] - answer["low"]) / (answer["high"] - answer["low"])
    assert points == {"guess": 0, "truth": pytest.approx(share, abs=0.001)}
    assert answer["why"] in page.locator(".reveal").inner_text()


def test_slider_and_number_of_a_scale_follow_each_other(show: Any):
    widget = lab.guess("batching-one-go")
    step = int(answer_of(widget)["step"])
    page = show(widget)
    slider, text = page.get_by_role("slider"), page.locator(".scale input[type=text]")
    assert text.input_value() == ""
    text.fill(str(7 * step))
    assert slider.input_value() == str(7 * step)
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert text.input_value() == str(8 * step)


def test_a_chosen_guess_is_marked_beside_the_truth_and_may_be_given_again(show: Any):
    widget = lab.guess("batching-whose-answer-is-later")
    options = answer_of(widget)["options"]
    wrong, right = (
        next(i for i, o in enumerate(options) if o["right"] is is_right)
        for is_right in (False, True)
    )
    page = show(widget)
    page.get_by_role("radio").nth(wrong).check()
    press(page, "Commit my guess")
    assert verdict(page) == f"✗ Your guess is off. {options[wrong]['says']}"
    told = page.locator(".compared li")
    assert "your guess" in told.nth(wrong).inner_text()
    assert "what happens" in told.nth(right).inner_text()
    page.reload()
    assert "Your guess is off." in verdict(page)
    press(page, "Guess again")
    assert verdict(page) == ""
    assert page.get_by_role("radio").nth(wrong).is_checked() is False
    page.reload()
    assert page.locator(".compared").count() == 0


# progress


def test_answers_are_found_again_after_a_reload_until_they_are_cleared(
    show: Any, number: SelfCheck
):
    page = show(number)
    wrong, right = answer_of(number)["wrong"][0], answer_of(number)
    for text in (wrong["exact"], right["exact"]):
        page.get_by_label("Your answer").fill(text)
        button(page, "Check").click()
    page.reload()
    assert page.get_by_label("Your answer").input_value() == right["exact"]
    assert verdict(page).startswith("✓ Right.")
    assert page.locator(".attempts li").count() == 2
    assert page.locator(".count").inner_text() == "1 of 1 solved"
    press(page, "Clear my answers")
    assert page.locator(".count").inner_text() == "1 of 1 solved"
    press(page, "Press again")
    assert page.locator(".count").inner_text() == "0 of 1 solved"
    assert page.evaluate("localStorage.length") == 0
    assert page.get_by_label("Your answer").input_value() == ""


def test_progress_can_be_saved_as_a_file(show: Any, number: SelfCheck):
    page = show(number)
    page.get_by_label("Your answer").fill(answer_of(number)["exact"])
    button(page, "Check").click()
    with page.expect_download() as waiting:
        button(page, "Save my answers as a file").click()
    saved = json.loads(waiting.value.path().read_text("utf-8"))
    assert waiting.value.suggested_filename == "tokens-in-flight-answers.json"
    assert saved["exercises"]["batching-idle-seats"]["solved"] is True


def test_a_browser_that_keeps_nothing_still_checks(show: Any, number: SelfCheck):
    page = show(number, denied=True)
    page.get_by_label("Your answer").fill(answer_of(number)["exact"])
    button(page, "Check").click()
    assert page.locator(".count").inner_text() == "1 of 1 solved"


# the page


def test_every_exercise_has_its_anchor_and_a_name(show: Any):
    widget = lab.self_check("2")
    last = widget.exercises[-1]
    page = show(widget, query=f"#exercise-{last['id']}")
    for exercise in widget.exercises:
        article = page.locator(f"#exercise-{exercise['id']}")
        title = exercise["variants"][0]["title"]
        link, heading = f"Exercise {exercise['number']}", f"Exercise {exercise['number']}: {title}"
        expect(article.get_by_role("link")).to_have_accessible_name(link)
        expect(article.get_by_role("heading")).to_have_accessible_name(heading)
        expect(article).to_have_accessible_name(heading)
    assert page.evaluate("window.scrollY") > 1000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_fits_a_telephone(show: Any, theme: str):
    page = show(lab.self_check("2"), width=360, theme=theme)
    for one in button(page, "Check").all():
        one.click()
    while button(page, "Show me without guessing").count():
        button(page, "Show me without guessing").first.click()
    for field in page.locator("td input").all():
        field.fill("B")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    too_small = page.locator(".tif-check button:visible").evaluate_all(
        "all => all.filter((one) => one.getBoundingClientRect().height < 36).length"
    )
    assert too_small == 0


def test_an_exercise_of_ones_own_has_its_title_for_a_link(show: Any, number: SelfCheck):
    exercises = json.loads(json.dumps(number.exercises))
    exercises[0]["number"] = ""
    number.set_trait("exercises", exercises)
    heading = show(number).get_by_role("heading")
    expect(heading).to_have_accessible_name("Idle seats")
    expect(heading.get_by_role("link")).to_have_accessible_name("Idle seats")


def test_the_score_says_that_guesses_do_not_count(show: Any):
    page = show(lab.self_check("batching-idle-seats", "batching-one-go"))
    assert page.locator(".count").inner_text() == "0 of 1 solved; guesses are not counted"


def test_questions_print_and_answers_do_not(show: Any, number: SelfCheck):
    page = show(number)
    page.get_by_label("Your answer").fill("77")
    for name in ("Check", "Hint 1", "Show the worked answer"):
        button(page, name).click()
    page.emulate_media(media="print")
    assert page.locator(".question").is_visible()
    for part in (".hints", ".worked", ".verdict", ".attempts", ".controls", ".score"):
        assert not page.locator(part).is_visible(), part


def test_a_question_cannot_bring_markup_of_its_own(show: Any, number: SelfCheck):
    exercises = json.loads(json.dumps(number.exercises))
    exercises[0]["variants"][0]["question"] = "<img src=x onerror=boom()> `<b>` *it*"
    number.set_trait("exercises", exercises)
    page = show(number)
    assert page.locator(".question img, .question b").count() == 0
    assert page.locator(".question code").inner_text() == "<b>"
    assert page.locator(".question em").inner_text() == "it"
