"""Every page of the built site: self-contained, without errors, readable, open to everybody.

What only looks at a page shares a visit, so the tests of a page come one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_access import SERIOUS
from test_site import CHAPTERS, FAINT_TEXT, LARGE_TEXT_CONTRAST, PAGES, TEXT_CONTRAST, TOO_WIDE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

Look = Callable[..., Any]
in_both_themes = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture(scope="module", params=PAGES)
def path(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def test_a_page_has_one_title_and_a_language(look: Look):
    page = look().page
    assert page.locator("h1").count() == 1
    assert page.locator("h1").inner_text().strip()
    assert page.locator("html").get_attribute("lang") == "en"


def test_every_control_has_a_name(look: Look):
    controls = look().page.locator("button:visible, a:visible, input:visible")
    nameless = controls.evaluate_all(
        """all => all.filter((one) => !(one.innerText.trim() || one.ariaLabel || one.title
          || one.labels?.length)).map((one) => one.outerHTML.slice(0, 120))"""
    )
    assert nameless == []


def test_every_term_and_tag_has_its_definition_on_the_page(look: Look):
    links = look().page.locator("article a:not(.definitions a)")
    lost = links.evaluate_all("""(links) => links
      .filter((link) => link.pathname !== location.pathname && link.hash.startsWith("#term-"))
      .filter((link) => !document.getElementById(link.getAttribute("aria-describedby")))
      .map((link) => link.textContent)""")
    assert lost == []


def test_a_chapter_and_nothing_else_offers_the_notebook_it_was_made_from(look: Look, path: str):
    page = look().page
    link = page.get_by_role("link", name="This chapter as a notebook")
    assert link.count() == (path in CHAPTERS)
    if path in CHAPTERS:
        with page.expect_download() as download:
            link.click()
        notebook = json.loads(Path(download.value.path()).read_text("utf-8"))
        title = page.locator("h1").inner_text().replace("’", "'")
        assert title in "".join(notebook["cells"][0]["source"])


@pytest.mark.parametrize("width", [1280, 768, 320, 360])  # 320 is 1280 at 400 % zoom
def test_a_page_does_not_scroll_sideways(look: Look, width: int):
    assert look(width=width).page.evaluate(TOO_WIDE) == []


@in_both_themes
def test_all_text_can_be_read(look: Look, theme: str):
    page = look(theme=theme).page
    assert page.locator("html").get_attribute("data-theme") == theme
    assert page.evaluate(FAINT_TEXT, [TEXT_CONTRAST, LARGE_TEXT_CONTRAST]) == []


@in_both_themes
def test_axe_finds_nothing_serious(look: Look, axe: str, theme: str):
    page = look(theme=theme).page
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (320, "light")])
def test_a_page_asks_no_other_host_and_reports_no_error(look: Look, width: int, theme: str):
    """Neither while it opened nor while the tests above looked at it."""
    there = look(width=width, theme=theme)
    assert there.foreign == []
    assert there.errors == []
    assert there.not_ok == []


@pytest.mark.parametrize("address", ["sub-path"], indirect=True)
def test_in_a_folder_of_a_host_a_page_asks_no_other_and_reports_no_error(look: Look):
    there = look()
    assert there.foreign == []
    assert there.errors == []
    assert there.not_ok == []
