"""What a trace remembers, and what it says when it is read."""

from __future__ import annotations

import pytest
from drawn_runs import (
    Scripted,
    Watched,
    ask,
    cost_models,
    engine_of,
    policies,
    scripted,
    served,
    workloads,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.executors.cost_model import CostModel
from lab.outcome import carried_out
from lab.plan import Chunk
from lab.policy import Continuous, Policy
from lab.record import Run, Stay
from lab.request import Request
from lab.run import given as given_times
from lab.run import simulate
from lab.trace import Trace, TraceError
from lab.workload import Workload


@pytest.fixture
def trace() -> Trace:
    """Two answers in three blocks: B is preempted and comes back."""
    work = Workload.given({"A": (0, 4, 3), "B": (0, 4, 3)})
    policy = Continuous(seats=2, token_budget=8, blocks=3, block_tokens=4)
    return simulate(work, policy, CostModel.equal_steps(10, unit="ms"))


@pytest.fixture
def table() -> Trace:
    return given_times({"A": [3, 5]}, Workload.given({"A": (1, 4, 2)}))


def test_the_steps_are_a_timetable(trace: Trace) -> None:
    assert trace.timeline() == [
        "0-10  A[0:4) B[0:4)",
        "10-20  A[4:5)",
        "20-30  A[5:6)",
        "30-40  B[0:5)",
        "40-50  B[5:6)",
    ]
    assert (trace.num_steps, trace.last, len(trace)) == (5, 50, 2)


def test_a_step_shows_its_chunks_blocks_and_times(trace: Trace) -> None:
    first, second, *_ = trace.steps()
    assert first == (
        0,
        0,
        10,
        (Chunk("A", 0, 0, 4, True, (0,)), Chunk("B", 1, 0, 4, True, (1,))),
        2,
    )
    assert second.chunks == (Chunk("A", 0, 4, 5, True, (1,)),)
    assert trace.blocks_used() == [2, 2, 2, 2, 2]


def test_a_record_has_runs_and_stays(trace: Trace) -> None:
    record = trace["B"]
    assert record.runs == [
        Run("prefill", 1, 0, 1, 0, 4, 1, [1]),
        Run("recompute", 0, 3, 1, 0, 5, 1, [0, 1]),
        Run("decode", 0, 4, 1, 5, 1, 1),
    ]
    assert record.stays == [Stay(1, 0, 1, preempted=True), Stay(0, 3, 5)]
    assert (record.status, record.reason, record.end) == ("finished", "length", 50)


def test_decodes_in_a_row_are_one_run() -> None:
    trace = served([ask("A", 3, 6)], Continuous(blocks=4, block_tokens=2))
    assert trace["A"].runs == [
        Run("prefill", 0, 0, 1, 0, 3, 1, [0, 1]),
        Run("decode", 0, 1, 5, 3, 1, 1, [2, 3]),
    ]
    assert [chunk.blocks for step in trace.steps() for chunk in step.chunks] == [
        (0, 1),
        (),
        (2,),
        (),
        (3,),
        (),
    ]


def test_token_times_are_the_ends_of_the_steps_that_delivered(trace: Trace) -> None:
    assert trace.token_times("A") == [10, 20, 30]
    assert trace.token_times("B") == [10, 40, 50]


def test_times_that_were_given_are_read_as_a_copy(table: Trace) -> None:
    table.token_times("A").clear()
    assert table.token_times("A") == [3, 5]


def test_an_unknown_request_is_a_key_error_that_says_who_is_there(trace: Trace) -> None:
    with pytest.raises(KeyError, match=r"no request 'Z' in this trace; it has A, B"):
        trace["Z"]


def test_a_trace_without_steps_says_so(table: Trace) -> None:
    with pytest.raises(TraceError, match="this trace has no steps: it was given or observed"):
        table._ends  # noqa: B018
    assert list(table.steps()) == []
    assert table.timeline() == []
    assert (table.num_steps, table.last) == (0, 5)


def test_the_rows_are_flat(trace: Trace) -> None:
    assert trace.rows()[1] == {
        "request": "B",
        "arrival": 0,
        "end": 50,
        "status": "finished",
        "reason": "length",
        "priority": 0,
        "prompt_tokens": 4,
        "output_tokens": 3,
        "preemptions": 1,
    }
    assert trace.rows("tokens")[:2] == [
        {"request": "A", "number": 1, "time": 10},
        {"request": "A", "number": 2, "time": 20},
    ]
    assert trace.rows("steps")[0] == {
        "step": 0,
        "start": 0,
        "end": 10,
        "sequences": 2,
        "tokens": 8,
        "blocks": 2,
    }
    with pytest.raises(
        ValueError, match="rows must be of 'requests', 'tokens' or 'steps', got 'x'"
    ):
        trace.rows("x")  # type: ignore[arg-type]


def test_a_trace_can_be_read_while_the_engine_runs() -> None:
    engine = engine_of(Continuous(seats=2, blocks=9, block_tokens=2))
    for request in (ask("A", 3, 6), ask("B", 3, 4)):
        engine.add(request)
    engine.step(1)
    engine.step(2)
    assert engine.trace.token_times("A") == [1, 2]
    engine.trace.check()
    assert engine.trace["A"].status is None
    engine.step(4)
    assert engine.trace.timeline() == [
        "0-1  A[0:3) B[0:3)",
        "1-2  A[3:4) B[3:4)",
        "2-3  A[4:5) B[4:5)",
        "3-4  A[5:6) B[5:6)",
    ]
    assert engine.trace.blocks_used() == [4, 4, 6, 6]
    engine.trace.check()


def test_nothing_happened_at_all() -> None:
    trace = Trace("s", {}, starts=[], ends=[])
    trace.check()
    assert (trace.last, trace.num_steps, trace.timeline(), list(trace.requests)) == (0, 0, [], [])


@settings(max_examples=150)
@given(
    asked=workloads(),
    policy=st.one_of(policies(), policies(drafts=True)),
    executor=st.one_of(cost_models, scripted(failing=True)),
)
def test_the_blocks_in_use_are_those_that_the_scheduler_had(
    asked: list[Request], policy: Policy, executor: Scripted | CostModel
) -> None:
    """Counted in the engine after every plan, and from the trace when the run is over; the trace
    does not speak of room for guesses that nobody had."""
    engine = engine_of(policy, executor, repeats=False)
    used: list[int] = []
    watched = Watched(executor)
    engine.executor = watched
    inner = watched.run

    def counting(plan, now, until):  # type: ignore[no-untyped-def]
        used.append(engine.scheduler.pool.used if engine.scheduler.pool else 0)
        return inner(plan, now, until)

    watched.run = counting  # type: ignore[method-assign]
    trace = engine.run(asked)
    trace.check()
    spare = [
        sum(len(chunk.blocks) for chunk in plan.written)
        - sum(
            len(chunk.blocks) for chunk in carried_out(plan, outcome, policy.block_tokens).written
        )
        for _, plan, outcome in watched.seen
    ]
    if policy.blocks:
        assert trace.blocks_used() == [u - s for u, s in zip(used, spare, strict=True)]


@settings(max_examples=100)
@given(asked=workloads(), policy=policies(), cost=cost_models)
def test_parts_add_up_to_wholes(asked: list[Request], policy: Policy, cost: CostModel) -> None:
    trace = served(asked, policy, cost)
    for record in trace.requests:
        times = trace.token_times(record.id)
        assert len(times) == record.output_tokens <= record.max_tokens
        assert times == sorted(times)
        assert (record.status == "finished") == (record.output_tokens == record.max_tokens)
    rows = trace.rows("steps")
    computed = sum(run.count * run.tokens for r in trace.requests for run in r.runs)
    assert sum(row["tokens"] for row in rows) == computed
    if policy.preemption == "never":
        assert not any(stay.preempted for r in trace.requests for stay in r.stays)
