"""Charts in Vega-Lite: the theme of the book, axes, labels at the ends, the drawing as a whole."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import altair as alt

from lab.figures import palette
from lab.figures.axes import Axis, spread

MIME = "application/vnd.vegalite.v5+json"
"""JupyterLab draws this version."""
WIDTH, HEIGHT = 640, 260
"""Of the whole drawing, and of the plot in it, in pixels."""
LINE, LETTER, WORDS = 16, 7.5, 14
"""A line of text is so high and a letter so wide; labels are broken at so many letters."""
NUMBERS = ",.9~r"  # 65,536 and 0.5
Point: TypeAlias = Mapping[str, float | None]
Bar: TypeAlias = Mapping[str, str | float]


def theme() -> alt.Config:
    """The ink, the lines and the type of every chart."""
    ink, soft, line = (palette.LIGHT[name] for name in ("ink", "soft", "line"))
    axis = alt.AxisConfig(
        domainColor=soft,
        grid=False,
        gridColor=line,
        labelColor=soft,
        labelFlush=False,
        labelFontSize=13,
        labelOverlap="greedy",
        labelSeparation=6,
        tickColor=soft,
        tickSize=4,
        titleColor=soft,
        titleFontSize=13,
        titleFontWeight="normal",
    )
    title = alt.TitleConfig(
        anchor="start",
        color=ink,
        fontSize=15,
        fontWeight=600,
        offset=16,
        subtitleColor=soft,
        subtitleFontSize=13,
        subtitleLineHeight=18,
        subtitlePadding=6,
    )
    return alt.Config(
        aria=False,
        axis=axis,
        background=palette.LIGHT["card"],
        font="system-ui, sans-serif",
        padding=8,
        text=alt.MarkConfig(fontSize=13, lineHeight=LINE, lineBreak="\n"),
        title=title,
        view=alt.ViewConfig(stroke=None),
    )


def drawing(layers: Iterable[Any], height: int) -> dict[str, Any]:
    """The layers as one Vega-Lite drawing, its plot `height` pixels high."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    whole = alt.layer(*layers, width=WIDTH, height=height, autosize=fit, config=theme())
    drawn: dict[str, Any] = whole.to_dict()
    return {**drawn, "$schema": "https://vega.github.io/schema/vega-lite/v5.json"}


def line(
    data: Sequence[Point], x: Axis, y: Axis, room: float, colour: str, dashed: bool, points: bool
) -> Any:
    """One line through `data` (x and y); where y is None it is broken."""
    mark = alt.Chart(alt.Data(values=list(data))).mark_line(
        color=colour,
        strokeWidth=2,
        strokeDash=[6, 4] if dashed else alt.Undefined,
        point=alt.OverlayMarkDef(color=colour, size=40) if points else alt.Undefined,
    )
    return mark.encode(_across(x, room), _upward(y, grid=True))


def area(
    data: Sequence[Point], x: Axis, y: Axis, room: float, colour: str, hollow: bool, steps: bool
) -> Any:
    """An area between y and `top` of `data`; hollow, it is only a dashed line at the top."""
    chart = alt.Chart(alt.Data(values=list(data)))
    shape: Literal["step-after", "linear"] = "step-after" if steps else "linear"
    below, left = _across(x, room), _upward(y)
    if hollow:
        rim = chart.mark_line(color=colour, interpolate=shape, strokeDash=[4, 3], strokeWidth=1.5)
        return rim.encode(below, _upward(y, "top:Q"))
    filled = chart.mark_area(color=colour, interpolate=shape)
    return filled.encode(below, left, y2="top:Q")


def bars(data: Sequence[Bar], x: Axis, series: Sequence[str]) -> list[Any]:
    """Bars from 0 to `x`, each with its `label` at the end. Bars of one `what` stand below that
    name in the order of `series` by `whose`."""
    room = LETTER * max(len(str(one["label"])) for one in data) + 14
    names = [{"what": what, "whose": ""} for what in dict.fromkeys(one["what"] for one in data)]
    lanes: dict[str, Any] = {
        "y": alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labels=False, ticks=False)),
        "yOffset": alt.YOffset("whose:N", scale=alt.Scale(domain=["", *series])),
    }
    plot = alt.Chart(alt.Data(values=list(data))).encode(x=_across(x, room), **lanes)
    box = plot.mark_bar(strokeWidth=1.5, height=alt.RelativeBandSize(0.8)).encode(
        fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("stroke:N", scale=None)
    )
    text: dict[str, Any] = {"align": "left", "color": palette.LIGHT["ink"], "dx": 6}
    heads = alt.Chart(alt.Data(values=names)).mark_text(**text).encode(text="what:N", **lanes)
    return [box, plot.mark_text(**text).encode(text="label:N"), heads.encode(x=alt.XValue(0))]


def wrapped(name: str) -> str:
    """A label, broken into lines."""
    return "\n".join(textwrap.wrap(name, WORDS))


def room_for(names: Iterable[str]) -> float:
    """The pixels that labels need to the right of a plot."""
    widest = max(len(part) for name in names for part in wrapped(name).split("\n"))
    return widest * LETTER + 18


def labels(ends: Mapping[str, float], y: Axis, colour: Mapping[str, str]) -> list[Any]:
    """The names of lines or areas at their ends, apart from each other, each with a short line to
    the height that it names."""
    room = room_for(ends)
    true = [HEIGHT * (1 - y.share(value)) for value in ends.values()]
    gaps = [float(LINE * len(wrapped(name).split("\n"))) for name in ends]
    layers = []
    for name, at, place in zip(ends, true, spread(true, gaps, HEIGHT), strict=True):
        data = [{"name": wrapped(name), "true": round(at, 1), "place": round(place, 1)}]
        here = alt.Chart(alt.Data(values=data))
        height: dict[str, Any] = {"scale": None, "axis": None}
        layers += [
            here.mark_rule(color=colour[name]).encode(
                alt.XValue(_from_right(room - 3)),
                alt.Y("true:Q", **height),
                x2=alt.X2Value(_from_right(room - 13)),
                y2="place:Q",
            ),
            here.mark_text(align="left", baseline="middle", color=colour[name]).encode(
                alt.XValue(_from_right(room - 16)), alt.Y("place:Q", **height), text="name:N"
            ),
        ]
    return layers


def _from_right(pixels: float) -> Any:
    return {"expr": f"width - {pixels:g}"}


def _scale(axis: Axis, **more: Any) -> alt.Scale:
    return alt.Scale(type="log" if axis.log else "linear", domain=[axis.low, axis.high], **more)


def _across(axis: Axis, room: float) -> alt.X:
    """The axis below, which ends `room` pixels before the right side."""
    scale = _scale(axis, range=[0, _from_right(room)])
    look = alt.Axis(values=list(axis.ticks), format=NUMBERS)
    return alt.X("x:Q", title=axis.title, scale=scale, axis=look)


def _upward(axis: Axis, field: str = "y:Q", grid: bool = False) -> alt.Y:
    """The axis at the left, with its title above it."""
    look = alt.Axis(
        values=list(axis.ticks),
        format=NUMBERS,
        grid=grid,
        titleAlign="left",
        titleAnchor="start",
        titleAngle=0,
        titleX=0,
        titleY=-14,
    )
    return alt.Y(field, title=axis.title, scale=_scale(axis), axis=look)
