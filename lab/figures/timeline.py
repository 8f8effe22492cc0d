"""The timeline of a trace: seats against steps where an engine ran, requests against time where
only their deliveries are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from lab.figures.rows import request_rows
from lab.figures.scene import Frame, Mark, Scene
from lab.figures.words import conditions, ends, step_labels
from lab.ledgers.words import counted, grouped
from lab.plan import Chunk
from lab.record import Record, Run, Stay
from lab.request import Time
from lab.trace import Step, Trace

MOST_STEPS = 400
"""Longer traces have no step table that anybody would read; their picture is the load chart."""


def timeline(trace: Trace, title: str = "", finding: str = "") -> Scene:
    """The scene of a trace, one frame a step, or one a moment where there are no steps.

    Raises ValueError for more than 400 steps: see `load_chart` for those.
    """
    if trace.starts is None:
        return request_rows(trace, title, finding, spans=False)
    if trace.num_steps > MOST_STEPS:
        raise ValueError(
            f"a timeline shows at most {MOST_STEPS} steps, and this trace has {trace.num_steps}: "
            "draw its load chart"
        )
    return _seats(trace, title, finding)


# Seats against steps


def _seats(trace: Trace, title: str, finding: str) -> Scene:
    steps = list(trace.steps())
    stays = [(stay, record) for record in trace.requests for stay in record.stays]
    num_seats = max((stay.seat for stay, _ in stays), default=-1) + 1
    lanes = [f"seat {seat + 1}" for seat in range(num_seats)]
    marks = [list(_step_marks(step, num_seats, trace)) for step in steps]
    waiting = [[record.id for record in _waiting(trace, step)] for step in steps]
    queue = [
        Mark(f"queue.{step.number}", "queued", "queue", step.start, step.end, " ".join(who))
        for step, who in zip(steps, waiting, strict=True)
        if who
    ]
    frames = [
        Frame(step.start, label, _caption(step, seats, who, trace))
        for step, label, seats, who in zip(steps, step_labels(trace), marks, waiting, strict=True)
    ]
    return Scene(
        title=title or "Who sits where, and who waits?",
        finding=finding or ends(trace),
        conditions=conditions(trace),
        tag=trace.tag,
        unit=trace.unit,
        lanes=(*lanes, "queue") if queue else tuple(lanes),
        marks=(*chain.from_iterable(marks), *queue),
        frames=tuple(frames),
    )


def _step_marks(step: Step, num_seats: int, trace: Trace) -> Iterator[Mark]:
    taken = {chunk.seat: chunk for chunk in step.chunks}
    for seat in range(num_seats):
        lane, at = f"seat {seat + 1}", f"{step.number}.{seat}"
        chunk = taken.get(seat)
        if chunk is None:
            who = _holder(trace, seat, step.number)
            role = "shared" if who and shares_prompt(trace, trace[who], step.number) else "idle"
            yield Mark(f"{role}.{at}", role, lane, step.start, step.end, who or "", who)
            continue
        who, kind = chunk.request_id, _run(trace[chunk.request_id], step.number).kind
        yield Mark(f"{who}.{at}", kind, lane, step.start, step.end, who, who)


def _holder(trace: Trace, seat: int, step: int) -> str | None:
    """Whose seat it is, although the step does nothing for it."""
    for record in trace.requests:
        for stay in record.stays:
            if stay.seat == seat and sits(stay, step):
                return record.id
        if record.stays[:1] and record.stays[0].seat == seat and shares_prompt(trace, record, step):
            return record.id
    return None


def shares_prompt(trace: Trace, record: Record, step: int) -> bool:
    """Whether a further answer has a seat in a step and waits there for the prompt, which is
    computed for the first answer and all others at once. It took the seat when that one did."""
    if record.fork_of is None or (record.end is not None and record.end <= _start(trace, step)):
        return False
    first = record.stays[0].first if record.stays else trace.num_steps
    return step < first and any(sits(stay, step) for stay in trace[record.fork_of].stays)


def _start(trace: Trace, step: int) -> Time:
    return (trace.starts or [])[step]


def _caption(step: Step, seats: list[Mark], waiting: list[str], trace: Trace) -> str:
    """What the step did to each request in it, who is done or lost its seat, which seats are idle,
    and who waits."""
    told: dict[str, list[str]] = defaultdict(list)
    for chunk in step.chunks:
        told[_deed(chunk, trace[chunk.request_id], step.number)].append(
            _progress(chunk, trace[chunk.request_id], step.number)
        )
    still = {
        "waiting for the prompt that they share": _sharing(trace, step),
        "stalled": _stalled(trace, step),
        "idle": _idle(seats),
        "waiting": waiting,
    }
    parts = [
        *(f"{deed}: {', '.join(who)}" for deed, who in told.items()),
        *_ended(trace, step),
        *_preempted(trace, step),
        *(f"{state}: {', '.join(what)}" for state, what in still.items() if what),
    ]
    return "; ".join(parts)


def _deed(chunk: Chunk, record: Record, step: int) -> str:
    """What was computed; a prefill or recompute that brings a token is done with its prompt."""
    kind = _run(record, step).kind
    return f"{kind} done" if chunk.samples and kind != "decode" else kind


def _progress(chunk: Chunk, record: Record, step: int) -> str:
    done = sum(
        r.delivered * min(r.count, step + 1 - r.first) for r in record.runs if r.first <= step
    )
    if not chunk.samples:
        known = counted(record.prompt_tokens + done, "token" if done else "prompt token")
        return f"{record.id} {grouped(chunk.stop)} of {known}"
    before = done - _run(record, step).delivered
    which = f"token {done:,}" if done == before + 1 else f"tokens {before + 1:,} to {done:,}"
    return f"{record.id} {which} of {record.max_tokens:,}"


def _run(record: Record, step: int) -> Run:
    return next(run for run in record.runs if run.first <= step < run.stop)


def _ended(trace: Trace, step: Step) -> Iterator[str]:
    for record in trace.requests:
        if record.end is not None and step.start < record.end <= step.end:
            yield f"{record.id} {record.status}"


def _preempted(trace: Trace, step: Step) -> Iterator[str]:
    for record in trace.requests:
        for stay in record.stays:
            if stay.preempted and stay.stop == step.number:
                to = ", its blocks moved to host memory" if stay.swapped_out else ""
                yield f"{record.id} was preempted{to}"


def _idle(seats: list[Mark]) -> list[str]:
    """The seats for which nothing is computed, and whose they still are."""
    return [
        f"{mark.lane} (still {mark.who}'s)" if mark.who else mark.lane
        for mark in seats
        if mark.role == "idle"
    ]


def _stalled(trace: Trace, step: Step) -> list[str]:
    """Who has a seat and has not ended, and the step does nothing for it."""
    computed = {chunk.request_id for chunk in step.chunks}
    return [
        record.id
        for record in trace.requests
        if record.id not in computed
        and (record.end is None or record.end > step.start)
        and any(sits(stay, step.number) for stay in record.stays)
    ]


def _sharing(trace: Trace, step: Step) -> list[str]:
    return [r.id for r in trace.requests if shares_prompt(trace, r, step.number)]


def sits(stay: Stay, step: int) -> bool:
    """Whether a stay covers a step."""
    return stay.first <= step and (stay.stop is None or step < stay.stop)


def _waiting(trace: Trace, step: Step) -> list[Record]:
    """Who has arrived before the step began, has not ended, and has no seat in it."""
    return [
        record
        for record in trace.requests
        if record.arrival <= step.start
        and (record.end is None or record.end > step.start)
        and not any(sits(stay, step.number) for stay in record.stays)
        and not shares_prompt(trace, record, step.number)
    ]
