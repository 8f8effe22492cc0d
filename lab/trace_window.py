"""The end of a trace that would otherwise grow for ever: the oldest requests are left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import accumulate, chain

from lab.record import Record
from lab.request import Time


def may_go(records: Mapping[str, Record], ended: Sequence[str]) -> Set[str]:
    """Those of `ended` whose records nobody needs any more: they have left their seats, and with
    them go all other answers to the same question."""
    candidates = {who for who in ended if all(s.stop is not None for s in records[who].stays)}
    needed = {_family(record) for record in records.values() if record.id not in candidates}
    return {who for who in candidates if _family(records[who]) not in needed}


def _family(record: Record) -> str:
    return record.fork_of or record.id


class Window:
    """The steps in which some of `records` were computed, numbered anew without the others."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._spans = _joined(sorted((run.first, run.stop) for r in records for run in r.runs))
        self._firsts = [first for first, _ in self._spans]
        self._before = [0, *accumulate(stop - first for first, stop in self._spans)]

    def of(self, times: Sequence[Time]) -> list[Time]:
        """The times of the steps that are kept."""
        return list(chain.from_iterable(times[first:stop] for first, stop in self._spans))

    def place(self, step: int) -> int:
        """How many of the steps that are kept come before `step`: its new number."""
        span = bisect_right(self._firsts, step) - 1
        if span < 0:
            return 0
        first, stop = self._spans[span]
        return self._before[span] + min(step, stop) - first

    def renumber(self, record: Record) -> None:
        """Give the steps of a record their new numbers."""
        for run in record.runs:
            run.first = self.place(run.first)
        record.stays = [
            stay._replace(
                first=self.place(stay.first),
                stop=None if stay.stop is None else self.place(stay.stop),
            )
            for stay in record.stays
        ]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same steps as spans that neither meet nor overlap."""
    joined: list[tuple[int, int]] = []
    for first, stop in spans:
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((first, stop))
    return joined
