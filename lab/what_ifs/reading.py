"""Chapter 0, how this book works: a job one part after the other, and two parts side by side."""

from __future__ import annotations

from itertools import accumulate, pairwise

from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.splitting import Split, split
from lab.ledgers.table import show
from lab.ledgers.words import listed

PARTS = (2, 3, 4, 1)
"""The parts of the job, of which the second and the third may be done side by side."""


def side_by_side(second: int, third: int, coordination: int) -> tuple[Scene, Scene]:
    """The job of 2, `second`, `third` and 1 ms, both ways."""
    job = split((PARTS[0], second, third, PARTS[3]), (1, 2), coordination)
    return _serial(job), _parallel(job)


def _serial(job: Split) -> Scene:
    edges = list(pairwise(accumulate(job.parts, initial=0)))
    marks = [
        Mark(f"part {n}", "decode", "worker 1", start, stop, f"part {n}: {stop - start}", "A")
        for n, (start, stop) in enumerate(edges, 1)
    ]
    frames = [
        Frame(start, show(start), f"part {n}, {stop - start} ms")
        for n, (start, stop) in enumerate(edges, 1)
    ]
    return Scene(
        title="One after the other: how long?",
        finding=f"One after the other: {job.serial} ms.",
        conditions=f"one worker, parts of {listed(map(show, job.parts))} ms",
        tag="derived",
        unit="ms",
        lanes=("worker 1",),
        marks=tuple(marks),
        frames=tuple(frames),
    )


def _parallel(job: Split) -> Scene:
    begin = sum(job.before)
    joined = begin + max(job.together)
    back = joined + job.coordination
    lanes = [f"worker {n}" for n in range(1, len(job.together) + 1)]
    marks = [Mark("part 1", "decode", lanes[0], 0, begin, f"part 1: {begin}", "A")]
    for n, (lane, time) in enumerate(zip(lanes, job.together, strict=True), 2):
        end = begin + time
        marks.append(Mark(f"part {n}", "decode", lane, begin, end, f"part {n}: {time}", "A"))
        if end < joined:
            marks.append(Mark(f"idle {n}", "idle", lane, end, joined, ""))
    words = "hand out and collect"
    if job.coordination:
        label = f"{words}: {job.coordination}"
        marks.append(Mark(words, "elsewhere", lanes[0], joined, back, label))
    last = f"part {len(lanes) + 2}"
    marks.append(Mark(last, "decode", lanes[0], back, job.wait, f"{last}: {job.wait - back}", "A"))
    frames = [
        Frame(0, "0", f"part 1, {begin} ms"),
        Frame(begin, show(begin), f"two parts at once; both are done after {max(job.together)} ms"),
        *(
            [Frame(joined, show(joined), f"to {words} them, {job.coordination} ms")]
            if job.coordination
            else []
        ),
        Frame(back, show(back), f"{last}, {job.wait - back} ms"),
    ]
    won = job.serial - job.wait
    verdict = f"{abs(won)} ms {'less' if won > 0 else 'more'} than" if won else "as long as"
    return Scene(
        title="Two side by side: how long?",
        finding=f"Side by side: {job.wait} ms, {verdict} one after the other. "
        f"It is a tie where coordination takes {job.breakeven} ms.",
        conditions=f"two workers, {job.coordination} ms to hand out and collect",
        tag="derived",
        unit="ms",
        lanes=tuple(lanes),
        marks=tuple(marks),
        frames=tuple(frames),
    )
