"""A figure as data: what stands in which lane from when to when, and what the caption says of it.

A scene knows no pixels and no colours. Places are lanes and moments; a mark's `role` (prefill,
decode, idle, waiting, ...) and whose it is decide how it is drawn. Whoever draws a scene, in text
or on a page, draws all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar

from lab.ledgers.table import show
from lab.request import Time

ROLES = {
    "prefill": "{}*",
    "decode": "{}",
    "recompute": "{}~",
    "shared": "{}&",
    "stalled": "{}=",
    "preempted": "{}<",
    "forward": "{}",
    "backward": "{}'",
    "bubble": ".",
    "exchange": "{}",
    "token": "{}",
    "idle": "{}.",
    "waiting": "{}.",
    "elsewhere": "{}@",
    "read": "{}",
    "partly": "{}",
    "skipped": "{}",
    "kept": "{}",
    "rejected": "{}",
    "queued": "{}",
    "arrival": "{}>",
    "end": "{}x",
    "span": "[{}]",
}
"""What a mark may mean, and how its label is written in the text form. A `span` is a bracket over
an interval: it measures what stands in another lane and is nothing that happens itself. With
`elsewhere` the request is out of the engine: retrieval, a tool, the network, a database works.
Inside attention, what comes from device memory is `read`, or `partly` where a mask hides some of
it, or `skipped`; and what stays on the chip is `kept`: their labels say it. A guess that the target
does not accept is `rejected`. Between devices a part of a model goes `forward` or `backward`, waits
in a `bubble`, or has an `exchange` with others."""

_MEANINGS = {
    "prefill": "* prefill",
    "recompute": "~ recompute",
    "shared": "& waits for its prompt, which is computed for another answer as well",
    "stalled": "= in its seat, while steps go to others",
    "preempted": "< has lost its seat",
    "backward": "' backward",
    "bubble": ". bubble: a stage waits",
    "idle": ". idle seat (and whose it still is)",
    "waiting": ". waits",
    "elsewhere": "@ other work (a tool, the network, coordination)",
    "arrival": "> arrives",
    "end": "x ends without an answer",
    "span": "[ ] a span and how long it lasts, to the right as far as - goes",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something in a lane from `start` to `stop`; with both equal, at one moment."""

    id: str
    role: str
    lane: str
    start: Time
    stop: Time
    label: str = ""
    who: str | None = None
    """The request it belongs to: it keeps one colour through all figures."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, got {self.role!r}")
        if self.stop < self.start:
            raise ValueError(f"mark {self.id!r} ends before it starts: {self.stop} < {self.start}")

    @property
    def sign(self) -> str:
        """The mark in the text form."""
        return ROLES[self.role].format(self.label)


@dataclass(frozen=True, slots=True)
class Dots:
    """Very many moments in one lane, packed: moment i is `tick` times the sum of the first i + 1
    of `deltas`. They are rounded to whole ticks, each on its own, so that no error adds up."""

    lane: str
    role: str
    who: str | None
    tick: float
    deltas: tuple[int, ...]

    @property
    def times(self) -> list[float]:
        """The moments, unpacked."""
        return [ticks * self.tick for ticks in accumulate(self.deltas)]


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of the figure, from moment `at` on: what lies before is past, the rest future."""

    at: Time
    label: str
    caption: str


@dataclass(frozen=True)
class Figure:
    """What every figure has, whatever it shows.

    `title` asks until the last frame; then `finding` says what was found. `conditions` names the
    inputs, `tag` where they come from: given, derived, measured or cited.
    """

    kind: ClassVar[str]

    title: str
    finding: str
    conditions: str
    tag: str
    unit: str

    def text(self, width: int = 96) -> str:
        """The figure in words: title, conditions, what it shows, finding. A chart is broken to
        `width`."""
        head = [self.title, f"{self.conditions} ({self.tag})", ""]
        return "\n".join([*head, *self._lines(width), "", self.finding])

    def to_json(self) -> dict[str, Any]:
        """The figure as plain values for the player: `kind`, and every field under its name."""
        return {"kind": self.kind, **_fields(self)}

    def __repr__(self) -> str:
        return self.text()

    def _lines(self, width: int) -> Iterator[str]:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Scene(Figure):
    """Marks in lanes, and the frames that lead a reader through them.

    `dots` are moments too many to be marks of their own. `words` replaces chart and captions in
    the text form of a scene that is too large for both.
    """

    kind = "lanes"

    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    frames: tuple[Frame, ...]
    dots: tuple[Dots, ...] = ()
    words: str | None = None

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a scene must have at least 1 frame, got 0")
        check_unique("ids of marks", [mark.id for mark in self.marks])
        check_unique("lanes", self.lanes)
        used = {mark.lane for mark in self.marks} | {dots.lane for dots in self.dots}
        if lost := used - set(self.lanes):
            raise ValueError(f"marks stand in lanes that the scene does not have: {sorted(lost)}")

    def at(self, lane: str, moment: Time) -> Mark | None:
        """What stands in a lane at a moment. Of several, it is the one that began last, and of
        those a mark of one moment before one that lasts, and a later one before an earlier."""
        there = [
            mark
            for mark in reversed(self.marks)
            if mark.lane == lane
            and (mark.start <= moment < mark.stop or mark.start == mark.stop == moment)
        ]
        return max(there, key=lambda mark: (mark.start, mark.start == mark.stop), default=None)

    def _lines(self, width: int) -> Iterator[str]:
        """A chart with a column a frame, broken to `width`, and the captions."""
        if self.words is not None:
            yield self.words
            return
        yield from self._chart(width)
        roles = {mark.role for mark in self.marks}
        if signs := [text for role, text in _MEANINGS.items() if role in roles]:
            yield from ("", ", ".join(signs))
        widest = max(len(frame.label) for frame in self.frames)
        yield ""
        yield from (f"{frame.label.rjust(widest)}  {frame.caption}" for frame in self.frames)

    def _chart(self, width: int) -> Iterator[str]:
        head = max(len(lane) for lane in (*self.lanes, self.unit))
        rows = [self._cells(lane) for lane in self.lanes]
        labels = (frame.label for frame in self.frames)
        columns = [_even(column) for column in zip(labels, *rows, strict=True)]
        while columns:
            taken, used = 0, head
            while taken < len(columns) and (
                taken == 0 or used + 2 + len(columns[taken][0]) <= width
            ):
                used += 2 + len(columns[taken][0])
                taken += 1
            for name, *cells in zip((self.unit, *self.lanes), *columns[:taken], strict=True):
                yield "  ".join([name.ljust(head), *cells]).rstrip()
            columns = columns[taken:]
            if columns:
                yield ""

    def _cells(self, lane: str) -> Iterator[str]:
        """The signs of a lane, frame by frame; a span is written once and then goes on as -."""
        before = None
        for frame in self.frames:
            mark = self.at(lane, frame.at)
            goes_on = mark is not None and mark.role == "span" and mark is before
            yield "-" if goes_on else mark.sign if mark else ""
            before = mark


def plain(value: Any) -> Any:
    """A value as JSON knows it: figures through their `to_json`, fractions as decimals, tuples as
    lists, other dataclasses as mappings of their fields.

    Raises TypeError for what JSON does not know: other types, keys that are not strings, and
    numbers that are not finite.
    """
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"JSON does not know the number {value}")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {_key(key): plain(part) for key, part in value.items()}
    if isinstance(value, Figure):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    raise TypeError(f"JSON does not know {type(value).__name__}: {value!r}")


def moment(time: Time, unit: str) -> str:
    """A moment in words: "180 ms", "step 3"."""
    return f"step {show(time)}" if unit == "step" else f"{show(time)} {unit}"


def duration(time: Time, unit: str) -> str:
    """A duration in words: "180 ms", "1 step", "3 steps"."""
    return f"{show(time)} {unit}{'s' if unit == 'step' and time != 1 else ''}"


def check_unique(what: str, names: list[str] | tuple[str, ...]) -> None:
    """Raise ValueError if a name stands twice; `what` says what the names are."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})[0]
        raise ValueError(f"{what} must be unique, and {twice!r} stands twice")


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key in JSON must be a string, got {type(key).__name__}: {key!r}")
    return key


def _even(cells: tuple[str, ...]) -> list[str]:
    widest = max(len(cell) for cell in cells)
    return [cell.ljust(widest) for cell in cells]
