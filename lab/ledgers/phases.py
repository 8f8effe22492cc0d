"""What a request was doing, one stretch of time after the other, from its arrival to its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from lab.record import Record, Stay
from lab.request import Time
from lab.trace import Trace

DELIVERIES = {
    "until the first token": "from the arrival to the first token",
    "between tokens": "from the first token to the last",
    "after the last token": "from the last token to the end",
}
"""The causes where only deliveries are known: nobody says what the engine did meanwhile."""


class Phase(NamedTuple):
    """A stretch of a request's time with one cause."""

    cause: str
    start: Time
    stop: Time


def phases(record: Record, trace: Trace) -> list[Phase]:
    """The phases of a request of `trace`, without a gap between them and none of them empty.

    The causes are the latency ledger's `SPANS` where an engine ran, and `DELIVERIES` elsewhere.
    They begin at the arrival, and go to the end; of a request that still waits or runs, to the
    last moment of the trace.
    """
    found: list[Phase] = []
    parts = _delivered(record, trace) if trace.starts is None else _computed(record, trace)
    for cause, start, stop in parts:
        if found and found[-1].cause == cause:
            found[-1] = found[-1]._replace(stop=stop)
        elif stop > start:
            found.append(Phase(cause, start, stop))
    return found


def held(record: Record, trace: Trace) -> Phase | None:
    """How long a seat stays idle for a request that has ended, until its static batch is over;
    None where it does not."""
    if record.end is None or not record.stays:
        return None
    stop, ends = record.stays[-1].stop, trace.ends or []
    free = trace.last if stop is None else ends[stop - 1]
    return Phase("idle", record.end, free) if free > record.end else None


def _delivered(record: Record, trace: Trace) -> Iterator[Phase]:
    times = trace.token_times(record.id)
    moments = [record.arrival, *(times[:1] + times[-1:]), _end(record, trace)]
    causes = list(DELIVERIES)[: len(moments) - 1]
    for cause, (start, stop) in zip(causes, pairwise(moments), strict=True):
        yield Phase(cause, start, stop)


def _computed(record: Record, trace: Trace) -> Iterator[Phase]:
    """Between two runs a request is stalled in its seat, or it has been preempted. What passes
    between two steps that follow each other, for a real engine takes a moment to plan, counts to
    the later one."""
    starts, ends = trace.starts or [], trace.ends or []
    now, waits_as = record.arrival, "queue"
    stays = iter(record.stays)
    stay = next(stays, None)
    next_step = -1
    for run in record.runs:
        if stay and stay.stop is not None and stay.stop <= run.first:
            yield Phase(waits_as, now, ends[stay.stop - 1])
            now, waits_as, stay = ends[stay.stop - 1], _out(stay), next(stays, None)
        elif run.first == next_step:
            waits_as = run.kind
        if waits_as == "queue":
            yield from _queue(record, trace, starts[run.first])
        else:
            yield Phase(waits_as, now, starts[run.first])
        yield Phase(run.kind, starts[run.first], ends[run.stop - 1])
        now, waits_as, next_step = ends[run.stop - 1], "stalled", run.stop
    if stay and (lost := _lost(stay, ends)) is not None:
        yield Phase(waits_as, now, lost)
        now, waits_as = lost, _out(stay)
    if waits_as == "queue":
        yield from _queue(record, trace, _end(record, trace))
    else:
        yield Phase(waits_as, now, max(now, _end(record, trace)))


def _queue(record: Record, trace: Trace, stop: Time) -> Iterator[Phase]:
    """The wait before the first step. A further answer to a prompt is in the queue until the first
    one takes seats for both, and then waits for the prompt."""
    starts, ends = trace.starts or [], trace.ends or []
    now = record.arrival
    for stay in trace[record.fork_of].stays if record.fork_of else ():
        seated = min(max(now, starts[stay.first]), stop)
        lost = stop if stay.stop is None else min(max(now, ends[stay.stop - 1]), stop)
        yield Phase("queue", now, seated)
        yield Phase("shared prefill", seated, lost)
        now = lost
    yield Phase("queue", now, stop)


def _out(stay: Stay) -> str:
    """What a request is while it has lost its seat."""
    return "swapped" if stay.swapped_out else "preempted"


def _lost(stay: Stay, ends: list[Time]) -> Time | None:
    """When a seat was lost that was never had again."""
    if not stay.preempted or stay.stop is None:
        return None
    return ends[stay.stop - 1]


def _end(record: Record, trace: Trace) -> Time:
    return max(record.arrival, trace.last) if record.end is None else record.end
