"""The lifeline of one request: where its time went, and which metric measures which part of it."""

from __future__ import annotations

from collections.abc import Iterator

from lab.figures.scene import Frame, Mark, Scene, duration
from lab.figures.words import conditions
from lab.ledgers.latency import SPANS
from lab.ledgers.phases import DELIVERIES, Phase, held, phases
from lab.ledgers.table import show
from lab.ledgers.task import Measured, Part, Task, covered
from lab.record import Record
from lab.request import Time
from lab.trace import Trace

PHASE_ROLES = {
    "queue": "waiting",
    "shared prefill": "shared",
    "prefill": "prefill",
    "decode": "decode",
    "stalled": "stalled",
    "preempted": "preempted",
    "swapped": "preempted",
    "recompute": "recompute",
    "idle": "idle",
    **dict.fromkeys(DELIVERIES, "waiting"),
}
"""How each cause of a phase is drawn. Where only deliveries are known, all that is known is that
the reader waited."""


def lifeline(trace: Trace, request_id: str, title: str = "", finding: str = "") -> Scene:
    """One request's time, stacked by cause, and above it the span that each metric covers.

    The last lane is the request's own: one mark for each phase, labelled with cause and duration
    (`queue 40`), its role as in `PHASE_ROLES`; together they are exactly as long as E2E. After
    them may stand a mark of the role `idle`: the seat that a static batch keeps for a request that
    has ended. The lanes above hold one `span` each, for the metrics that the request has: E2E,
    TTFT, TPOT (from the first token to the last; its label counts the gaps) and queue. A trace
    without steps has two causes only: until the first token, and between tokens.

    There is one frame for each change of cause; its caption says how long the phase lasted and
    which metrics it counts towards. Raises KeyError for a request that the trace does not have.
    """
    record = trace[request_id]
    found = phases(record, trace)
    metrics = list(_metrics(trace, request_id, found))
    idle = held(record, trace)
    stretches = [*found, idle] if idle else found
    marks = [_mark(number, phase, request_id) for number, phase in enumerate(stretches, 1)]
    known = "" if trace.starts is not None else "; no steps are known, and so no causes"
    return Scene(
        title=title or f"Where does the time of {request_id} go?",
        finding=finding or _sum(found, record, trace),
        conditions=conditions(trace) + known,
        tag=trace.tag,
        unit=trace.unit,
        lanes=(*(mark.lane for mark in metrics), request_id),
        marks=(*metrics, *marks),
        frames=tuple(_frames(found, idle, metrics, record, trace)),
    )


def _metrics(trace: Trace, request_id: str, found: list[Phase]) -> Iterator[Mark]:
    yield from (_span(measured, request_id) for measured in covered(trace, request_id))
    if found and found[0].cause == "queue":
        yield _span(Measured("queue", found[0].start, found[0].stop), request_id)


def _span(measured: Measured, who: str | None, number: str = "") -> Mark:
    """The bracket of a metric, in the lane of its name; a TPOT counts its gaps."""
    name, start, stop, _, gaps = measured
    label = f"{name} {'' if gaps is None else f'{gaps} × '}{show(measured.value)}"
    return Mark(f"{who or ''}.{name}{number}", "span", name, start, stop, label, who)


def _mark(number: int, phase: Phase, who: str) -> Mark:
    label = f"{phase.cause} {show(phase.stop - phase.start)}"
    role = PHASE_ROLES[phase.cause]
    return Mark(f"{who}.{number}", role, who, phase.start, phase.stop, label, who)


def _frames(
    found: list[Phase], idle: Phase | None, metrics: list[Mark], record: Record, trace: Trace
) -> Iterator[Frame]:
    told = {**SPANS, **DELIVERIES}
    for cause, start, stop in found:
        counts = [m.lane for m in metrics if m.start < stop and start < m.stop]
        to = f"counts towards {', '.join(counts) or 'no metric'}"
        lasts = duration(stop - start, trace.unit)
        yield Frame(start, show(start), f"{cause}, {lasts}: {told[cause]}; {to}")
    ended = f"{record.id} {record.status or 'has not ended'}"
    reason = f": {record.reason}" if record.reason and record.status != "finished" else ""
    if idle:
        lasts = duration(idle.stop - idle.start, trace.unit)
        caption = f"{ended}{reason}; its seat stays idle for {lasts}, counted towards no metric"
        yield Frame(idle.start, show(idle.start), caption)
    if not found:
        yield Frame(record.arrival, show(record.arrival), f"{ended}{reason}")


def _sum(found: list[Phase], record: Record, trace: Trace) -> str:
    """What the whole is the sum of."""
    causes: dict[str, Time] = {}
    for cause, start, stop in found:
        causes[cause] = causes.get(cause, 0) + stop - start
    whole = (record.arrival if not found else found[-1].stop) - record.arrival
    name = "E2E" if record.status == "finished" else f"{record.status or 'still there'} after"
    parts = " + ".join(f"{cause} {show(time)}" for cause, time in causes.items())
    return f"{record.id}: {name} {duration(whole, trace.unit)}{parts and f' = {parts}'}"


def task_lifeline(task: Task, title: str = "", finding: str = "") -> Scene:
    """A user's task from its first part to its last, and above it what each metric covers.

    The last lane, `time`, holds a mark for each part, labelled with cause and duration; its id is
    the cause (`queue`), with a number where the cause comes again. What happens elsewhere, a tool
    or a network, has the role `elsewhere`. The lanes above hold a `span` for the task, and one for
    E2E, TTFT and TPOT of each call. There is one frame for each part.
    """
    lanes = dict.fromkeys(measured.metric for measured in task.metrics)
    spans = [_span(m, m.request, f".{n}") for n, m in enumerate(task.metrics)]
    parts = [part for part in task if part.time]
    ids = _numbered([part.cause for part in parts])
    marks = [
        Mark(
            id,
            PHASE_ROLES[part.cause] if part.request else "elsewhere",
            "time",
            part.start,
            part.stop,
            f"{part.cause} {show(part.time)}",
            part.request,
        )
        for id, part in zip(ids, parts, strict=True)
    ]
    sums = " + ".join(f"{part.cause} {show(part.time)}" for part in parts)
    return Scene(
        title=title or "Where does the user's time go?",
        finding=finding or f"The task takes {duration(task.total, task.unit)} = {sums}",
        conditions="one task, its parts one after the other",
        tag=task.tag,
        unit=task.unit,
        lanes=(*lanes, "time"),
        marks=(*spans, *marks),
        frames=tuple(_task_frames(task, parts)),
    )


def _task_frames(task: Task, parts: list[Part]) -> Iterator[Frame]:
    told = {**SPANS, **DELIVERIES}
    for part in parts:
        means = f": {told[part.cause]}" if part.request else ""
        counts = f"counts towards {', '.join(task.seen_by(part))}"
        lasts = duration(part.time, task.unit)
        yield Frame(part.start, show(part.start), f"{part.cause}, {lasts}{means}; {counts}")
    if not parts:
        yield Frame(0, "0", "nothing takes any time")


def _numbered(names: list[str]) -> list[str]:
    """The names, those that come again with a number from 2 on."""
    return [
        name if (before := names[:place].count(name)) == 0 else f"{name}.{before + 1}"
        for place, name in enumerate(names)
    ]
