"""The question bank in a browser: folded until somebody opens it, and true to the chapters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from lab.questions import BANK

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

BANK_PAGE = "book/question-bank.html"
A_CHAPTER = "chapters/02-batching"
ANSWERS = "details.bank-answer"


@pytest.fixture
def page(visit: Callable[..., Any]) -> Page:
    return visit(BANK_PAGE).page


def test_every_exercise_of_a_chapter_stands_there_under_its_number(page: Page) -> None:
    for chapter in page.locator("article section[id^=chapter-]").all():
        number = int(str(chapter.get_attribute("id")).removeprefix("chapter-"))
        titles = [title.rstrip("#") for title in chapter.locator("h3").all_inner_texts()]
        asked = enumerate(BANK[number], 1)
        assert titles == [f"Exercise {number}.{k}: {one.title}" for k, one in asked]
        for one in BANK[number]:
            assert chapter.locator(f"[id='{one.id}']").count() == 1
    assert page.locator(ANSWERS).count() > 0


def test_answers_are_closed_and_one_button_opens_and_closes_them_all(page: Page) -> None:
    every, opened = page.locator(ANSWERS), page.locator(f"{ANSWERS}[open]")
    status = page.locator(".bank-control [role=status]")
    assert opened.count() == 0
    expect(status).to_have_text(f"0 of {every.count()} answers are open")
    every.first.locator("summary").click()
    expect(status).to_have_text(f"1 of {every.count()} answers are open")
    page.get_by_role("button", name="Open all answers").press("Enter")
    expect(opened).to_have_count(every.count())
    close = page.get_by_role("button", name="Close all answers")
    expect(close).to_be_focused()
    close.press("Space")
    expect(opened).to_have_count(0)


def test_paper_has_all_answers_and_no_button(page: Page) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(f"{ANSWERS}:not([open])").count() == 0
    expect(page.locator(".bank-control")).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(f"{ANSWERS}[open]").count() == 0


def test_a_link_leads_to_the_exercise_with_the_numbers_of_the_bank(
    visit: Callable[..., Any], page: Page
) -> None:
    link = ".asked-in a"
    asked = {
        one.locator(link).evaluate("one => one.href"): one.locator("> p").first.inner_text()
        for one in page.locator(f"article section:has(> {ANSWERS})").all()
    }
    pages = {href.split("#")[0] for href in asked}
    there = visit(BANK_PAGE)
    for address in pages:
        there.open(address.removeprefix(f"{there.address}/"))
        for href, question in asked.items():
            if href.startswith(address):
                exercise = there.page.locator(f"[id='{href.split('#')[1]}'] .question p")
                assert exercise.first.inner_text() == question.replace("’", "'")


def test_no_search_lists_the_answers(site: Path, page: Page) -> None:
    assert page.locator("meta[name=robots]").get_attribute("content") == "noindex"
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    bank, chapter = (index["docnames"].index(name) for name in (BANK_PAGE[:-5], A_CHAPTER))
    found = {
        page
        for pages in index["terms"].values()
        for page in (pages if isinstance(pages, list) else [pages])
    }
    assert chapter in found
    assert bank not in found
