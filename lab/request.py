"""Requests and sequences: what a user asked for, and how far the engine has come with it."""

from __future__ import annotations

import math
from collections.abc import Collection
from collections.abc import Sequence as TokenIds
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

from lab.sampling import GREEDY, Sampling

Time: TypeAlias = int | float | Fraction
"""A moment or a duration in the unit of its workload or trace. Times keep their type: a table
given in whole milliseconds stays in integers, one given in thirds stays in fractions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question, as the engine receives it. It never changes; progress lives in `Sequence`.

    `prompt` holds token ids: a tuple, a `range` (`range(512)` stands for 512 distinct tokens and
    costs no memory, which is all that a simulation needs), or any other sequence with a length.

    `max_tokens` is the limit of the answer. Simulated requests always reach it.

    `priority`: a higher number goes first under `order="priority"`.

    `deadline` is the moment at which the service gives up on the request, `cancel_at` the moment
    at which its user hangs up. Both are moments of the same clock as `arrival`.

    `n` answers are made from one prompt, which is computed once; `answers` names them.

    An answer is over with the first token of `stop_ids` (what the user asked for) or of `end_ids`
    (with which the model says that it is done; none: it is not listened to). That token is
    delivered and counted. Both need an executor that names tokens.

    `draft_tokens` bounds the guesses that a step checks for the request, where the policy has
    such steps. None: as many as the policy says; 0: none, whatever its neighbours do.

    `sampling` says how a live model chooses tokens, `stop` which texts end an answer; a simulation
    knows neither.

    `tenant` and `adapter` (its name and version in one) keep cached prefixes apart: nobody is
    given K and V that were computed for another tenant or with another adapter.
    """

    id: str
    prompt: TokenIds[object]
    max_tokens: int
    arrival: Time = 0
    priority: int = 0
    deadline: Time | None = None
    cancel_at: Time | None = None
    n: int = 1
    stop_ids: Collection[int] = ()
    end_ids: Collection[int] = ()
    tenant: str = ""
    adapter: str = ""
    sampling: Sampling = GREEDY
    stop: tuple[str, ...] = ()
    draft_tokens: int | None = None

    def __post_init__(self) -> None:
        if len(self.prompt) == 0:
            raise ValueError(f"request {self.id!r}: the prompt must hold at least 1 token, got 0")
        if self.max_tokens < 1:
            raise ValueError(
                f"request {self.id!r}: max_tokens must be at least 1, got {self.max_tokens}"
            )
        if self.n < 1:
            raise ValueError(f"request {self.id!r}: n must be at least 1 answer, got {self.n}")
        if self.draft_tokens is not None and self.draft_tokens < 0:
            raise ValueError(
                f"request {self.id!r}: draft_tokens must be at least 0, got {self.draft_tokens}"
            )
        if not math.isfinite(self.arrival):
            raise ValueError(
                f"request {self.id!r}: arrival must be a finite number, got {self.arrival}"
            )
        if self.arrival < 0:
            raise ValueError(
                f"request {self.id!r}: the arrival must not be before 0, got {self.arrival}"
            )
        for name in ("deadline", "cancel_at"):
            moment = getattr(self, name)
            if moment is not None and moment < self.arrival:
                raise ValueError(
                    f"request {self.id!r}: {name} must not be before its arrival, "
                    f"got {moment} < {self.arrival}"
                )

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt in tokens."""
        return len(self.prompt)

    @property
    def max_computed(self) -> int:
        """Most positions that are ever computed: the last token of an answer is only read."""
        return len(self.prompt) + self.max_tokens - 1

    @property
    def answers(self) -> tuple[Request, ...]:
        """A request for each of the `n` answers. The first keeps the id, so that a request with
        one answer is its answer; the others are "A#2", "A#3", ..."""
        if self.n == 1:
            return (self,)
        ids = [self.id, *(f"{self.id}#{number}" for number in range(2, self.n + 1))]
        return tuple(
            replace(self, id=name, n=1, sampling=self.sampling.of_answer(number))
            for number, name in enumerate(ids, 1)
        )

    def ends_with(self, token: int) -> str:
        """Why the answer is over with this token: "stop", "end of text", or "" if it goes on."""
        if token in self.stop_ids:
            return "stop"
        return "end of text" if token in self.end_ids else ""


@dataclass(slots=True, eq=False)
class Sequence:
    """A request in progress: how many of its tokens exist, how many were computed, where it is.

    There is no prefill phase and no decode phase. `tokens` exist (the prompt, and what was
    generated), `computed` of them have K and V in the cache; a step computes part of the rest.
    """

    request: Request
    number: int
    """Arrival order: it breaks every tie, so that the same workload gives the same run."""
    rank: tuple[Time, ...]
    """Sort key under the policy's order; the smallest goes first. No two are equal."""
    prompt_tokens: int = field(init=False)
    tokens: int = field(init=False)
    """Prompt tokens plus generated tokens."""
    limit: int = field(init=False)
    """`tokens` at which the answer has reached its length limit."""
    computed: int = 0
    output: list[int] = field(default_factory=list)
    """Ids of the generated tokens, where the executor names them; a simulation does not."""
    blocks: list[int] = field(default_factory=list)
    """The block table: block `i` holds positions `[i * block_tokens, (i + 1) * block_tokens)`.
    Other sequences may hold the same block: its first positions are the same for all of them."""
    begun: bool = False
    """Whether a step was carried out since it took its seat: the executor knows its table."""
    swapped: int = 0
    """Blocks of it that lie in host memory."""
    forks: tuple[Sequence, ...] = ()
    """Further answers that will begin where its prompt ends. They take seats when it does, and
    have no blocks before."""
    fork_of: Sequence | None = None
    """The sequence that it will fork from; None once it has."""
    seat: int = field(init=False, repr=False)
    """The seat taken last; only a running sequence, or a fork of one, has one."""
    pace: int | None = None
    """Set while the sequence decodes on by itself: then step s computes position `pace + s`."""
    drafts: int = 0
    """Guesses that its next step checks at most."""
    passed_over: int = 0
    """How often a request behind this one was admitted while this one did not fit."""
    ended: bool = False

    def __post_init__(self) -> None:
        self.tokens = self.prompt_tokens = self.request.prompt_tokens
        self.limit = self.tokens + self.request.max_tokens

    @property
    def missing(self) -> int:
        """Tokens that exist but were not computed: the whole prompt at first, exactly one during
        decode, the whole history again after a preemption by recompute."""
        return self.tokens - self.computed
