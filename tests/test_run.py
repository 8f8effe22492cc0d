"""Parts put together: given tables, simulations, and the runs that must never change."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from drawn_runs import ORDERS, ask, cost_models, policies, served, workloads
from golden_runs import GOLDEN, MAKERS, drawn, preempted, shared, static_with_timeout
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab.draws import Geometric, Poisson, Uniform
from lab.executors.cost_model import CostModel
from lab.policy import Continuous, Policy, Static
from lab.request import Request
from lab.run import given as given_times
from lab.run import simulate
from lab.trace_json import load, save
from lab.workload import Workload


@pytest.mark.parametrize("name", MAKERS)
def test_a_golden_trace_stays_as_it_is_bit_for_bit(name: str, tmp_path: Path) -> None:
    trace = MAKERS[name]()
    trace.check()
    save(trace, tmp_path / "now.json")
    assert (tmp_path / "now.json").read_bytes() == (GOLDEN / f"{name}.json").read_bytes()
    golden = load(GOLDEN / f"{name}.json")
    assert (golden.starts, golden.ends, golden.requests) == (
        trace.starts,
        trace.ends,
        trace.requests,
    )


@pytest.mark.parametrize(
    "path", sorted((GOLDEN / "version_1").glob("*.json")), ids=lambda p: p.stem
)
def test_a_trace_of_the_first_version_can_still_be_read_and_is_the_same_run(path: Path) -> None:
    old, now = load(path), MAKERS[path.stem]()
    assert (old.starts, old.ends, old.requests) == (now.starts, now.ends, now.requests)
    assert old.timeline() == now.timeline()


def test_the_golden_traces_show_what_they_are_there_for() -> None:
    stays = [stay for record in preempted().requests for stay in record.stays]
    assert [stay.preempted for stay in stays] == [False, True, False, False]
    statuses = [record.status for record in static_with_timeout().requests]
    assert statuses == ["finished", "finished", "cancelled", "timed out", "refused", "cancelled"]
    trace = shared()
    assert trace.timeline() == [
        "0-1  A[0:7) A#2[7:7)",
        "1-2  A[7:8) A#2[7:8) B[4:10)",
        "2-4  A[8:9) A#2[8:9)",
        "4-6  B[10:11) C[0:5)",
    ]
    assert trace["A"].runs[1].copy == (1, 2)
    assert (trace["B"].runs[0].cached, trace["B"].runs[1].restored) == (4, 3)
    assert (trace["B"].stays[0].swapped_out, trace.evictions) == (3, [(2, 3), (3, 0)])
    records = drawn().requests
    assert any(stay.preempted for record in records for stay in record.stays)
    assert any(run.kind == "prefill" and not run.delivered for r in records for run in r.runs)
    assert {record.status for record in records} == {"finished"}


# One run, however it is carried out


@settings(max_examples=300)
@given(asked=workloads(), policy=policies(), cost=cost_models)
@example(
    asked=[ask("r0", 1, 3, cancel_at=1.5), ask("r1", 4, 9, deadline=7)],
    policy=Static(seats=2, timeout=2.5, blocks=9, block_tokens=2),
    cost=CostModel.equal_steps(),
)
def test_equal_steps_at_once_and_one_by_one_give_the_same_trace_bit_for_bit(
    asked: list[Request], policy: Policy, cost: CostModel
) -> None:
    at_once = served(asked, policy, cost, repeats=True)
    one_by_one = served(asked, policy, cost, repeats=False)
    assert at_once.starts == one_by_one.starts
    assert at_once.ends == one_by_one.ends
    assert [type(end) for end in at_once.ends or ()] == [type(end) for end in one_by_one.ends or ()]
    assert list(at_once.requests) == list(one_by_one.requests)
    assert list(at_once.steps()) == list(one_by_one.steps())


def test_a_long_run_is_the_same_too() -> None:
    work = Workload.drawn(
        300, Poisson(30), prompt=Uniform(5, 200), output=Geometric(60), seed=3, name="long"
    )
    for blocks in (None, 60):
        policy = Continuous(seats=24, token_budget=64, blocks=blocks, block_tokens=16)
        cost = CostModel.affine(0.01, 0.0001, 0.0005, 0.000002)
        at_once = simulate(work, policy, cost)
        one_by_one = simulate(work, policy, cost, repeats=False)
        at_once.check()
        assert at_once.ends == one_by_one.ends
        assert list(at_once.requests) == list(one_by_one.requests)


@settings(max_examples=100)
@given(asked=workloads(), policy=policies(), cost=cost_models)
def test_the_same_inputs_give_the_same_trace(
    asked: list[Request], policy: Policy, cost: CostModel
) -> None:
    one, other = (served(asked, policy, cost) for _ in range(2))
    assert (one.starts, one.ends, one.requests) == (other.starts, other.ends, other.requests)


@settings(max_examples=150)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=8),
    seats=st.integers(1, 4),
    block_tokens=st.sampled_from((1, 4, 16)),
    blocks=st.integers(2, 40),
    patience=st.sampled_from((0, 1, 3)),
    chunked=st.booleans(),
    preemption=st.sampled_from(("recompute", "never")),
)
def test_under_first_come_at_most_patience_later_ones_start_before_a_request(
    sizes: list[tuple[int, int]],
    seats: int,
    block_tokens: int,
    blocks: int,
    patience: int,
    chunked: bool,
    preemption: str,
) -> None:
    asked = [ask(f"r{i}", p, n, arrival=i % 3) for i, (p, n) in enumerate(sizes)]
    policy = Continuous(
        seats=seats,
        token_budget=24,
        blocks=blocks,
        block_tokens=block_tokens,
        patience=patience,
        chunked_prefill=chunked,
        preemption=preemption,  # type: ignore[arg-type]
    )
    trace = served(asked, policy)
    order = [record for record in trace.requests if record.runs]
    for number, record in enumerate(order):
        passed = [r for r in order[number + 1 :] if r.runs[0].first < record.runs[0].first]
        assert len(passed) <= patience


@pytest.mark.parametrize("order", ORDERS)
def test_one_at_a_time_the_order_of_service_is_the_order_of_the_policy(order: str) -> None:
    work = Workload.given(
        {
            "A": {"prompt": 2, "output": 3},
            "B": {"prompt": 2, "output": 1, "priority": 1},
            "C": {"prompt": 2, "output": 2, "priority": 2},
        }
    )
    trace = simulate(work, Continuous(seats=1, order=order), CostModel.equal_steps())  # type: ignore[arg-type]
    ends = sorted(trace.requests, key=lambda record: record.end or 0)
    expected = {"first-come": "ABC", "priority": "CBA", "shortest-first": "BCA"}[order]
    assert "".join(record.id for record in ends) == expected


def test_times_keep_their_type() -> None:
    work = Workload.given({"A": (Fraction(1, 3), 4, 3), "B": (1, 4, 1)}, unit="ms")
    trace = simulate(work, Continuous(), CostModel.equal_steps(Fraction(2, 3), unit="ms"))
    assert trace.timeline() == ["1/3-1  A[0:4)", "1-5/3  A[4:5) B[0:4)", "5/3-7/3  A[5:6)"]
    trace = simulate(
        Workload.given({"A": (0, 4, 2)}, unit="ms"), Continuous(), CostModel.equal_steps(5, "ms")
    )
    assert [type(time) for time in trace.token_times("A")] == [int, int]


def test_a_simulation_says_who_made_it_and_how() -> None:
    trace = preempted()
    assert trace.unit == "step"
    expected = {
        "maker": "simulated",
        "workload": "3",
        "policy": "Continuous",
        "seats": 2,
        "blocks": 3,
        "cost": "equal steps",
        "duration": 1,
    }
    assert {name: trace.settings[name] for name in expected} == expected


def test_simulate_tells_of_its_progress() -> None:
    seen: list[int] = []
    work = Workload.given({"A": (0, 4, 3), "B": (9, 4, 3)})
    simulate(work, Continuous(), CostModel.equal_steps(), progress=seen.append)
    assert (seen[0], seen[-1]) == (1, 2)


# Given times


TABLE = Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})


def test_given_times_become_a_trace_without_steps() -> None:
    trace = given_times({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, TABLE, unit="ms")
    assert (trace.starts, trace.ends, trace.num_steps, trace.unit) == (None, None, 0, "ms")
    assert trace.token_times("A") == [100, 150, 200]
    assert [(r.status, r.end) for r in trace.requests] == [
        ("finished", 200),
        ("finished", 200),
        ("finished", 180),
    ]
    assert trace.settings == {"maker": "given"}


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            {"A": [1, 2, 3], "B": [30, 40]},
            "request 'C': no delivery times are given for it",
        ),
        (
            {"A": [1, 2], "B": [30, 40], "C": [50]},
            "request 'A': 3 output tokens were asked for, and 2 delivery times are given",
        ),
        (
            {"A": [1, 2, 3], "B": [30, 40], "C": [50], "Z": [1]},
            "times are given for ['Z'], which the workload does not hold",
        ),
        (
            {"A": [1, 3, 2], "B": [30, 40], "C": [50]},
            "the trace contradicts itself:\nrequest 'A': arrival, deliveries and end must not go "
            "back in time: [0, 1, 3, 2, 2]",
        ),
        (
            {"A": [1, 2, 3], "B": [10, 40], "C": [50]},
            "the trace contradicts itself:\nrequest 'B': arrival, deliveries and end must not go "
            "back in time: [20, 10, 40, 40]",
        ),
    ],
    ids=["one missing", "too few", "a stranger", "back in time", "before the arrival"],
)
def test_given_times_that_do_not_fit_are_refused(times: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        given_times(times, TABLE)


def test_two_units_in_one_run_are_refused() -> None:
    work = Workload.given({"A": (0, 4, 1)}, unit="s")
    message = "the workload's times are in 's' and the run's in 'ms': give both in one unit"
    with pytest.raises(ValueError, match=message):
        given_times({"A": [1]}, work, unit="ms")
    with pytest.raises(ValueError, match=message):
        simulate(work, Continuous(), CostModel.equal_steps(unit="ms"))


def test_a_roofline_and_a_policy_of_two_block_sizes_are_refused_where_blocks_move() -> None:
    work = Workload.given({"A": (0, 4, 1)}, unit="s")
    cost = CostModel.roofline("llama-3-8b", "h100")
    policy = Continuous(blocks=9, block_tokens=8, preemption="swap")
    message = "the cost model moves blocks of 16 tokens and the policy has blocks of 8: give both"
    with pytest.raises(ValueError, match=message):
        simulate(work, policy, cost)
    simulate(work, Continuous(blocks=9, block_tokens=8), cost)
    simulate(work, policy, CostModel.roofline("llama-3-8b", "h100", block_tokens=8))


def test_several_answers_are_given_times_each() -> None:
    work = Workload.given({"A": {"prompt": 4, "output": 2, "n": 2}})
    trace = given_times({"A": [1, 2], "A#2": [1, 3]}, work)
    assert [(r.id, r.end, r.fork_of) for r in trace.requests] == [("A", 2, None), ("A#2", 3, "A")]
