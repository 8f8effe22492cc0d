"""The load of a long run in words: who was served, who waited and what memory held, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from lab.ledgers.phases import phases
from lab.ledgers.table import show
from lab.record import Record
from lab.request import Time
from lab.trace import Trace

Change: TypeAlias = tuple[Time, int]
"""A moment, and by how much a level changes then."""
_Bins: TypeAlias = Callable[[Time], int]
_BARS = " ▁▂▃▄▅▆▇█"


def load_chart(trace: Trace, width: int = 72) -> str:
    """One row of bars a quantity, from the first arrival to the last event, in `width` bins.

    A bar is the highest value in its bin, or for tokens the number delivered in it; each row names
    its largest bin. Raises ValueError for less than 8 bins.
    """
    if width < 8:
        raise ValueError(f"width must be at least 8 bins, got {width}")
    start = min((record.arrival for record in trace.requests), default=0)
    span = max(trace.last - start, 0)

    def bin_of(time: Time) -> int:
        return min(int((time - start) * width / span), width - 1) if span else 0

    running = _levels(seated(trace), bin_of, width)
    waiting = _levels(queued(trace), bin_of, width)
    tokens = [0] * width
    for record in trace.requests:
        for time in trace.token_times(record.id):
            tokens[bin_of(time)] += 1
    rows = {"running": running, "waiting": waiting, "tokens": tokens}
    if trace.settings.get("blocks"):
        rows["KV blocks"] = _most(trace, bin_of, width)
    if trace.starts is None:
        del rows["running"], rows["waiting"]
    head = max(len(name) for name in rows)
    lines = [f"{name.ljust(head)} {_bars(row)} {max(row):,}" for name, row in rows.items()]
    left, right = f"{show(start)} {trace.unit}", f"{show(trace.last)} {trace.unit}"
    return "\n".join([*lines, f"{' ' * head} {left}{right.rjust(width - len(left))}"])


def seated(trace: Trace) -> list[Change]:
    """When a seat was taken (+1) and when one was free again (-1), over all requests."""
    return [change for record in trace.requests for change in _seated(record, trace)]


def queued(trace: Trace) -> list[Change]:
    """When somebody began to wait for a seat (+1) and when that was over (-1)."""
    return [
        change
        for record in trace.requests
        for change in (*_queued(record, trace), *_shares(record, trace))
    ]


def _seated(record: Record, trace: Trace) -> Iterator[Change]:
    starts, ends = trace.starts or [], trace.ends or []
    for stay in record.stays:
        yield starts[stay.first], 1
        if stay.stop is not None:
            yield ends[stay.stop - 1], -1


def _queued(record: Record, trace: Trace) -> Iterator[Change]:
    if record.status == "refused":
        return
    starts, ends = trace.starts or [], trace.ends or []
    yield record.arrival, 1
    waits = True
    for stay in record.stays:
        yield starts[stay.first], -1
        waits = stay.preempted
        if waits and stay.stop is not None:
            yield ends[stay.stop - 1], 1
    if waits and record.end is not None:
        yield record.end, -1


def _shares(record: Record, trace: Trace) -> Iterator[Change]:
    """A further answer has a seat while it waits for the prompt: it does not wait for one."""
    if record.fork_of:
        for cause, start, stop in phases(record, trace):
            if cause == "shared prefill":
                yield from ((start, -1), (stop, 1))


def _levels(changes: list[Change], bin_of: _Bins, width: int) -> list[int]:
    """The highest level in each bin. Changes at one moment count together."""
    most = [0] * width
    level = index = 0
    for time, together in groupby(sorted(changes, key=itemgetter(0)), key=itemgetter(0)):
        here = bin_of(time)
        while index < here:
            index += 1
            most[index] = level
        level += sum(difference for _, difference in together)
        most[here] = max(most[here], level)
    return most


def _most(trace: Trace, bin_of: _Bins, width: int) -> list[int]:
    most = [0] * width
    for start, used in zip(trace.starts or (), trace.blocks_used(), strict=True):
        here = bin_of(start)
        most[here] = max(most[here], used)
    return most


def _bars(row: Sequence[int]) -> str:
    top = max(row) or 1
    return "".join(_BARS[-(-value * (len(_BARS) - 1) // top)] for value in row)
