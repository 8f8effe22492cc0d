"""Rows of requests: golden texts, and brackets that say what the latency ledger says."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from drawn_runs import cost_models, policies, served, workloads
from hypothesis import given

import lab
from lab.figures.rows import MOST_MOMENTS
from lab.figures.scene import Mark, Scene
from lab.ledgers.table import show
from lab.policy import Policy
from lab.trace import Trace

WORK = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
SERIAL = lab.given({"A": [100, 140, 180], "B": [260, 300], "C": [360]}, WORK)
TOGETHER = lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, WORK)


def run(rows: dict[str, Any], policy: Policy, cost: lab.CostModel) -> Trace:
    return lab.simulate(lab.Workload.given(rows), policy, cost)


def brackets(scene: Scene, who: str) -> list[Mark]:
    return [mark for mark in scene.marks if mark.lane == f"{who} spans"]


# Golden texts

TEXT = """\
When does each token come?
3 requests, every delivery time as the table has it (given)

ms       0           20          40          100       150       180  200
A spans  [TTFT 100]  -           -           [gap 50]  [gap 50]  -
A        >           .           .           1         2         .    3
B spans              [TTFT 130]  -           -         [gap 50]  -
B                    >           .           .         1         .    2
C spans                          [TTFT 140]  -         -
C                                >           .         .         1

. waits, > arrives, [ ] a span and how long it lasts, to the right as far as - goes

  0  A arrives
 20  B arrives
 40  C arrives
100  A gets token 1 of 3, 100 ms after its arrival (TTFT)
150  A gets token 2 of 3, 50 ms after token 1 (ITL); B gets token 1 of 2, 130 ms after its arrival \
(TTFT)
180  C gets token 1 of 1, 140 ms after its arrival (TTFT) and is done
200  A gets token 3 of 3, 50 ms after token 2 (ITL) and is done; B gets token 2 of 2, 50 ms after \
token 1 (ITL) and is done

ends: A 200 ms, B 200 ms, C 180 ms"""

IN_STEPS = """\
step     0         1         2        3  4
A spans  [TTFT 1]  [gap 1]   [gap 1]
A        >         1         2        3
B spans            [TTFT 3]  -        -
B                  >         .        .  1
C                            >        .  x

. waits, > arrives, x ends without an answer, [ ] a span and how long it lasts, to the right as \
far as - goes

0  A arrives
1  A gets token 1 of 3, 1 step after its arrival (TTFT); B arrives
2  A gets token 2 of 3, 1 step after token 1 (ITL); C arrives
3  A gets token 3 of 3, 1 step after token 2 (ITL) and is done
4  B gets token 1 of 1, 3 steps after its arrival (TTFT) and is done; C cancelled"""


def test_three_requests_with_their_spans() -> None:
    assert lab.request_rows(TOGETHER).text() == TEXT


def test_a_simulated_run_in_steps() -> None:
    rows = {
        "A": (0, 2, 3),
        "B": (1, 2, 1),
        "C": {"arrival": 2, "prompt": 1, "output": 2, "cancel_at": 4},
    }
    trace = run(rows, lab.Continuous(seats=1), lab.CostModel.equal_steps())
    assert IN_STEPS in lab.request_rows(trace).text()


def test_without_spans_the_rows_are_those_of_the_timeline() -> None:
    assert lab.request_rows(TOGETHER, spans=False) == lab.timeline(TOGETHER)


def test_title_and_finding_may_be_given() -> None:
    scene = lab.request_rows(SERIAL, "Who waits?", "C waits.")
    assert (scene.title, scene.finding) == ("Who waits?", "C waits.")


# What a bracket says


def test_two_schedules_have_one_unit_and_the_same_rows() -> None:
    both = [lab.request_rows(trace) for trace in (SERIAL, TOGETHER)]
    assert len({scene.lanes for scene in both}) == 1
    assert {scene.unit for scene in both} == {"ms"}
    ttft = [[brackets(scene, who)[0].label for who in "ABC"] for scene in both]
    assert ttft == [["TTFT 100", "TTFT 240", "TTFT 320"], ["TTFT 100", "TTFT 130", "TTFT 140"]]


def test_thirds_stay_thirds() -> None:
    thirds = [Fraction(1, 3), Fraction(2, 3), Fraction(5, 3)]
    trace = lab.given({"A": thirds}, lab.Workload.given({"A": (0, 1, 3)}), unit="s")
    labels = [mark.label for mark in brackets(lab.request_rows(trace), "A")]
    assert labels == ["TTFT 1/3", "gap 1/3", "gap 1"]


def test_tokens_of_one_moment_have_no_bracket_between_them_and_the_caption_tells_it() -> None:
    trace = lab.given({"A": [10, 10, 25]}, lab.Workload.given({"A": (0, 1, 3)}))
    scene = lab.request_rows(trace)
    assert [mark.label for mark in brackets(scene, "A")] == ["TTFT 10", "gap 15"]
    assert "token 2 of 3, 0 ms after token 1 (ITL)" in scene.frames[1].caption


def test_who_never_gets_a_token_has_no_bracket() -> None:
    trace = run({"A": (0, 99, 1)}, lab.Continuous(blocks=1), lab.CostModel.equal_steps())
    scene = lab.request_rows(trace)
    assert brackets(scene, "A") == []
    assert [frame.caption for frame in scene.frames] == ["A arrives; A refused"]


@given(workloads(), policies(), cost_models)
def test_brackets_are_the_ledger_and_join_without_a_gap(requests, policy, cost):
    trace = served(requests, policy, cost)
    scene = lab.request_rows(trace)
    for row in lab.latency(trace):
        found = brackets(scene, row.id)
        times = [trace[row.id].arrival, *trace.token_times(row.id)]
        assert sum(mark.stop - mark.start for mark in found) == pytest.approx(times[-1] - times[0])
        assert all(left.stop == right.start for left, right in pairwise(found))
        said = [mark.label.split()[1] for mark in found]
        ledger = [] if row.ttft is None else [row.ttft, *row.itl]
        assert said == [show(length) for length in ledger if length]


# Too long


def test_rows_of_the_most_moments_are_drawn_and_one_more_is_refused() -> None:
    def trace_of(tokens: int) -> Trace:
        work = lab.Workload.given({"A": (0, 1, tokens)})
        return lab.given({"A": list(range(1, tokens + 1))}, work)

    assert len(lab.request_rows(trace_of(MOST_MOMENTS - 1)).frames) == MOST_MOMENTS
    with pytest.raises(ValueError, match="at most 400 arrivals and tokens, and this trace has 401"):
        lab.request_rows(trace_of(MOST_MOMENTS))
