"""The plans for a classroom in a browser: every address for the wall shows what it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

PAGE = "book/instructors.html"


def test_every_address_for_the_wall_leads_to_what_it_names(visit: Callable[..., Any]) -> None:
    there = visit(PAGE)
    walls = there.page.locator("dl.plan p > a.reference:has(code)").evaluate_all(
        "all => all.map((one) => [one.href, one.textContent])"
    )
    assert walls
    for href, text in dict(walls).items():
        assert href.endswith(text)
        there.open(href.removeprefix(f"{there.address}/"))
        if "?figure=" in href:
            alone = there.page.locator(f"#figure-{href.rpartition('=')[2]}")
            assert "single-figure" in str(alone.get_attribute("class"))
            expect(there.page.locator("h1")).to_be_hidden()
        else:
            expect(there.page.locator(f"[id='{href.rpartition('#')[2]}']")).to_be_in_viewport()
    assert (there.errors, there.not_ok) == ([], [])


def test_the_answers_to_expect_are_folded_and_stand_in_the_bank(visit: Callable[..., Any]) -> None:
    page = visit(PAGE).page
    folded = page.locator("dl.plan details")
    assert folded.count() > 0
    assert page.locator("dl.plan details[open]").count() == 0
    folded.first.locator("summary").click()
    link = folded.first.locator("a")
    link.click()
    page.wait_for_url("**/book/question-bank.html#*")
    expect(page.locator(f"[id='{page.url.rpartition('#')[2]}']")).to_be_in_viewport()
