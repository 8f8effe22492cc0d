"""Charts on the pages of a small book: drawn without scripts, in both modes, at every width."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser
from small_book import ROOT, build
from test_access import SERIOUS
from test_site import FAINT_TEXT, LARGE_TEXT_CONTRAST, TEXT_CONTRAST, TOO_WIDE

from book._ext.charts_on_page import NUMBERS
from book.serve import server
from lab.figures import palette

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

LINES = """import lab
rates = {"least recently used": [2.5, 8, 19], "first in, first out": [2, 7, 17]}
rows = [{"cache (blocks)": 64 * 4**i, "hit rate (%)": rate, "rule": rule}
        for rule, found in rates.items() for i, rate in enumerate(found)]
lab.line_chart(rows, "cache (blocks)", "hit rate (%)", "rule", log_x=True, points=True,
    title="How large must the cache be?", finding="Sixteen times the blocks hit 7.6 times.",
    conditions="100 requests", tag="derived")"""
AREAS = """rows = [{"step (number)": i, "used": 4 * i, "lost": i, "free": 40 - 5 * i}
        for i in range(8)]
lab.area_chart(rows, "step (number)", ["used", "lost", "free"], "memory (blocks)", hollow=["free"],
    title="Where does it go?", finding="To requests.", conditions="40 blocks", tag="given")"""
BARS = """rows = [{"allocator": a, "utilisation (%)": v, "source": s}
        for a, v, s in [("paged <4>", 96.3, "cited"), ("paged <4>", 95, "this run")]]
lab.bar_chart(rows, "allocator", "utilisation (%)", "source", hollow=["cited"],
    title="Who wastes less?", finding="Nobody.", conditions="one paper", tag="cited")"""
FOREIGN = """from IPython.display import display
display({"application/vnd.vegalite.v5+json": {"mark": "bar"}, "text/plain": "words"}, raw=True)"""
CHARTS = 3

# The colour and the size of every text that is seen in a drawing.
TEXTS = """() => [...document.querySelectorAll(".chart svg text")]
  .filter((text) => text.checkVisibility() && text.textContent)
  .map((text) => [text.textContent, getComputedStyle(text).fill, getComputedStyle(text).fontSize,
    getComputedStyle(text.closest(".chart")).backgroundColor])"""

# Texts that go beyond their drawing, or lie upon each other.
CROWDED = """() => [...document.querySelectorAll(".chart svg")]
  .filter((one) => one.checkVisibility()).flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((one) => one.textContent);
    const boxes = texts.map((one) => [one.textContent, one.getBoundingClientRect()]);
    const out = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(([text]) => `out: ${text}`);
    const over = boxes.flatMap(([text, a], i) => boxes.slice(i + 1)
      .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1
        && a.top < b.bottom - 4 && b.top < a.bottom - 4).map(([other]) => `${text} on ${other}`));
    return [...out, ...over];
  })"""


def figure(source: str, name: str) -> Any:
    return nbformat.v4.new_code_cell(source, metadata={"figure": name, "tags": ["hide-input"]})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the small book's site, and what its build said."""
    folder = tmp_path_factory.mktemp("book")
    cells = [figure(LINES, "hits"), figure(AREAS, "memory"), figure(BARS, "waste"), FOREIGN]
    (folder / "book").mkdir()
    shutil.copy(ROOT / "book" / "tags.md", folder / "book")
    book = {"plain": ["print(1)"], "chapters/05-charts": cells}
    return build(folder, book, pages=["book/tags"])


@pytest.fixture(scope="module")
def address(built: tuple[Path, str]) -> Iterator[str]:
    """Where the small book is: `visit` opens its pages."""
    with server(built[0], 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture
def charts(visit: Callable[..., Any]) -> Callable[..., Any]:
    """`charts(width=1280, theme="light")` opens the page of charts."""
    return lambda **view: visit("chapters/05-charts.html", **view)


def colour(name: str) -> str:
    """A colour as a browser says it."""
    return f"rgb({', '.join(str(int(name[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_a_chart_asks_nobody_for_anything(charts: Callable[..., Any]):
    there = charts()
    assert there.page.locator(".chart").count() == CHARTS
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_a_chart_stands_without_scripts(browser: Browser, address: str):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/chapters/05-charts.html")
    assert page.locator(".chart svg:visible").count() == CHARTS
    context.close()


@pytest.mark.parametrize(("width", "seen"), [(1280, "wide"), (768, "wide"), (360, "narrow")])
def test_the_drawing_that_fits_is_seen_and_its_text_is_as_large_as_ever(
    charts: Callable[..., Any], width: int, seen: str
):
    page = charts(width=width).page
    assert {one.get_attribute("class") for one in page.locator(".chart svg:visible").all()} == {
        seen
    }
    assert {size for _, _, size, _ in page.evaluate(TEXTS)} == {"13px"}
    shown = page.locator(".chart svg:visible").first
    assert shown.bounding_box()["width"] == float(shown.get_attribute("width"))


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_is_cut_off_or_lies_upon_each_other(charts: Callable[..., Any], width: int):
    page = charts(width=width).page
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(CROWDED) == []


def test_crowded_texts_would_be_found(charts: Callable[..., Any]):
    page = charts().page
    page.locator("svg:visible text").last.evaluate("one => one.setAttribute('transform', '')")
    assert page.evaluate(CROWDED) != []


@pytest.mark.parametrize(
    ("theme", "colours"), [("light", palette.LIGHT), ("dark", palette.DARK)], ids=["light", "dark"]
)
def test_the_colours_are_those_of_the_mode(
    charts: Callable[..., Any], theme: str, colours: dict[str, str]
):
    page = charts(theme=theme).page
    inks = {text: (ink, ground) for text, ink, _, ground in page.evaluate(TEXTS)}
    card = colour(colours["card"])
    assert inks["least recentlyused"] == (colour(colours["a"]), card)  # in two lines
    assert inks["first in,first out"] == (colour(colours["b"]), card)
    assert inks["free"] == inks["hit rate (%)"] == (colour(colours["soft"]), card)
    assert {ink for ink, _ in inks.values()} <= {colour(one) for one in colours.values()}


def test_the_switch_changes_a_drawing_that_is_there(charts: Callable[..., Any]):
    page = charts().page
    line = page.locator(".chart svg:visible path[stroke]").first
    seen = {line.evaluate("one => getComputedStyle(one).stroke")}
    for _ in range(2):
        page.locator(".theme-switch-button:visible").first.click()
        seen.add(line.evaluate("one => getComputedStyle(one).stroke"))
    assert seen == {colour(palette.LIGHT["a"]), colour(palette.DARK["a"])}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_and_name_a_chart(charts: Callable[..., Any], axe: str, theme: str):
    page = charts(theme=theme, width=360).page
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    assert page.evaluate(FAINT_TEXT, [TEXT_CONTRAST, LARGE_TEXT_CONTRAST]) == []


def test_a_drawing_has_a_name_and_a_description(charts: Callable[..., Any]):
    first = charts().page.get_by_role("img", name="How large must the cache be?")
    assert first.count() == 1
    assert "least recently used from 2.5 at 64 to 19 at 1024" in first.locator("desc").inner_html()


def test_words_and_numbers_are_text(charts: Callable[..., Any]):
    chart = charts().page.locator(".chart").first
    assert chart.get_by_text("Sixteen times the blocks hit 7.6 times.").is_visible()
    assert chart.locator("table").is_hidden()
    chart.get_by_text(NUMBERS).click()
    row = chart.locator("tbody tr").last
    assert row.locator("th, td").all_inner_texts() == ["1024", "19", "17"]


def test_the_tag_opens_its_definition(charts: Callable[..., Any]):
    page = charts().page
    page.locator(".chart").first.get_by_role("link", name="derived").click()
    assert (
        page.locator(".definition-card").get_by_text("by a rule that the text shows").is_visible()
    )


def test_a_chart_is_a_numbered_figure_that_can_stand_alone(charts: Callable[..., Any]):
    there = charts()
    assert there.page.locator(".number-line a:first-child").all_inner_texts() == [
        "Figure 5.1",
        "Figure 5.2",
        "Figure 5.3",
    ]
    there.open("chapters/05-charts.html?figure=waste")
    assert there.page.get_by_role("img", name="Who wastes less?").is_visible()
    assert there.page.get_by_role("img", name="How large must the cache be?").is_hidden()


def test_what_stands_in_angle_brackets_is_text(charts: Callable[..., Any]):
    texts = [text for text, *_ in charts().page.evaluate(TEXTS)]
    assert "paged <4>" in texts


def test_on_paper_the_numbers_are_open(charts: Callable[..., Any]):
    page = charts(theme="dark").page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".chart table:visible").count() == CHARTS
    assert {ground for *_, ground in page.evaluate(TEXTS)} == {colour(palette.LIGHT["card"])}


def test_a_drawing_that_is_not_of_this_book_stands_as_text_and_the_build_says_so(
    built: tuple[Path, str], charts: Callable[..., Any]
):
    assert built[1].count("skipping unknown output mime type") == 1
    assert charts().page.get_by_text("words", exact=True).is_visible()
