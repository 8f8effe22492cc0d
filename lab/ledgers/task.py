"""What a user waits for: calls to a model, and what stands before, between and after them.

A request's E2E begins when the server has it and ends with its answer. A user's task is longer: it
prepares a context, asks a search or a database, crosses a network, calls a model once or several
times, checks the result. The parts of a task follow one another, so their times add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lab.ledgers.latency import exact_ratio, latency
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

    def __init__(self, parts: tuple[Part, ...], metrics: tuple[Measured, ...], unit: Unit) -> None:
        self.parts = parts
        self.metrics = metrics
        self.unit = unit

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

    `unit` says what to count in where no part is a call ("ms"). ValueError for no part, a negative
    time, a call that did not finish, and for calls in different units; KeyError for a request that
    a trace does not have.
    """
    if not parts:
        raise ValueError("a task needs at least 1 part, got 0")
    units = {first.unit for first, _ in parts if isinstance(first, Trace)}
    units |= {unit} if unit else (set() if units else {"ms"})
    if len(units) > 1:
        raise ValueError(f"a task counts in one unit, got {', '.join(sorted(units))}")
    found: list[Part] = []
    metrics: list[Measured] = []
    now: Time = 0
    for first, second in parts:
        if isinstance(first, Trace):
            found += _call(first, str(second), now)
            metrics += covered(first, str(second), now)
        else:
            found.append(_elsewhere(first, second, now))
        now = found[-1].stop
    return Task(tuple(found), (Measured(TASK, 0, now), *metrics), units.pop())


def covered(trace: Trace, request_id: str, begin: Time | None = None) -> list[Measured]:
    """What E2E, TTFT and TPOT cover of a request, those that it has.

    Times are the trace's own, or shifted so that the request arrives at `begin`.
    """
    record, row, times = (
        trace[request_id],
        latency(trace)[request_id],
        trace.token_times(request_id),
    )
    here = record.arrival
    by = 0 if begin is None else begin - here
    found = []
    if row.e2e is not None:
        found.append(Measured("E2E", here + by, here + row.e2e + by, request_id))
    if row.ttft is not None:
        found.append(Measured("TTFT", here + by, times[0] + by, request_id))
    if row.tpot is not None:
        found.append(Measured("TPOT", times[0] + by, times[-1] + by, request_id, len(row.itl)))
    return found


def _call(trace: Trace, request_id: str, begin: Time) -> list[Part]:
    record = trace[request_id]
    if record.status != "finished":
        raise ValueError(
            f"request {request_id!r} must be finished to be part of a task, "
            f"and it is {record.status or 'not at its end'}"
        )
    by = begin - record.arrival
    found = [Part(p.cause, p.start + by, p.stop + by, request_id) for p in phases(record, trace)]
    return found or [Part("answer", begin, begin, request_id)]


def _elsewhere(name: str, time: Time | str, begin: Time) -> Part:
    if isinstance(time, str) or time < 0:
        raise ValueError(f"part {name!r} must take 0 or more, got {time!r}")
    return Part(name, begin, begin + time)
