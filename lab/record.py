"""One request of a trace: what was asked, where it sat, which steps computed it, how it ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lab.plan import Chunk, Ending
from lab.request import Request, Time

Kind = Literal["prefill", "decode", "recompute"]


@dataclass(slots=True)
class Run:
    """One request in `count` successive steps, from step `first` on.

    In step `first + i` it computes the positions `[start + i, start + i + tokens)`. Only decodes
    run on over several steps; a chunk of a prompt is a run of one.
    """

    kind: Kind
    seat: int
    first: int
    count: int
    start: int
    tokens: int
    delivered: int
    """Tokens that each of the steps brings: 0 for a chunk that ends before its prompt does, and
    for one that failed."""
    blocks: list[int] = field(default_factory=list)
    """Blocks added to the request's table during the run, in order of positions."""
    drafts: int = 0
    """Guesses checked in each step; `delivered - 1` of them were accepted."""

    @property
    def stop(self) -> int:
        """The step after the last one."""
        return self.first + self.count

    @property
    def reached(self) -> int:
        """Positions computed when the run is over. Of a rejected guess nothing stays."""
        rejected = self.drafts - (self.delivered - 1) if self.drafts else 0
        return self.start + self.count - 1 + self.tokens - rejected

    def goes_on_with(self, chunk: Chunk, step: int) -> bool:
        """Whether `chunk`, computed in `step`, is one more of these decodes."""
        return (
            self.first + self.count == step
            and self.start + self.count == chunk.start
            and self.kind == "decode"
            and not self.drafts
            and not chunk.drafts
            and self.seat == chunk.seat
        )

    def surplus_blocks(self, block_tokens: int) -> int:
        """Blocks given back after the step, because only rejected guesses were in them."""
        return -(-(self.start + self.tokens) // block_tokens) - -(-self.reached // block_tokens)

    def chunk(self, request_id: str, step: int, block_tokens: int) -> Chunk:
        """What the run computed in `step`, as the plan of that step said it."""
        start = self.start + step - self.first
        blocks = tuple(self.blocks)
        if self.count > 1:
            crossed = -(-start // block_tokens) - -(-self.start // block_tokens)
            blocks = blocks[crossed : crossed + 1] if start % block_tokens == 0 else ()
        stop = start + self.tokens
        return Chunk(request_id, self.seat, start, stop, self.delivered > 0, blocks, self.drafts)


class Stay(NamedTuple):
    """A time in a seat: from the first step in it to the step at whose beginning it was free."""

    seat: int
    first: int
    stop: int | None
    """None while the request is still there."""
    preempted: bool = False


@dataclass(slots=True)
class Record:
    """One request of a trace: what was asked, and what came of it."""

    id: str
    arrival: Time
    prompt_tokens: int
    max_tokens: int
    priority: int = 0
    deadline: Time | None = None
    cancel_at: Time | None = None
    status: Ending | None = None
    """None: still waiting or running when the trace was made."""
    reason: str = ""
    end: Time | None = None
    runs: list[Run] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    times: list[Time] | None = None
    """Delivery time of every token, where there are no steps to read them from."""
    output: list[int] = field(default_factory=list)
    """Ids of the delivered tokens, where they are known."""

    @classmethod
    def of(cls, request: Request) -> Record:
        """The record of a request to which nothing has happened yet."""
        return cls(
            request.id,
            request.arrival,
            request.prompt_tokens,
            request.max_tokens,
            request.priority,
            request.deadline,
            request.cancel_at,
        )

    @property
    def output_tokens(self) -> int:
        """Tokens delivered."""
        if self.times is not None:
            return len(self.times)
        return sum(run.delivered * run.count for run in self.runs)

    @property
    def reached(self) -> int:
        """The farthest position that was ever computed and kept."""
        return max((run.reached for run in self.runs), default=0)

    def run_of(self, chunk: Chunk, step: int, delivered: int) -> Run:
        """The run that begins when `chunk` is computed in `step`."""
        kind: Kind = "decode"
        if any(stay.preempted for stay in self.stays) and chunk.start < self.reached:
            kind = "recompute"
        elif chunk.start < self.prompt_tokens:
            kind = "prefill"
        blocks = list(chunk.blocks)
        start, tokens = chunk.start, chunk.num_tokens
        return Run(kind, chunk.seat, step, 1, start, tokens, delivered, blocks, chunk.drafts)

    def holdings(self, block_tokens: int, num_steps: int) -> Iterator[tuple[int, int, list[int]]]:
        """(first step, stop step, blocks): which blocks the request held from when to when."""
        starts = [stay.first for stay in self.stays]
        for run in self.runs:
            if not run.blocks:
                continue
            stop = self.stays[bisect_right(starts, run.first) - 1].stop
            stop = num_steps if stop is None else stop
            if run.drafts:
                kept = len(run.blocks) - run.surplus_blocks(block_tokens)
                for until, blocks in ((stop, run.blocks[:kept]), (run.stop, run.blocks[kept:])):
                    if blocks:
                        yield run.first, until, blocks
            elif run.count == 1:
                yield run.first, stop, run.blocks
            else:
                step = run.first + -run.start % block_tokens
                for block in run.blocks:
                    yield step, stop, [block]
                    step += block_tokens
