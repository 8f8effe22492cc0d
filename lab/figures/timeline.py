"""The timeline of a trace: seats against steps where an engine ran, requests against time where
only their deliveries are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lab.figures.scene import Frame, Mark, Scene, moment
from lab.ledgers.table import show
from lab.plan import Chunk
from lab.record import Record, Stay
from lab.request import Time
from lab.trace import Step, Trace

MOST_STEPS = 400
"""Longer traces have no step table that anybody would read; their picture is the load chart."""


def timeline(trace: Trace, title: str = "", finding: str = "") -> Scene:
    """The scene of a trace, one frame a step, or one a moment where there are no steps.

    Raises ValueError for more than 400 steps: see `load_chart` for those.
    """
    frames = trace.num_steps or sum(len(trace.token_times(r.id)) + 1 for r in trace.requests)
    if frames > MOST_STEPS:
        raise ValueError(
            f"a timeline shows at most {MOST_STEPS} steps, and this trace has {frames}: "
            "draw its load chart"
        )
    if trace.starts is None:
        return _deliveries(trace, title, finding)
    return _seats(trace, title, finding)


# Seats against steps


def _seats(trace: Trace, title: str, finding: str) -> Scene:
    steps = list(trace.steps())
    stays = [(stay, record) for record in trace.requests for stay in record.stays]
    num_seats = max((stay.seat for stay, _ in stays), default=-1) + 1
    lanes = [f"seat {seat + 1}" for seat in range(num_seats)]
    marks = [mark for step in steps for mark in _step_marks(step, num_seats, trace)]
    waiting = [[record.id for record in _waiting(trace, step)] for step in steps]
    queue = [
        Mark(f"queue.{step.number}", "queued", "queue", step.start, step.end, " ".join(who))
        for step, who in zip(steps, waiting, strict=True)
        if who
    ]
    by_steps = trace.unit == "step" and all(s.start == s.number for s in steps)
    frames = [
        Frame(s.start, str(s.number + 1) if by_steps else show(s.start), _caption(s, who, trace))
        for s, who in zip(steps, waiting, strict=True)
    ]
    return Scene(
        title=title or "Who sits where, and who waits?",
        finding=finding or _summary(trace),
        conditions=_conditions(trace),
        tag="derived" if trace.settings.get("maker") == "simulated" else "measured",
        unit=trace.unit,
        lanes=(*lanes, "queue") if queue else tuple(lanes),
        marks=(*marks, *queue),
        frames=tuple(frames),
    )


def _step_marks(step: Step, num_seats: int, trace: Trace) -> Iterator[Mark]:
    taken = {chunk.seat: chunk for chunk in step.chunks}
    for seat in range(num_seats):
        lane, at = f"seat {seat + 1}", f"{step.number}.{seat}"
        chunk = taken.get(seat)
        if chunk is None:
            who = _holder(trace, seat, step.number)
            yield Mark(f"idle.{at}", "idle", lane, step.start, step.end, who or "", who)
            continue
        who, kind = chunk.request_id, _kind(trace[chunk.request_id], step.number)
        yield Mark(f"{who}.{at}", kind, lane, step.start, step.end, who, who)


def _holder(trace: Trace, seat: int, step: int) -> str | None:
    """Whose seat it is, although the step does nothing for it."""
    for record in trace.requests:
        for stay in record.stays:
            if stay.seat == seat and _sits(stay, step):
                return record.id
    return None


def _caption(step: Step, waiting: list[str], trace: Trace) -> str:
    """What the step did to each request in it, who is done, and who waits for what."""
    told: dict[str, list[str]] = defaultdict(list)
    for chunk in step.chunks:
        told[_deed(chunk, trace[chunk.request_id], step.number)].append(
            _progress(chunk, trace[chunk.request_id], step.number)
        )
    parts = [f"{deed}: {', '.join(who)}" for deed, who in told.items()]
    for record in trace.requests:
        if record.end is not None and step.start < record.end <= step.end:
            parts.append(f"{record.id} {record.status}")
        for stay in record.stays:
            if stay.preempted and stay.stop == step.number:
                parts.append(f"{record.id} was preempted")
    if stalled := _stalled(trace, step):
        parts.append(f"stalled: {', '.join(stalled)}")
    if waiting:
        parts.append(f"waiting: {', '.join(waiting)}")
    return "; ".join(parts)


def _deed(chunk: Chunk, record: Record, step: int) -> str:
    kind = _kind(record, step)
    if kind == "prefill" and chunk.samples:
        return "prefill and first token"
    return "decode" if kind == "decode" else kind


def _progress(chunk: Chunk, record: Record, step: int) -> str:
    done = sum(
        r.delivered * min(r.count, step + 1 - r.first) for r in record.runs if r.first <= step
    )
    if not chunk.samples:
        known = (
            f"{record.prompt_tokens + done} tokens"
            if done
            else f"{record.prompt_tokens} prompt tokens"
        )
        return f"{record.id} {chunk.stop} of {known}"
    return f"{record.id} {done}/{record.max_tokens}"


def _kind(record: Record, step: int) -> str:
    return next(run.kind for run in record.runs if run.first <= step < run.stop)


def _stalled(trace: Trace, step: Step) -> list[str]:
    """Who has a seat and has not ended, and the step does nothing for it."""
    computed = {chunk.request_id for chunk in step.chunks}
    return [
        record.id
        for record in trace.requests
        if record.id not in computed
        and (record.end is None or record.end > step.start)
        and any(_sits(stay, step.number) for stay in record.stays)
    ]


def _sits(stay: Stay, step: int) -> bool:
    return stay.first <= step and (stay.stop is None or step < stay.stop)


def _waiting(trace: Trace, step: Step) -> list[Record]:
    """Who has arrived before the step began, has not ended, and has no seat in it."""
    return [
        record
        for record in trace.requests
        if record.arrival <= step.start
        and (record.end is None or record.end > step.start)
        and not any(_sits(stay, step.number) for stay in record.stays)
    ]


# Requests against time, where only deliveries are known


def _deliveries(trace: Trace, title: str, finding: str) -> Scene:
    marks = [mark for record in trace.requests for mark in _request_marks(record, trace)]
    moments = sorted({mark.start for mark in marks} | {mark.stop for mark in marks})
    frames = [Frame(at, show(at), _told(trace, at)) for at in moments]
    return Scene(
        title=title or "When does each token come?",
        finding=finding or _summary(trace),
        conditions=_conditions(trace),
        tag=str(trace.settings.get("maker", "given")),
        unit=trace.unit,
        lanes=tuple(record.id for record in trace.requests),
        marks=tuple(marks),
        frames=tuple(frames),
    )


def _request_marks(record: Record, trace: Trace) -> Iterator[Mark]:
    who = record.id
    yield Mark(f"{who}.arrival", "arrival", who, record.arrival, record.arrival, "", who)
    before = record.arrival
    for number, time in enumerate(trace.token_times(who), 1):
        yield Mark(f"{who}.wait.{number}", "waiting", who, before, time, "", who)
        yield Mark(f"{who}.token.{number}", "token", who, time, time, str(number), who)
        before = time
    if record.end is not None and record.status != "finished":
        yield Mark(f"{who}.end", "end", who, record.end, record.end, "", who)


def _told(trace: Trace, at: Time) -> str:
    parts = []
    for record in trace.requests:
        if record.arrival == at:
            parts.append(f"{record.id} arrives")
        for number, time in enumerate(trace.token_times(record.id), 1):
            if time == at:
                last = " and is done" if number == record.max_tokens else ""
                parts.append(f"{record.id} gets token {number} of {record.max_tokens}{last}")
    return "; ".join(parts)


# Words about the whole


def _summary(trace: Trace) -> str:
    ends = [
        f"{r.id} {'' if r.status == 'finished' else f'{r.status} '}{moment(r.end, trace.unit)}"
        for r in trace.requests
        if r.end is not None
    ]
    return f"ends: {', '.join(ends)}"


def _conditions(trace: Trace) -> str:
    settings = trace.settings
    if settings.get("maker") == "given":
        return f"{len(trace)} requests, every delivery time as the table has it"
    names = {
        "policy": "{} batching",
        "seats": "{} seats",
        "token_budget": "token budget {}",
        "blocks": "{} blocks",
        "cost": "{}",
    }
    told = [
        words.format(str(settings[name]).lower())
        for name, words in names.items()
        if settings.get(name) is not None
    ]
    return ", ".join([f"{len(trace)} request{'' if len(trace) == 1 else 's'}", *told])
