"""The one loop: arrivals, waiting, errors of the executor, and what the trace remembers of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Thread

import pytest
from drawn_runs import (
    Scripted,
    Watched,
    ask,
    assert_at_rest,
    cost_models,
    engine_of,
    policies,
    scripted,
    served,
    workloads,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.clock import VirtualClock, WallClock
from lab.engine import Engine, Stuck
from lab.executors.cost_model import CostModel
from lab.outcome import carried_out
from lab.plan import Event, Executor, StepOutcome, StepPlan
from lab.policy import Continuous, Policy, Static
from lab.request import Request, Time
from lab.scheduler import Refused, Scheduler
from lab.trace import Trace


class Broke(RuntimeError):
    """What goes wrong in these tests."""


@dataclass
class Breaking:
    """An executor that raises in the turns that are named."""

    turns: set[int]
    inner: Executor = field(default_factory=Scripted)
    turn: int = -1

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        self.turn += 1
        if self.turn in self.turns:
            raise Broke(f"turn {self.turn} broke")
        return self.inner.run(plan, now, until)


def finished(engine: Engine) -> None:
    """Step until nothing is left to do, whatever the executor raises."""
    for _ in range(2000):
        if not engine.scheduler.has_work:
            return
        with suppress(Broke):
            engine.step()
    raise AssertionError("the engine did not come to an end")


def test_requests_are_served_in_the_order_of_their_arrival() -> None:
    trace = served([ask("B", 1, 1, arrival=4), ask("A", 1, 1, arrival=2)], Continuous())
    assert trace.timeline() == ["2-3  A[0:1)", "4-5  B[0:1)"]
    assert [record.id for record in trace.requests] == ["A", "B"]


def test_nothing_to_do_takes_no_time() -> None:
    engine = engine_of(Continuous())
    engine.run([])
    engine.step()
    assert engine.clock.now() == 0
    assert engine.trace.num_steps == 0


def test_add_raises_and_records_nothing() -> None:
    engine = engine_of(Continuous(blocks=2, block_tokens=4))
    engine.add(ask("A", 1, 1))
    with pytest.raises(Refused, match="request 'B' may need 3 blocks"):
        engine.add(ask("B", 9, 1))
    with pytest.raises(ValueError, match="request 'A' was added already"):
        engine.add(ask("A", 2, 2))
    assert [(record.id, record.prompt_tokens) for record in engine.trace.requests] == [("A", 1)]


def test_a_run_records_a_refusal_with_its_reason_and_goes_on() -> None:
    asked = [ask("A", 4, 2), ask("B", 9, 1, arrival=1), ask("C", 4, 2, arrival=1)]
    trace = served(asked, Continuous(blocks=2, block_tokens=4))
    assert [record.status for record in trace.requests] == ["finished", "refused", "finished"]
    assert trace["B"].reason == "request 'B' may need 3 blocks for 9 positions, and the pool has 2"
    assert (trace["B"].end, trace["B"].runs) == (1, [])


def test_progress_counts_the_requests_that_have_arrived() -> None:
    seen: list[int] = []
    engine = engine_of(Continuous())
    engine.run([ask("A", 1, 2), ask("B", 1, 1), ask("C", 1, 1, arrival=9)], seen.append)
    assert seen[0] == 2
    assert seen[-1] == 3
    assert seen == sorted(seen)


def test_an_engine_can_run_a_second_time() -> None:
    engine = engine_of(Continuous())
    engine.run([ask("A", 1, 2)])
    trace = engine.run([ask("B", 1, 1), ask("C", 1, 1, arrival=5)])
    trace.check()
    assert trace.timeline() == ["0-1  A[0:1)", "1-2  A[1:2)", "2-3  B[0:1)", "5-6  C[0:1)"]


def test_equal_steps_stop_at_the_first_end_at_or_after_an_arrival() -> None:
    watched = Watched(CostModel.equal_steps())
    served([ask("A", 1, 9), ask("B", 1, 1, arrival=3)], Continuous(), watched)
    assert [(now, plan.repeat, len(outcome.ends)) for now, plan, outcome in watched.seen] == [
        (0, 1, 1),
        (1, 8, 2),
        (3, 1, 1),
        (4, 5, 5),
    ]


def test_nobody_waits_for_a_deadline_that_is_never() -> None:
    trace = served([ask("A", 1, 3, deadline=float("inf"))], Continuous())
    assert trace["A"].status == "finished"


def test_stuck_names_at_most_eight_requests() -> None:
    engine = engine_of(Static(seats=20, timeout=float("inf")))
    with pytest.raises(Stuck, match=r"9 requests wait \(r0, r1, r2, r3, r4, r5, r6, r7\), nothing"):
        engine.run([ask(f"r{number}", 1, 1) for number in range(9)])


@pytest.mark.parametrize("repeats", [True, False])
def test_when_the_executor_raises_the_error_is_passed_on_and_the_blocks_come_back(
    repeats: bool,
) -> None:
    policy = Continuous(seats=2, blocks=8, block_tokens=2)
    for turn in range(3):
        engine = engine_of(policy, Breaking({turn}, CostModel.equal_steps()), repeats=repeats)
        for request in (ask("A", 3, 4), ask("B", 2, 5)):
            engine.add(request)
        for _ in range(turn):
            engine.step()
        with pytest.raises(Broke, match=f"turn {turn} broke"):
            engine.step()
        pool = engine.scheduler.pool
        assert pool is not None
        assert pool.used == sum(len(s.blocks) for s in engine.scheduler.running)
        for name in "AB":
            engine.cancel(name)
        engine.step()
        assert_at_rest(engine.scheduler)
        engine.trace.check()


def test_after_an_error_the_same_requests_can_be_served_to_their_end() -> None:
    policy = Continuous(seats=3, token_budget=5, blocks=6, block_tokens=3)
    asked = [ask("A", 4, 5), ask("B", 4, 6), ask("C", 3, 3)]
    whole = served(asked, policy, Scripted(), repeats=False)
    for turn in range(12):
        engine = engine_of(policy, Breaking({turn, turn + 1}), repeats=False)
        for request in asked:
            engine.add(request)
        finished(engine)
        engine.trace.check()
        assert_at_rest(engine.scheduler)
        for request in asked:
            assert engine.trace[request.id].output == whole[request.id].output


@settings(max_examples=100)
@given(
    asked=workloads(),
    policy=st.one_of(policies(), policies(drafts=True)),
    executor=scripted(failing=True),
    turns=st.sets(st.integers(0, 30), max_size=8),
    cancelled=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=4),
)
def test_errors_and_cancellations_in_any_turn_leave_a_sound_trace(
    asked: list[Request],
    policy: Policy,
    executor: Scripted,
    turns: set[int],
    cancelled: list[tuple[int, int]],
) -> None:
    engine = engine_of(policy, Breaking(turns, executor), repeats=False)
    for request in asked:
        try:
            engine.add(ask(request.id, request.prompt_tokens, request.max_tokens))
        except Refused:
            engine.trace.refuse(ask(request.id, request.prompt_tokens, 1), "too large")
    for turn in range(1000):
        if not engine.scheduler.has_work:
            break
        for when, number in cancelled:
            name = f"r{number}"
            if when == turn and name in engine.scheduler._sequences:
                engine.cancel(name)
        try:
            engine.step()
        except Broke:
            engine.trace.check()
    engine.trace.check()
    assert_at_rest(engine.scheduler)


@settings(max_examples=60)
@given(asked=workloads(), policy=policies(), turns=st.sets(st.integers(0, 30), max_size=8))
def test_errors_in_any_turn_leave_a_sound_trace_with_repeats_too(
    asked: list[Request], policy: Policy, turns: set[int]
) -> None:
    engine = engine_of(policy, Breaking(turns, CostModel.equal_steps()))
    for request in asked:
        try:
            engine.add(ask(request.id, request.prompt_tokens, request.max_tokens))
        except Refused:
            continue
    cancelled = iter(asked)
    for _ in range(2000):
        if not engine.scheduler.has_work:
            break
        try:
            engine.step()
        except Broke:
            name = next(cancelled).id if turns else ""
            if name in engine.scheduler._sequences:
                engine.cancel(name)
            cancelled = iter([*cancelled, *asked])
    engine.trace.check()
    assert_at_rest(engine.scheduler)


def test_a_preempted_one_whose_comeback_broke_keeps_the_seat_it_had_in_the_trace() -> None:
    """B is preempted in step 1 and seated again in step 3, whose plan breaks; then it is left."""
    policy = Continuous(seats=2, blocks=3, block_tokens=4)
    engine = engine_of(policy, Breaking({3}), repeats=False)
    for request in (ask("A", 4, 3), ask("B", 4, 3)):
        engine.add(request)
    for _ in range(3):
        engine.step()
    with pytest.raises(Broke):
        engine.step()
    assert [sequence.request.id for sequence in engine.scheduler.running] == ["B"]
    engine.cancel("B")
    engine.run([ask("C", 4, 1, arrival=3)])
    engine.trace.check()
    assert [(s.first, s.stop, s.preempted) for s in engine.trace["B"].stays] == [(0, 1, True)]


@pytest.mark.parametrize("repeats", [True, False])
def test_who_is_preempted_and_comes_back_in_the_same_step_is_seen_to_start_over(
    repeats: bool,
) -> None:
    """The plan that preempts C breaks, A hangs up, and the next plan has room for C again."""
    policy = Continuous(seats=3, blocks=5, block_tokens=4, order="priority")
    executor = Breaking({3}, CostModel.equal_steps())
    engine = engine_of(policy, executor, repeats=repeats)
    engine.add(ask("C", 3, 6))
    engine.step(1)
    for name in "AB":
        engine.add(ask(name, 3, 6, arrival=1, priority=1))
    engine.step(2)
    engine.step(3)
    with pytest.raises(Broke):
        engine.step()
    assert [sequence.request.id for sequence in engine.scheduler.running] == ["A", "B"]
    engine.cancel("A")
    finished(engine)
    engine.trace.check()
    assert engine.trace.timeline()[2:5] == [
        "2-3  C[4:5) A[3:4) B[3:4)",
        "3-4  C[0:6) B[4:5)",
        "4-5  C[6:7) B[5:6)",
    ]
    assert engine.trace.token_times("C") == [1, 2, 3, 4, 5, 6]
    assert_at_rest(engine.scheduler)


class Silent:
    """An executor that does not answer the first plan that it sees in each step."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.inner = Scripted()

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        if plan.step not in self.answers:
            self.answers.append(plan.step)
            return StepOutcome((now,), {})
        return self.inner.run(plan, now, until)


def test_an_outcome_that_does_not_answer_its_plan_gives_the_blocks_back_too() -> None:
    engine = engine_of(Continuous(blocks=9, block_tokens=2), Silent(), repeats=False)
    for request in (ask("A", 3, 4), ask("B", 1, 6)):
        engine.add(request)
    while engine.scheduler.has_work:
        with pytest.raises(ValueError, match="the step must bring 1 tokens, got 0"):
            engine.step()
        for sequence in engine.scheduler.running:
            assert len(sequence.blocks) == -(-sequence.computed // 2)
        engine.step()
    engine.trace.check()
    assert_at_rest(engine.scheduler)


def test_on_a_wall_clock_the_engine_sleeps_until_the_next_arrival() -> None:
    seconds, naps = [0.0], []

    def sleep(nap: float) -> None:
        naps.append(nap)
        seconds[0] += nap

    clock = WallClock(lambda: seconds[0], sleep)
    policy = Continuous()
    trace = Trace("s", {}, starts=[], ends=[])
    executor = CostModel.affine(0.5, 0, 0)
    Engine(Scheduler(policy, repeats=False), executor, clock, trace).run(
        [ask("A", 1, 2), ask("B", 1, 1, arrival=Fraction(60))]
    )
    trace.check()
    assert naps == [0.5, 0.5, 59, 0.5]
    assert [record.end for record in trace.requests] == [1.0, 60.5]


# Replay: one scheduler, every world


def replayed(policy: Policy, asked: list[Request], watched: Watched, *, repeats: bool) -> None:
    """Fed the recorded clock readings, arrivals and outcomes, a fresh scheduler plans the same."""
    scheduler = Scheduler(policy, repeats=repeats)
    coming = sorted(asked, key=lambda request: request.arrival)
    engine = Engine(scheduler, Playback(watched), VirtualClock(), Trace("step", {}, [], [], []))
    engine.run(coming)


@dataclass
class Playback:
    """Gives the recorded outcome, if plan and moment are the recorded ones."""

    watched: Watched
    turn: int = 0

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        then, planned, outcome = self.watched.seen[self.turn]
        self.turn += 1
        assert (now, plan) == (then, planned)
        return outcome


@settings(max_examples=100)
@given(asked=workloads(), policy=policies(), cost=cost_models, repeats=st.booleans())
def test_a_simulation_can_be_replayed(
    asked: list[Request], policy: Policy, cost: CostModel, repeats: bool
) -> None:
    watched = Watched(cost)
    served(asked, policy, watched, repeats=repeats)
    replayed(policy, asked, watched, repeats=repeats)


@settings(max_examples=100)
@given(
    asked=workloads(),
    policy=st.one_of(policies(), policies(drafts=True)),
    executor=scripted(failing=True),
)
def test_a_run_that_names_tokens_drafts_and_fails_can_be_replayed(
    asked: list[Request], policy: Policy, executor: Scripted
) -> None:
    watched = Watched(executor)
    trace = served(asked, policy, watched, repeats=False)
    replayed(policy, asked, watched, repeats=False)
    planned = [
        carried_out(plan, outcome, policy.block_tokens).chunks for _, plan, outcome in watched.seen
    ]
    failed = {record.id for record in trace.requests if record.status == "failed"}
    for chunks, step in zip(planned, trace.steps(), strict=True):
        for chunk, remembered in zip(chunks, step.chunks, strict=True):
            if chunk.request_id not in failed:
                assert chunk == remembered, "the trace shows the plan as it was carried out"


@settings(max_examples=100)
@given(asked=workloads(), policy=policies(drafts=True), executor=scripted())
def test_drafts_change_when_tokens_come_and_never_which(
    asked: list[Request], policy: Continuous, executor: Scripted
) -> None:
    trace = served(asked, policy, executor, repeats=False)
    for record in trace.requests:
        first = record.prompt_tokens
        assert record.output == [*range(first, first + record.output_tokens)]
        if (record.status, record.reason) == ("finished", "length"):
            assert record.output_tokens == record.max_tokens


# From other threads


def test_many_threads_ask_and_cancel_while_the_engine_serves() -> None:
    engine = Engine(
        Scheduler(Continuous(seats=4, blocks=12, block_tokens=4), repeats=False),
        Scripted(duration=0.0002),
        WallClock(),
        Trace("s", {"block_tokens": 4}, starts=[], ends=[]),
    )
    server = Thread(target=engine.serve, daemon=True)
    server.start()

    def asks(name: str) -> None:
        for number in range(20):
            who = f"{name}{number}"
            engine.add(ask(who, 1 + number % 7, 1 + number % 5, arrival=engine.clock.now()))
            if number % 4 == 0:
                engine.cancel(who)
            with pytest.raises(ValueError, match="was added already"):
                engine.add(ask(who, 1, 1))

    users = [Thread(target=asks, args=(name,), daemon=True) for name in "abcd"]
    for user in users:
        user.start()
    for user in users:
        user.join()
    engine.close()
    server.join(30)
    assert not server.is_alive()
    engine.trace.check()
    assert_at_rest(engine.scheduler)
    assert len(engine.trace) == 80
    assert {record.status for record in engine.trace.requests} <= {"finished", "cancelled"}
    for record in engine.trace.requests:
        assert record.status == "cancelled" or record.output_tokens == record.max_tokens


def test_a_request_that_can_never_run_is_refused_in_the_thread_that_asks() -> None:
    engine = Engine(
        Scheduler(Continuous(blocks=2, block_tokens=4)),
        Scripted(duration=0),
        WallClock(),
        Trace("s", {}, starts=[], ends=[]),
    )
    server = Thread(target=engine.serve, daemon=True)
    server.start()
    with pytest.raises(Refused, match="request 'A' may need 3 blocks"):
        engine.add(ask("A", 9, 1))
    engine.close()
    server.join(30)
    assert not server.is_alive()
    assert len(engine.trace) == 0


def test_a_batch_that_waits_for_more_is_woken_by_the_one_that_fills_it() -> None:
    engine = Engine(
        Scheduler(Static(seats=2, timeout=3600), repeats=False),
        Scripted(duration=0),
        WallClock(),
        Trace("s", {}, starts=[], ends=[]),
    )
    server = Thread(target=engine.serve, daemon=True)
    server.start()
    engine.add(ask("A", 1, 1))
    engine.add(ask("B", 1, 1))
    engine.close()
    server.join(30)
    assert not server.is_alive()
    assert [record.status for record in engine.trace.requests] == ["finished", "finished"]


def test_a_batch_that_can_never_be_full_is_stuck_once_the_engine_is_closed() -> None:
    engine = engine_of(Static(seats=2, timeout=float("inf")))
    engine.add(ask("A", 1, 1))
    engine.close()
    with pytest.raises(Stuck, match=r"1 requests wait \(A\)"):
        engine.serve()


def test_to_close_and_cancel_ends_everybody_in_every_state() -> None:
    engine = engine_of(Continuous(seats=2), Scripted(), repeats=False)
    for name in ("A", "B", "C"):
        engine.add(ask(name, 2, 100, n=1 + (name == "B")))
    engine.step()
    engine.close(cancel=True)
    trace = engine.serve()
    assert {record.status for record in trace.requests} == {"cancelled"}
    assert [record.output_tokens for record in trace.requests] == [1, 0, 0, 1]
    assert_at_rest(engine.scheduler)


def test_what_is_asked_of_an_engine_that_has_ended_waits_for_the_next_time() -> None:
    engine = engine_of(Continuous())
    engine.close()
    engine.serve()
    engine.add(ask("A", 1, 1))
    assert engine.serve()["A"].status == "finished"


class Hearing(Engine):
    """An engine that keeps what it hears."""

    def hear(self, outcome: StepOutcome | None, events: Iterable[Event]) -> None:
        kinds = [(event.request_id, event.kind) for event in events]
        self.heard = [*getattr(self, "heard", []), (outcome and outcome.ends, kinds)]
        assert all(self.trace[who].status == kind for who, kind in kinds if kind != "left")


def test_what_the_trace_is_told_can_be_heard_after_it() -> None:
    trace = Trace("step", {}, starts=[], ends=[])
    engine = Hearing(Scheduler(Continuous(seats=1)), CostModel.equal_steps(), VirtualClock(), trace)
    engine.run([ask("A", 1, 1), ask("B", 1, 9, cancel_at=1)])
    assert engine.heard == [
        ((1,), [("A", "finished"), ("A", "left")]),
        (None, [("B", "cancelled")]),
    ]


def test_ids_of_the_past_are_remembered_in_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.scheduler._REMEMBERED", 3)
    scheduler = Scheduler(Continuous())
    for number in range(6):
        scheduler.add(ask(f"r{number}", 1, 1, n=2))
        while scheduler.has_work:
            scheduler.commit(scheduler.plan(number), StepOutcome((number + 1,)))
    assert (len(scheduler._past), len(scheduler._families)) == (3, 1)
    with pytest.raises(ValueError, match="request 'r5' was added already"):
        scheduler.add(ask("r5", 1, 1))
    scheduler.add(ask("r0", 1, 1))
    with pytest.raises(ValueError, match="there is no request 'r1' to cancel"):
        scheduler.cancel("r1")
