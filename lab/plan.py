"""The messages between scheduler and executor: values that can be printed, compared and saved."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from lab.request import Time

Ending = Literal["finished", "cancelled", "timed out", "refused", "failed"]
"""How a request can end. Every request ends in exactly one of them."""


class Chunk(NamedTuple):
    """Tokens `[start, stop)` of one sequence, computed in one step.

    A whole prompt, a piece of one, a decode and a draft check differ only in these numbers.
    """

    request_id: str
    seat: int
    start: int
    stop: int
    samples: bool
    """True if the chunk reaches the end of the sequence: its last logits give a new token."""
    blocks: tuple[int, ...] = ()
    """Blocks *added* to the sequence's table for this chunk, in the order of their positions. Of a
    chunk that `begins`, they are the whole table."""
    drafts: int = 0
    """How many of the last tokens are guesses that this step checks."""
    cached: int = 0
    """How many tokens before `start` are taken from the prefix cache: their K and V lie in the
    first of `blocks`."""
    restored: int = 0
    """How many of the first of `blocks` are brought back from host memory before the step."""
    fork_of: str | None = None
    """The sequence whose prompt ends in this step, and from whose last logits the first token of
    this one is sampled too. Such a chunk computes nothing itself."""
    copy: tuple[int, int] | None = None
    """(source, target): the block that is written to is shared. Before the step it is copied, and
    the copy takes its place in the table."""

    @property
    def num_tokens(self) -> int:
        """Tokens that go through the model."""
        return self.stop - self.start

    def new_blocks(self, block_tokens: int) -> tuple[int, ...]:
        """Of `blocks`, those whose content is nobody's: neither from the cache nor from host memory
        nor from the table it forks from."""
        known = max(self.cached // block_tokens, self.restored)
        return () if self.fork_of else self.blocks[known:]

    def with_drafts(self, drafts: int, block_tokens: int) -> Chunk:
        """The chunk with only its first `drafts` guesses. It ends earlier; blocks that were
        reserved for the others are none of it.

        Of [9:14) with 4 drafts and 1 guess there stays [9:11) with 1; of 2 blocks of 4 tokens, one.
        """
        if drafts == self.drafts:
            return self
        stop = self.stop - self.drafts + drafts
        spare = -(-self.stop // block_tokens) - -(-stop // block_tokens)
        blocks = self.blocks[: len(self.blocks) - spare]
        return self._replace(stop=stop, drafts=drafts, blocks=blocks)

    @property
    def begins(self) -> bool:
        """Whether `blocks` is the sequence's whole table, and what was known of it is void."""
        return self.start == self.cached or self.restored > 0 or self.fork_of is not None


class Decode(NamedTuple):
    """A sequence that goes on by one token a step: in step s it computes position `pace + s`."""

    request_id: str
    seat: int
    pace: int


class Decodes(NamedTuple):
    """All sequences that go on by themselves, in order of seats."""

    members: tuple[Decode, ...] = ()
    pace: int = 0
    """The sum of the members' paces: in step s they read `pace + len(members) * s` positions."""


class Event(NamedTuple):
    """A change that takes no time: who lost the seat, who ended and why."""

    request_id: str
    kind: Literal["preempted", "left"] | Ending
    """`left`: the seat and its blocks are free again. In static batching that comes later than
    the end of the request."""
    reason: str = ""


class Swap(NamedTuple):
    """Blocks of one request that move between device and host memory, in order of positions."""

    request_id: str
    blocks: tuple[int, ...]


class StepPlan(NamedTuple):
    """Everything that the scheduler decided for one step, or for several equal ones.

    A sequence is either written out as a chunk, or it is one of the `decodes`, which compute one
    token in every step; `chunks` shows both alike. With `repeat` k the plan stands for the k steps
    from `step` on, or for the first of them: all compute the same, each one token further.

    `wake_at` is a moment at which the scheduler has to be asked again, whatever happens before:
    the end of a batch time-out or a deadline. A plan without chunks waits for it or for the next
    arrival.

    Before anything is computed, blocks move in this order: `swap_out`, `swap_in`, `copies`. A
    block that one of them frees may be a target of the next.
    """

    step: int = 0
    """The number of the plan's first step, counted from 0 over the run."""
    written: tuple[Chunk, ...] = ()
    decodes: Decodes = Decodes()
    blocks: tuple[tuple[int, str, int], ...] = ()
    """(step, request, block): blocks added to the tables of `decodes`. A plan names those of its
    first step; once it is carried out, those of all of its steps."""
    repeat: int = 1
    events: tuple[Event, ...] = ()
    idle_seats: tuple[int, ...] = ()
    """Seats held by requests that have ended while their static batch has not."""
    wake_at: Time | None = None
    swap_out: tuple[Swap, ...] = ()
    """Who was preempted and keeps K and V in host memory, until `swap_in` or its end."""
    ended: tuple[str, ...] = ()
    """Requests that have ended since the last plan that was carried out: whatever an executor
    keeps of them, it may forget."""
    evicted: tuple[tuple[int, int], ...] = ()
    """(step, block): cached blocks that were given up for others, as in `blocks`."""

    @property
    def swap_in(self) -> tuple[Swap, ...]:
        """What comes back from host memory before the step, and into which blocks."""
        return tuple(
            Swap(chunk.request_id, chunk.blocks[: chunk.restored])
            for chunk in self.written
            if chunk.restored
        )

    @property
    def copies(self) -> tuple[tuple[int, int], ...]:
        """(source, target): blocks to copy before the step, since it writes to the targets."""
        return tuple(chunk.copy for chunk in self.written if chunk.copy)

    @property
    def swapped_blocks(self) -> int:
        """Blocks that move between device and host memory, both ways together."""
        out = sum(len(swap.blocks) for swap in self.swap_out)
        return out + sum(chunk.restored for chunk in self.written)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return not (self.written or self.decodes.members)

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """What the plan's first step computes, in order of seats."""
        added = {who: (block,) for step, who, block in self.blocks if step == self.step}
        going_on = [
            Chunk(who, seat, pace + self.step, pace + self.step + 1, True, added.get(who, ()))
            for who, seat, pace in self.decodes.members
        ]
        return tuple(sorted([*going_on, *self.written], key=attrgetter("seat")))

    @property
    def num_tokens(self) -> int:
        """Tokens that go through the model in one step."""
        return len(self.decodes.members) + sum(chunk.num_tokens for chunk in self.written)


class StepOutcome(NamedTuple):
    """What came back from the executor."""

    ends: tuple[Time, ...]
    """The moment at which each of the plan's steps ended: `repeat` of them, or fewer where the
    executor stopped at the first end at or after `until`."""
    tokens: Mapping[str, tuple[int, ...]] | None = None
    """The new tokens of each request that sampled. None: every one got one token a step, and
    nobody knows its id, as in a simulation."""
    accepted: Mapping[str, int] = MappingProxyType({})
    """How many drafted tokens of each request's chunk were accepted."""
    failures: Mapping[str, str] = MappingProxyType({})
    """Requests that could not be computed, with the reason. Their batch mates are unharmed."""
    stops: Mapping[str, str] = MappingProxyType({})
    """Requests whose answer is over with the last of these tokens, with the reason, where the
    executor is who sees it: a stop string. Ids that stop are the scheduler's to see."""
    drafted: Mapping[str, int] = MappingProxyType({})
    """How many guesses there were for a chunk, where fewer than the plan had room for."""


class Executor(Protocol):
    """Computes a plan. It may look anywhere, but it may decide nothing about what runs next."""

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        """Carry out `plan`, which starts `now`. Of equal steps, stop after the first that ends at
        or after `until`."""
        ...
