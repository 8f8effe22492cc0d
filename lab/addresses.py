"""Which neighbouring slots belong to whom, where every holder wants them in one piece."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal, get_args

Fit = Literal["first", "best", "buddy"]


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`: 25 gives 32, 32 gives 32, 0 gives 0."""
    return 1 << (count - 1).bit_length() if count else 0


class Addresses:
    """A row of slots, handed out in regions of neighbours and taken back.

    Invariant: regions and holes cover all slots and none twice, and no two holes touch, so what is
    given back between two holes makes one of three.

    `fit` says where a region goes. "first": to the lowest hole that is large enough. "best": to
    the smallest such hole. "buddy": a region is a power of two of slots and begins at a multiple
    of its size, at the lowest such place that is free; so any two halves of a larger region that
    are both free can be handed out as that region again.
    """

    def __init__(self, slots: int, fit: Fit = "first") -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}")
        if fit not in get_args(Fit):
            raise ValueError(f"fit must be one of {', '.join(get_args(Fit))}, got {fit!r}")
        self.slots = slots
        self.fit: Fit = fit
        self.holes = [range(slots)]
        """What is free, in order of addresses."""
        self._taken: set[range] = set()

    @property
    def free(self) -> int:
        """Slots in holes."""
        return sum(map(len, self.holes))

    def size(self, count: int) -> int:
        """Slots of a region for `count` of them: with "buddy" the next power of two."""
        return power_of_two(count) if self.fit == "buddy" else count

    def place(self, count: int) -> range | None:
        """The region that `take` would hand out for `count` slots; None if no hole is large
        enough, however many slots are free."""
        size = self.size(count)
        found = self._places(size)
        if self.fit == "best":
            _, start = min(found, default=(0, None))
        else:
            _, start = next(found, (0, None))
        return None if start is None else range(start, start + size)

    def _places(self, size: int) -> Iterator[tuple[int, int]]:
        """(length of the hole, first slot) of every hole that a region of `size` fits in."""
        for hole in self.holes:
            start = -(-hole.start // size) * size if self.fit == "buddy" else hole.start
            if start + size <= hole.stop:
                yield len(hole), start

    def take(self, count: int, at: int | None = None) -> range | None:
        """Hand out a region of `count` slots: at the slot `at` if that may be and is free, else
        where `fit` puts it. None, and nothing changes, if there is no hole for it.

        Of 8 slots, take(3) is slots 0 to 2 and take(4) slots 3 to 6. ValueError if count < 1.
        """
        if count < 1:
            raise ValueError(f"a region must have at least 1 slot, got {count}")
        region = self._wanted(count, at) or self.place(count)
        if region is not None:
            self._cut(region)
            self._taken.add(region)
        return region

    def _wanted(self, count: int, at: int | None) -> range | None:
        size = self.size(count)
        if at is None or (self.fit == "buddy" and at % size):
            return None
        free = any(hole.start <= at and at + size <= hole.stop for hole in self.holes)
        return range(at, at + size) if free else None

    def _cut(self, region: range) -> None:
        index = next(i for i, hole in enumerate(self.holes) if region.start in hole)
        hole = self.holes[index]
        rest = (range(hole.start, region.start), range(region.stop, hole.stop))
        self.holes[index : index + 1] = [part for part in rest if part]

    def release(self, region: range) -> None:
        """Take a region back; it becomes one hole with those that it touches. ValueError for one
        that is not taken."""
        if region not in self._taken:
            raise ValueError(
                f"the region from slot {region.start} to {region.stop - 1} was released, "
                "and nobody holds it"
            )
        self._taken.remove(region)
        after = bisect_left(self.holes, region.start, key=lambda hole: hole.start)
        first, last = after, after
        if after > 0 and self.holes[after - 1].stop == region.start:
            first -= 1
        if after < len(self.holes) and self.holes[after].start == region.stop:
            last += 1
        touched = [*self.holes[first:last], region]
        whole = range(min(hole.start for hole in touched), max(hole.stop for hole in touched))
        self.holes[first:last] = [whole]
