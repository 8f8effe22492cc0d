"""What every slot of KV memory is good for, step by step: used, reserved, wasted or free."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.record import Record
from lab.request import Time
from lab.trace import Trace

Kind = Literal["used", "reserved", "internal", "external", "free"]
KINDS: tuple[Kind, ...] = ("used", "reserved", "internal", "external", "free")
"""What a slot may be. used: it holds the keys and values of a token. reserved: somebody has it,
and will write to it later. internal: somebody has it, and will never write to it. external:
nobody has it, and the next who waits could do with what is free, but not in pieces. free: nobody
has it, and nobody is kept out by where it lies."""

ROWS = 120
"""About so many moments are enough for a chart."""


class Slots(NamedTuple):
    """The slots of one step by kind, and how many requests ran and waited in it."""

    used: int
    reserved: int
    internal: int
    external: int
    free: int
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, repr=False)
class Allocation(Shown):
    """What `slots` of memory held in each step of a run. ValueError if a step has others."""

    slots: int
    steps: tuple[Slots, ...]
    ends: Mapping[str, Time] = field(default_factory=dict)
    """When each request had its answer, in the unit of the run."""
    moved: int = 0
    """Tokens that were copied to another place, because their request grew."""
    preemptions: int = 0

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps):
            if sum(step[: len(KINDS)]) != self.slots or min(step) < 0:
                raise ValueError(
                    f"the kinds of slots in step {number} must add up to {self.slots}, "
                    f"got {' + '.join(map(str, step[: len(KINDS)]))}"
                )

    @property
    def pressed(self) -> Allocation:
        """The account of those steps in which somebody waited. Where memory was what they waited
        for, the run's slow beginning and its emptying end are left out."""
        return replace(self, steps=tuple(step for step in self.steps if step.waiting))

    @property
    def utilisation(self) -> Time | None:
        """The mean share of the slots that hold a token; None for no steps."""
        return self.share("used")

    def share(self, kind: Kind) -> Time | None:
        """The mean share of the slots of one kind, over all steps; None for no steps.

        10 and 14 of 16 slots used in two steps: 24 / 32 = 3/4.
        """
        return _mean([getattr(step, kind) for step in self.steps], self.slots)

    @property
    def together(self) -> Time | None:
        """How many requests ran at once, on average; None for no steps."""
        return _mean([step.running for step in self.steps])

    @property
    def most_together(self) -> int:
        """How many requests ran at once at most."""
        return max((step.running for step in self.steps), default=0)

    def rows(self, allocator: str = "", points: int = ROWS) -> list[dict[str, Any]]:
        """Rows for a chart, {allocator, step, kind, share}: each of `points` moments has a row a
        kind. A long run is cut into `points` parts of nearly as many steps, each shown by its
        means at its first step. ValueError if points < 1."""
        if points < 1:
            raise ValueError(f"points must be at least 1, got {points}")
        parts = min(points, len(self.steps))
        edges = [part * len(self.steps) // parts for part in range(parts + 1)] if parts else [0]
        found = []
        for first, stop in pairwise(edges):
            part = replace(self, steps=self.steps[first:stop])
            found += [
                {"allocator": allocator, "step": first, "kind": kind, "share": part.share(kind)}
                for kind in KINDS
            ]
        return found

    def table(self) -> Table:
        """The account as one row: mean shares of the slots in %, how many requests ran at once on
        average, and how often one had to leave."""
        shares = (self.share(kind) for kind in KINDS)
        percent = (None if share is None else round(float(100 * share), 1) for share in shares)
        together = None if self.together is None else round(float(self.together), 1)
        return Table(
            (*KINDS, "running", "preempted"),
            ((*percent, together, self.preemptions),),
            "% of the slots, and requests that ran at once, on average over the steps",
        )


def _mean(values: list[int], whole: int = 1) -> Time | None:
    return exact_ratio(sum(values), len(values) * whole) if values else None


def allocation(trace: Trace) -> Allocation:
    """The account of a pool of blocks, from the trace of whoever ran it.

    A block of 16 that holds 5 tokens, for a request that stops at 12: 5 slots used, 7 reserved, 4
    internal. A pool has no external slots, since any free block does as well as any other. What a
    request uses is known when it has ended; of one that has not, all that lies behind its last
    token counts as internal.

    ValueError for a trace without steps or blocks, and for one in which requests share blocks or
    begin from a prefix cache: there a slot has no one holder.
    """
    blocks = trace.settings.get("blocks")
    if not trace.num_steps or not blocks:
        raise ValueError(
            f"an allocation needs steps and a pool, and this trace has {trace.num_steps} steps "
            f"and {blocks} blocks"
        )
    for record in trace.requests:
        if record.fork_of or any(run.shares for run in record.runs):
            raise ValueError(
                f"an allocation needs blocks of one holder each, and request {record.id!r} shares "
                "some"
            )
    block_tokens = trace.settings["block_tokens"]
    books = [[0] * trace.num_steps for _ in range(4)]
    for record in trace.requests:
        for step, *slots in _stays(record, block_tokens, trace.num_steps):
            for book, count in zip(books, (*slots, 1), strict=True):
                book[step] += count
    slots = blocks * block_tokens
    steps = (
        Slots(used, reserved, internal, 0, slots - used - reserved - internal, running, waiting)
        for used, reserved, internal, running, waiting in zip(*books, _waits(trace), strict=True)
    )
    return Allocation(
        slots,
        tuple(steps),
        {r.id: r.end for r in trace.requests if r.status == "finished" and r.end is not None},
        preemptions=sum(stay.preempted for record in trace.requests for stay in record.stays),
    )


def _stays(record: Record, block_tokens: int, num_steps: int) -> Iterator[tuple[int, ...]]:
    """(step, used, reserved, internal) for every step in which a request has a seat."""
    change = [0] * (num_steps + 1 if record.stays else 0)
    for first, stop, blocks in record.holdings(block_tokens, num_steps):
        change[first] += len(blocks) * block_tokens
        change[stop] -= len(blocks) * block_tokens
    held = list(accumulate(change))
    for step, used in _written(record, num_steps):
        reserved = max(0, min(held[step], record.reached) - used)
        yield step, used, reserved, held[step] - used - reserved


def _written(record: Record, num_steps: int) -> Iterator[tuple[int, int]]:
    """(step, positions written by its end) for every step in which a request has a seat."""
    runs = iter(record.runs)
    run = next(runs, None)
    for stay in record.stays:
        stop = num_steps if stay.stop is None else stay.stop
        written = 0
        for step in range(stay.first, stop):
            if run is not None and run.first <= step:
                written = run.start + step - run.first + run.tokens
            yield step, written
            if run is not None and run.stop == step + 1:
                run = next(runs, None)


def _waits(trace: Trace) -> list[int]:
    """How many requests had arrived and had no seat, step by step."""
    starts = trace.starts or []
    change = [0] * (len(starts) + 1)
    for record in trace.requests:
        since = bisect_left(starts, record.arrival)
        gone = len(starts) if record.end is None else bisect_left(starts, record.end)
        for stay in record.stays:
            change[since] += 1
            change[stay.first] -= 1
            since = len(starts) if stay.stop is None else stay.stop
        if since < gone:
            change[since] += 1
            change[gone] -= 1
    return list(accumulate(change[:-1]))
