"""Layers on several stages: who works when, who waits, and for how long, by running it.

Nothing here computes a model. A stage takes its tasks in the order of the schedule, and each as
soon as what it needs has arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias, get_args

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.request import Time

Schedule: TypeAlias = Literal["inference", "all-forward", "one-forward-one-backward"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


class Task(NamedTuple):
    """What a stage does in one go: a microbatch forward or backward, for its nth token."""

    stage: int
    kind: Literal["forward", "backward"]
    microbatch: int
    token: int = 0


class Span(NamedTuple):
    """A task, and when it was done."""

    task: Task
    start: Time
    stop: Time


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline(Shown):
    """A run of microbatches through stages."""

    stages: int
    microbatches: int
    spans: tuple[Span, ...]

    @property
    def end(self) -> Time:
        """When the last task is done."""
        return max(span.stop for span in self.spans)

    def of_stage(self, stage: int) -> tuple[Span, ...]:
        """What one stage did, in order."""
        return tuple(span for span in self.spans if span.task.stage == stage)

    def idle(self, stage: int) -> Time:
        """How long a stage waits until the end: its bubble."""
        return self.end - sum(span.stop - span.start for span in self.of_stage(stage))

    @property
    def bubble_of_all(self) -> Time:
        """The bubble as a part of *all* stage time, idle time included: idle / (stages x end).

        2 stages, 4 microbatches of one unit: 2 of 10 stage-units, 1/5.
        """
        everything = self.stages * self.end
        return exact_ratio(everything - self._busy, everything)

    @property
    def bubble_of_work(self) -> Time:
        """The bubble as a part of the *work*, the time without bubbles: idle / busy.

        2 stages, 4 microbatches of one unit: 2 of 8 stage-units, 1/4.
        """
        return exact_ratio(self.stages * self.end - self._busy, self._busy)

    @property
    def _busy(self) -> Time:
        return sum(span.stop - span.start for span in self.spans)

    def in_flight(self, stage: int) -> int:
        """The most microbatches whose activations a stage keeps at once: begun forward, and not
        yet done backward. Without a backward pass nothing is kept but the one at work."""
        mine = self.of_stage(stage)
        if all(span.task.kind == "forward" for span in mine):
            return 1
        moments = sorted(
            (span.start, 1, 1) if span.task.kind == "forward" else (span.stop, 0, -1)
            for span in mine
        )
        held = most = 0
        for _, _, change in moments:
            held += change
            most = max(most, held)
        return most

    def table(self) -> Table:
        """A row a stage: busy, idle, and the microbatches it keeps at once."""
        rows = tuple(
            (stage, self.end - self.idle(stage), self.idle(stage), self.in_flight(stage))
            for stage in range(self.stages)
        )
        caption = f"{self.stages} stages, {self.microbatches} microbatches, done after {self.end}"
        return Table(("stage", "busy", "idle", "in flight"), rows, caption)


def pipeline(
    forward: Sequence[Time],
    microbatches: int,
    *,
    backward: Sequence[Time] | None = None,
    schedule: Schedule = "inference",
    tokens: int = 1,
    transfer: Time = 0,
) -> Pipeline:
    """Run `microbatches` through stages that need `forward` (and `backward`) for each.

    "inference" goes forward only. With several `tokens` each microbatch starts its next token when
    the last stage has finished the one before: a sequence crosses all stages for every token.
    "all-forward" (GPipe) does all forward passes before the first backward one;
    "one-forward-one-backward" (1F1B) turns as soon as the pipeline is full. `transfer` is what
    lies between two stages; it overlaps with their work.

    `pipeline([1, 1], 4).end` is 5: each stage works for 4 and waits for 1.
    ValueError for another schedule, no stage or microbatch, a negative time, and a backward pass
    too few or too many.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {schedule!r}")
    stages, back = len(forward), backward or ()
    trains = schedule != "inference"
    _check_counts(stages=stages, microbatches=microbatches, tokens=tokens)
    if trains and tokens != 1:
        raise ValueError(f"a schedule with backward passes has 1 token, got {tokens}")
    if len(back) != (stages if trains else 0):
        raise ValueError(
            f"{schedule} needs {stages if trains else 0} backward times, got {len(back)}"
        )
    if min(*forward, *back, transfer) < 0:
        raise ValueError(f"times must not be negative, got {[*forward, *back, transfer]}")
    orders = [
        list(_order(schedule, stage, stages, microbatches, tokens)) for stage in range(stages)
    ]
    times = {"forward": forward, "backward": back}
    return Pipeline(stages, microbatches, tuple(_run(orders, times, transfer)))


def bubble_of_all(stages: int, microbatches: int) -> Fraction:
    """The bubble of equal stages as a part of all stage time: (p - 1) / (m + p - 1).

    4 stages, 16 microbatches, four times the stages: 3/19, about 16 %. That is the time lost.
    ValueError for no stage or microbatch.
    """
    _check_counts(stages=stages, microbatches=microbatches)
    return Fraction(stages - 1, microbatches + stages - 1)


def bubble_of_work(stages: int, microbatches: int) -> Fraction:
    """The same bubble as a part of the time without it: (p - 1) / m.

    4 stages, 16 microbatches: 3/16, about 19 %. That is how much longer it takes. ValueError for no
    stage or microbatch.
    """
    _check_counts(stages=stages, microbatches=microbatches)
    return Fraction(stages - 1, microbatches)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def _order(
    schedule: Schedule, stage: int, stages: int, microbatches: int, tokens: int
) -> Iterator[Task]:
    """The tasks of a stage in the order in which it takes them."""
    if schedule == "inference":
        for token in range(tokens):
            yield from (Task(stage, "forward", m, token) for m in range(microbatches))
        return
    ahead = stages - 1 - stage if schedule == "one-forward-one-backward" else microbatches
    ahead = min(ahead, microbatches)
    yield from (Task(stage, "forward", m) for m in range(ahead))
    for m in range(ahead, microbatches):
        yield Task(stage, "forward", m)
        yield Task(stage, "backward", m - ahead)
    yield from (Task(stage, "backward", m) for m in range(microbatches - ahead, microbatches))


def _run(
    orders: list[list[Task]], times: Mapping[str, Sequence[Time]], transfer: Time
) -> Iterator[Span]:
    """Each stage takes its next task when it is free and what the task needs has arrived."""
    done: dict[Task, Time] = {}
    free: list[Time] = [0] * len(orders)
    waiting = [list(reversed(order)) for order in orders]
    while any(waiting):
        ready = [order[-1] for order in waiting if order and _needs(order[-1], len(orders), done)]
        assert ready, "a schedule in which every stage waits for another"
        for task in ready:
            start = max([free[task.stage], *_arrivals(task, len(orders), done, transfer)])
            stop = start + times[task.kind][task.stage]
            done[task] = free[task.stage] = stop
            waiting[task.stage].pop()
            yield Span(task, start, stop)


def _before(task: Task, stages: int) -> Iterator[Task]:
    """The tasks whose results a task needs."""
    last = stages - 1
    if task.kind == "backward":
        yield task._replace(kind="forward")
        if task.stage < last:
            yield task._replace(stage=task.stage + 1)
    elif task.stage:
        yield task._replace(stage=task.stage - 1)
    elif task.token:
        yield task._replace(stage=last, token=task.token - 1)


def _needs(task: Task, stages: int, done: Mapping[Task, Time]) -> bool:
    return all(before in done for before in _before(task, stages))


def _arrivals(task: Task, stages: int, done: Mapping[Task, Time], transfer: Time) -> Iterator[Time]:
    for before in _before(task, stages):
        yield done[before] + (transfer if before.stage != task.stage else 0)
