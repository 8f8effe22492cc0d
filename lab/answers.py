"""The kinds of answer that a self-check asks for, with the wrong turns that are known for each.

Every kind can be shown without giving itself away (`asked`), explained to an instructor (`key`),
and handed to a page as plain values (`to_json`). Numbers are exact: int or Fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from string import ascii_lowercase
from typing import Any, NamedTuple, TypeAlias

from lab.ledgers.table import Table as TextTable

Exact: TypeAlias = int | Fraction
BLANK = "____"
IDLE = "idle"
"""How an empty seat is written in a cell. A reader may as well write – or leave the cell empty."""


@dataclass(frozen=True, slots=True)
class WrongNumber:
    """Where a wrong turn leads: `method` names the turn, `says` is the sentence that answers it."""

    value: Exact
    method: str
    says: str

    def __post_init__(self) -> None:
        exact(self.value)
        _check_words(f"the wrong number {self.value}", method=self.method, says=self.says)


class Unit(NamedTuple):
    """Another unit that a reader may answer in: `factor` of the answer's own unit make one."""

    name: str
    factor: Exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number in `unit` (empty for a pure number), right within `tolerance` of it, and the known
    wrong ones.

    ValueError unless at least one wrong number is known, and each differs by more than the
    tolerance from the right one and from the others.
    """

    value: Exact
    unit: str
    wrong: tuple[WrongNumber, ...]
    units: tuple[Unit, ...] = ()
    tolerance: Exact = 0

    def __post_init__(self) -> None:
        exact(self.value)
        exact(self.tolerance)
        if self.tolerance < 0:
            raise ValueError(f"a tolerance must not be negative, got {self.tolerance}")
        if not self.wrong:
            raise ValueError(f"the number {self.value} must know at least 1 wrong number, got 0")
        known = [self.value]
        for wrong in self.wrong:
            near = [value for value in known if _agree(value, wrong.value, self.tolerance)]
            if near:
                raise ValueError(
                    f"the wrong number {wrong.value} ({wrong.method}) cannot be told from "
                    f"{near[0]} within {self.tolerance}"
                )
            known.append(wrong.value)

    @classmethod
    def told_apart(
        cls,
        value: Exact,
        unit: str,
        wrong: Iterable[WrongNumber],
        *,
        units: tuple[Unit, ...] = (),
        tolerance: Exact = 0,
    ) -> Number:
        """The number without those wrong ones that happen to agree with it or an earlier one."""
        kept: list[WrongNumber] = []
        for one in wrong:
            known = [value, *(other.value for other in kept)]
            if not any(_agree(other, one.value, tolerance) for other in known):
                kept.append(one)
        return cls(value=value, unit=unit, wrong=tuple(kept), units=units, tolerance=tolerance)

    @property
    def kind(self) -> str:
        return "number"

    def asked(self) -> list[str]:
        names = [name for name in (self.unit, *(unit.name for unit in self.units)) if name]
        return [f"Answer in {' or '.join(names)}." if names else "Answer with a number."]

    def key(self) -> list[str]:
        within = f", within {float(self.tolerance):.2g}" if self.tolerance else ""
        return [
            f"{in_words(self.value)}{f', in {self.unit}' if self.unit else ''}{within}",
            *(f"not {in_words(w.value)}, from {w.method}: {w.says}" for w in self.wrong),
        ]

    def to_json(self) -> dict[str, Any]:
        units = [Unit(self.unit, 1), *self.units]
        return {
            "unit": self.unit,
            "units": [{"name": unit.name, "factor": float(unit.factor)} for unit in units],
            **self.cell(),
        }

    def cell(self) -> dict[str, Any]:
        """The number as a cell of a table, where the column names the unit."""
        return {
            "value": float(self.value),
            "exact": exact_text(self.value),
            "tolerance": float(self.tolerance),
            "wrong": [
                {
                    "value": float(wrong.value),
                    "exact": exact_text(wrong.value),
                    "method": wrong.method,
                    "says": wrong.says,
                }
                for wrong in self.wrong
            ],
        }


@dataclass(frozen=True, slots=True)
class Option:
    """One choice; `says` is shown to whoever picks it, right or wrong."""

    text: str
    right: bool
    says: str

    def __post_init__(self) -> None:
        _check_words("an option", text=self.text, says=self.says)


@dataclass(frozen=True, slots=True)
class Choice:
    """Options, of which one is right; or, with `several`, at least one is."""

    options: tuple[Option, ...]
    several: bool = False

    def __post_init__(self) -> None:
        if len(self.options) < 2:
            raise ValueError(f"a choice needs at least 2 options, got {len(self.options)}")
        _check_distinct("options", [option.text for option in self.options])
        right = sum(option.right for option in self.options)
        if right == 0:
            raise ValueError(f"a choice needs a right option, got 0 among {len(self.options)}")
        if right > 1 and not self.several:
            raise ValueError(f"a single choice must have 1 right option, got {right}")

    @property
    def kind(self) -> str:
        return "choice"

    def asked(self) -> list[str]:
        note = ["More than one may be right."] if self.several else []
        return [*note, *_lettered([option.text for option in self.options])]

    def key(self) -> list[str]:
        right = [ascii_lowercase[i] for i, option in enumerate(self.options) if option.right]
        return [", ".join(right), *_lettered([option.says for option in self.options])]

    def to_json(self) -> dict[str, Any]:
        return {
            "several": self.several,
            "options": [{"text": o.text, "right": o.right, "says": o.says} for o in self.options],
        }


class WrongOrder(NamedTuple):
    """An order that a wrong turn leads to, as places in the right one."""

    order: tuple[int, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Order:
    """Items in their right order, and the places in it in the order in which they are shown."""

    items: tuple[str, ...]
    shown: tuple[int, ...]
    wrong: tuple[WrongOrder, ...]

    def __post_init__(self) -> None:
        right = tuple(range(len(self.items)))
        if len(right) < 2:
            raise ValueError(f"an order needs at least 2 items, got {len(right)}")
        _check_distinct("items", self.items)
        _check_distinct("wrong orders", [str(wrong.order) for wrong in self.wrong])
        for name, order in (
            ("shown", self.shown),
            *(("a wrong order", w.order) for w in self.wrong),
        ):
            if tuple(sorted(order)) != right:
                raise ValueError(f"{name} must hold each of {len(right)} places once, got {order}")
            if order == right:
                raise ValueError(f"{name} must not be the right order, got {order}")
        for wrong in self.wrong:
            _check_words(f"the wrong order {wrong.order}", says=wrong.says)

    @property
    def kind(self) -> str:
        return "order"

    def asked(self) -> list[str]:
        return _lettered([self.items[place] for place in self.shown])

    def key(self) -> list[str]:
        return [
            self._letters(range(len(self.items))),
            *(f"not {self._letters(wrong.order)}: {wrong.says}" for wrong in self.wrong),
        ]

    def _letters(self, order: Iterable[int]) -> str:
        """An order of places, in the letters under which the items are shown."""
        return " ".join(ascii_lowercase[self.shown.index(place)] for place in order)

    def to_json(self) -> dict[str, Any]:
        return {
            "items": list(self.items),
            "shown": list(self.shown),
            "wrong": [{"order": list(wrong.order), "says": wrong.says} for wrong in self.wrong],
        }


class WrongWord(NamedTuple):
    """A word that a wrong turn leads to."""

    text: str
    says: str


@dataclass(frozen=True, slots=True)
class Word:
    """A word to fill into a cell; large and small letters are the same."""

    text: str
    wrong: tuple[WrongWord, ...] = ()

    def __post_init__(self) -> None:
        _check_words("a word", text=self.text)
        for wrong in self.wrong:
            _check_words(f"the wrong word {wrong.text!r}", text=wrong.text, says=wrong.says)
        _check_distinct("words", [self.text.lower(), *(w.text.lower() for w in self.wrong)])

    def cell(self) -> dict[str, Any]:
        """The word as a cell of a table."""
        return {"text": self.text, "wrong": [{"text": w.text, "says": w.says} for w in self.wrong]}


Cell: TypeAlias = str | Number | Word


@dataclass(frozen=True, slots=True)
class Filling:
    """A table with cells to fill: a `Number` or a `Word`. A plain text stands there already."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} of the table must have {len(self.columns)} cells, got {len(row)}"
                )
        if not self._to_fill:
            raise ValueError("a table needs at least 1 cell to fill, got 0")

    @property
    def kind(self) -> str:
        return "table"

    @property
    def _to_fill(self) -> list[tuple[str, str, Number | Word]]:
        """Row and column of each cell to fill, in words, and the cell."""
        return [
            (str(row[0]), column, cell)
            for row in self.rows
            for column, cell in zip(self.columns, row, strict=True)
            if not isinstance(cell, str)
        ]

    def asked(self) -> list[str]:
        return self._shown(_blank)

    def key(self) -> list[str]:
        says = []
        for row, column, cell in self._to_fill:
            for wrong in cell.wrong:
                value = wrong.text if isinstance(wrong, WrongWord) else in_words(wrong.value)
                says.append(f"{row}, {column}, not {value}: {wrong.says}")
        return [*self._shown(_solved), *says]

    def _shown(self, shown: Callable[[Cell], str]) -> list[str]:
        rows = tuple(tuple(shown(cell) for cell in row) for row in self.rows)
        return repr(TextTable(self.columns, rows)).splitlines()

    def to_json(self) -> dict[str, Any]:
        rows = [[cell if isinstance(cell, str) else cell.cell() for cell in r] for r in self.rows]
        return {"columns": list(self.columns), "rows": rows}


@dataclass(frozen=True, slots=True)
class Line:
    """Lines of which the one at place `wrong` is wrong; `says` answers a pick of each."""

    lines: tuple[str, ...]
    wrong: int
    says: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.lines) < 2:
            raise ValueError(f"a wrong line hides among at least 2, got {len(self.lines)}")
        if len(self.says) != len(self.lines):
            raise ValueError(
                f"each of {len(self.lines)} lines needs a sentence of its own, got {len(self.says)}"
            )
        if not 0 <= self.wrong < len(self.lines):
            raise ValueError(
                f"the wrong line must be one of 0 to {len(self.lines) - 1}, got {self.wrong}"
            )
        _check_distinct("lines", self.lines)
        for text, says in zip(self.lines, self.says, strict=True):
            _check_words(f"the line {text!r}", text=text, says=says)

    @property
    def kind(self) -> str:
        return "line"

    def asked(self) -> list[str]:
        return [f"{number}) {line}" for number, line in enumerate(self.lines, 1)]

    def key(self) -> list[str]:
        return [
            f"line {self.wrong + 1}",
            *(f"{number}) {says}" for number, says in enumerate(self.says, 1)),
        ]

    def to_json(self) -> dict[str, Any]:
        return {"lines": list(self.lines), "wrong": self.wrong, "says": list(self.says)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A number to be set on a scale from `low` to `high` in steps of `step`."""

    low: Exact
    high: Exact
    step: Exact
    unit: str
    truth: Exact
    wrong: tuple[WrongNumber, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high", "step", "truth"):
            exact(getattr(self, name))
        if not (self.low < self.high and self.step > 0):
            raise ValueError(
                f"a scale must rise in steps above 0, got {self.low} to {self.high} by {self.step}"
            )
        for name, value in (("truth", self.truth), *((w.method, w.value) for w in self.wrong)):
            if not self.low <= value <= self.high or (value - self.low) % self.step:
                raise ValueError(
                    f"{name} must stand on the scale {self.low} to {self.high} by {self.step}, "
                    f"got {value}"
                )
        _check_distinct("numbers", [str(n) for n in (self.truth, *(w.value for w in self.wrong))])

    @property
    def kind(self) -> str:
        return "scale"

    def asked(self) -> list[str]:
        low, high, step = map(exact_text, (self.low, self.high, self.step))
        return [f"Guess a number from {low} to {high} {self.unit}, in steps of {step}."]

    def key(self) -> list[str]:
        return [
            f"{exact_text(self.truth)} {self.unit}",
            *(f"not {exact_text(w.value)}, from {w.method}: {w.says}" for w in self.wrong),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "low": float(self.low),
            "high": float(self.high),
            "step": float(self.step),
            "unit": self.unit,
            "truth": float(self.truth),
            "wrong": [{"value": float(w.value), "says": w.says} for w in self.wrong],
        }


class Place(NamedTuple):
    """Where somebody sits: in `lane`, from step `start` up to step `stop`, which is free again."""

    lane: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """Who sits where and when, to be drawn on `lanes` over `steps` steps; each sits once."""

    lanes: tuple[str, ...]
    steps: int
    truth: Mapping[str, Place]

    def __post_init__(self) -> None:
        if not self.truth:
            raise ValueError("a drawing needs at least 1 request to draw, got 0")
        taken: dict[tuple[str, int], str] = {}
        for who, (lane, start, stop) in self.truth.items():
            if lane not in self.lanes:
                raise ValueError(f"{who} must sit in one of {', '.join(self.lanes)}, got {lane!r}")
            if not 0 <= start < stop <= self.steps:
                raise ValueError(
                    f"{who} must sit somewhere between 0 and {self.steps}, got {start} to {stop}"
                )
            for step in range(start, stop):
                other = taken.setdefault((lane, step), who)
                if other != who:
                    raise ValueError(f"{who} and {other} cannot both sit in {lane} in step {step}")

    @property
    def kind(self) -> str:
        return "drawing"

    def asked(self) -> list[str]:
        who = ", ".join(self.truth)
        return [f"Draw {who} on {', '.join(self.lanes)}, from 0 to {self.steps} steps."]

    def key(self) -> list[str]:
        return [
            f"{who}: {lane}, {start} to {stop}" for who, (lane, start, stop) in self.truth.items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "lanes": list(self.lanes),
            "steps": self.steps,
            "who": list(self.truth),
            "truth": {who: list(place) for who, place in self.truth.items()},
        }


@dataclass(frozen=True, slots=True)
class Prediction:
    """A guess before the figure is shown, by choice, scale, order or drawing; `why` is said
    afterwards, whatever was guessed."""

    by: Choice | Scale | Order | Drawing
    why: str

    def __post_init__(self) -> None:
        _check_words("a prediction", why=self.why)
        if isinstance(self.by, Choice) and self.by.several:
            raise ValueError("a prediction by choice must have 1 right option, got several")

    @property
    def kind(self) -> str:
        return "predict"

    def asked(self) -> list[str]:
        return self.by.asked()

    def key(self) -> list[str]:
        return [*self.by.key(), self.why]

    def to_json(self) -> dict[str, Any]:
        return {"by": self.by.kind, "why": self.why, **self.by.to_json()}


Answer: TypeAlias = Number | Choice | Order | Filling | Line | Prediction


def exact(value: object) -> Exact:
    """A result that may stand in an answer as it is. ValueError unless it is an int or Fraction."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ValueError(f"an answer must be an int or a Fraction, got {value!r}")
    return value


def exact_text(value: Exact) -> str:
    """A number without rounding: 12, 12.5, 50/3. Four decimals at most, else a fraction."""
    fraction = Fraction(value)
    if 10_000 % fraction.denominator:
        return str(fraction)
    decimal = Decimal(fraction.numerator) / Decimal(fraction.denominator)
    return f"{decimal:f}"


def in_words(value: Exact) -> str:
    """A number as it stands in a sentence: 12.5, and 50/3 (about 16.67)."""
    exact = exact_text(value)
    return f"{exact} (about {float(value):.4g})" if "/" in exact else exact


def _agree(one: Exact, other: Exact, tolerance: Exact) -> bool:
    return -tolerance <= one - other <= tolerance


def _blank(cell: Cell) -> str:
    return cell if isinstance(cell, str) else BLANK


def _solved(cell: Cell) -> str:
    if isinstance(cell, Number):
        return in_words(cell.value)
    return cell.text if isinstance(cell, Word) else cell


def _lettered(texts: Sequence[str]) -> list[str]:
    return [f"{letter}) {text}" for letter, text in zip(ascii_lowercase, texts, strict=False)]


def _check_words(what: str, **words: str) -> None:
    for name, text in words.items():
        if not text.strip():
            raise ValueError(f"{what} needs words for {name}, got {text!r}")


def _check_distinct(what: str, texts: Sequence[str]) -> None:
    for text in texts:
        if texts.count(text) > 1:
            raise ValueError(f"{what} must differ, and {text!r} stands {texts.count(text)} times")
