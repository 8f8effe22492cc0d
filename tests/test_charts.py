"""Charts as data: what is drawn where, in which colour, and what the text form says of it."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import lab
from lab.figures import palette
from lab.figures.charts import MOST_ROWS, Chart
from lab.figures.vega import MIME

WORDS: dict[str, Any] = {
    "title": "How large must the cache be?",
    "finding": "Four times the blocks bring LRU from 8 to 19 %.",
    "conditions": "12,031 requests",
    "tag": "derived",
}
RATES = {"LRU": [2.5, 8, Fraction(57, 3)], "FIFO": [2, None, 17]}
POINTS = [
    {"cache (blocks)": blocks, "hit rate (%)": rate, "policy": policy}
    for policy, rates in RATES.items()
    for blocks, rate in zip([64, 256, 1024], rates, strict=True)
]
MEMORY = [
    {"time (ms)": 0, "used": 1, "reserved": 3, "free": 4},
    {"time (ms)": 10, "used": 3, "reserved": 1, "free": 4},
]
BARS = [
    {"allocator": "largest", "utilisation (%)": 20.4, "source": "cited"},
    {"allocator": "paged", "utilisation (%)": 96.3, "source": "cited"},
    {"allocator": "largest", "utilisation (%)": Fraction(45, 2), "source": "this run"},
]


def lines(rows: Any = POINTS, **more: Any) -> Chart:
    return lab.line_chart(rows, "cache (blocks)", "hit rate (%)", "policy", **{**WORDS, **more})


def areas(rows: Any = MEMORY, **more: Any) -> Chart:
    parts = ("used", "reserved", "free")
    return lab.area_chart(rows, "time (ms)", parts, "memory (blocks)", **{**WORDS, **more})


def bars(rows: Any = BARS, by: str | None = "source", **more: Any) -> Chart:
    return lab.bar_chart(rows, "allocator", "utilisation (%)", by, **{**WORDS, **more})


EVERY = {"lines": lines, "areas": areas, "bars": bars}
every_chart = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)


def drawn(chart: Chart, mark: str) -> list[dict[str, Any]]:
    """The layers of one kind of mark, each with its data as `values`."""
    found = []
    for layer in chart.drawing["layer"]:
        data = layer.get("data", chart.drawing.get("data"))
        values = data.get("values") or chart.drawing["datasets"][data["name"]]
        if layer["mark"]["type"] == mark:
            found.append({**layer, "values": values})
    return found


# Lines


def test_the_text_form_of_lines():
    assert (
        lines(log_x=True).text()
        == """\
How large must the cache be?
12,031 requests (derived)

2 lines: hit rate (%) over cache (blocks), log scale. LRU from 2.5 at 64 to 19 at 1024; FIFO
from 2 at 64 to 17 at 1024.

cache (blocks)  LRU  FIFO
--------------  ---  ----
            64  2.5     2
           256    8     –
          1024   19    17

Four times the blocks bring LRU from 8 to 19 %."""
    )


def test_a_line_goes_through_its_points_and_breaks_where_there_is_none():
    lru, fifo = drawn(lines(dashed=["FIFO"]), "line")
    assert lru["values"] == [{"x": 64, "y": 2.5}, {"x": 256, "y": 8}, {"x": 1024, "y": 19}]
    assert fifo["values"][1] == {"x": 256, "y": None}
    assert ("strokeDash" in lru["mark"], "strokeDash" in fifo["mark"]) == (False, True)


def test_the_rows_may_come_in_any_order():
    assert lines(reversed(POINTS)).table.rows == tuple(
        (place, fifo, lru) for place, lru, fifo in lines().table.rows
    )


def test_axes_have_their_units_and_a_log_axis_says_so():
    layer = drawn(lines(log_x=True, y_range=(0, 100)), "line")[0]
    x, y = layer["encoding"]["x"], layer["encoding"]["y"]
    assert (x["title"], y["title"]) == ("cache (blocks), log scale", "hit rate (%)")
    assert (x["scale"]["type"], x["scale"]["domain"]) == ("log", [64, 1024])
    assert (y["scale"]["type"], y["scale"]["domain"]) == ("linear", [0, 100])


def test_each_line_has_its_name_at_its_end_in_its_colour():
    chart = lines(colours={"FIFO": "d"})
    names = {layer["values"][0]["name"]: layer["mark"]["color"] for layer in drawn(chart, "text")}
    assert names == {"LRU": palette.LIGHT["a"], "FIFO": palette.LIGHT["d"]}
    places = [layer["values"][0]["place"] for layer in drawn(chart, "text")]
    true = [layer["values"][0]["true"] for layer in drawn(chart, "rule")]
    assert true == [13.0, 39.0]  # 19 and 17 of 0 to 20, in 260 pixels from the top
    assert places == true


def test_without_by_there_is_one_line_with_the_name_of_its_column():
    chart = lab.line_chart(POINTS[:3], "cache (blocks)", "hit rate (%)", **WORDS)
    assert chart.table.columns == ("cache (blocks)", "hit rate")


def test_a_chosen_colour_is_nobody_elses():
    colours = [layer["mark"]["color"] for layer in drawn(lines(colours={"FIFO": "a"}), "line")]
    assert colours == [palette.LIGHT["b"], palette.LIGHT["a"]]


# Areas


def test_areas_stand_upon_each_other_and_reach_up_to_the_sum():
    used, reserved = drawn(areas(hollow=["free"]), "area")
    assert used["values"] == [{"x": 0, "y": 0, "top": 1}, {"x": 10, "y": 0, "top": 3}]
    assert reserved["values"] == [{"x": 0, "y": 1, "top": 4}, {"x": 10, "y": 3, "top": 4}]
    assert used["encoding"]["y"]["scale"]["domain"] == [0, 8]


def test_a_hollow_part_is_a_dashed_line_at_its_top():
    [free] = drawn(areas(hollow=["free"], steps=True), "line")
    assert [one["top"] for one in free["values"]] == [8, 8]
    assert free["encoding"]["y"]["field"] == "top"
    assert (free["mark"]["strokeDash"], free["mark"]["interpolate"]) == ([4, 3], "step-after")


def test_the_text_form_of_areas():
    assert areas().text().splitlines()[3:9] == [
        "3 areas one upon the other, used at the bottom: memory (blocks) over time (ms). "
        "used from 1 at 0",
        "to 3 at 10; reserved from 3 at 0 to 1 at 10; free from 4 at 0 to 4 at 10.",
        "",
        "time (ms)  used  reserved  free",
        "---------  ----  --------  ----",
        "        0     1         3     4",
    ]


def test_fractions_add_up_exactly():
    third = {"time (ms)": 0, "used": Fraction(1, 3), "reserved": Fraction(1, 3), "free": 0.0}
    rows = [third, {**third, "time (ms)": 1}]
    assert areas(rows).table.rows[0] == (0, Fraction(1, 3), Fraction(1, 3), 0.0)
    assert drawn(areas(rows), "area")[1]["values"][0]["top"] == 2 / 3


def test_a_long_table_is_thinned_out_and_says_so():
    rows = [{**MEMORY[0], "time (ms)": time} for time in range(1000)]
    table = areas(rows).table
    assert [row[0] for row in table.rows][::5] == [0, 333, 666, 999]
    assert (len(table), table.notes) == (MOST_ROWS, ("16 of 1,000 rows",))
    assert areas(rows[:MOST_ROWS]).table.notes == ()


# Bars


def test_bars_start_at_0_and_carry_their_values():
    [layer] = drawn(bars(x_range=(0, 100), hollow=["cited"]), "bar")
    assert layer["encoding"]["x"]["scale"]["domain"] == [0, 100]
    assert [(one["what"], one["x"], one["label"]) for one in layer["values"]] == [
        ("largest", 20.4, "20.4 cited"),
        ("largest", 22.5, "45/2 this run"),
        ("paged", 96.3, "96.3 cited"),
    ]
    a, b = palette.LIGHT["a"], palette.LIGHT["b"]
    looks = [(one["fill"], one["stroke"]) for one in layer["values"]]
    assert looks == [("transparent", a), (b, b), ("transparent", a)]


def test_the_text_form_of_bars():
    assert bars().text().splitlines()[3:] == [
        "3 bars: utilisation (%) of each allocator.",
        "",
        "allocator  cited  this run",
        "---------  -----  --------",
        "largest     20.4      45/2",
        "paged       96.3         –",
        "",
        WORDS["finding"],
    ]


def test_bars_without_by_are_alike_and_may_be_many():
    rows = [{"allocator": f"rule {n}", "utilisation (%)": n} for n in range(9)]
    [layer] = drawn(bars(rows, by=None, colours={"rule 3": "d"}), "bar")
    fills = [one["fill"] for one in layer["values"]]
    assert fills == [palette.LIGHT["d" if n == 3 else "a"] for n in range(9)]


# All of them


@every_chart
def test_the_output_of_a_cell_is_the_text_and_a_drawing_of_version_5(make):
    bundle = make()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", MIME}
    assert bundle["text/plain"] == make().text() == repr(make())
    assert "/vega-lite/v5" in bundle[MIME]["$schema"]
    told = bundle[MIME]["usermeta"]
    assert {name: told[name] for name in WORDS} == WORDS
    assert bundle[MIME]["title"]["subtitle"] == ["12,031 requests (derived)", WORDS["finding"]]


@every_chart
def test_the_same_rows_make_the_same_json(make):
    assert json.dumps(make().vega_lite()) == json.dumps(make().vega_lite())


@every_chart
def test_every_colour_is_one_of_the_palette(make):
    text = json.dumps(make().vega_lite())
    quoted = [part for part in text.split('"') if part.startswith("#")]
    assert quoted
    assert set(quoted) <= set(palette.LIGHT.values())


@every_chart
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tag": "guessed"}, "tag must be one of given, derived, measured, cited, got 'guessed'"),
        ({"rows": []}, "a chart needs at least 1 row, got 0"),
        ({"rows": [{"time (ms)": 1}]}, "row 1 has no column '"),
        ({"colours": {"ARC": "a"}}, "the chart has no 'ARC': it has "),
    ],
)
def test_what_no_chart_can_show_is_an_error(make, change, message):
    with pytest.raises(ValueError) as error:
        make(**change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lines(POINTS + POINTS[:1]), "a chart shows 1 value at each place, and 64 stands"),
        (lambda: areas(MEMORY * 2), "a chart shows 1 value at each place, and 0 stands twice"),
        (lambda: bars(BARS * 2), "a chart shows 1 value at each place, and 'largest' stands twice"),
        (
            lambda: areas([{**MEMORY[0], "free": -1}]),
            "bars and areas start at 0, and 'free' has -1",
        ),
        (lambda: lines(colours={"LRU": "red"}), "a colour is one of a, b, c, d, e, f, got 'red'"),
        (lambda: lines(dashed=["ARC"]), "the chart has no 'ARC': it has LRU, FIFO"),
        (
            lambda: lines([{**POINTS[0], "policy": n} for n in range(7)]),
            "a chart tells at most 6 apart by colour, got 7",
        ),
        (lambda: lines([{**POINTS[0], "hit rate (%)": None}]), "an axis needs at least 1 value"),
        (
            lambda: lines([POINTS[0], {**POINTS[3], "hit rate (%)": None}]),
            "a line needs at least 1 value, and 'FIFO' has 0",
        ),
        (
            lambda: lab.area_chart(MEMORY, "time (ms)", (), "memory (blocks)", **WORDS),
            "areas need at least 1 part, got 0",
        ),
        (lambda: areas([{**MEMORY[0], "used": None}]), "bars and areas start at 0, and 'used' has"),
    ],
)
def test_a_call_that_is_wrong_says_what_is_wrong(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(message)


def test_a_chart_without_all_its_words_is_not_made():
    with pytest.raises(TypeError, match="finding"):
        lab.bar_chart(
            BARS[:2], "allocator", "utilisation (%)", title="?", conditions="", tag="given"
        )
