"""The built site in a browser: its front door, its search, and what is looked for on every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Route

from book.serve import Handler

pytestmark = pytest.mark.browser

TOC = yaml.safe_load((Path(__file__).parents[2] / "_toc.yml").read_text("utf-8"))
TEXT_CONTRAST = 4.5
LARGE_TEXT_CONTRAST = 3.0


def files(part: Any) -> Iterator[str]:
    """Every page that a table of contents names."""
    if isinstance(part, list):
        for item in part:
            yield from files(item)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("root", "file"):
                yield value
            else:
                yield from files(value)


PAGES = [*(f"{file}.html" for file in files(TOC)), "search.html"]
CHAPTERS = [path for path in PAGES if path.startswith("chapters/")]
LAST = CHAPTERS[-1]
everywhere = pytest.mark.parametrize("address", ["root", "sub-path"], indirect=True)

TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement)
      if (["auto", "scroll", "hidden"].includes(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  const wide = [...document.querySelectorAll(".bd-article-container *")]
    .filter((element) => element.getClientRects().length)
    .filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element))
    .map((element) => element.outerHTML.slice(0, 120));
  const page = document.scrollingElement.scrollWidth;
  return page > width ? [`the page is ${page} wide in ${width}`, ...wide] : wide;
}"""

PLACES = """() => [...document.querySelectorAll(".bd-article-container *")]
  .map((one) => one.getBoundingClientRect())
  .map(({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(" "))"""

FAINT_TEXT = """([least, leastLarge]) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (...colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), element = walk.currentNode.parentElement;
    const seen = { visibilityProperty: true, opacityProperty: true };
    if (!text || !element.checkVisibility(seen)) continue;
    const style = getComputedStyle(element), below = [];
    for (let at = element; at; at = at.parentElement)
      below.unshift(getComputedStyle(at).backgroundColor);
    const ground = light(paint("white", ...below));
    const ink = light(paint("white", ...below, style.color));
    const contrast = (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    const needed = size >= 24 || (bold && size >= 18.66) ? leastLarge : least;
    if (contrast < needed) faint.add(`${contrast.toFixed(2)} ${style.color}: ${text.slice(0, 40)}`);
  }
  return [...faint];
}"""


def test_faint_text_and_wide_boxes_are_found(visit: Callable[..., Any]):
    page = visit(PAGES[0]).page
    page.evaluate("""document.querySelector("article").insertAdjacentHTML("beforeend",
        "<p style='color: #999; width: 3000px'>too faint, too wide</p>")""")
    assert "too faint" in str(page.evaluate(FAINT_TEXT, [TEXT_CONTRAST, LARGE_TEXT_CONTRAST]))
    assert "too wide" in str(page.evaluate(TOO_WIDE))


def test_foreign_requests_and_errors_are_noticed(visit: Callable[..., Any]):
    there = visit(PAGES[0])
    there.page.evaluate("""fetch("http://elsewhere.invalid/x").catch(() => {});
        fetch("missing.js"); setTimeout(() => { throw new Error("broken") })""")
    there.page.wait_for_load_state("networkidle")
    there.page.wait_for_timeout(200)
    assert there.foreign == ["http://elsewhere.invalid/x"]
    assert any("broken" in error for error in there.errors)
    assert [line.split()[0] for line in there.not_ok] == ["404"]


@pytest.mark.parametrize("reader", ["first", "second"])
def test_a_visit_finds_nothing_of_an_earlier_one(visit: Callable[..., Any], reader: str):
    there = visit(PAGES[0])
    assert there.page.evaluate("localStorage.left ?? sessionStorage.left ?? document.cookie") == ""
    there.page.evaluate(
        """(name) => {
          localStorage.left = sessionStorage.left = name;
          document.cookie = `left=${name}; path=/`;
        }""",
        reader,
    )
    there.open(LAST)
    left = there.page.evaluate("[localStorage.left, sessionStorage.left, document.cookie]")
    assert left == [reader, reader, f"left={reader}"]


def test_a_page_is_open_once_all_is_there_that_its_scripts_ask_for(visit: Callable[..., Any]):
    there = visit(PAGES[0])

    def answer(route: Route) -> None:
        there.page.wait_for_timeout(1000)
        route.fulfill(body="late")

    there.page.route("**/late", answer)
    there.page.add_init_script("""addEventListener("load", async () => {
        document.body.title = await (await fetch("/late")).text();
    })""")
    there.open(LAST)
    assert there.page.locator("body").get_attribute("title") == "late"


@pytest.mark.parametrize(("opened", "resized"), [(320, 360), (1280, 768)])
def test_a_page_that_is_resized_is_as_if_opened_so(
    visit: Callable[..., Any], opened: int, resized: int
):
    there = visit(LAST, width=opened)
    before = there.page.evaluate(PLACES)
    there.resize(resized)
    after = there.page.evaluate(PLACES)
    assert before != after
    assert after == visit(LAST, width=resized).page.evaluate(PLACES)


@everywhere
def test_the_front_door_leads_to_the_book(visit: Callable[..., Any]):
    there = visit("")
    there.page.wait_for_url(f"**/{PAGES[0]}")
    assert there.page.locator("h1").inner_text().startswith("Tokens in Flight")
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_the_front_door_has_a_name_a_sign_and_a_link(site: Path):
    door = (site / "index.html").read_text("utf-8")
    assert '<html lang="en">' in door
    assert "<title>Tokens in Flight</title>" in door
    assert f'<a href="{PAGES[0]}">' in door
    assert '<link rel="icon" href="_static/mark.svg">' in door
    assert (site / "_static" / "mark.svg").is_file()


def test_the_first_page_leads_to_every_chapter(visit: Callable[..., Any]):
    links = (
        visit(PAGES[0]).page.locator("article a").evaluate_all("all => all.map(a => a.pathname)")
    )
    assert [path for path in CHAPTERS if f"/{path}" not in links] == []


def test_the_switch_changes_the_colours_and_is_remembered(visit: Callable[..., Any]):
    there = visit(PAGES[0])
    background = "getComputedStyle(document.body).backgroundColor"
    seen = {there.page.evaluate(background)}
    for _ in range(2):
        there.page.locator(".theme-switch-button:visible").first.click()
        seen.add(there.page.evaluate(background))
    assert len(seen) == 2
    chosen = there.page.locator("html").get_attribute("data-mode")
    there.open(LAST)
    assert there.page.locator("html").get_attribute("data-mode") == chosen


@everywhere
def test_search_finds_a_chapter(visit: Callable[..., Any]):
    there = visit("search.html?q=batch")
    there.page.locator("#search-results li a").first.wait_for()
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_a_wide_output_scrolls_inside_its_box_on_a_telephone(visit: Callable[..., Any]):
    page = visit(LAST, width=360).page
    page.evaluate(
        """document.querySelector("div.cell_output pre").textContent = "0 ".repeat(200)"""
    )
    box = page.locator("div.cell_output pre").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    assert box.evaluate("box => getComputedStyle(box).overflowX") == "auto"
    assert page.evaluate(TOO_WIDE) == []


def test_a_host_gets_every_file_as_it_is(site: Path):
    assert (site / ".nojekyll").is_file()


@pytest.mark.parametrize(
    ("name", "kind"), [("a.mjs", "text/javascript"), ("a.wasm", "application/wasm")]
)
def test_modules_and_webassembly_have_their_types(name: str, kind: str):
    assert Handler.extensions_map[Path(name).suffix] == kind
