"""The load of a long run in words: who was served, who waited and what memory held, over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from lab.ledgers.table import show
from lab.request import Time
from lab.trace import Trace

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

    running = _levels([c for r in trace.requests for c in _seated(r.id, trace)], bin_of, width)
    waiting = _levels([c for r in trace.requests for c in _waiting(r.id, trace)], bin_of, width)
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
    lines = [f"{name.ljust(head)} {_bars(row)} {max(row)}" for name, row in rows.items()]
    left, right = f"{show(start)} {trace.unit}", f"{show(trace.last)} {trace.unit}"
    return "\n".join([*lines, f"{' ' * head} {left}{right.rjust(width - len(left))}"])


def _seated(request_id: str, trace: Trace) -> list[tuple[Time, int]]:
    """When a request took a seat, and when it was free again."""
    starts, ends = trace.starts or [], trace.ends or []
    changes: list[tuple[Time, int]] = []
    for stay in trace[request_id].stays:
        changes.append((starts[stay.first], 1))
        if stay.stop is not None:
            changes.append((ends[stay.stop - 1], -1))
    return changes


def _waiting(request_id: str, trace: Trace) -> list[tuple[Time, int]]:
    """When a request began to wait for a seat, and when that was over."""
    record = trace[request_id]
    if record.status == "refused":
        return []
    changes = [(record.arrival, 1), *((time, -by) for time, by in _seated(request_id, trace))]
    if record.end is not None:
        changes.append((record.end, -1))
    return changes


def _levels(changes: list[tuple[Time, int]], bin_of: _Bins, width: int) -> list[int]:
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
