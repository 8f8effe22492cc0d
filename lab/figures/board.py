"""A figure of trays: which items lie in which tray, and in which order, from frame to frame.

Where a scene says what happens when, a board says where everybody is, and a move is all that
changes between two frames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lab.figures.scene import Figure, Frame, check_unique

ROLES = {"request": "a request that carries a stack of cache blocks"}
"""What an item may be."""


@dataclass(frozen=True, slots=True)
class Tray:
    """A place for items. `capacity` is the most that it holds (None: no limit). Trays of one
    `group` are drawn as one and share their capacity, which all of them state."""

    name: str
    capacity: int | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that lies in a tray: a block with its label. `note` says more about it."""

    id: str
    role: str
    label: str
    who: str | None = None
    """The request it belongs to: it keeps one colour through all figures."""
    note: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, got {self.role!r}")


class Place(NamedTuple):
    """Where an item lies: the tray, its position from the front (0 is next), and how many cache
    blocks it carries."""

    tray: str
    position: int
    stack: int = 0


@dataclass(frozen=True, slots=True)
class BoardFrame(Frame):
    """A frame, and the place of every item that is on the board then."""

    places: Mapping[str, Place]


@dataclass(frozen=True, repr=False)
class Board(Figure):
    """Trays, items, and the frames in which the items move.

    Its plain form has the fields of every figure with `kind` "board", then

    - trays: [{name, capacity, group}], in the order in which they stand;
    - items: [{id, role, label, who, note}];
    - frames: [{at, label, caption, places}], where `places` maps the id of an item to
      [tray, position, stack]. An item without a place is not on the board in that frame.
    """

    kind = "board"

    trays: tuple[Tray, ...]
    items: tuple[Item, ...]
    frames: tuple[BoardFrame, ...]

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a board must have at least 1 frame, got 0")
        check_unique("names of trays", [tray.name for tray in self.trays])
        check_unique("ids of items", [item.id for item in self.items])
        for frame in self.frames:
            self._check(frame)

    def lying(self, frame: BoardFrame) -> dict[str, list[str]]:
        """The ids of the items in each tray that is not empty, from the front to the back."""
        found: dict[str, list[str]] = {}
        for tray in self.trays:
            ids = [who for who, place in frame.places.items() if place.tray == tray.name]
            if ids:
                found[tray.name] = sorted(ids, key=lambda who: frame.places[who].position)
        return found

    def _check(self, frame: BoardFrame) -> None:
        places = frame.places
        where = f"frame {frame.label!r}"
        if lost := set(places) - {item.id for item in self.items}:
            raise ValueError(f"{where} places items that the board does not have: {sorted(lost)}")
        if lost := {place.tray for place in places.values()} - {tray.name for tray in self.trays}:
            raise ValueError(f"{where} uses trays that the board does not have: {sorted(lost)}")
        lying = self.lying(frame)
        held: dict[str, int] = defaultdict(int)
        for tray in self.trays:
            positions = [places[who].position for who in lying.get(tray.name, ())]
            if positions != list(range(len(positions))):
                raise ValueError(
                    f"{where}: positions in tray {tray.name!r} must count up from 0, "
                    f"got {positions}"
                )
            shared = tray.group or tray.name
            held[shared] += len(positions)
            if tray.capacity is not None and held[shared] > tray.capacity:
                raise ValueError(
                    f"{where}: {shared!r} holds at most {tray.capacity} items, got {held[shared]}"
                )

    def _lines(self, width: int) -> Iterator[str]:
        """One block a frame: who lies where, front first, and below it the caption."""
        labels = {item.id: item.label for item in self.items}
        head = max(len(frame.label) for frame in self.frames)
        for frame in self.frames:
            trays = []
            for tray, ids in self.lying(frame).items():
                stacks = (frame.places[who].stack for who in ids)
                shown = (
                    labels[who] + (f"[{stack}]" if stack else "")
                    for who, stack in zip(ids, stacks, strict=True)
                )
                trays.append(f"{tray}: {' '.join(shown)}")
            yield f"{frame.label.rjust(head)}  {' | '.join(trays)}".rstrip()
            yield f"{' ' * head}  {frame.caption}".rstrip()
        if any(place.stack for frame in self.frames for place in frame.places.values()):
            yield from ("", "[2] carries 2 cache blocks")
