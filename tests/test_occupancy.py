"""Seat-steps of the two-seat example, and of a trace that has none."""

from __future__ import annotations

from fractions import Fraction

import pytest

import lab

STEPS = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 4), "C": (0, 1, 2)})


def run(policy):
    return lab.occupancy(lab.simulate(STEPS, policy, lab.CostModel.equal_steps()))


def test_a_static_batch_idles_behind_the_short_and_beside_the_last():
    seats = run(lab.Static(seats=2))
    assert (seats.steps, seats.busy, seats.idle) == (6, 8, 4)
    assert seats.share == Fraction(2, 3)
    assert seats.tokens_per_step == Fraction(4, 3)


def test_continuous_batching_fills_every_seat_step():
    seats = run(lab.Continuous(seats=2))
    assert (seats.steps, seats.busy, seats.idle, seats.share) == (4, 8, 0, 1)


def test_given_times_have_no_seats():
    work = lab.Workload.given({"A": (0, 4, 1)})
    with pytest.raises(ValueError, match="0 steps and None seats"):
        lab.occupancy(lab.given({"A": [9]}, work))
