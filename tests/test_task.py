"""What a user waits for: sums that come out exactly, and which metric sees which part."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from drawn_runs import cost_models, policies, served, workloads
from hypothesis import given

import lab
from lab.ledgers.task import Measured, Part, Task, covered
from lab.what_ifs.one_request import one_request

TOOL = ("database", 800)


def seen(task: Task) -> dict[str, str]:
    return {part.cause: " ".join(task.seen_by(part)) for part in task}


def test_a_call_falls_apart_into_its_phases_and_each_metric_sees_some_of_them():
    task = lab.task((one_request(), "A"), TOOL)
    assert task.parts == (
        Part("queue", 0, 40, "A"),
        Part("prefill", 40, 120, "A"),
        Part("decode", 120, 180, "A"),
        Part("database", 180, 980),
    )
    assert task.metrics == (
        Measured("task", 0, 980),
        Measured("E2E", 0, 180, "A"),
        Measured("TTFT", 0, 120, "A"),
        Measured("TPOT", 120, 180, "A", 3),
    )
    assert seen(task) == {
        "queue": "task E2E TTFT",
        "prefill": "task E2E TTFT",
        "decode": "task E2E TPOT",
        "database": "task",
    }


def test_shares_are_exact():
    task = lab.task((one_request(), "A"), TOOL)
    assert task.total == 980
    assert task.share("database") == Fraction(40, 49)
    assert sum(part.time for part in task) == 980


def test_a_call_begins_where_the_part_before_it_ends():
    late = lab.given({"A": [130, 150]}, lab.Workload.given({"A": (100, 1, 2)}))
    task = lab.task(("search", 7), (late, "A"), ("checks", 3), (late, "A"))
    assert [(part.start, part.stop) for part in task] == [
        *((0, 7), (7, 37), (37, 57), (57, 60), (60, 90), (90, 110))
    ]
    assert [m.start for m in task.metrics if m.metric == "TTFT"] == [7, 60]
    assert task["until the first token"] == 60


def test_an_answer_of_one_token_has_no_tpot_to_see_anything():
    task = lab.task((one_request(outputs=1), "A"))
    assert [measured.metric for measured in task.metrics] == ["task", "E2E", "TTFT"]


def test_what_tpot_says_is_its_stretch_over_its_gaps():
    *_, tpot = covered(one_request(), "A")
    assert (tpot.stop - tpot.start, tpot.gaps, tpot.value) == (60, 3, 20)


def test_the_table_has_a_row_a_part_and_the_sum():
    text = repr(lab.task(("search", 20), (one_request(), "A")))
    assert (
        text
        == """\
times in ms
part      time  share  counts towards
--------  ----  -----  ---------------
search      20   1/10  task
queue       40    1/5  task, E2E, TTFT
prefill     80    2/5  task, E2E, TTFT
decode      60   3/10  task, E2E, TPOT
the task   200      1"""
    )


def test_in_a_task_of_several_calls_a_row_names_its_call():
    work = lab.Workload.given({"first": (0, 1, 1), "second": (5, 1, 1)}, unit="ms")
    calls = lab.given({"first": [5], "second": [9]}, work)
    rows = lab.task((calls, "first"), ("tool", 1), (calls, "second")).table()
    assert [row["part"] for row in rows] == [
        *("first: until the first token", "tool", "second: until the first token", "the task")
    ]


@given(workloads(), policies(), cost_models)
def test_the_parts_of_a_call_sum_to_its_e2e(asked: Any, policy: Any, cost: Any):
    trace = served(asked, policy, cost)
    for row in lab.latency(trace):
        if row.status == "finished":
            task = lab.task((trace, row.id))
            assert task.total == pytest.approx(row.e2e)
            assert task.parts[0].start == pytest.approx(0)
            assert all(one.stop == following.start for one, following in pairwise(task))


def test_calls_are_converted_to_the_unit_that_is_asked_for():
    work = lab.Workload.given({"A": (3, 1, 2)}, unit="s")
    slow = lab.given({"A": [4, 5]}, work, unit="s")
    task = lab.task(("search", 500), (slow, "A"), unit="ms")
    assert [part.stop for part in task] == [500, 1500, 2500]
    assert task.metrics[-1] == Measured("TPOT", 1500, 2500, "A", 1)
    assert lab.task((slow, "A")).unit == "s"


def test_what_is_no_task_is_refused():
    step = lab.simulate(
        lab.Workload.given({"A": (0, 1, 1)}), lab.Static(seats=1), lab.CostModel.equal_steps()
    )
    for parts, words in {
        (): "at least 1 part, got 0",
        (("tool", -1),): "'tool' must take 0 or more, got -1",
        ((one_request(), "A"), (step, "A")): "unit must be one of .*, got 'step'",
    }.items():
        with pytest.raises(ValueError, match=words):
            lab.task(*parts)
    with pytest.raises(KeyError, match="no part 'queue'"):
        lab.task(TOOL)["queue"]


def test_a_call_must_have_ended_with_an_answer():
    work = lab.Workload.given({"A": (0, 50, 1)}, unit="ms")
    small = lab.Continuous(seats=1, blocks=1, block_tokens=4)
    refused = lab.simulate(work, small, lab.CostModel.affine(1, 0, 0, unit="ms"))
    with pytest.raises(
        ValueError, match="'A' must be finished to be part of a task, and it is refused"
    ):
        lab.task((refused, "A"))


def test_a_task_is_measured_as_soon_as_one_of_its_calls_is() -> None:
    simulated, live = one_request(), one_request()
    live.settings["maker"] = "live"
    assert lab.task((simulated, "A"), ("database", 800)).tag == "derived"
    whole = lab.task((simulated, "A"), ("database", 800), (live, "A"))
    assert whole.tag == lab.task_lifeline(whole).tag == "measured"
