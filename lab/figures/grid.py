"""A figure of numbered cells: what each holds, who holds it, and the rows that lead to the cells.

Where a board moves items from tray to tray, here nothing moves: a cell stays where it is, and from
frame to frame it is somebody's, several people's, or nobody's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lab.figures.scene import Figure, Frame, check_unique

ROLES = {
    "free": "nobody holds it, and its content is worth nothing",
    "used": "one table holds it",
    "shared": "several tables hold it",
    "cached": "nobody holds it, and its content may be used again",
}
"""What a cell may be."""


class Cell(NamedTuple):
    """One cell in one frame: who holds it, how many of its slots are filled, and what has just
    happened to it, in a word or two."""

    role: str
    who: tuple[str, ...] = ()
    filled: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class GridFrame(Frame):
    """A frame: every cell in the order of its number, and the rows of cells. `aside` says of
    somebody what lies elsewhere, `sum` counts the cells."""

    cells: tuple[Cell, ...]
    rows: Mapping[str, tuple[int, ...]]
    aside: Mapping[str, str]
    sum: str


@dataclass(frozen=True, repr=False)
class Grid(Figure):
    """Cells of `slots` slots, and the frames in which they change hands.

    Its plain form has the fields of every figure with `kind` "grid", then

    - cell, row: what one cell and one row of cells are called ("block", "block table");
    - slots: how many slots a cell has;
    - who: the names of those who may hold cells; each keeps one colour;
    - frames: [{at, label, caption, cells, rows, aside, sum}], where cells are [role, who, filled,
      note], `rows` maps a name to numbers of cells, and `aside` maps a name to a text.
    """

    kind = "grid"

    cell: str
    row: str
    slots: int
    who: tuple[str, ...]
    frames: tuple[GridFrame, ...]

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a grid must have at least 1 frame, got 0")
        check_unique("names", self.who)
        for frame in self.frames:
            self._check(frame)

    def _check(self, frame: GridFrame) -> None:
        where, count = f"frame {frame.label!r}", len(self.frames[0].cells)
        if len(frame.cells) != count:
            raise ValueError(f"{where} has {len(frame.cells)} cells, and the first has {count}")
        holders = defaultdict(set)
        for who, row in frame.rows.items():
            for number in row:
                holders[number].add(who)
        if lost := ({*frame.rows, *frame.aside} - set(self.who)):
            raise ValueError(f"{where} speaks of names that the grid does not have: {sorted(lost)}")
        for number, cell in enumerate(frame.cells):
            if cell.role not in ROLES:
                raise ValueError(f"role must be one of {', '.join(ROLES)}, got {cell.role!r}")
            if not 0 <= cell.filled <= self.slots:
                raise ValueError(
                    f"{where}: cell {number} has {self.slots} slots, got {cell.filled} filled"
                )
            if holders.pop(number, set()) != set(cell.who) or cell.role != _role(cell):
                raise ValueError(
                    f"{where}: cell {number} is {cell.role!r} and held by {list(cell.who)}; the "
                    "rows must say the same"
                )
        if holders:
            raise ValueError(f"{where}: rows lead to cells beyond {count - 1}: {sorted(holders)}")

    def _lines(self, width: int) -> Iterator[str]:
        """One block a frame: the rows, what nobody holds, the sum and the caption."""
        head = max(len(frame.label) for frame in self.frames)
        signs: set[str] = set()
        for frame in self.frames:
            rows = [
                f"{who}: {' '.join(self._sign(n, frame.cells[n], signs) for n in row)}"
                for who, row in frame.rows.items()
            ]
            rows += [f"{who}: {text}" for who, text in frame.aside.items()]
            for role in ("cached", "free"):
                numbers = [str(n) for n, cell in enumerate(frame.cells) if cell.role == role]
                rows += [f"{role}: {' '.join(numbers)}"] if numbers else []
            yield f"{frame.label.rjust(head)}  {' | '.join(rows)}".rstrip()
            yield f"{' ' * head}  {frame.sum}"
            yield f"{' ' * head}  {frame.caption}".rstrip()
        meanings = {
            "[": f"3[1/{self.slots}] is {self.cell} 3 with 1 of its {self.slots} slots filled",
            "&": f"3& is {self.cell} 3, held by others too",
        }
        if signs:
            yield from ("", ", ".join(text for sign, text in meanings.items() if sign in signs))

    def _sign(self, number: int, cell: Cell, signs: set[str]) -> str:
        text = str(number)
        if cell.role == "shared":
            signs.add("&")
            text += "&"
        if cell.filled < self.slots:
            signs.add("[")
            text += f"[{cell.filled}/{self.slots}]"
        return text


def _role(cell: Cell) -> str:
    """What a cell must be, by the number of those who hold it."""
    if not cell.who:
        return "cached" if cell.role == "cached" else "free"
    return "shared" if len(cell.who) > 1 else "used"
