"""Microbatches on their way through the stages of a pipeline, and the bubbles that they leave."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_uppercase

from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.pipeline import Pipeline, Span
from lab.ledgers.table import show
from lab.ledgers.words import counted, listed
from lab.request import Time


def pipeline_figure(run: Pipeline, title: str = "", finding: str = "") -> Scene:
    """A lane for each stage. Microbatch A, B, ... is solid forward and hatched backward, and the
    time in which a stage waits is a dashed box: the bubble.

    With several tokens A2 is the second one of sequence A. Every frame counts the bubble so far.
    """
    lanes = tuple(f"stage {stage}" for stage in range(run.stages))
    gaps = {stage: tuple(_gaps(run, stage)) for stage in range(run.stages)}
    marks = [_mark(run, span) for span in run.spans]
    for stage, found in gaps.items():
        marks += [
            Mark(f"{lanes[stage]} idle {number}", "bubble", lanes[stage], start, stop, "idle")
            for number, (start, stop) in enumerate(found)
        ]
    idle = sum(run.idle(stage) for stage in range(run.stages))
    return Scene(
        title=title or "Which stage works, and which waits?",
        finding=finding
        or f"Done after {_steps(run.end)}; {show(idle)} of {_steps(run.stages * run.end)} of all "
        f"stages are idle. The bubble is {show(run.bubble_of_all)} of all time, and "
        f"{show(run.bubble_of_work)} of the time at work.",
        conditions=f"{counted(run.stages, 'stage')}, {_microbatches(run)}",
        tag="derived",
        unit="step",
        lanes=lanes,
        marks=tuple(marks),
        frames=tuple(_frames(run, gaps)),
    )


def name_of(microbatch: int) -> str:
    """A, B, ..., Z, and then by number: 27, 28."""
    letters = ascii_uppercase
    return letters[microbatch] if microbatch < len(letters) else str(microbatch + 1)


def _steps(count: Time) -> str:
    return f"{show(count)} {'step' if count == 1 else 'steps'}"


def _microbatches(run: Pipeline) -> str:
    tokens = 1 + max(span.task.token for span in run.spans)
    trains = any(span.task.kind == "backward" for span in run.spans)
    told = "1 microbatch" if run.microbatches == 1 else f"{run.microbatches} microbatches"
    if tokens > 1:
        return f"{told} of {tokens} tokens each, one after the other"
    return f"{told}, forward and backward" if trains else f"{told}, forward only"


def _label(run: Pipeline, span: Span) -> str:
    several = any(other.task.token for other in run.spans)
    token = str(span.task.token + 1) if several else ""
    return f"{name_of(span.task.microbatch)}{token}"


def _mark(run: Pipeline, span: Span) -> Mark:
    task = span.task
    return Mark(
        id=f"{task.kind} {task.microbatch}.{task.token}.{task.stage}",
        role=task.kind,
        lane=f"stage {task.stage}",
        start=span.start,
        stop=span.stop,
        label=_label(run, span),
        who=name_of(task.microbatch),
    )


def _gaps(run: Pipeline, stage: int) -> Iterator[tuple[Time, Time]]:
    """When a stage waits, up to the end of the whole run."""
    free: Time = 0
    for span in run.of_stage(stage):
        if span.start > free:
            yield free, span.start
        free = span.stop
    if free < run.end:
        yield free, run.end


def _frames(run: Pipeline, gaps: dict[int, tuple[tuple[Time, Time], ...]]) -> Iterator[Frame]:
    """A frame whenever anybody begins to work or to wait."""
    starts = {span.start for span in run.spans}
    moments = sorted(starts | {start for found in gaps.values() for start, _ in found})
    for at, following in zip(moments, [*moments[1:], run.end], strict=True):
        told = [
            f"stage {span.task.stage} {_label(run, span)}"
            + (" back" if span.task.kind == "backward" else "")
            for span in sorted(run.spans, key=lambda span: span.task.stage)
            if span.start <= at < span.stop
        ]
        idle = [
            stage
            for stage, found in gaps.items()
            if any(start <= at < stop for start, stop in found)
        ]
        waits = f"; idle: {listed(f'stage {stage}' for stage in idle)}" if idle else ""
        bubble = sum(
            min(stop, following) - start
            for found in gaps.values()
            for start, stop in found
            if start < following
        )
        caption = f"{', '.join(told) or 'nobody works'}{waits}; bubble so far: {show(bubble)}"
        yield Frame(at, show(at + 1), caption)
