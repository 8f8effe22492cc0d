"""A figure of cards: devices that hold cells of a network, work on them, and send one another what
they have made of them.

A cell keeps its place in the grid of the network, whichever card it lies on; so what was cut, and
how, is seen on every card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lab.figures.scene import Figure, Frame, check_unique
from lab.ledgers.sizes import Number
from lab.ledgers.table import show
from lab.ledgers.words import counted


@dataclass(frozen=True, slots=True)
class Cell:
    """A square of the network: in which block it lies, and where in it. A copy of one has the same
    place and an id of its own."""

    id: str
    block: int
    row: int
    column: int


class Message(NamedTuple):
    """Something sent from one card to another."""

    start: str
    stop: str


@dataclass(frozen=True, slots=True)
class CardFrame(Frame):
    """A frame: the card of every cell that is there, the cards that are busy, the cells that they
    work on, the messages on their way, and how many were sent before and with them. `exchange`
    names the messages."""

    cells: Mapping[str, str]
    busy: tuple[str, ...] = ()
    at_work: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    sent: int = 0
    exchange: str = ""


@dataclass(frozen=True, repr=False)
class Cards(Figure):
    """Cards, the cells of a network of `blocks`, and the frames in which it is cut and used.

    Before it is cut, all cells lie on the card "" that is no device. Each cell weighs `cell_size`
    (in `size_unit`), each card holds at most `limit`, and `most` is where its meter ends. Its plain
    form has the fields of every figure with `kind` "cards", then

    - cards: the names of the devices; blocks: [name of a layer, ...];
    - cells: [{id, block, row, column}];
    - limit, most, cell_size, size_unit: see above; knob: the name of the knob that moves the limit;
    - frames: [{at, label, caption, cells: {id: card}, busy, at_work, messages: [[from, to], ...],
      sent, exchange}].
    """

    kind = "cards"

    cards: tuple[str, ...]
    blocks: tuple[str, ...]
    cells: tuple[Cell, ...]
    limit: Number
    most: Number
    cell_size: Number
    size_unit: str
    frames: tuple[CardFrame, ...]
    knob: str = "limit"

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a figure of cards must have at least 1 frame, got 0")
        check_unique("names of cards", self.cards)
        check_unique("ids of cells", [cell.id for cell in self.cells])
        for frame in self.frames:
            self._check(frame)

    def held(self, frame: CardFrame, card: str) -> Number:
        """What lies on a card in a frame."""
        return self.cell_size * list(frame.cells.values()).count(card)

    def _check(self, frame: CardFrame) -> None:
        where = f"frame {frame.label!r}"
        if lost := set(frame.cells) - {cell.id for cell in self.cells}:
            raise ValueError(f"{where} places cells that the network does not have: {sorted(lost)}")
        ends = {end for message in frame.messages for end in message}
        if lost := {*frame.cells.values(), *frame.busy, *ends} - {"", *self.cards}:
            raise ValueError(f"{where} uses cards that are not there: {sorted(lost)}")
        for id in frame.at_work:
            if frame.cells.get(id) not in frame.busy:
                raise ValueError(f"{where}: cell {id!r} is worked on, and its card is not busy")

    def _lines(self, width: int) -> Iterator[str]:
        """What each card holds of which block, and then the captions."""
        last = self.frames[-1]
        head = max(len(card) for card in self.cards)
        for card in self.cards:
            held = self.held(last, card)
            over = "" if held <= self.limit else ": too much"
            mine = "; ".join(self._shares(last, card)) or "nothing"
            size = f"{show(held)} of {show(self.limit)} {self.size_unit}{over}"
            yield f"{card.ljust(head)}  {size}  {mine}"
        widest = max(len(frame.label) for frame in self.frames)
        yield ""
        for frame in self.frames:
            yield f"{frame.label.rjust(widest)}  {frame.caption}"
        yield ""
        yield f"{counted(last.sent, 'message')} sent"

    def _shares(self, frame: CardFrame, card: str) -> Iterator[str]:
        """What lies on a card, in words: "all of layer 1, layer 2", "row 1 of layer 3"."""
        found: dict[str, list[str]] = {}
        for number, name in enumerate(self.blocks):
            block = [cell for cell in self.cells if cell.block == number]
            mine = {(c.row, c.column) for c in block if frame.cells.get(c.id) == card}
            if mine:
                found.setdefault(_part(mine, {(c.row, c.column) for c in block}), []).append(name)
        yield from (f"{part} of {', '.join(names)}" for part, names in found.items())


def _part(mine: set[tuple[int, int]], whole: set[tuple[int, int]]) -> str:
    """Which squares of a block: all of them, or some whole rows or columns, counted from 1."""
    if mine == whole:
        return "all"
    rows, columns = ({at[axis] for at in mine} for axis in (0, 1))
    axis, places = ("column", columns) if len(rows) > len(columns) else ("row", rows)
    return f"{axis} {', '.join(str(place + 1) for place in sorted(places))}"
