"""Who comes first, who is admitted, who must leave: settings, as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lab.request import Request, Time

Order = Literal["first-come", "priority", "shortest-first"]

RANKS: dict[str, Callable[[Request, int], tuple[Time, ...]]] = {
    "first-come": lambda request, number: (request.arrival, number),
    "priority": lambda request, number: (-request.priority, request.arrival, number),
    "shortest-first": lambda request, number: (request.max_tokens, request.arrival, number),
}
"""Sort keys; the smallest goes first. They end in the arrival number, so equals keep their order
and are never swapped back and forth. `shortest-first` goes by the declared limit of the answer:
it knows no more than a real service does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """Continuous batching: between any two steps, who is done leaves and who fits comes in.

    seats: most requests in the batch at once.
    token_budget: most tokens that one step computes, prompts and decodes together; None: no limit.
    blocks: KV blocks in the pool, of `block_tokens` positions each; None: memory is no limit.
    chunked_prefill: a prompt may be cut to what is left of the token budget. Without it a prompt
        waits until it fits whole beside the running decodes.
    order: who is admitted and prefilled first, and, from the other end, who is preempted first.
    preemption: "recompute" admits a request when its prompt fits, and when blocks run out the last
        in order gives up its own and starts over, keeping what it has delivered; "swap" does so
        too, but moves its blocks to host memory and later back; "never" admits a request only when
        the longest answer it may give fits too.
    host_blocks: blocks that host memory holds; None: it is no limit. Who finds no room there is
        preempted by recompute.
    prefix_cache: blocks of a known beginning are used again instead of being computed again. When
        nobody uses them they stay, as cached blocks, until others need the room: the least
        recently used goes first.
    draft_tokens: guesses that a decode checks at most, where token budget and blocks allow.
    adaptive_drafts: each request checks as many as stood the last time and one more, up to
        `draft_tokens`, with which it begins: `next_drafts`.
    patience: a request that does not fit lets at most this many later ones past; then nobody
        behind it is admitted before it. It also bounds how many such requests one step looks past.
        With the order "first-come", a request therefore waits at most for the answers of those
        before it and of `patience` others.
    """

    seats: int = 256
    token_budget: int | None = None
    blocks: int | None = None
    block_tokens: int = 16
    chunked_prefill: bool = True
    order: Order = "first-come"
    preemption: Literal["recompute", "swap", "never"] = "recompute"
    host_blocks: int | None = None
    prefix_cache: bool = False
    draft_tokens: int = 0
    adaptive_drafts: bool = False
    patience: int = 16

    def __post_init__(self) -> None:
        _check(self)
        if self.token_budget is not None and self.token_budget < self.seats:
            raise ValueError(
                f"token_budget must not be below seats, since every running request may need one "
                f"token a step: got {self.token_budget} < {self.seats}"
            )
        if self.preemption not in ("recompute", "swap", "never"):
            raise ValueError(
                f"preemption must be 'recompute', 'swap' or 'never', got {self.preemption!r}"
            )
        if self.host_blocks is not None and self.preemption != "swap":
            raise ValueError(
                f"host_blocks are for preemption='swap', got {self.host_blocks} with "
                f"{self.preemption!r}"
            )
        if self.prefix_cache and self.blocks is None:
            raise ValueError("prefix_cache needs a pool: give blocks, got None")
        for name in ("patience", "draft_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")

    @property
    def keeps_seats(self) -> bool:
        """Whether a request that has ended holds its seat until the whole batch has."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Static:
    """Static batching: a batch is formed, runs until its last member is done, and then leaves.

    A member that is done keeps its seat and its blocks; what the idle seat costs is the cost
    model's to say. A batch is formed when no other runs and `seats` requests wait, or when the
    oldest of them has waited for `timeout` (0: whoever is there goes at once). Nobody is ever
    preempted: a member is taken only if the longest answer it may give fits in the pool.

    seats, blocks, block_tokens and order are as in `Continuous`.
    """

    seats: int = 8
    timeout: Time = 0
    blocks: int | None = None
    block_tokens: int = 16
    order: Order = "first-come"

    def __post_init__(self) -> None:
        _check(self)
        if self.timeout < 0:
            raise ValueError(f"timeout must not be negative, got {self.timeout}")

    def opens(self, num_waiting: int, oldest: Time) -> Time:
        """The moment from which a batch may be formed of those who wait, the oldest since then."""
        return oldest if num_waiting >= self.seats else oldest + self.timeout

    @property
    def keeps_seats(self) -> bool:
        return True

    @property
    def token_budget(self) -> None:
        """A static batch is prefilled in one go."""

    @property
    def chunked_prefill(self) -> bool:
        return False

    @property
    def preemption(self) -> Literal["never"]:
        return "never"

    @property
    def host_blocks(self) -> None:
        """Nobody is ever swapped out."""

    @property
    def prefix_cache(self) -> bool:
        return False

    @property
    def draft_tokens(self) -> int:
        return 0

    @property
    def adaptive_drafts(self) -> bool:
        return False

    @property
    def patience(self) -> int:
        return 0


Policy = Continuous | Static


def next_drafts(drafts: int, drafted: int, accepted: int, most: int) -> int:
    """How many guesses a request checks next, after it could check `drafts`, had `drafted` of them
    and `accepted` stood: as many as stood and one more. Where all stood, a short round does not
    take the number down.

    Of 4 guesses 1 stood: 2 next. Both stand: 3. All of them: 4, and no more if that is `most`.
    """
    if accepted < drafted:
        return accepted + 1
    return min(most, max(drafts, drafted + 1))


def _check(policy: Policy) -> None:
    for name in ("seats", "block_tokens", "blocks", "token_budget", "host_blocks"):
        value = getattr(policy, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if policy.order not in RANKS:
        raise ValueError(f"order must be one of {', '.join(RANKS)}, got {policy.order!r}")
