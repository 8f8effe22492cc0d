"""Ranks on five axes, and who is cut from whom along each.

What is cut along an axis is held once along it; what is not cut is held by every rank of it:

    dp  requests (in training also gradients, by ZeRO the states)      tp  heads, columns and rows
    ep  experts, and requests                                          pp  layers, in order
    cp  positions of a sequence
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

AXES = ("tp", "cp", "ep", "dp", "pp")
"""The order in which ranks are counted: neighbours on `tp` have neighbouring numbers, since they
talk most often, and stages lie furthest apart, since they talk least."""


class Place(NamedTuple):
    """Where a rank stands on each axis, from 0."""

    tp: int
    cp: int
    ep: int
    dp: int
    pp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """How many ranks stand along each axis: `Mesh(tp=2, pp=2)` has 4.

    Rank = tp + TP x (cp + CP x (ep + EP x (dp + DP x pp))). ValueError for less than 1 on an axis.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1

    def __post_init__(self) -> None:
        for axis in AXES:
            if getattr(self, axis) < 1:
                raise ValueError(f"{axis} must be at least 1, got {getattr(self, axis)}")

    @property
    def ranks(self) -> int:
        """All ranks: the product of the axes."""
        return self.dp * self.tp * self.pp * self.ep * self.cp

    def place(self, rank: int) -> Place:
        """Where a rank stands; on `Mesh(tp=2, pp=2)` rank 3 is tp 1, pp 1. ValueError for none."""
        if not 0 <= rank < self.ranks:
            raise ValueError(f"the mesh has {self.ranks} ranks, counted from 0, got {rank}")
        found = []
        for axis in AXES:
            rank, at = divmod(rank, getattr(self, axis))
            found.append(at)
        return Place(*found)

    def rank(self, place: Place) -> int:
        """The number of the rank at a place: what `place` turns round."""
        number = 0
        for axis in reversed(AXES):
            number = number * getattr(self, axis) + getattr(place, axis)
        return number

    def group(self, axis: str, rank: int) -> tuple[int, ...]:
        """The ranks along one axis through `rank`; on `Mesh(tp=2, pp=2)` pp of rank 1 is (1, 3)."""
        here = self.place(rank)
        return tuple(self.rank(here._replace(**{axis: at})) for at in range(getattr(self, axis)))

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """All groups of an axis: of tp on `Mesh(tp=2, pp=2)` (0, 1) and (2, 3)."""
        return tuple(sorted({self.group(axis, rank) for rank in range(self.ranks)}))


def share(total: int, parts: int, part: int) -> range:
    """Part `part` of `total` things cut into `parts` runs, the first of which hold one more.

    10 into 4: 3, 3, 2, 2; so part 2 is range(6, 8).
    """
    whole, more = divmod(total, parts)
    start = part * whole + min(part, more)
    return range(start, start + whole + (part < more))
