"""The lifeline of one request: golden texts, and a sum that has to come out on every run."""

from itertools import pairwise
from typing import Any

import pytest
from drawn_runs import cost_models, policies, scripted, served, workloads
from hypothesis import given

import lab
from lab.figures.lifeline import PHASE_ROLES
from lab.figures.scene import Mark, Scene
from lab.ledgers.latency import SPANS
from lab.ledgers.phases import DELIVERIES
from lab.policy import Policy
from lab.trace import Trace

STEPS = lab.CostModel.equal_steps()
MS = lab.CostModel.affine(5, 1, 1, unit="ms")
WORK = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
GIVEN = lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, WORK)


def run(rows: dict[str, Any], policy: Policy, cost: lab.CostModel = STEPS) -> Trace:
    return lab.simulate(lab.Workload.given(rows), policy, cost)


def preempted() -> Trace:
    policy = lab.Continuous(seats=2, blocks=4, block_tokens=4, token_budget=4)
    return run({"A": (0, 4, 6), "B": (0, 4, 6)}, policy, MS)


def lane(scene: Scene, name: str) -> list[Mark]:
    return [mark for mark in scene.marks if mark.lane == name]


# Golden texts

PREEMPTED = """\
Where does the time of B go?
2 requests, continuous batching, 2 seats, token budget 4, 4 blocks, affine (derived)

ms     0          9            25               39            45             62
E2E    [E2E 74]   -            -                -             -              -
TTFT   [TTFT 25]  -
TPOT                           [TPOT 5 × 49/5]  -             -              -
queue  [queue 9]
B      queue 9.   prefill 16*  decode 14        preempted 6<  recompute 17~  decode 12

* prefill, ~ recompute, < has lost its seat, . waits, [ ] a span and how long it lasts, to the \
right as far as - goes

 0  queue, 9 ms: from the arrival to the start of the first step; counts towards E2E, TTFT, queue
 9  prefill, 16 ms: steps that compute its prompt; counts towards E2E, TTFT
25  decode, 14 ms: steps that compute one token after the other; counts towards E2E, TPOT
39  preempted, 6 ms: without a seat, after having lost it; counts towards E2E, TPOT
45  recompute, 17 ms: steps that compute again what a preemption threw away; counts towards E2E, \
TPOT
62  decode, 12 ms: steps that compute one token after the other; counts towards E2E, TPOT

B: E2E 74 ms = queue 9 + prefill 16 + decode 26 + preempted 6 + recompute 17"""

STATIC = """\
Where does the time of A go?
3 requests, static batching, 2 seats, equal steps (derived)

step  0           1             2
E2E   [E2E 2]     -
TTFT  [TTFT 1]
TPOT              [TPOT 1 × 1]
A     prefill 1*  decode 1      idle 4.

* prefill, . idle seat (and whose it still is), [ ] a span and how long it lasts, to the right as \
far as - goes

0  prefill, 1 step: steps that compute its prompt; counts towards E2E, TTFT
1  decode, 1 step: steps that compute one token after the other; counts towards E2E, TPOT
2  A finished; its seat stays idle for 4 steps, counted towards no metric

A: E2E 2 steps = prefill 1 + decode 1"""

DELIVERED = """\
Where does the time of A go?
3 requests, every delivery time as the table has it; no steps are known, and so no causes (given)

ms    0                           100
E2E   [E2E 200]                   -
TTFT  [TTFT 100]
TPOT                              [TPOT 2 × 50]
A     until the first token 100.  between tokens 100.

. waits, [ ] a span and how long it lasts, to the right as far as - goes

  0  until the first token, 100 ms: from the arrival to the first token; counts towards E2E, TTFT
100  between tokens, 100 ms: from the first token to the last; counts towards E2E, TPOT

A: E2E 200 ms = until the first token 100 + between tokens 100"""


def test_a_life_with_a_preemption() -> None:
    assert lab.lifeline(preempted(), "B").text() == PREEMPTED


def test_the_seat_that_a_static_batch_keeps_counts_to_nothing() -> None:
    trace = run({"A": (0, 4, 2), "B": (0, 4, 6), "C": (1, 2, 2)}, lab.Static(seats=2))
    assert lab.lifeline(trace, "A").text() == STATIC
    assert [mark.role for mark in lane(lab.lifeline(trace, "B"), "B")] == ["prefill", "decode"]


def test_of_given_times_no_causes_are_known_and_the_figure_says_so() -> None:
    assert lab.lifeline(GIVEN, "A").text() == DELIVERED


# Those without an answer


def test_who_is_refused_has_a_reason_and_no_time() -> None:
    trace = run({"A": (0, 99, 2)}, lab.Continuous(blocks=2))
    scene = lab.lifeline(trace, "A")
    reason = "request 'A' may need 7 blocks for 100 positions, and the pool has 2"
    assert [frame.caption for frame in scene.frames] == [f"A refused: {reason}"]
    assert scene.finding == "A: refused after 0 steps"
    assert (scene.lanes, scene.marks) == (("A",), ())


def test_who_hung_up_while_decoding_has_a_ttft_and_the_rest_counts_to_nothing() -> None:
    trace = run({"A": {"prompt": 2, "output": 9, "cancel_at": 4}}, lab.Continuous(), STEPS)
    scene = lab.lifeline(trace, "A")
    assert scene.lanes == ("TTFT", "A")
    assert scene.frames[1].caption.endswith("decode, 3 steps: " + SPANS["decode"] + "; "
        "counts towards no metric")  # fmt: skip
    assert scene.finding == "A: cancelled after 4 steps = prefill 1 + decode 3"


def test_an_answer_of_one_token_has_no_tpot() -> None:
    assert lab.lifeline(GIVEN, "C").lanes == ("E2E", "TTFT", "C")


def test_a_request_that_the_trace_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="there is no request 'Z'"):
        lab.lifeline(GIVEN, "Z")


def test_title_and_finding_may_be_given() -> None:
    scene = lab.lifeline(GIVEN, "A", "Why so long?", "It waited.")
    assert (scene.title, scene.finding) == ("Why so long?", "It waited.")


# Rules for every lifeline


def test_every_cause_has_a_role() -> None:
    assert set(PHASE_ROLES) == {*SPANS, *DELIVERIES, "idle"}


def check(trace: Trace) -> None:
    ledger = lab.latency(trace)
    for record in trace.requests:
        scene, row = lab.lifeline(trace, record.id), ledger[record.id]
        own = [mark for mark in lane(scene, record.id) if mark.role != "idle"]
        assert all(left.stop == right.start for left, right in pairwise(own))
        if row.e2e is not None:
            assert sum(mark.stop - mark.start for mark in own) == pytest.approx(row.e2e)
            assert (own[0].start, own[-1].stop) == (record.arrival, record.end)
        lengths = {
            "E2E": row.e2e,
            "TTFT": row.ttft,
            "TPOT": None if row.tpot is None else sum(row.itl),
            "queue": (row.spans or {}).get("queue") or None,
        }
        for name, length in lengths.items():
            spans = [mark.stop - mark.start for mark in lane(scene, name)]
            assert spans == ([] if length is None else [pytest.approx(length)])
        starts = [mark.start for mark in lane(scene, record.id)]
        assert [frame.at for frame in scene.frames] == (starts or [record.arrival])


@given(workloads(), policies(), cost_models)
def test_causes_sum_to_e2e_and_spans_are_the_metrics(asked: Any, policy: Any, cost: Any) -> None:
    check(served(asked, policy, cost))


@given(workloads(), policies(drafts=True), scripted(failing=True))
def test_they_do_so_with_drafts_and_failures(asked: Any, policy: Any, model: Any) -> None:
    check(served(asked, policy, model, repeats=False))


def test_they_do_so_for_given_times() -> None:
    check(GIVEN)


# A task


def test_a_task_is_told_from_its_first_part_to_its_last() -> None:
    task = lab.task(("search", 100), (GIVEN, "A"), ("checks", 10))
    scene = lab.task_lifeline(task)
    assert scene.lanes == ("task", "E2E", "TTFT", "TPOT", "time")
    assert [(m.id, m.role, m.start, m.stop) for m in lane(scene, "time")] == [
        ("search", "elsewhere", 0, 100),
        ("until the first token", "waiting", 100, 200),
        ("between tokens", "waiting", 200, 300),
        ("checks", "elsewhere", 300, 310),
    ]
    assert [frame.caption for frame in scene.frames] == [
        "search, 100 ms; counts towards task",
        "until the first token, 100 ms: from the arrival to the first token; "
        "counts towards task, E2E, TTFT",
        "between tokens, 100 ms: from the first token to the last; counts towards task, E2E, TPOT",
        "checks, 10 ms; counts towards task",
    ]
    assert scene.finding == (
        "The task takes 310 ms = search 100 + until the first token 100 + between tokens 100 "
        "+ checks 10"
    )


def test_a_cause_that_comes_again_has_a_number_and_one_without_time_no_mark() -> None:
    task = lab.task(("tool", 5), ("nothing", 0), ("tool", 7), (GIVEN, "C"), (GIVEN, "C"))
    marks = lane(lab.task_lifeline(task), "time")
    assert [mark.id for mark in marks] == [
        *("tool", "tool.2", "until the first token", "until the first token.2")
    ]
    assert lab.task_lifeline(lab.task(("nothing", 0))).frames[0].caption == "nothing takes any time"
