"""Where the time of a request goes. Definitions first, because the field does not agree on them.

- TTFT, time to first token: first delivery − arrival. Waiting in the queue counts.
- TPOT, time per output token: (last delivery − first) / (tokens − 1). An answer of one token has
  no gap, so its TPOT does not exist: None, never 0, and it is left out of means.
- ITL, inter-token latency: the list of gaps between deliveries, one per token.
- E2E, end to end: end − arrival. TPOT and E2E are those of finished requests only.
- Spans: where an engine ran, E2E falls apart into what the request was doing; see `SPANS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from lab.ledgers.phases import phases
from lab.ledgers.table import Shown, Table
from lab.plan import Ending
from lab.record import Record
from lab.request import Time
from lab.trace import PER_SECOND, Trace, Unit

SPANS = {
    "queue": "from the arrival to the start of the first step",
    "shared prefill": "while its prompt is computed once, for another answer as well",
    "prefill": "steps that compute its prompt",
    "decode": "steps that compute one token after the other",
    "stalled": "in its seat, while steps go to others",
    "preempted": "without a seat, after having lost it",
    "swapped": "without a seat, while its blocks lie in host memory",
    "recompute": "steps that compute again what a preemption threw away",
}
"""What a request may be doing. The spans of a request sum to its E2E."""


@dataclass(frozen=True, slots=True)
class Latency:
    """The times of one request, in the unit of its trace. None: does not exist."""

    id: str
    status: Ending | None
    prompt_tokens: int
    output_tokens: int
    ttft: Time | None
    tpot: Time | None
    e2e: Time | None
    itl: tuple[Time, ...]
    spans: dict[str, Time] | None


class LatencyLedger(Shown):
    """One row a request. `ledger["A"]` is the row of request A; `summary()` the percentiles."""

    def __init__(self, rows: Sequence[Latency], unit: str) -> None:
        self.rows = tuple(rows)
        self.unit = unit
        self._by_id = {row.id: row for row in rows}

    def __getitem__(self, request_id: str) -> Latency:
        if request_id not in self._by_id:
            raise KeyError(f"there is no request {request_id!r} in this ledger")
        return self._by_id[request_id]

    def __iter__(self) -> Iterator[Latency]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def table(self, most: int = 24) -> Table:
        """The rows, at most `most` of them, with the spans that occur."""
        rows = self.rows[:most]
        spans = [s for s in SPANS if any(row.spans and row.spans.get(s) for row in rows)]
        columns = ("request", "prompt", "output", "TTFT", "TPOT", "E2E", *spans, "status")
        more = len(self.rows) - len(rows)
        return Table(
            columns,
            tuple(_cells(row, spans) for row in rows),
            f"times in {self.unit}",
            (f"... and {more} more requests",) if more else (),
        )

    def where(self, keep: Callable[[Latency], bool]) -> LatencyLedger:
        """The ledger of some of the requests: `ledger.where(lambda row: row.prompt_tokens > 1000)`.

        A slice of a slice is one too; percentiles are those of the requests that are left.
        """
        return LatencyLedger([row for row in self.rows if keep(row)], self.unit)

    def values(self, metric: str) -> list[Time]:
        """A metric of every finished request that has it, in order of arrival: "TTFT", "TPOT",
        "ITL" (one value a gap), "E2E" or "queue". Raises ValueError for another name."""
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        finished = (row for row in self.rows if row.status == "finished")
        return [value for row in finished for value in METRICS[metric](row) if value is not None]

    def mean(self, metric: str) -> Time | None:
        """The mean over the finished requests that have the metric; None where none has it."""
        values = self.values(metric)
        return exact_ratio(sum(values), len(values)) if values else None

    def summary(
        self, *metrics: str, percentiles: Sequence[int] = (50, 90, 99), unit: Unit | None = None
    ) -> Table:
        """Means and percentiles of each metric, or of those named, over the finished requests that
        have it, in the trace's unit or in another `unit` of time."""
        factor = converted(1, self.unit, unit or self.unit)
        found = {
            name: [value * factor for value in values]
            for name in metrics or METRICS
            if (values := self.values(name))
        }
        rows = tuple(
            (name, len(values), *_statistics(values, percentiles)) for name, values in found.items()
        )
        notes = ["percentiles interpolate linearly between neighbours"]
        if "ITL" in found:
            notes[0] += "; ITL is the gap per token"
        few = [p for p in percentiles if any(is_small(len(v), p) for v in found.values())]
        if few:
            notes.append(
                f"too few values for p{', p'.join(map(str, few))} of some rows: at so small an n "
                "they only restate the largest value"
            )
        columns = ("metric", "n", "mean", *(f"p{p}" for p in percentiles), "max")
        return Table(
            columns, rows, f"finished requests, times in {unit or self.unit}", tuple(notes)
        )


METRICS: dict[str, Callable[[Latency], Sequence[Time | None]]] = {
    "TTFT": lambda row: (row.ttft,),
    "TPOT": lambda row: (row.tpot,),
    "ITL": lambda row: row.itl,
    "E2E": lambda row: (row.e2e,),
    "queue": lambda row: (row.spans["queue"],) if row.spans else (),
}
"""The values of one request for each metric; None where it is not defined."""


def latency(trace: Trace) -> LatencyLedger:
    """TTFT, TPOT, ITL, E2E and the spans of every request of a trace."""
    return LatencyLedger([_latency(record, trace) for record in trace.requests], trace.unit)


def percentile(
    values: Sequence[Time],
    percent: Time,
    rule: Literal["linear", "nearest-rank"] = "linear",
) -> Time:
    """The value below which `percent` per cent lie.

    "linear": with the values sorted and numbered from 0 it stands at position
    (n − 1) · percent / 100, interpolated between neighbours, as numpy's default has it: the 50th
    of 10, 20, 40 and 80 is 30. "nearest-rank": the smallest value that at least `percent` per cent
    do not exceed, always one of the values: here 20. Raises ValueError without values.
    """
    if not values:
        raise ValueError("a percentile needs at least 1 value, got 0")
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile must lie between 0 and 100, got {percent}")
    ordered = sorted(values)
    if rule == "nearest-rank":
        return ordered[max(0, math.ceil(exact_ratio(len(ordered) * percent, 100)) - 1)]
    position = exact_ratio((len(ordered) - 1) * percent, 100)
    below = int(position)
    if below == position:
        return ordered[below]
    return exact_ratio(
        ordered[below] + (ordered[below + 1] - ordered[below]) * (position - below), 1
    )


def is_small(count: int, percent: int) -> bool:
    """Whether `count` values say nothing about this percentile beyond their largest value."""
    return count * (100 - percent) < 100


def exact_ratio(numerator: Time, denominator: Time) -> Time:
    """A quotient that stays exact where both parts are: 100 / 4 is 25 and 1 / 3 is 1/3."""
    if isinstance(numerator, float) or isinstance(denominator, float):
        return numerator / denominator
    ratio = Fraction(numerator) / Fraction(denominator)
    return ratio.numerator if ratio.denominator == 1 else ratio


def converted(time: Time, unit: str, to: str) -> Time:
    """A time in another unit: 1.5 s is 1500 ms. ValueError where one of two units is no time."""
    if unit == to:
        return time
    for name in (to, unit):
        if name not in PER_SECOND:
            raise ValueError(f"unit must be one of {', '.join(PER_SECOND)}, got {name!r}")
    return time * exact_ratio(PER_SECOND[to], PER_SECOND[unit])


def _latency(record: Record, trace: Trace) -> Latency:
    times = trace.token_times(record.id)
    finished = record.status == "finished"
    tpot = None
    if finished and len(times) > 1:
        tpot = exact_ratio(times[-1] - times[0], len(times) - 1)
    return Latency(
        id=record.id,
        status=record.status,
        prompt_tokens=record.prompt_tokens,
        output_tokens=len(times),
        ttft=times[0] - record.arrival if times else None,
        tpot=tpot,
        e2e=record.end - record.arrival if finished and record.end is not None else None,
        itl=tuple(later - earlier for earlier, later in pairwise(times)),
        spans=None if trace.starts is None or record.end is None else _spans(record, trace),
    )


def _spans(record: Record, trace: Trace) -> dict[str, Time]:
    """How long the request did what, over all its phases."""
    spans: dict[str, Time] = dict.fromkeys(SPANS, 0)
    for cause, start, stop in phases(record, trace):
        spans[cause] += stop - start
    return spans


def _cells(row: Latency, spans: Sequence[str]) -> tuple[object, ...]:
    causes = [row.spans[name] if row.spans else None for name in spans]
    status = row.status or "running"
    return (
        row.id,
        row.prompt_tokens,
        row.output_tokens,
        row.ttft,
        row.tpot,
        row.e2e,
        *causes,
        status,
    )


def _statistics(values: Sequence[Time], percentiles: Sequence[int]) -> tuple[Time, ...]:
    ordered = sorted(values)  # sorting what is sorted already is quick
    mean = exact_ratio(sum(ordered), len(ordered))
    return (mean, *(percentile(ordered, percent) for percent in percentiles), ordered[-1])
