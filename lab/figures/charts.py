"""Charts: lines, stacked areas and bars of plain rows, with their numbers in words.

Vega-Lite draws them: JupyterLab as the notebook runs, a page holds the drawing as it was built.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict, Unpack

from lab.figures import palette, vega
from lab.figures.axes import Axis, across, upward
from lab.figures.scene import Figure
from lab.ledgers.table import Table, show
from lab.ledgers.words import counted
from lab.request import Time

Rows: TypeAlias = Iterable[Mapping[str, Any]]
Values: TypeAlias = dict[Any, Any]
"""From a place on the axis below, or the name of a bar, to the value there."""

BAR = 25
"""The height of a bar, and of the name above bars, in pixels."""
MOST_ROWS = 16
"""A table of more is thinned out."""
TAGS = ("given", "derived", "measured", "cited")


class Words(TypedDict):
    """What stands around a chart, as around every figure."""

    title: str
    finding: str
    conditions: str
    tag: str


@dataclass(frozen=True, repr=False)
class Chart(Figure):
    """A drawing and its numbers.

    `drawing` is Vega-Lite without words around it; `shape` says in a few sentences what is drawn,
    and `table` has the values, thinned out where they are many.
    """

    kind = "chart"

    shape: str
    table: Table
    drawing: dict[str, Any]

    def __post_init__(self) -> None:
        if self.tag not in TAGS:
            raise ValueError(f"tag must be one of {', '.join(TAGS)}, got {self.tag!r}")

    def _lines(self, width: int) -> Iterator[str]:
        yield from textwrap.wrap(self.shape, width)
        yield ""
        yield repr(self.table)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The text form, and the drawing with its words for those who can draw it."""
        return {"text/plain": self.text(), vega.MIME: self.vega_lite()}

    def vega_lite(self) -> dict[str, Any]:
        """The drawing with title, conditions and finding above it; `usermeta` has all words and
        numbers for those who put them elsewhere."""
        below = textwrap.wrap(f"{self.conditions} ({self.tag})", 88)
        below += textwrap.wrap(self.finding, 88)
        told = {name: getattr(self, name) for name in ("title", "finding", "conditions", "tag")}
        told |= {"shape": self.shape, "columns": list(self.table.columns)}
        told |= {"rows": [[show(value) for value in row] for row in self.table.rows]}
        told |= {"notes": list(self.table.notes)}
        title = {"text": textwrap.wrap(self.title, 80), "subtitle": below}
        return {**self.drawing, "title": title, "usermeta": told}


def line_chart(
    rows: Rows,
    x: str,
    y: str,
    by: str | None = None,
    *,
    log_x: bool = False,
    log_y: bool = False,
    y_range: tuple[Time, Time] | None = None,
    points: bool = False,
    dashed: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
    **words: Unpack[Words],
) -> Chart:
    """A line for each value of the column `by`, or one line without it; six lines at most.

    `x` and `y` are columns that end with their unit, such as "hit rate (%)". A value of None leaves
    a gap. `points` shows each value; `dashed` names lines that are bounds or wishes. `colours`
    gives lines their place in the palette: {"LRU": "b"}. `words` are title, finding, conditions,
    tag.

    {"cache (blocks)": 64, "hit rate (%)": 12.5, "policy": "LRU"} is one point of the line "LRU",
    and "64  12.5" in its table. Raises ValueError for rows that lack a column, for two values of a
    line at one place, and for values that an axis cannot show.
    """
    lines: dict[str, Values] = {}
    for row in _checked(rows, (x, y) if by is None else (x, y, by)):
        name = y.rpartition(" (")[0] if by is None else str(row[by])
        _enter(lines.setdefault(name, {}), row[x], row[y])
    colour = _colours(list(lines), colours, dashed)
    places = sorted({place for line in lines.values() for place in line})
    below = across(x, places, log_x)
    known = [value for line in lines.values() for value in line.values() if value is not None]
    left = upward(y, known, log_y, y_range)
    room = vega.room_for(lines)
    layers = [
        vega.line(
            [{"x": float(place), "y": _float(line[place])} for place in sorted(line)],
            below, left, room, colour[name], name in dashed, points,
        )
        for name, line in lines.items()
    ]  # fmt: skip
    ends = {name: float(line[_ends(name, line)[1]]) for name, line in lines.items()}
    layers += vega.labels(ends, left, colour)
    return Chart(
        **words,
        unit=_unit(y),
        shape=_shape(counted(len(lines), "line"), left, below, lines),
        table=_table(x, places, lines),
        drawing=vega.drawing(layers, vega.HEIGHT),
    )


def area_chart(
    rows: Rows,
    x: str,
    parts: Sequence[str],
    y: str,
    *,
    steps: bool = False,
    y_range: tuple[Time, Time] | None = None,
    hollow: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
    **words: Unpack[Words],
) -> Chart:
    """Areas one upon the other: the columns `parts` of each row, the first one at the bottom; six
    at most.

    `x` is a column that ends with its unit, and `y` names with its unit what the parts add up to:
    "memory (blocks)". With `steps` a value holds until the next row. `hollow` names the parts that
    are only an outline, such as free memory. `colours` and `words` are as for `line_chart`.

    A row with 3 used, 1 reserved and 4 free blocks reaches up to 8. Raises ValueError for rows that
    lack a column, for parts below 0, and for two rows at one place.
    """
    if not parts:
        raise ValueError("areas need at least 1 part, got 0")
    areas: dict[str, Values] = {part: {} for part in parts}
    for row in _checked(rows, (x, *parts)):
        for part in parts:
            _enter(areas[part], row[x], _at_least_0(part, row[part]))
    colour = _colours(list(parts), colours, hollow)
    colour |= dict.fromkeys(hollow, palette.LIGHT["soft"])
    places = sorted(areas[parts[0]])
    sums = [sum(areas[part][place] for part in parts) for place in places]
    below, left = across(x, places), upward(y, sums, bounds=y_range)
    room = vega.room_for(parts)
    floor: Values = dict.fromkeys(places, 0)
    layers, middles = [], {}
    for part, area in areas.items():
        top = {place: floor[place] + area[place] for place in places}
        data = [{"x": float(p), "y": float(floor[p]), "top": float(top[p])} for p in places]
        layers.append(vega.area(data, below, left, room, colour[part], part in hollow, steps))
        middles[part] = float(floor[places[-1]] + top[places[-1]]) / 2
        floor = top
    layers += vega.labels(middles, left, colour)
    stack = f"{counted(len(parts), 'area')} one upon the other, {parts[0]} at the bottom"
    return Chart(
        **words,
        unit=_unit(y),
        shape=_shape(stack, left, below, areas),
        table=_table(x, places, areas),
        drawing=vega.drawing(layers, vega.HEIGHT),
    )


def bar_chart(
    rows: Rows,
    over: str,
    value: str,
    by: str | None = None,
    *,
    x_range: tuple[Time, Time] | None = None,
    hollow: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
    **words: Unpack[Words],
) -> Chart:
    """Bars from 0 to the right in the order of the rows: one for each name in the column `over`, or
    with `by` up to six.

    `value` is a column that ends with its unit, such as "utilisation (%)". `hollow` names the bars
    that are only an outline, such as cited ones: values of `by`, or without it of `over`. So do
    `colours`; these and `words` are as for `line_chart`.

    96.3 in "utilisation (%)" is a bar with "96.3" at its end. Raises ValueError for rows that lack
    a column, for values below 0, and for two bars of one name.
    """
    series: dict[str, Values] = {}
    checked = _checked(rows, (over, value) if by is None else (over, value, by))
    for row in checked:
        bar = series.setdefault(value if by is None else str(row[by]), {})
        _enter(bar, str(row[over]), _at_least_0(str(row[over]), row[value]))
    names = list(dict.fromkeys(str(row[over]) for row in checked))
    heights = [height for bar in series.values() for height in bar.values()]
    below = upward(value, heights, bounds=x_range)
    told = list(series) if by is not None else names
    colour = _colours(told, colours, hollow, alike=by is None)
    data: list[vega.Bar] = [
        {
            "what": name,
            "whose": whose,
            "x": float(bar[name]),
            "fill": "transparent" if key in hollow else colour[key],
            "stroke": colour[key],
            "label": show(bar[name]) if by is None else f"{show(bar[name])} {whose}",
        }
        for name in names
        for whose, bar in series.items()
        if name in bar
        for key in [name if by is None else whose]
    ]
    return Chart(
        **words,
        unit=_unit(value),
        shape=f"{counted(len(data), 'bar')}: {below.title} of each {over}.",
        table=_table(over, names, series),
        drawing=vega.drawing(
            vega.bars(data, below, list(series)), len(names) * BAR * (len(series) + 1)
        ),
    )


def _checked(rows: Rows, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows, if there are any and each has all columns."""
    checked = list(rows)
    if not checked:
        raise ValueError("a chart needs at least 1 row, got 0")
    for number, row in enumerate(checked, 1):
        for column in columns:
            if column not in row:
                raise ValueError(f"row {number} has no column {column!r}: it has {', '.join(row)}")
    return checked


def _enter(values: Values, place: Any, value: Any) -> None:
    if place in values:
        raise ValueError(f"a chart shows 1 value at each place, and {place!r} stands twice")
    values[place] = value


def _at_least_0(name: str, value: Any) -> Any:
    if value is None or value < 0:
        raise ValueError(f"bars and areas start at 0, and {name!r} has {value}")
    return value


def _colours(
    names: Sequence[str],
    chosen: Mapping[str, str] | None,
    special: Sequence[str],
    alike: bool = False,
) -> dict[str, str]:
    """The colour of each name: the chosen one, else the next of the palette, or the first if all
    are `alike`."""
    chosen = chosen or {}
    for name in (*chosen, *special):
        if name not in names:
            raise ValueError(f"the chart has no {name!r}: it has {', '.join(names)}")
    for colour in chosen.values():
        if colour not in palette.REQUESTS:
            raise ValueError(f"a colour is one of {', '.join(palette.REQUESTS)}, got {colour!r}")
    if len(names) > len(palette.REQUESTS) and not alike:
        raise ValueError(
            f"a chart tells at most {len(palette.REQUESTS)} apart by colour, got {len(names)}"
        )
    left = [colour for colour in palette.REQUESTS if colour not in chosen.values()]
    rest = iter(left * len(names) if alike is False else [])
    own = {n: chosen.get(n) or (palette.REQUESTS[0] if alike else next(rest)) for n in names}
    return {name: palette.LIGHT[colour] for name, colour in own.items()}


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _ends(name: str, values: Values) -> tuple[Any, Any]:
    """The first and the last place of a line or area that has a value."""
    places = [place for place in sorted(values) if values[place] is not None]
    if not places:
        raise ValueError(f"a line needs at least 1 value, and {name!r} has 0")
    return places[0], places[-1]


def _unit(column: str) -> str:
    return column.rpartition(" (")[2].removesuffix(")")


def _shape(what: str, left: Axis, below: Axis, series: Mapping[str, Values]) -> str:
    """What is drawn, and where each line or area begins and ends."""
    told = []
    for name, values in series.items():
        first, last = (f"{show(values[p])} at {show(p)}" for p in _ends(name, values))
        told.append(f"{name} from {first} to {last}")
    return f"{what}: {left.title} over {below.title}. {'; '.join(told)}."


def _table(first: str, places: Sequence[Any], series: Mapping[str, Values]) -> Table:
    """A row for each place and a column for each of the series; if they are many, some of them at
    even distances."""
    shown, notes = list(places), []
    if len(places) > MOST_ROWS:
        last, parts = len(places) - 1, MOST_ROWS - 1
        shown = [places[index * last // parts] for index in range(MOST_ROWS)]
        notes = [f"{MOST_ROWS} of {len(places):,} rows"]
    rows = [(place, *(values.get(place) for values in series.values())) for place in shown]
    return Table((first, *series), tuple(rows), notes=tuple(notes))
