"""What a user waits for: calls to a model, and what stands before, between and after them.

A request's E2E begins when the server has it and ends with its answer. A user's task is longer: it
prepares a context, asks a search or a database, crosses a network, calls a model once or several
times, checks the result. The parts of a task follow one another, so their times add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lab.ledgers.latency import converted, exact_ratio, latency
from lab.ledgers.phases import phases
from lab.ledgers.table import Shown, Table
from lab.request import Time
from lab.trace import Trace, Unit

TASK = "task"
"""The metric that covers all of a task."""


class Part(NamedTuple):
    """A stretch of a task with one cause; `request` is the call it belongs to, None elsewhere."""

    cause: str
    start: Time
    stop: Time
    request: str | None = None

    @property
    def time(self) -> Time:
        """How long it lasts."""
        return self.stop - self.start


class Measured(NamedTuple):
    """What one metric covers: from when to when. TPOT spreads that over its `gaps`; `request` is
    None for the whole task."""

    metric: str
    start: Time
    stop: Time
    request: str | None = None
    gaps: int | None = None

    @property
    def value(self) -> Time:
        """What the metric says."""
        return exact_ratio(self.stop - self.start, self.gaps or 1)

    def sees(self, part: Part) -> bool:
        """Whether some of a part lies within it."""
        return self.start < part.stop and part.start < self.stop


class Task(Shown):
    """The parts of a task in their order, from 0 on, and what each metric covers of it."""

    def __init__(
        self, parts: tuple[Part, ...], metrics: tuple[Measured, ...], unit: Unit, tag: str
    ) -> None:
        self.parts = parts
        self.metrics = metrics
        self.unit = unit
        self.tag = tag
        """Where its times come from: "measured" if those of a call do, else "derived"."""

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __getitem__(self, cause: str) -> Time:
        """How long a cause lasts, all its parts together. KeyError for one that does not occur."""
        times = [part.time for part in self.parts if part.cause == cause]
        if not times:
            raise KeyError(f"there is no part {cause!r} in this task")
        return sum(times)

    @property
    def total(self) -> Time:
        """From the start of the first part to the end of the last one."""
        return self.parts[-1].stop

    def share(self, cause: str) -> Time:
        """A cause's part of the total: 800 of 980 is 40/49. KeyError as above."""
        return exact_ratio(self[cause], self.total)

    def seen_by(self, part: Part) -> list[str]:
        """The metrics that cover some of a part, the longest first."""
        return [measured.metric for measured in self.metrics if measured.sees(part)]

    def table(self) -> Table:
        """A row for each part, and which metrics it counts towards."""
        several = len({part.request for part in self.parts if part.request}) > 1
        rows = [
            (
                f"{part.request}: {part.cause}" if several and part.request else part.cause,
                part.time,
                exact_ratio(part.time, self.total) if self.total else None,
                ", ".join(self.seen_by(part)),
            )
            for part in self.parts
        ]
        return Table(
            ("part", "time", "share", "counts towards"),
            (*rows, ("the task", self.total, exact_ratio(1, 1), "")),
            f"times in {self.unit}",
        )


def task(*parts: tuple[str, Time] | tuple[Trace, str], unit: Unit | None = None) -> Task:
    """The account of a task whose parts follow one another.

    A part is `("database", 800)`, something elsewhere that takes so long, or `(trace, "A")`, a
    call: request A of a trace, from its arrival to its end. A call falls apart into its phases
    (queue, prefill, decode, ...). After a call of 180 ms the database has a share of 40/49.

    `unit` is what the task counts in, by default the unit of its first call, or ms; calls in other
    units of time are converted. ValueError for no part, a negative time, a call that did not
    finish, and for steps beside times; KeyError for a request that a trace does not have.
    """
    if not parts:
        raise ValueError("a task needs at least 1 part, got 0")
    units = [first.unit for first, _ in parts if isinstance(first, Trace)]
    counts_in: Unit = unit or (units[0] if units else "ms")
    found: list[Part] = []
    metrics: list[Measured] = []
    now: Time = 0
    for first, second in parts:
        if isinstance(first, Trace):
            call, covers = _call(first, str(second), converted(1, first.unit, counts_in), now)
            found += call
            metrics += covers
        else:
            found.append(_elsewhere(first, second, now))
        now = found[-1].stop
    is_measured = any(isinstance(call, Trace) and call.tag == "measured" for call, _ in parts)
    tag = "measured" if is_measured else "derived"
    return Task(tuple(found), (Measured(TASK, 0, now), *metrics), counts_in, tag)


def covered(trace: Trace, request_id: str) -> list[Measured]:
    """What E2E, TTFT and TPOT cover of a request, those that it has, on the trace's clock."""
    record, row, times = (
        trace[request_id],
        latency(trace)[request_id],
        trace.token_times(request_id),
    )
    here = record.arrival
    found = []
    if row.e2e is not None:
        found.append(Measured("E2E", here, here + row.e2e, request_id))
    if row.ttft is not None:
        found.append(Measured("TTFT", here, times[0], request_id))
    if row.tpot is not None:
        found.append(Measured("TPOT", times[0], times[-1], request_id, len(row.itl)))
    return found


def _call(
    trace: Trace, request_id: str, factor: Time, begin: Time
) -> tuple[list[Part], list[Measured]]:
    """The phases of a call that begins at `begin`, and what its metrics cover."""
    record = trace[request_id]
    if record.status != "finished":
        raise ValueError(
            f"request {request_id!r} must be finished to be part of a task, "
            f"and it is {record.status or 'not at its end'}"
        )

    def moved(moment: Time) -> Time:
        return begin + (moment - record.arrival) * factor

    parts = [
        Part(cause, moved(start), moved(stop), request_id)
        for cause, start, stop in phases(record, trace)
    ]
    metrics = [
        measured._replace(start=moved(measured.start), stop=moved(measured.stop))
        for measured in covered(trace, request_id)
    ]
    return parts or [Part("answer", begin, begin, request_id)], metrics


def _elsewhere(name: str, time: Time | str, begin: Time) -> Part:
    if isinstance(time, str) or time < 0:
        raise ValueError(f"part {name!r} must take 0 or more, got {time!r}")
    return Part(name, begin, begin + time)
