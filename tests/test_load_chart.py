"""The load chart of a run, against levels counted by hand."""

from __future__ import annotations

import pytest

import lab
from lab.figures.load_chart import load_chart, queued


@pytest.fixture
def trace():
    work = lab.Workload.given({"A": (0, 4, 4), "B": (0, 4, 4), "C": (0, 4, 4)})
    policy = lab.Continuous(seats=2, blocks=10, block_tokens=4)
    return lab.simulate(work, policy, lab.CostModel.equal_steps())


def test_a_row_names_its_largest_bin(trace):
    rows = {line.split()[0]: line.split()[-1] for line in load_chart(trace, 8).splitlines()}
    assert rows["running"] == "2"
    assert rows["waiting"] == "1"  # C; A and B sit down in the moment in which they arrive
    assert rows["tokens"] == "2"
    assert rows["KV"] == "4"


def test_the_bars_follow_the_levels(trace):
    line = next(line for line in load_chart(trace, 8).splitlines() if line.startswith("running"))
    bars = line.removeprefix("running   ")[:8]
    assert bars == "█████▄▄▄"


def test_given_deliveries_have_tokens_and_no_seats():
    work = lab.Workload.given({"A": (0, 4, 3)})
    chart = load_chart(lab.given({"A": [100, 140, 180]}, work, unit="ms"), 9)
    assert "tokens" in chart
    assert "running" not in chart
    assert "180 ms" in chart


def test_fewer_than_8_bins_are_refused(trace):
    with pytest.raises(ValueError, match="at least 8 bins, got 3"):
        load_chart(trace, 3)


def test_who_has_ended_in_a_static_batch_holds_a_seat_and_waits_no_more():
    work = lab.Workload.given({"A": (0, 4, 2), "B": (0, 4, 8), "C": (0, 4, 8)})
    trace = lab.simulate(work, lab.Static(seats=2), lab.CostModel.equal_steps())
    rows = load_chart(trace, 16).splitlines()
    assert rows[0] == "running █████████▄▄▄▄▄▄▄ 2"
    assert rows[1] == "waiting █████████        1"


def test_a_further_answer_does_not_wait_for_a_seat_while_it_waits_for_the_prompt():
    work = lab.Workload.given({"B": (0, 2, 1), "A": {"prompt": 9, "output": 3, "n": 2}})
    policy = lab.Continuous(seats=2, token_budget=4)
    trace = lab.simulate(work, policy, lab.CostModel.equal_steps())
    levels: dict[int, int] = {}
    for at, by in queued(trace):
        levels[at] = levels.get(at, 0) + by
    assert {at: by for at, by in levels.items() if by} == {0: 2, 1: -2}


def test_who_was_preempted_waits_again():
    work = lab.Workload.given({"A": (0, 4, 6), "B": (0, 4, 6)})
    policy = lab.Continuous(seats=2, blocks=4, block_tokens=4, token_budget=4)
    rows = load_chart(lab.simulate(work, policy, lab.CostModel.equal_steps()), 10).splitlines()
    assert rows[0] == "running   ▄█████▄▄▄▄ 2"
    assert rows[1] == "waiting   ██   ██    1"
