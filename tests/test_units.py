"""A run read in another unit of time says the same."""

from __future__ import annotations

from fractions import Fraction

import pytest
from drawn_runs import policies, served, workloads
from hypothesis import given, settings

import lab
from lab.ledgers.phases import phases
from lab.ledgers.units import in_unit
from lab.trace import Trace

SECONDS = lab.simulate(
    lab.Workload.given({"A": (0, 4, 3), "B": (Fraction(1, 4), 4, 2)}, unit="s"),
    lab.Continuous(seats=1),
    lab.CostModel.affine(Fraction(1, 10), 0, 0, unit="s"),
)


def test_a_second_is_a_thousand_milliseconds_everywhere() -> None:
    found = in_unit(SECONDS, "ms")
    found.check()
    assert (found.unit, found["B"].arrival, found.last) == ("ms", 250, 500)
    assert found.token_times("A") == [100, 200, 300]
    assert found["B"].end == 500
    assert SECONDS["B"].end == Fraction(1, 2)


def test_deliveries_and_moments_of_the_user_are_moved_as_well() -> None:
    asked = lab.Workload((lab.Request(id="A", prompt=(1,), max_tokens=2, arrival=1, deadline=9),))
    found = in_unit(lab.given({"A": [2, 3]}, asked, unit="s"), "ms")
    assert (found["A"].times, found["A"].arrival, found["A"].deadline) == ([2000, 3000], 1000, 9000)


def test_steps_are_no_time() -> None:
    steps = lab.simulate(
        lab.Workload.given({"A": (0, 1, 2)}), lab.Continuous(), lab.CostModel.equal_steps()
    )
    with pytest.raises(ValueError, match="unit must be one of us, ms, s, got 'step'"):
        in_unit(steps, "ms")


@settings(max_examples=30, deadline=None)
@given(workloads(), policies())
def test_parts_still_follow_each_other_without_a_gap(requests, policy) -> None:
    trace = served(requests, policy)
    timed = Trace("s", trace.settings, trace.requests, trace.starts, trace.ends, trace.evictions)
    found = in_unit(timed, "us")
    for record in found.requests:
        parts = phases(record, found)
        assert [p.stop for p in parts[:-1]] == [p.start for p in parts[1:]]
        assert [p.cause for p in parts] == [p.cause for p in phases(timed[record.id], timed)]
