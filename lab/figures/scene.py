"""A figure as data: what stands in which lane from when to when, and what the caption says of it.

A scene knows no pixels and no colours. Places are lanes and moments; a mark's `role` (prefill,
decode, idle, waiting, ...) and whose it is decide how it is drawn. Whoever draws a scene, in text
or on a page, draws all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from lab.ledgers.table import show
from lab.request import Time

ROLES = {
    "prefill": "*",
    "decode": "",
    "recompute": "~",
    "token": "",
    "idle": ".",
    "waiting": ".",
    "queued": "",
    "arrival": ">",
    "end": "x",
}
"""What a mark may mean, and the sign for it in the text form, after its label."""

_MEANINGS = {
    "prefill": "* prefill",
    "recompute": "~ recompute",
    "idle": ". idle seat (and whose it still is)",
    "waiting": ". waits",
    "arrival": "> arrives",
    "end": "x ends without an answer",
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
        return self.label + ROLES[self.role]


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of the figure, from moment `at` on: what lies before is past, the rest future."""

    at: Time
    label: str
    caption: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Marks in lanes, and the frames that lead a reader through them.

    `title` asks until the last frame; then `finding` says what was found. `conditions` names the
    inputs, `tag` where they come from: given, derived, measured or cited.
    """

    title: str
    finding: str
    conditions: str
    tag: str
    unit: str
    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    frames: tuple[Frame, ...]

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a scene must have at least 1 frame, got 0")
        ids = [mark.id for mark in self.marks]
        if len(set(ids)) < len(ids):
            twice = sorted({i for i in ids if ids.count(i) > 1})[0]
            raise ValueError(f"ids of marks must be unique, and {twice!r} stands twice")
        if lost := {mark.lane for mark in self.marks} - set(self.lanes):
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

    def text(self, width: int = 96) -> str:
        """The figure in words: a chart with a column a frame, broken to `width`, and captions."""
        parts = [self.title, f"{self.conditions} ({self.tag})", ""]
        parts += self._chart(width)
        roles = {mark.role for mark in self.marks}
        if signs := [text for role, text in _MEANINGS.items() if role in roles]:
            parts += ["", ", ".join(signs)]
        widest = max(len(frame.label) for frame in self.frames)
        parts += ["", *(f"{frame.label.rjust(widest)}  {frame.caption}" for frame in self.frames)]
        return "\n".join([*parts, "", self.finding])

    def to_json(self) -> dict[str, Any]:
        """The scene as plain values for the player; exact times become decimals."""
        return asdict(self, dict_factory=_plain)

    def __repr__(self) -> str:
        return self.text()

    def _chart(self, width: int) -> Iterator[str]:
        head = max(len(lane) for lane in (*self.lanes, self.unit))
        columns = [self._column(frame) for frame in self.frames]
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

    def _column(self, frame: Frame) -> list[str]:
        here = [self.at(lane, frame.at) for lane in self.lanes]
        cells = [frame.label, *("" if mark is None else mark.sign for mark in here)]
        widest = max(len(cell) for cell in cells)
        return [cell.ljust(widest) for cell in cells]


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: float(v) if isinstance(v, Fraction) else v for name, v in pairs}


def moment(time: Time, unit: str) -> str:
    """A moment in words: "180 ms", "step 3"."""
    return f"step {show(time)}" if unit == "step" else f"{show(time)} {unit}"


def plain(value: Any) -> Any:
    """A result as JSON has it: scenes by their own form, exact times as decimals."""
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    match value:
        case Fraction():
            return float(value)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
    return value
