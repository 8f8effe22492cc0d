"""A trace that forgets: it is as short as it should be, agrees with itself, and what it has is what
the whole trace says of it."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from drawn_runs import Scripted, ask, cost_models, crowded, policies, scripted, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.clock import VirtualClock
from lab.engine import Engine
from lab.executors.cost_model import CostModel
from lab.plan import Executor
from lab.policy import Continuous, Policy, Static
from lab.record import Record, Run, Stay
from lab.request import Request
from lab.scheduler import Scheduler
from lab.trace import Trace
from lab.trace_json import from_json, to_json
from lab.trace_window import Window, may_go


def run(
    asked: list[Request],
    policy: Policy,
    executor: Executor,
    keep: int | None,
    repeats: bool = False,
) -> Trace:
    unit = executor.unit if isinstance(executor, CostModel) else "step"
    trace = Trace(unit, asdict(policy), starts=[], ends=[], keep=keep)
    return Engine(Scheduler(policy, repeats=repeats), executor, VirtualClock(), trace).run(asked)


def assert_the_same(cut: Trace, whole: Trace, keep: int) -> None:
    """What is kept is sound, survives a file, and says what the whole trace says."""
    cut.check()
    from_json(to_json(cut)).check()
    assert len(cut) + cut.settings.get("forgotten", 0) == len(whole)
    ends = sorted(record.end for record in whole.requests if record.end is not None)
    latest = ends[-keep:] if keep else []
    for record in whole.requests:
        if record.end is None or (latest and record.end > latest[0]):
            assert record.id in cut
    for record in cut.requests:
        other = whole[record.id]
        assert (record.status, record.reason, record.end) == (
            *(other.status, other.reason, other.end),
        )
        assert record.output == other.output
        assert cut.token_times(record.id) == whole.token_times(record.id)
        assert [stay.swapped_out for stay in record.stays] == [s.swapped_out for s in other.stays]


@settings(max_examples=150)
@given(
    asked=workloads(),
    policy=policies(),
    cost=cost_models,
    keep=st.integers(0, 3),
    repeats=st.booleans(),
)
def test_what_is_kept_of_a_simulation_is_what_the_whole_trace_says(
    asked: list[Request], policy: Policy, cost: CostModel, keep: int, repeats: bool
) -> None:
    cut = run(asked, policy, cost, keep, repeats)
    assert_the_same(cut, run(asked, policy, cost, None, repeats), keep)


@settings(max_examples=150)
@given(crowded(drafts=True), scripted(failing=True), st.integers(0, 3))
def test_what_is_kept_of_a_crowded_pool_with_drafts_and_failures_is_too(
    drawn: tuple[list[Request], Continuous], executor: Scripted, keep: int
) -> None:
    assert_the_same(run(*drawn, executor, keep), run(*drawn, executor, None), keep)


def test_a_long_run_keeps_few_records_and_few_steps() -> None:
    asked = [ask(f"r{n}", 1 + n % 9, 1 + n % 5, arrival=2 * n, n=1 + n % 2) for n in range(2000)]
    policy = Continuous(seats=4, blocks=20, block_tokens=4, prefix_cache=True)
    engine = Engine(
        Scheduler(policy, repeats=False),
        Scripted(),
        VirtualClock(),
        trace := Trace("step", asdict(policy), starts=[], ends=[], keep=10),
    )
    most = [0, 0, 0, 0]
    for number in range(0, 2000, 20):
        engine.run(asked[number : number + 20])
        sizes = (len(trace), trace.num_steps, len(trace.evictions), len(trace._ended))
        most = [max(pair) for pair in zip(most, sizes, strict=True)]
    assert most[0] <= 2 * 10 + 2 * 4 + 1
    assert most[1] <= 40 * 5
    assert most[2] <= 40 * 3
    assert most[3] <= 20
    assert trace.settings["forgotten"] > 2900
    trace.check()


def test_a_trace_without_a_bound_forgets_nobody() -> None:
    asked = [ask(f"r{n}", 1, 1) for n in range(50)]
    trace = run(asked, Continuous(seats=2), Scripted(), None)
    assert len(trace) == 50
    assert "forgotten" not in trace.settings
    with pytest.raises(ValueError, match="keep must be at least 0 requests, got -1"):
        Trace("s", {}, keep=-1)


def test_the_refused_are_forgotten_too() -> None:
    trace = Trace("s", {}, starts=[], ends=[], keep=2)
    for n in range(9):
        trace.refuse(ask(f"r{n}", 1, 1), "no")
    assert [record.id for record in trace.requests] == ["r6", "r7", "r8"]
    assert trace.settings["forgotten"] == 6


def test_who_has_ended_and_still_sits_there_is_not_forgotten() -> None:
    trace = run([ask("A", 1, 1), ask("B", 1, 1), ask("C", 1, 5)], Static(seats=3), Scripted(), 0)
    assert len(trace) == 0
    assert trace.settings["forgotten"] == 3


def test_all_answers_to_one_question_go_together() -> None:
    stays = [Stay(0, 0, 1)]
    records = {
        "A": Record("A", 0, 1, 1, stays=stays),
        "A#2": Record("A#2", 0, 1, 1, stays=stays, fork_of="A"),
        "B": Record("B", 0, 1, 1, stays=stays),
    }
    assert may_go(records, ["A", "B"]) == {"B"}
    assert may_go(records, ["A#2", "A"]) == {"A", "A#2"}
    records["B"].stays = [Stay(0, 0, None)]
    assert may_go(records, ["B"]) == set()


def test_steps_of_nobody_are_left_out_and_the_others_are_numbered_anew() -> None:
    def decodes(first: int, count: int) -> Run:
        return Run("decode", 0, first, count, 0, 1, 1)

    one = Record("A", 0, 1, 9, runs=[decodes(2, 2), decodes(7, 1)])
    one.stays = [Stay(0, 2, 5, True), Stay(0, 7, 9)]
    other = Record("B", 0, 1, 9, runs=[decodes(3, 2)], stays=[Stay(1, 3, None)])
    window = Window([one, other])
    assert window.of(list(range(10))) == [2, 3, 4, 7]
    assert [window.place(step) for step in range(10)] == [0, 0, 0, 1, 2, 3, 3, 3, 4, 4]
    for record in (one, other):
        window.renumber(record)
    assert [run.first for run in (*one.runs, *other.runs)] == [0, 3, 1]
    assert one.stays == [Stay(0, 0, 3, True), Stay(0, 3, 4)]
    assert other.stays == [Stay(1, 1, None)]


def test_steps_that_keep_their_old_numbers_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The negative control."""
    monkeypatch.setattr(Window, "renumber", lambda self, record: None)
    asked = [ask(f"r{n}", 3, 3) for n in range(9)]
    with pytest.raises(ValueError, match="the trace contradicts itself"):
        run(asked, Continuous(seats=2), Scripted(), 1).check()
