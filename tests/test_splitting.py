"""Parts of a job side by side: sums by hand, and relations that hold for any job."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ledgers.splitting import split

times = st.one_of(st.integers(0, 50), st.fractions(0, 50))


def test_coordination_turns_a_gain_into_a_loss():
    job = split([2, 3, 4, 1], together=(1, 2), coordination=4)
    assert (job.serial, job.parallel, job.wait, job.breakeven, job.work) == (10, 7, 11, 3, 14)


def test_times_stay_exact():
    assert split([Fraction(1, 3), 1, 1], together=(1, 2)).wait == Fraction(4, 3)


def test_all_parts_may_be_side_by_side():
    job = split([5, 2, 3], together=(0, 1, 2), coordination=1)
    assert (job.serial, job.parallel, job.wait) == (10, 5, 6)


@given(st.lists(times, min_size=1, max_size=6), times, st.data())
def test_waiting_is_won_up_to_the_breakeven_and_work_is_never_won(parts, cost, data):
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first, len(parts) - 1))
    job = split(parts, range(first, last + 1), cost)
    assert job.parallel <= job.serial <= job.work
    assert (job.wait <= job.serial) == (cost <= job.breakeven)
    assert job.breakeven == sum(parts[first : last + 1]) - max(parts[first : last + 1])


def test_the_table_names_waiting_and_work():
    assert [tuple(row.values()) for row in split([2, 3, 4, 1], (1, 2), 4).table()] == [
        ("one after the other", 10, 10),
        ("side by side, if it were free", 7, 10),
        ("side by side, with coordination", 11, 14),
    ]


@pytest.mark.parametrize(
    ("parts", "together", "cost", "words"),
    [
        ([1, 2, 3], (0, 2), 0, "must be neighbours in the job, got [0, 2]"),
        ([1, 2], (), 0, "must be neighbours in the job, got []"),
        ([1, 2], (1, 2), 0, "there are 2 parts, counted from 0, got places [1, 2]"),
        ([1, -2], (0, 1), 0, "must not be negative, got [1, -2] and 0"),
        ([1, 2], (0, 1), -1, "must not be negative, got [1, 2] and -1"),
    ],
)
def test_what_is_no_job_is_refused(parts, together, cost, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        split(parts, together, cost)
