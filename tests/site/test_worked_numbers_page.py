"""The list of worked numbers as a reader uses it: search, copy, and land where a link leads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from lab.worked_numbers import entries

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

LIST = "book/worked-numbers.html"
LEDGER = json.loads(
    (Path(__file__).parents[2] / "lab" / "worked_numbers.json").read_text(encoding="utf-8")
)
NOTES = len(LEDGER["conflicts"]) + len(LEDGER["ambiguities"])
IN_VIEW = """(one) => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility() && box.top >= 0 && box.bottom <= innerHeight;
}"""


@pytest.fixture
def listed(visit: Callable[..., Any]) -> Page:
    page: Page = visit(LIST).page
    return page


def shown(page: Page) -> list[str]:
    rows = page.locator(".number-row:visible:not(.source-note)")
    ids: list[str] = rows.evaluate_all("all => all.map((one) => one.id)")
    return ids


def test_all_rows_are_there_and_counted(listed: Page) -> None:
    assert sorted(shown(listed)) == sorted(entries())
    status = listed.locator(".number-search [role=status]").inner_text()
    assert status == f"{len(entries())} entries, {NOTES} notes on the sources"


@pytest.mark.parametrize(
    ("words", "is_found"),
    [
        ("two-slot", lambda id: "two-slot" in id),
        ("  BATCHING-ROUNDS  row-3 ", lambda id: id == "batching-rounds-row-3"),
        ("speculative decoding", lambda id: id.startswith("spec-")),
        ("05-kv-memory kv cache", lambda id: id.startswith("kv-")),
    ],
)
def test_search_finds_ids_words_topics_and_chapters(
    listed: Page, words: str, is_found: Callable[[str], bool]
) -> None:
    listed.get_by_label("Search by id, word, topic or chapter").fill(words)
    found = shown(listed)
    assert {id for id in entries() if is_found(id)} <= set(found)
    assert 0 < len(found) < len(entries()) / 2
    status = listed.locator(".number-search [role=status]").inner_text()
    assert status.startswith(f"{len(found)} of {len(entries())} entries, ")


def test_chapter_1_is_not_chapter_11(listed: Page) -> None:
    field = listed.locator("#number-search")
    field.fill("chapter 1")
    one = set(shown(listed))
    field.fill("chapter 11")
    eleven = set(shown(listed))
    assert "parallel-gantt" not in one
    assert eleven
    assert not [id for id in one & eleven if id.startswith("parallel-")]


def test_what_nothing_matches_leaves_no_heading(listed: Page) -> None:
    listed.locator("#number-search").fill("batching zzz")
    assert shown(listed) == []
    assert listed.locator("article section section:visible").count() == 0
    listed.locator("#number-search").fill("")
    assert len(shown(listed)) == len(entries())


def test_search_opens_the_folded_notes(listed: Page) -> None:
    assert not listed.locator("#amb-rounding-ties").is_visible()
    listed.locator("#number-search").fill("tie rule not stated")
    assert listed.locator("#amb-rounding-ties").is_visible()


def test_a_link_to_a_row_ends_the_search(listed: Page) -> None:
    listed.locator("#number-search").fill("slash")
    listed.locator("#conf-itl-vs-tpot a", has_text="decode-table-row").click()
    assert listed.locator("#number-search").input_value() == ""
    assert listed.locator("#decode-table-row").evaluate(IN_VIEW)


def test_the_keyboard_reaches_search_and_copy(listed: Page) -> None:
    listed.locator("#number-search").focus()
    listed.keyboard.type("cost-drain-serial")
    stops = []
    for _ in range(6):
        listed.keyboard.press("Tab")
        stops.append(listed.evaluate("document.activeElement.textContent"))
    assert "Copy the lines" in stops
    assert "The lines that compute it" in stops


def test_the_lines_are_copied_as_they_stand(browser: Browser, address: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{address}/{LIST}")
    row = page.locator("#batching-t311-row-a")
    row.get_by_role("button").click()
    page.get_by_text("Copied").first.wait_for()
    assert page.locator("#number-copied").inner_text() == "Copied"
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.rstrip() == row.locator("pre").text_content()
    exec(compile(copied, "copied", "exec"), {})
    context.close()


def test_where_there_is_no_clipboard_the_lines_are_selected(listed: Page) -> None:
    listed.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    row = listed.locator("#batching-t311-row-a")
    row.get_by_role("button").click()
    assert "selected" in listed.locator("#number-copied").inner_text()
    selected = listed.evaluate("getSelection().toString()")
    assert selected.strip() == row.locator("pre").inner_text().strip()


def test_without_scripts_every_row_is_there_and_nothing_else(
    browser: Browser, address: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{LIST}")
    assert page.locator(".number-row:not(.source-note)").count() == len(entries())
    assert page.locator("#latency-c-zero-tpot-is-fiction").is_visible()
    assert not page.locator("#number-search").is_visible()
    assert page.locator(".number-row > button:visible").count() == 0
    context.close()


def test_every_link_of_the_list_leads_to_something(visit: Callable[..., Any]) -> None:
    there = visit(LIST)
    links = there.page.locator(".number-row a").evaluate_all("all => all.map((one) => one.href)")
    pages: dict[str, list[str]] = {}
    for link in links:
        address, _, anchor = link.partition("#")
        pages.setdefault(address, []).append(anchor)
    assert len(pages) > 1
    for address, anchors in pages.items():
        there.open(address.removeprefix(f"{there.address}/"))
        lost = there.page.evaluate(
            "(all) => all.filter((one) => !document.getElementById(one))", sorted(set(anchors))
        )
        assert lost == []


def test_a_link_lands_on_the_row_and_opens_what_it_is_folded_in(visit: Callable[..., Any]) -> None:
    page = visit(LIST).page
    page.locator("#latency-t312-row-b .where a").click()
    page.wait_for_load_state("networkidle")
    row = page.locator("#worked-latency-t312-row-b")
    assert row.evaluate("(one) => one.closest('details').open")
    assert row.evaluate(IN_VIEW)
    folded = page.locator("details.checked:not([open])").count()
    assert folded > 0


def test_folds_open_in_a_browser_that_leaves_them_shut(visit: Callable[..., Any]) -> None:
    page = visit("chapters/02-batching.html").page
    row = page.locator("#worked-cost-reserved-hour")
    page.evaluate("history.pushState(null, '', '#worked-cost-reserved-hour')")
    assert not row.is_visible()  # the browser itself has done nothing
    page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
    assert row.evaluate(IN_VIEW)


def test_a_link_to_words_shows_their_heading(visit: Callable[..., Any]) -> None:
    page = visit("chapters/02-batching.html#worked-batching-orca").page
    heading = page.get_by_role("heading", name="The short answer")
    assert heading.evaluate(IN_VIEW)


def test_the_page_is_light(site: Path) -> None:
    assert (site / LIST).stat().st_size < 1_200_000
