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
    run on over several steps; a chunk of a prompt is a run of one. A run of no tokens is a fork:
    its first token was sampled where somebody else's prompt ended.
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
    """Blocks added to the request's table during the run, in order of positions; of the first run
    in a seat, the whole table."""
    drafts: int = 0
    """Guesses checked in each step; `delivered - 1` of them were accepted."""
    cached: int = 0
    """Tokens before `start` that were taken from the prefix cache, in the first of `blocks`."""
    restored: int = 0
    """How many of the first of `blocks` came back from host memory."""
    copy: tuple[int, int] | None = None
    """(source, target): a shared block, and the copy that took its place before the first step."""

    @property
    def stop(self) -> int:
        """The step after the last one."""
        return self.first + self.count

    @property
    def reached(self) -> int:
        """Positions computed when the run is over. Of a rejected guess nothing stays."""
        rejected = self.drafts - (self.delivered - 1) if self.drafts else 0
        return self.start + self.count - 1 + self.tokens - rejected

    def ends_at(self, position: int) -> int:
        """The step after the one in which the positions before `position` were computed, or after
        the first if they had been before."""
        return self.first + 1 + max(0, position - (self.start + self.tokens))

    def goes_on_with(self, chunk: Chunk, step: int) -> bool:
        """Whether `chunk`, computed in `step`, is one more of these decodes."""
        return (
            self.first + self.count == step
            and self.start + self.count == chunk.start
            and self.is_plain
            and not chunk.drafts
            and not chunk.begins
            and chunk.copy is None
            and self.seat == chunk.seat
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is a decode beside which nothing happened; further ones may follow."""
        return (
            self.kind == "decode"
            and not (self.drafts or self.cached or self.restored)
            and self.copy is None
        )

    @property
    def shares(self) -> bool:
        """Whether others held, or had held, some of its blocks before."""
        return self.cached > 0 or self.tokens == 0

    def surplus_blocks(self, block_tokens: int) -> int:
        """Blocks given back after the step, because only rejected guesses were in them."""
        return -(-(self.start + self.tokens) // block_tokens) - -(-self.reached // block_tokens)

    def chunk(
        self, request_id: str, step: int, block_tokens: int, fork_of: str | None = None
    ) -> Chunk:
        """What the run computed in `step`, as the plan of that step said it."""
        start = self.start + step - self.first
        blocks = tuple(self.blocks)
        if self.count > 1:
            crossed = -(-start // block_tokens) - -(-self.start // block_tokens)
            blocks = blocks[crossed : crossed + 1] if start % block_tokens == 0 else ()
        return Chunk(
            *(request_id, self.seat, start, start + self.tokens, self.delivered > 0, blocks),
            *(self.drafts, self.cached, self.restored, None if self.tokens else fork_of, self.copy),
        )


class Stay(NamedTuple):
    """A time in a seat: from the first step in it to the step at whose beginning it was free."""

    seat: int
    first: int
    stop: int | None
    """None while the request is still there."""
    preempted: bool = False
    swapped_out: int = 0
    """Blocks that moved to host memory when it was preempted."""


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
    fork_of: str | None = None
    """The request whose prompt it shares, if it is a further answer to it."""

    @classmethod
    def of(cls, request: Request) -> list[Record]:
        """The records of a request's answers, to which nothing has happened yet."""
        if request.n == 1:
            return [cls._of(request)]
        records = [cls._of(answer) for answer in request.answers]
        for other in records[1:]:
            other.fork_of = request.id
        return records

    @classmethod
    def _of(cls, request: Request) -> Record:
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

    def runs_of_stays(self) -> Iterator[tuple[Stay | None, Run, bool]]:
        """Each run with the stay before its own, and whether it is the first of its stay."""
        before: Stay | None = None
        number, first = 0, True
        for run in self.runs:
            while number < len(self.stays):
                stop = self.stays[number].stop
                if stop is None or run.first < stop:
                    break
                before, number, first = self.stays[number], number + 1, True
            yield before, run, first
            first = False

    def run_of(self, chunk: Chunk, step: int, delivered: int) -> Run:
        """The run that begins when `chunk` is computed in `step`."""
        kind: Kind = "decode"
        if any(stay.preempted for stay in self.stays) and chunk.start < self.reached:
            kind = "recompute"
        elif chunk.start < self.prompt_tokens or chunk.fork_of:
            kind = "prefill"
        return Run(
            *(kind, chunk.seat, step, 1, chunk.start, chunk.num_tokens, delivered),
            *(list(chunk.blocks), chunk.drafts, chunk.cached, chunk.restored, chunk.copy),
        )

    def holdings(self, block_tokens: int, num_steps: int) -> Iterator[tuple[int, int, list[int]]]:
        """(first step, stop step, blocks): which blocks the request held from when to when."""
        copying = [run for run in self.runs if run.copy]
        additions = self._additions(block_tokens, num_steps)
        return self._without_copied(additions, copying[0]) if copying else additions

    def _without_copied(
        self, additions: Iterator[tuple[int, int, list[int]]], copying: Run
    ) -> Iterator[tuple[int, int, list[int]]]:
        """The block that a copy took the place of is held until then; there is one at most."""
        assert copying.copy is not None
        source = copying.copy[0]
        for first, stop, blocks in additions:
            if first < copying.first < stop and source in blocks:
                yield first, copying.first, [source]
                blocks = [block for block in blocks if block != source]
            yield first, stop, blocks

    def _additions(self, block_tokens: int, num_steps: int) -> Iterator[tuple[int, int, list[int]]]:
        """As `holdings`, but for the block that a copy took the place of."""
        starts = [stay.first for stay in self.stays]
        for run in self.runs:
            if not run.blocks and run.copy is None:
                continue
            stop = self.stays[bisect_right(starts, run.first) - 1].stop
            stop = num_steps if stop is None else stop
            if run.copy:
                yield run.first, stop, [run.copy[1]]
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
