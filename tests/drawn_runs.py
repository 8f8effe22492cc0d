"""Random workloads, policies and executors, and the one way in which tests run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from lab.clock import VirtualClock
from lab.engine import Engine
from lab.executors.cost_model import CostModel
from lab.plan import Executor, StepOutcome, StepPlan
from lab.policy import Continuous, Policy, Static
from lab.request import Request, Time
from lab.scheduler import Scheduler
from lab.trace import Trace

ORDERS = ("first-come", "priority", "shortest-first")


def ask(
    name: str, prompt: int | Sequence[int], max_tokens: int, arrival: Time = 0, **more: Any
) -> Request:
    ids = range(prompt) if isinstance(prompt, int) else prompt
    return Request(id=name, prompt=ids, max_tokens=max_tokens, arrival=arrival, **more)


def engine_of(policy: Policy, executor: Executor | None = None, *, repeats: bool = True) -> Engine:
    """An engine on a virtual clock; without an executor every step takes 1."""
    executor = executor or CostModel.equal_steps()
    unit = executor.unit if isinstance(executor, CostModel) else "step"
    trace = Trace(unit, asdict(policy), starts=[], ends=[])
    return Engine(Scheduler(policy, repeats=repeats), executor, VirtualClock(), trace)


def served(
    requests: Iterable[Request],
    policy: Policy,
    executor: Executor | None = None,
    *,
    repeats: bool = True,
) -> Trace:
    """The trace of a run, after which everything is free and everybody has ended."""
    engine = engine_of(policy, executor, repeats=repeats)
    trace = engine.run(requests)
    assert_at_rest(engine.scheduler)
    assert all(record.status is not None for record in trace.requests)
    trace.check()
    return trace


def assert_at_rest(scheduler: Scheduler) -> None:
    assert not scheduler.has_work
    assert (scheduler.running, scheduler.waiting, scheduler.num_waiting) == ([], [], 0)
    assert scheduler.tables.host_used == 0
    if scheduler.pool is not None:
        assert scheduler.pool.used == 0
        assert scheduler.pool.free + scheduler.pool.cached == scheduler.pool.num_blocks
        assert scheduler.pool.cached == len(scheduler.tables.index or ())


@dataclass
class Scripted:
    """An executor that takes 1 a step, names each token by its position, accepts as many drafts
    as `accepts` says of (request, first position), of which there are at most as many as `guesses`
    says, and fails the chunks that `fails` names."""

    accepts: Callable[[str, int], int] = lambda request_id, start: 0
    fails: Callable[[str, int], str] = lambda request_id, start: ""
    duration: Time = 1
    guesses: Callable[[str, int], int] = lambda request_id, start: 99
    plans: list[tuple[Time, StepPlan]] = field(default_factory=list)
    outcomes: list[StepOutcome] = field(default_factory=list)

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        tokens, accepted, failures, drafted = {}, {}, {}, {}
        for chunk in plan.chunks:
            made = min(chunk.drafts, self.guesses(chunk.request_id, chunk.start))
            if made < chunk.drafts:
                drafted[chunk.request_id] = made
            if reason := self.fails(chunk.request_id, chunk.start):
                failures[chunk.request_id] = reason
            elif chunk.samples and chunk.fork_of not in failures:
                kept = min(made, self.accepts(chunk.request_id, chunk.start))
                first = chunk.stop - chunk.drafts
                tokens[chunk.request_id] = tuple(range(first, first + 1 + kept))
                accepted[chunk.request_id] = kept
        outcome = StepOutcome((now + self.duration,), tokens, accepted, failures, drafted=drafted)
        self.plans.append((now, plan))
        self.outcomes.append(outcome)
        return outcome


@dataclass
class Watched:
    """An executor that passes everything on to another one and keeps it."""

    inner: Executor
    seen: list[tuple[Time, StepPlan, StepOutcome]] = field(default_factory=list)

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        outcome = self.inner.run(plan, now, until)
        self.seen.append((now, plan, outcome))
        return outcome


moments = st.one_of(
    st.just(0),
    st.integers(0, 30),
    st.floats(0, 30, allow_nan=False).map(lambda moment: round(moment, 3)),
)
delays = st.one_of(st.none(), st.none(), st.integers(0, 25), st.sampled_from((0.5, 2.25, 7.1)))


@st.composite
def _prompts(draw: st.DrawFn) -> tuple[int, ...]:
    """Prompts with a beginning that others may have too."""
    length, variant = draw(st.integers(1, 20)), draw(st.integers(0, 2))
    shared = draw(st.integers(0, length))
    return (*range(shared), *(1000 * variant + i for i in range(shared, length)))


prompts = _prompts()


@st.composite
def requests(draw: st.DrawFn, name: str = "r0") -> Request:
    arrival = draw(moments)
    deadline, cancel = draw(delays), draw(delays)
    return ask(
        name,
        draw(prompts),
        draw(st.integers(1, 25)),
        arrival,
        n=draw(st.sampled_from((1, 1, 1, 1, 2, 3))),
        stop_ids=draw(st.sampled_from(((), (), (), (3, 17), (9,)))),
        tenant=draw(st.sampled_from(("", "", "B"))),
        draft_tokens=draw(st.sampled_from((None, None, None, 0, 2))),
        priority=draw(st.integers(0, 2)),
        deadline=None if deadline is None else arrival + deadline,
        cancel_at=None if cancel is None else arrival + cancel,
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[Request]:
    return [draw(requests(f"r{number}")) for number in range(draw(st.integers(1, 10)))]


@st.composite
def policies(draw: st.DrawFn, drafts: bool = False) -> Policy:
    memory: dict[str, Any] = {
        "blocks": draw(st.one_of(st.none(), st.integers(3, 30))),
        "block_tokens": draw(st.sampled_from((1, 2, 4, 16))),
        "order": draw(st.sampled_from(ORDERS)),
    }
    seats = draw(st.integers(1, 5))
    if not drafts and draw(st.integers(0, 3)) == 0:
        return Static(seats=seats, timeout=draw(st.sampled_from((0, 2.5, 3))), **memory)
    room = draw(st.one_of(st.none(), st.integers(0, 20)))
    preemption = draw(st.sampled_from(("recompute", "recompute", "swap", "swap", "never")))
    few = draw(st.one_of(st.none(), st.integers(1, 12)))
    return Continuous(
        seats=seats,
        token_budget=None if room is None else seats + room,
        chunked_prefill=draw(st.booleans()),
        preemption=preemption,
        host_blocks=few if preemption == "swap" else None,
        prefix_cache=memory["blocks"] is not None and draw(st.booleans()),
        patience=draw(st.sampled_from((0, 1, 16))),
        draft_tokens=draw(st.integers(1, 4)) if drafts else 0,
        adaptive_drafts=draw(st.booleans()),
        **memory,
    )


cost_models = st.sampled_from(
    (
        CostModel.equal_steps().swapping(Fraction(1, 4)),
        CostModel.affine(1, 0.1, 0.01, 0.001).swapping(0.1),
        CostModel.affine(Fraction(1, 3), Fraction(1, 7), Fraction(1, 10), Fraction(1, 100)),
        CostModel.table({1: 1, 8: 1.7, 1000: 90.1}),
        CostModel.table({0: 0.5, 2: 1.1, 20: 2.3}, by="decode_sequences", padded=True),
    )
)


def number_of(request_id: str) -> int:
    """r7 is 7, and its further answers are 70, 700, ...: each has its own luck."""
    number, _, answer = request_id[1:].partition("#")
    return int(number) * 10 ** (int(answer or 1) - 1)


@st.composite
def scripted(draw: st.DrawFn, failing: bool = False, all_guesses: bool = False) -> Scripted:
    """An executor whose answers depend on the request and the position only. With `all_guesses` it
    has as many as are planned."""
    keep = draw(st.integers(0, 5))
    salt = draw(st.integers(0, 6))
    few = 99 if all_guesses else draw(st.sampled_from((2, 4, 99)))

    def accepts(request_id: str, start: int) -> int:
        return (number_of(request_id) * 5 + start * 3 + salt) % (keep + 1)

    def guesses(request_id: str, start: int) -> int:
        return (number_of(request_id) + start * 7 + salt) % few if few < 99 else few

    def fails(request_id: str, start: int) -> str:
        return "out of luck" if failing and (number_of(request_id) + start + salt) % 23 == 5 else ""

    durations: tuple[Time, ...] = (1, 0.25, Fraction(2, 3))
    return Scripted(accepts, fails, draw(st.sampled_from(durations)), guesses)


@st.composite
def small_requests(draw: st.DrawFn, name: str) -> Request:
    shared, own, variant = (draw(st.integers(*bounds)) for bounds in ((0, 8), (1, 4), (0, 1)))
    return ask(
        name,
        (*range(shared), *(1000 * variant + i for i in range(shared, shared + own))),
        draw(st.integers(1, 9)),
        draw(st.integers(0, 6)),
        n=draw(st.sampled_from((1, 1, 1, 2, 3))),
        stop_ids=draw(st.sampled_from(((), (), (), (9,)))),
        tenant=draw(st.sampled_from(("", "", "", "B"))),
        cancel_at=draw(st.sampled_from((None, None, None, 9))),
        priority=draw(st.integers(0, 1)),
    )


@st.composite
def crowded(draw: st.DrawFn, drafts: bool = False) -> tuple[list[Request], Continuous]:
    """Requests that share beginnings, and a pool that is barely large enough for the longest."""
    asked = [draw(small_requests(f"r{number}")) for number in range(draw(st.integers(2, 7)))]
    size = draw(st.sampled_from((1, 2, 3, 4)))
    preemption = draw(st.sampled_from(("recompute", "swap", "swap", "never")))
    answers = {request.id: request.n if preemption == "never" else 1 for request in asked}
    need = max(answers[r.id] * -(-r.max_computed // size) for r in asked)
    seats = draw(st.integers(3, 5))
    room = draw(st.one_of(st.none(), st.integers(0, 8)))
    return asked, Continuous(
        seats=seats,
        token_budget=None if room is None else seats + room,
        blocks=need + draw(st.integers(0, 4)),
        block_tokens=size,
        order=draw(st.sampled_from(ORDERS)),
        preemption=preemption,
        host_blocks=draw(st.sampled_from((None, 3, 8))) if preemption == "swap" else None,
        prefix_cache=draw(st.booleans()),
        patience=draw(st.sampled_from((0, 1, 16))),
        draft_tokens=draw(st.integers(1, 4)) if drafts else 0,
    )
