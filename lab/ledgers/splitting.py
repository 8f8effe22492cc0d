"""A job of parts: what is won, and lost, by doing some of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.ledgers.table import Shown, Table
from lab.request import Time


@dataclass(frozen=True, slots=True, repr=False)
class Split(Shown):
    """The parts of a job in their order, those of them that are done side by side, and what it
    costs to hand them out and to collect them."""

    before: tuple[Time, ...]
    together: tuple[Time, ...]
    after: tuple[Time, ...]
    coordination: Time

    @property
    def parts(self) -> tuple[Time, ...]:
        """All parts in their order."""
        return (*self.before, *self.together, *self.after)

    @property
    def serial(self) -> Time:
        """All parts one after the other: 2 + 3 + 4 + 1 = 10."""
        return sum(self.parts)

    @property
    def parallel(self) -> Time:
        """The same with the longest of those side by side in place of their sum: 2 + 4 + 1 = 7."""
        return sum(self.before) + max(self.together) + sum(self.after)

    @property
    def wait(self) -> Time:
        """What somebody waits for in the end: 7 + 4 = 11."""
        return self.parallel + self.coordination

    @property
    def work(self) -> Time:
        """What all workers do together, coordination included: 10 + 4 = 14."""
        return self.serial + self.coordination

    @property
    def breakeven(self) -> Time:
        """The coordination with which nothing is won and nothing lost: 10 − 7 = 3."""
        return self.serial - self.parallel

    def table(self) -> Table:
        """Waiting and work for each way to do it."""
        rows = (
            ("one after the other", self.serial, self.serial),
            ("side by side, if it were free", self.parallel, self.serial),
            ("side by side, with coordination", self.wait, self.work),
        )
        caption = "what somebody waits for, and what all workers do"
        return Table(("way", "somebody waits", "all work"), rows, caption)


def split(parts: Sequence[Time], together: Sequence[int], coordination: Time = 0) -> Split:
    """A job whose `parts` follow one another but for those at the places `together`, which are
    done side by side: `split([2, 3, 4, 1], together=(1, 2), coordination=4)`.

    ValueError for a negative time, and for places that are not neighbours in the job.
    """
    places = sorted(together)
    if not places or places != list(range(places[0], places[-1] + 1)):
        raise ValueError(f"parts side by side must be neighbours in the job, got {list(together)}")
    if places[0] < 0 or places[-1] >= len(parts):
        raise ValueError(f"there are {len(parts)} parts, counted from 0, got places {places}")
    if min(*parts, coordination) < 0:
        raise ValueError(f"times must not be negative, got {list(parts)} and {coordination}")
    first, last = places[0], places[-1] + 1
    return Split(tuple(parts[:first]), tuple(parts[first:last]), tuple(parts[last:]), coordination)
