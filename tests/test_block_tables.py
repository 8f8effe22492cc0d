"""Tables share what they may and nothing else: whoever is computed reads its own K and V."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass

from drawn_runs import Scripted, assert_at_rest, cost_models, crowded, scripted, served
from hypothesis import given, settings
from hypothesis import strategies as st
from remembering import Remembering

from lab.clock import VirtualClock
from lab.engine import Engine
from lab.executors.cost_model import CostModel
from lab.plan import StepOutcome, StepPlan
from lab.policy import Policy
from lab.request import Request, Time
from lab.scheduler import Refused, Scheduler
from lab.trace import Trace


class Broke(RuntimeError):
    """What goes wrong in these tests."""


@dataclass
class Breaking:
    """Raises in the turns that are named, before anything was done or after blocks were moved."""

    inner: Remembering
    before: set[int]
    after: set[int]
    turn: int = -1

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        self.turn += 1
        if self.turn in self.before:
            raise Broke
        if self.turn in self.after:
            self.inner.move(plan)
            raise Broke
        return self.inner.run(plan, now, until)


def take(engine: Engine, request: Request) -> None:
    try:
        engine.add(request)
    except Refused as reason:
        engine.trace.refuse(request, str(reason))


def run_with_memory(
    asked: list[Request],
    policy: Policy,
    inner: Scripted,
    before: set[int] = frozenset(),  # type: ignore[assignment]
    after: set[int] = frozenset(),  # type: ignore[assignment]
) -> Engine:
    memory = Remembering(policy.block_tokens, inner)
    trace = Trace("step", asdict(policy), starts=[], ends=[])
    scheduler = Scheduler(policy, repeats=False)
    engine = Engine(scheduler, Breaking(memory, before, after), VirtualClock(), trace)
    for request in asked:
        memory.take(request)
    coming = deque(sorted(asked, key=lambda request: request.arrival))
    for _ in range(3000):
        while coming and coming[0].arrival <= engine.clock.now():
            take(engine, coming.popleft())
        if not (coming or scheduler.has_work):
            break
        try:
            engine.step(coming[0].arrival if coming else None)
        except Broke:
            trace.check()
    trace.check()
    assert_at_rest(scheduler)
    for record in trace.requests:
        assert record.output == memory.output[record.id]
    return engine


turns = st.sets(st.integers(0, 30), max_size=6)
any_crowd = st.one_of(crowded(), crowded(drafts=True))


@settings(max_examples=200, deadline=None)
@given(crowd=any_crowd, executor=scripted(failing=True))
def test_every_sequence_reads_the_k_and_v_that_were_computed_for_its_own_history(
    crowd: tuple[list[Request], Policy], executor: Scripted
) -> None:
    run_with_memory(*crowd, executor)


@settings(max_examples=200, deadline=None)
@given(crowd=any_crowd, executor=scripted(failing=True), before=turns, after=turns)
def test_so_it_is_after_plans_that_broke_before_or_after_blocks_were_moved(
    crowd: tuple[list[Request], Policy], executor: Scripted, before: set[int], after: set[int]
) -> None:
    run_with_memory(*crowd, executor, before, after)


@settings(max_examples=200, deadline=None)
@given(crowd=crowded(), cost=cost_models)
def test_in_a_crowd_too_equal_steps_at_once_give_the_same_trace_bit_for_bit(
    crowd: tuple[list[Request], Policy], cost: CostModel
) -> None:
    at_once = served(*crowd, cost, repeats=True)
    one_by_one = served(*crowd, cost, repeats=False)
    assert (at_once.starts, at_once.ends) == (one_by_one.starts, one_by_one.ends)
    assert list(at_once.requests) == list(one_by_one.requests)
    assert at_once.evictions == one_by_one.evictions
