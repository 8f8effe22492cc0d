"""The crowd: a long run as one thin lane a request, and every token as a dot."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

from lab.figures.lifeline import PHASE_ROLES
from lab.figures.load_chart import Change, load_chart, queued, seated
from lab.figures.scene import Dots, Frame, Mark, Scene
from lab.figures.words import conditions, readable
from lab.ledgers.latency import exact_ratio, latency, percentile
from lab.ledgers.phases import held, phases
from lab.ledgers.table import show
from lab.ledgers.words import counted, grouped
from lab.record import Record
from lab.request import Time
from lab.trace import PER_SECOND, Trace

MOST_FRAMES = 400
_TICKS = 20_000
"""The time of a crowd is rounded to at least so many parts: many times the pixels of a screen."""


def crowd(trace: Trace, title: str = "", finding: str = "", frames: int = 120) -> Scene:
    """The scene of a run of a thousand requests and more, to be drawn on a canvas.

    Lanes are the requests, in the order of their arrival. A mark is a phase of a request: its role
    is as in `PHASE_ROLES`, its label is empty, and it lasts as long as the request does nothing
    else; `end` marks who ended without an answer. The tokens are in `dots`, one entry for each
    request that got any: {lane, role: "token", who, tick, deltas}, where token i came at `tick`
    times the sum of the first i + 1 deltas. All times are rounded to ticks: the largest power of
    ten that divides the run into 20,000 parts or more.

    The frames stand at `frames` evenly spaced moments from the first arrival to the last event;
    captions count who runs, waits and is done, the tokens since the frame before over the time
    since then, and the blocks in use. Unless another `finding` is given, it says how long the half
    that waited longest waited for its first token, and how long the longest gap between two tokens
    was, over the finished requests. The text form is the load chart. Raises ValueError unless
    `frames` lies between 2 and 400.
    """
    if not 2 <= frames <= MOST_FRAMES:
        raise ValueError(f"frames must be between 2 and {MOST_FRAMES}, got {frames}")
    requests = trace.requests
    start = min((record.arrival for record in requests), default=0)
    digits = _digits(trace.last - start)
    times = {record.id: trace.token_times(record.id) for record in requests}
    return Scene(
        title=title or "Who runs, who waits, and how fast do tokens come?",
        finding=finding or _waits(trace),
        conditions=conditions(trace),
        tag=trace.tag,
        unit=trace.unit,
        lanes=tuple(record.id for record in requests),
        marks=tuple(mark for record in requests for mark in _marks(record, trace, digits)),
        frames=tuple(_frames(trace, _moments(start, trace.last, frames, digits), times)),
        dots=tuple(_dots(who, its, digits) for who, its in times.items() if its),
        words=load_chart(trace),
    )


def _digits(span: Time) -> int:
    """Decimals that are kept; below 0, places before the decimal point that are not."""
    return math.ceil(math.log10(_TICKS / float(span))) if span > 0 else 0


def _marks(record: Record, trace: Trace, digits: int) -> Iterator[Mark]:
    who = record.id
    idle = held(record, trace)
    stretches = phases(record, trace)
    for number, phase in enumerate([*stretches, idle] if idle else stretches):
        start, stop = round(float(phase.start), digits), round(float(phase.stop), digits)
        if stop > start:
            yield Mark(f"{who}.{number}", PHASE_ROLES[phase.cause], who, start, stop, "", who)
    if record.end is not None and record.status != "finished":
        end = round(float(record.end), digits)
        yield Mark(f"{who}.end", "end", who, end, end, "", who)


def _dots(who: str, times: Sequence[Time], digits: int) -> Dots:
    scale = 10.0**digits
    ticks = [round(time * scale) for time in times]
    deltas = (ticks[0], *(later - earlier for earlier, later in pairwise(ticks)))
    return Dots(who, "token", who, float(f"1e{-digits}"), deltas)


# The moments


def _moments(start: Time, last: Time, frames: int, digits: int) -> list[Time]:
    """Evenly spaced, rounded, and the last of them the last moment itself."""
    if last <= start:
        return [start]
    step = (last - start) / (frames - 1)
    return [*(round(float(start + step * i), digits) for i in range(frames - 1)), last]


def _frames(trace: Trace, moments: list[Time], times: dict[str, list[Time]]) -> Iterator[Frame]:
    tokens = sorted(time for its in times.values() for time in its)
    came = [bisect_right(tokens, at) for at in moments]
    rates = [
        _rate(there - before, at - since, trace.unit)
        for (before, there), (since, at) in zip(pairwise(came), pairwise(moments), strict=True)
    ]
    counts = [_ended(trace, moments)]
    if trace.starts is not None:
        running = _levels(seated(trace), moments)
        waiting = (f"{level:,} waiting" for level in _levels(queued(trace), moments))
        blocks = _blocks(trace, moments, running)
        counts = [[f"{level:,} running" for level in running], list(waiting), *counts, *blocks]
    for at, rate, *told in zip(moments, ["", *rates], *counts, strict=True):
        yield Frame(at, show(at), ", ".join([*told, rate] if rate else told))


def _rate(tokens: int, time: Time, unit: str) -> str:
    per_unit = exact_ratio(tokens * PER_SECOND.get(unit, 1), time)
    return f"{grouped(float(per_unit))} tokens/{'step' if unit == 'step' else 's'}"


def _ended(trace: Trace, moments: list[Time]) -> list[str]:
    ends = sorted(record.end for record in trace.requests if record.end is not None)
    return [f"{bisect_right(ends, at):,} of {len(trace):,} ended" for at in moments]


def _levels(changes: list[Change], moments: list[Time]) -> list[int]:
    """The level at each moment, with everything that changes in it."""
    changes = sorted(changes, key=itemgetter(0))
    sums = [0, *accumulate(by for _, by in changes)]
    return [sums[bisect_right(changes, at, key=itemgetter(0))] for at in moments]


def _blocks(trace: Trace, moments: list[Time], running: list[int]) -> Iterator[list[str]]:
    """The blocks of the step that was begun last, while anybody runs."""
    if total := trace.settings.get("blocks"):
        used = [0, *trace.blocks_used()]
        begun = [bisect_right(trace.starts or [], at) for at in moments]
        steps = zip(begun, running, strict=True)
        yield [f"{used[step] if some else 0:,} of {total:,} blocks" for step, some in steps]


# What came of it


def _waits(trace: Trace) -> str:
    """How long it took to the first token and between tokens: of those who finished, as the
    percentiles of the ledger have it, and how many did not."""
    ledger = latency(trace)
    first, gaps = ledger.values("TTFT"), ledger.values("ITL")
    requests = counted(len(trace), "request")
    if not first:
        return f"0 of {requests} finished"
    all_of = len(first) == len(trace)
    whose = counted(len(first), "request" if all_of else "finished request")
    wait = readable(percentile(first, 50), trace.unit)
    half = f"at least half of the {whose} waited {wait} or longer"
    told = [f"{half if len(first) > 1 else f'{whose} waited {wait}'} for the first token"]
    if gaps:
        told.append(f"the longest gap between two tokens was {readable(max(gaps), trace.unit)}")
    if not all_of:
        told.append(f"{grouped(len(trace) - len(first))} of {requests} did not finish")
    return "; ".join(told)
