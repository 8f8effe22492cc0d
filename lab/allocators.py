"""One workload in one memory under several rules: who gets which slots, and what becomes of them.

Pages are the real scheduler's, read from its trace. For rules that want their slots in one piece
there is a small engine here, which decides as that scheduler does in a world of equal steps: first
come, first served; a prompt at once, then one token a step; whoever came last gives way.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Literal, Protocol, cast, get_args

from lab.addresses import Addresses, Fit, power_of_two
from lab.executors.cost_model import CostModel
from lab.ledgers.allocation import Allocation, Slots, allocation
from lab.policy import RANKS, Continuous
from lab.request import Request, Sequence, Time
from lab.run import simulate
from lab.trace import Trace, Unit
from lab.workload import Workload

Reserve = Literal["longest", "power of two", "exact", "doubling"]

CITED: Mapping[str, Fraction] = {
    "maximum": Fraction("0.204"),  # Kwon et al., SOSP 2023, figure 2: Orca (Max), token states
    "power of two": Fraction("0.268"),  # Kwon et al., SOSP 2023, figure 2: Orca (Pow2)
    "oracle": Fraction("0.382"),  # Kwon et al., SOSP 2023, figure 2: Orca (Oracle)
    "paging": Fraction("0.963"),  # Kwon et al., SOSP 2023, figure 2: vLLM
}
"""Share of KV memory that holds tokens, as the paper on PagedAttention reports it."""


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Every request has its slots in one piece, and `reserve` says how many.

    "longest": `longest` slots, the most that the model can use. "power of two": the prompt, and
    the power of two that its answer needs at least: of an answer that fills 25 slots, 32 are
    reserved. "exact": what will be written, as if the length of the answer were known. "doubling":
    the power of two that holds what there is by now, and twice as many when they are full. It
    then grows where it is if the slots behind it are free; else its tokens move to another hole.

    `fit` says which hole a piece goes to, as in `Addresses`. ValueError for a rule that is none,
    or a `longest` without "longest" and the other way round.
    """

    reserve: Reserve
    longest: int | None = None
    fit: Fit = "first"

    def __post_init__(self) -> None:
        if self.reserve not in get_args(Reserve):
            raise ValueError(
                f"reserve must be one of {', '.join(get_args(Reserve))}, got {self.reserve!r}"
            )
        if (self.reserve == "longest") != (self.longest is not None):
            raise ValueError(
                f"longest is the number of slots for reserve='longest', got {self.longest} with "
                f"{self.reserve!r}"
            )

    def slots(self, request: Request, tokens: int) -> int:
        """Slots that the request wants when it has `tokens` positions."""
        whole = request.max_computed
        match self.reserve:
            case "longest":
                return self.longest or whole
            case "power of two":
                return request.prompt_tokens + power_of_two(whole - request.prompt_tokens)
            case "exact":
                return whole
            case "doubling":
                return power_of_two(tokens)


@dataclass(frozen=True, slots=True)
class Pages:
    """Every request has as many blocks of `block_tokens` slots as its tokens fill, anywhere."""

    block_tokens: int = 16


def fill(
    workload: Workload,
    allocator: Contiguous | Pages,
    slots: int,
    *,
    seats: int = 256,
    step: Time = 1,
) -> Allocation:
    """Serve a workload from a memory of `slots` tokens, in steps that take `step` each.

    First come, first served: nobody is admitted before somebody who came earlier. `step` is in the
    unit of the workload. Pages are served by the real scheduler, `Continuous(patience=0)`.

    One request of 4 prompt and 3 output tokens in 8 slots, "exact": 6 slots are its own, and 4, 5
    and 6 of them are used, so the utilisation is 15/24. ValueError for a request that can never
    run, for one with several answers, a deadline or a cancellation, and for slots that are no whole
    number of blocks.
    """
    for request in workload:
        _check_plain(request)
    if isinstance(allocator, Contiguous):
        memory = OnePiece(allocator, slots)
        for request in workload:
            memory.check(request)
        filling = Filling(workload, memory, seats=seats, step=step)
        while filling.goes_on:
            filling.step()
        return filling.account()
    return allocation(paged(workload, allocator, slots, seats=seats, step=step))


def paged(
    workload: Workload, pages: Pages, slots: int, *, seats: int = 256, step: Time = 1
) -> Trace:
    """The trace of the real scheduler that `fill` reads its pages from. ValueError as there."""
    size = pages.block_tokens
    if size < 1 or slots < size or slots % size:
        raise ValueError(f"{slots} slots are no whole number of blocks of {size}")
    policy = Continuous(seats=seats, blocks=slots // size, block_tokens=size, patience=0)
    cost = CostModel.equal_steps(step, cast(Unit, workload.unit or "step"))
    trace = simulate(workload, policy, cost)
    for record in trace.requests:
        if record.status == "refused":
            raise ValueError(record.reason)
    return trace


class Memory(Protocol):
    """Who holds how much of `slots`. `moved` counts the tokens that had to be copied."""

    slots: int
    moved: int

    def hold(self, request: Request, tokens: int) -> bool:
        """Give a request room for its first `tokens` positions, which it keeps until `release`;
        False, and nothing changes, where there is none."""

    def release(self, request: Request) -> None:
        """Take back all that a request holds."""

    def held(self, request: Request) -> int:
        """Slots that a request holds."""

    def is_broken(self, request: Request, tokens: int) -> bool:
        """Whether enough slots are free to `hold` them, but not as they must lie."""


class OnePiece:
    """A memory in which a request has one region. It is the `Memory` of a `Contiguous` rule."""

    def __init__(self, rule: Contiguous, slots: int) -> None:
        self.rule = rule
        self.slots = slots
        self.moved = 0
        self.addresses = Addresses(slots, rule.fit)
        self.regions: dict[str, range] = {}

    def check(self, request: Request) -> None:
        """ValueError if the request can never run: it is longer than `longest` or the memory."""
        whole = request.max_computed
        size = self.addresses.size(self.rule.slots(request, whole))
        if size < whole:
            raise ValueError(
                f"request {request.id!r} may need {whole} slots, and a request gets {size}"
            )
        if size > self.slots:
            raise ValueError(
                f"request {request.id!r} may need a region of {size} slots, and the memory has "
                f"{self.slots}"
            )

    def hold(self, request: Request, tokens: int) -> bool:
        old = self.regions.get(request.id)
        if old is not None and tokens <= len(old):
            return True
        if old is not None:  # a move may overlap: each token is read before its place is written
            self.addresses.release(old)
        start = None if old is None else old.start
        new = self.addresses.take(self.rule.slots(request, tokens), at=start)
        if new is None:
            if old is not None:
                self.addresses.take(len(old), at=start)
            return False
        if old is not None and new.start != old.start:
            self.moved += tokens - 1  # the token of this step is not written yet
        self.regions[request.id] = new
        return True

    def release(self, request: Request) -> None:
        self.addresses.release(self.regions.pop(request.id))

    def held(self, request: Request) -> int:
        return len(self.regions[request.id])

    def is_broken(self, request: Request, tokens: int) -> bool:
        count = self.rule.slots(request, tokens)
        enough = self.addresses.size(count) <= self.addresses.free
        return enough and self.addresses.place(count) is None


class Filling:
    """Requests that fill a memory, step by step: those who run first grow, in order of arrival,
    then those who wait come in. Where somebody cannot grow, whoever came last gives up what it
    holds, and starts over later with its prompt and the tokens that it has; in such a step nobody
    comes in."""

    def __init__(
        self, requests: Iterable[Request], memory: Memory, *, seats: int = 256, step: Time = 1
    ) -> None:
        self.memory = memory
        self.running: list[Sequence] = []  # in order of arrival
        self._seats, self._duration = seats, step
        self._now: Time = 0
        rank = RANKS["first-come"]
        self._coming = [Sequence(r, n, rank(r, n)) for n, r in enumerate(requests)]
        self._coming.reverse()  # the next one last
        self._waiting: list[tuple[int, Sequence]] = []  # a heap
        self._steps: list[Slots] = []
        self._ends: dict[str, Time] = {}
        self._preemptions = 0

    @property
    def goes_on(self) -> bool:
        """Whether anybody is still to be served."""
        return bool(self._coming or self._waiting or self.running)

    @property
    def waiting(self) -> list[Sequence]:
        """Who has come and holds nothing, the next first."""
        return [sequence for _, sequence in sorted(self._waiting)]

    def step(self) -> None:
        """One step, or the wait for the next arrival and then one step."""
        self.begin()
        self.end()

    def begin(self) -> None:
        """The first half of a step: everybody who runs in it has the room that it needs."""
        self._arrive()
        if not self._grow():
            self._admit()
        self._steps.append(self._slots())

    def end(self) -> None:
        """The second half: a token for everybody, and who has all of its own leaves."""
        self._now += self._duration
        for sequence in self.running:
            sequence.computed = sequence.tokens
            sequence.tokens += 1
        for sequence in [s for s in self.running if s.tokens == s.limit]:
            self._leave(sequence)
            self._ends[sequence.request.id] = self._now

    def account(self) -> Allocation:
        """What became of the memory so far."""
        memory = self.memory
        steps = tuple(self._steps)
        return Allocation(memory.slots, steps, self._ends, memory.moved, self._preemptions)

    def _arrive(self) -> None:
        if not self.running and not self._waiting:
            self._now = max(self._now, self._coming[-1].request.arrival)
        while self._coming and self._coming[-1].request.arrival <= self._now:
            self._wait(self._coming.pop())

    def _wait(self, sequence: Sequence) -> None:
        heapq.heappush(self._waiting, (sequence.number, sequence))

    def _leave(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.memory.release(sequence.request)

    def _grow(self) -> bool:
        """Room for the next token of everybody. Returns whether somebody had to give way."""
        before = self._preemptions
        for sequence in tuple(self.running):
            while sequence in self.running and not self._has_room(sequence):
                last = self.running[-1]
                self._leave(last)
                self._wait(last)
                self._preemptions += 1
        return self._preemptions > before

    def _has_room(self, sequence: Sequence) -> bool:
        return self.memory.hold(sequence.request, sequence.tokens)

    def _admit(self) -> None:
        while self._waiting and len(self.running) < self._seats:
            _, sequence = self._waiting[0]
            if not self._has_room(sequence):
                break
            heapq.heappop(self._waiting)
            insort(self.running, sequence, key=attrgetter("number"))

    def _slots(self) -> Slots:
        """The memory in this step, with the tokens that the step writes."""
        used = sum(sequence.tokens for sequence in self.running)
        held = [self.memory.held(sequence.request) for sequence in self.running]
        wanted = sum(
            min(slots, sequence.request.max_computed)
            for slots, sequence in zip(held, self.running, strict=True)
        )
        left = self.memory.slots - sum(held)
        _, first = self._waiting[0] if self._waiting else (0, None)
        broken = first is not None and self.memory.is_broken(first.request, first.tokens)
        external = left if broken else 0
        return Slots(
            *(used, wanted - used, sum(held) - wanted, external, left - external),
            *(len(self.running), len(self._waiting)),
        )


def _check_plain(request: Request) -> None:
    if request.n > 1 or request.deadline is not None or request.cancel_at is not None:
        raise ValueError(
            "allocators are compared on requests with 1 answer that nobody gives up, and request "
            f"{request.id!r} has {request.n}, deadline {request.deadline} and cancel_at "
            f"{request.cancel_at}"
        )
