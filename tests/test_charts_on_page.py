"""How a page is given a chart: colours by name, nothing that is not seen, words around it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from docutils import nodes
from myst_nb.core.render import MimeData, load_mime_renders
from test_charts import areas, every_chart, lines
from test_palette import LEAST, contrast

from book._ext.charts_on_page import NAMES, WIDTHS, Charts, on_page, svg
from lab.figures import palette
from lab.figures.vega import MIME


@every_chart
@pytest.mark.parametrize("name", WIDTHS)
def test_a_drawing_has_no_colour_of_its_own_and_no_id(make: Any, name: str):
    drawn = svg(make().vega_lite(), name)
    assert re.findall(r"#[0-9a-f]{3,6}\b|rgb|url\(|\sid=|<script|<style|href", drawn) == []
    used = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn)) - {"none", "transparent"}
    assert used <= set(NAMES.values())
    assert f'class="{name}" role="img"' in drawn
    assert f'width="{WIDTHS[name]}"' in drawn


@every_chart
def test_the_words_stand_around_the_drawing_and_not_in_it(make: Any):
    chart = make()
    drawn = svg(chart.vega_lite(), "wide")
    seen = re.sub(r"<title>.*</title><desc>.*</desc>", "", drawn)
    for words in (chart.title, chart.finding, chart.conditions):
        assert words not in seen
    page = on_page(chart.vega_lite())
    assert [one.astext() for one in page.findall(nodes.emphasis)] == [chart.tag]
    assert [one.astext() for one in page.findall(nodes.paragraph)] == [
        chart.title,
        f"{chart.conditions} {chart.tag}",
        chart.finding,
    ]


def test_the_same_chart_is_drawn_the_same_and_small():
    wide = svg(lines().vega_lite(), "wide")
    assert wide == svg(lines().vega_lite(), "wide")
    assert len(wide) < 8000


def test_a_colour_that_is_not_in_the_palette_is_an_error():
    spec = lines().vega_lite()
    spec["config"] = {
        **spec["config"],
        "axis": {**spec["config"]["axis"], "domainColor": "#123456"},
    }
    with pytest.raises(ValueError, match="which has no '#123456'"):
        svg(spec, "wide")


def test_words_with_signs_of_html_stay_words():
    spec = lines(title="a < b & c").vega_lite()
    assert "<title>a &lt; b &amp; c</title>" in svg(spec, "narrow")


def test_only_charts_of_this_book_are_drawn():
    draw = Charts.handle_mime
    assert draw(None, MimeData("text/plain", "words"), False) is None  # type: ignore[arg-type]
    assert draw(None, MimeData(MIME, {"mark": "bar"}), False) is None  # type: ignore[arg-type]
    [drawn] = draw(None, MimeData(MIME, areas().vega_lite()), False) or []  # type: ignore[arg-type]
    assert "chart" in drawn["classes"]


def test_all_who_ask_myst_nb_for_renderers_get_one_list():
    assert load_mime_renders() is load_mime_renders()


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_every_colour_of_a_text_or_a_line_can_be_read_on_the_card(colours: dict[str, str]):
    spec = areas(hollow=["free"]).vega_lite()
    drawn = svg(spec, "wide") + svg(lines().vega_lite(), "wide")
    texts = set(re.findall(r'<text [^>]*fill="var\(--tif-(\w+)\)"', drawn))
    assert {"a", "b", "soft"} <= texts
    for name in texts:
        assert contrast(colours[name], colours["card"]) >= LEAST
