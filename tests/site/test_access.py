"""The site for everybody: screen reader, keyboard, touch, forced colours, no scripts, paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page
from test_site import CHAPTERS, LAST, PAGES, TOO_WIDE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

WITH_TERMS = "book/how-this-book-is-built.html"
TERM = "article a:has(> .std-term):not(.definitions a, .definition-card a)"
TAG = "article a:has(> .tag):not(.definitions a, .definition-card a)"

SERIOUS = """async () => (await axe.run()).violations
  .filter((found) => ["serious", "critical"].includes(found.impact))
  .map((found) => `${found.id}: ${found.nodes.map((node) => node.target).join(", ")}`)"""

SEEN_OUTSIDE = """(figure) => [...document.body.querySelectorAll("*")]
  .filter((one) => !figure.contains(one) && !one.contains(figure) && one.checkVisibility())
  .map((one) => one.outerHTML.slice(0, 100))"""


@pytest.fixture
def page_with(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """`page_with(path, has_touch=True)`: a page in a browser with another setting."""
    contexts = []

    def open_page(path: str, **settings: Any) -> Page:
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.goto(f"{address}/{path}", wait_until="networkidle")
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_axe_would_find_a_picture_without_words(visit: Callable[..., Any], axe: str):
    page = visit(PAGES[0]).page
    page.evaluate(axe)
    page.evaluate("document.querySelector('article').append(new Image())")
    assert "image-alt" in str(page.evaluate(SERIOUS))


# Terms and tags


@pytest.mark.parametrize("kind", [TERM, TAG])
def test_a_click_opens_the_definition_and_the_next_one_closes_it(
    visit: Callable[..., Any], kind: str
):
    page = visit(WITH_TERMS).page
    link, card = page.locator(kind).first, page.locator(".definition-card")
    link.click()
    assert card.locator("strong").inner_text() == link.inner_text()
    assert card.locator("a").last.get_attribute("href").endswith(link.evaluate("a => a.hash"))
    assert page.url.endswith(WITH_TERMS)
    link.click()
    assert card.count() == 0
    link.click()
    page.locator("h1").click()
    assert card.count() == 0


def test_the_keyboard_opens_a_definition_goes_into_it_and_leaves_it(visit: Callable[..., Any]):
    page = visit(WITH_TERMS).page
    link, card = page.locator(TERM).first, page.locator(".definition-card")
    link.focus()
    assert card.is_visible()
    page.keyboard.press("Tab")
    assert card.evaluate("card => card.contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert card.count() == 0
    assert link.evaluate("link => link === document.activeElement")
    page.keyboard.press("Enter")
    assert card.is_visible()
    page.keyboard.press("Shift+Tab")
    assert card.count() == 0 or card.locator("strong").inner_text() != link.inner_text()


def test_a_definition_stays_while_the_pointer_is_over_it(visit: Callable[..., Any]):
    page = visit(WITH_TERMS).page
    card = page.locator(".definition-card")
    page.locator(TERM).first.hover()
    card.wait_for()
    card.locator("strong").hover()
    page.wait_for_timeout(600)
    assert card.is_visible()
    page.locator("h1").hover()
    page.wait_for_timeout(600)
    assert card.count() == 0


def test_a_pointer_that_only_passes_opens_nothing(visit: Callable[..., Any]):
    page = visit(WITH_TERMS).page
    opened_at_once = page.locator(TERM).first.evaluate("""(link) => {
      const over = { bubbles: true, pointerType: "mouse" };
      link.dispatchEvent(new PointerEvent("pointerover", over));
      const card = document.querySelector(".definition-card");
      document.querySelector("h1").dispatchEvent(new PointerEvent("pointerover", over));
      return card !== null;
    }""")
    assert not opened_at_once
    page.wait_for_timeout(600)
    assert page.locator(".definition-card").count() == 0


def test_a_tap_opens_a_definition_that_fits_a_telephone(page_with: Callable[..., Page]):
    page = page_with(WITH_TERMS, has_touch=True, viewport={"width": 320, "height": 640})
    for number in range(page.locator(f"{TERM}, {TAG}").count()):
        page.locator(f"{TERM}, {TAG}").nth(number).tap()
        box = page.locator(".definition-card").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320
        assert page.evaluate(TOO_WIDE) == []
        page.keyboard.press("Escape")  # what is open may lie over the next one


def test_without_scripts_a_term_leads_to_the_glossary(page_with: Callable[..., Page]):
    page = page_with(WITH_TERMS, java_script_enabled=False)
    assert not page.locator(".definitions").is_visible()
    page.locator(TERM).first.click()
    assert re.search(r"/book/glossary\.html#term-\w+$", page.url)
    assert page.locator(f"dt#{page.url.partition('#')[2]}").is_visible()


# Numbers, anchors, one figure alone


@pytest.mark.parametrize("path", CHAPTERS)
def test_figures_and_examples_have_anchors_without_scripts(
    page_with: Callable[..., Page], path: str
):
    page = page_with(path, java_script_enabled=False)
    figures = page.locator("[id^=figure-]")
    assert figures.count() >= 1, "no cell of this chapter is a figure"
    chapter = int(re.search(r"/(\d+)-", path)[1])
    for number in range(figures.count()):
        line = figures.nth(number).locator(".number-line a").first
        assert line.inner_text() == f"Figure {chapter}.{number + 1}"
        assert line.get_attribute("href") == f"#{figures.nth(number).get_attribute('id')}"
    for heading in page.locator("article h2, article h3").all_inner_texts():
        if named := re.match(r"(Example|Table|Exercise) (\d+)\.(\d+)", heading):
            assert page.locator("#" + "-".join(named.groups()).lower()).count() == 1


@pytest.mark.parametrize("width", [320, 1280])
def test_one_figure_fills_the_window(visit: Callable[..., Any], width: int):
    there = visit(LAST, width=width)
    name = there.page.locator("[id^=figure-]").first.get_attribute("id")
    there.open(f"{LAST}?figure={name.removeprefix('figure-')}")
    page = there.page
    figure = page.locator(f"#{name}")
    assert figure.evaluate(SEEN_OUTSIDE) == []
    assert figure.bounding_box() == {"x": 0, "y": 0, "width": width, "height": 900}
    assert figure.locator(".tif-player").is_visible()
    assert not figure.locator(".cell_input").is_visible()
    assert page.evaluate(TOO_WIDE) == []
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


@pytest.mark.parametrize("by", ["key", "link"])
def test_a_single_figure_leads_back_to_its_place(visit: Callable[..., Any], by: str):
    there = visit(LAST)
    name = there.page.locator("[id^=figure-]").first.get_attribute("id")
    there.open(f"{LAST}?figure={name.removeprefix('figure-')}")
    if by == "key":
        there.page.keyboard.press("Escape")
    else:
        there.page.get_by_text("Back to the chapter").click()
    there.page.wait_for_url(f"**/{LAST}#{name}")
    assert there.page.locator("h1").is_visible()


def test_an_unknown_figure_leaves_the_page_as_it_is(visit: Callable[..., Any]):
    assert visit(f"{LAST}?figure=nobody").page.locator("h1").is_visible()


# Folded, on paper, in forced colours


def test_find_in_page_opens_what_is_folded(visit: Callable[..., Any]):
    page = visit(LAST).page
    folded = page.locator("article details:not([open]):not(.hide) p").last
    words = " ".join(folded.evaluate("p => p.textContent").split()[:6])
    chapter = page.url
    page.goto("about:blank")
    page.goto(f"{chapter}#:~:text={quote(words, safe='')}")
    page.wait_for_function("document.querySelector('article details[open]')")


def test_on_paper_everything_is_open_and_in_dark_ink(visit: Callable[..., Any]):
    page = visit(LAST, theme="dark").page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("article details").count() > 0
    assert page.locator("article details:not([open])").count() == 0
    assert page.locator("html").get_attribute("data-theme") == "light"
    for gone in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article"):
        assert not page.locator(gone).first.is_visible(), gone
    assert page.locator(".page-address").inner_text() == page.url
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("article details[open]").count() == 0
    assert page.locator("html").get_attribute("data-theme") == "dark"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_forced_colours_keep_focus_and_tags_visible(page_with: Callable[..., Page], theme: str):
    page = page_with(WITH_TERMS, forced_colors="active", color_scheme=theme)
    tag = page.locator(TAG).first
    assert tag.locator(".tag").evaluate("tag => getComputedStyle(tag).borderStyle") == "solid"
    page.keyboard.press("Tab")
    tag.focus()
    assert "none" not in tag.evaluate("link => getComputedStyle(link).outline")
    card = page.locator(".definition-card")
    assert card.evaluate("card => getComputedStyle(card).borderStyle") == "solid"
