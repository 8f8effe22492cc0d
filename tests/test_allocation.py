"""Slots by kind, read from a trace: hand-made steps, properties, and what cannot be read."""

from __future__ import annotations

from fractions import Fraction

import pytest
from drawn_runs import Scripted, ask, policies, served, small_requests, workloads
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.allocation import KINDS, Allocation, Slots, allocation
from lab.policy import Continuous, Static


def test_a_block_of_16_that_holds_5_tokens_for_a_request_that_stops_at_12() -> None:
    account = allocation(served([ask("A", 5, 8)], Continuous(seats=2, blocks=2)))
    assert account.steps[0] == Slots(5, 7, 4, 0, 16, 1, 0)
    assert account.steps[-1] == Slots(12, 0, 4, 0, 16, 1, 0)
    assert account.share("internal") == Fraction(4, 32)
    assert account.ends == {"A": 8}


def test_who_waits_for_blocks_is_counted_and_who_has_them_is_not() -> None:
    asked = [ask("A", 3, 2), ask("B", 3, 1), ask("C", 1, 1, arrival=9)]
    account = allocation(served(asked, Continuous(seats=4, blocks=1, block_tokens=4)))
    assert [(step.running, step.waiting) for step in account.steps] == [
        (1, 1),
        (1, 1),
        (1, 0),
        (1, 0),
    ]
    assert len(account.pressed.steps) == 2
    assert account.pressed.utilisation == Fraction(7, 8)
    assert account.together == account.most_together == 1


def test_whoever_was_preempted_waits_and_holds_nothing() -> None:
    asked = [ask("A", 4, 4), ask("B", 3, 4)]
    account = allocation(served(asked, Continuous(seats=4, blocks=3, block_tokens=4)))
    assert account.preemptions == 1
    assert [step.used for step in account.steps] == [7, 9, 6, 7, 5, 6]
    assert [step.waiting for step in account.steps] == [0, 0, 1, 1, 0, 0]


def test_who_gives_up_before_there_is_a_block_waits_until_then() -> None:
    asked = [ask("A", 8, 1), ask("B", 8, 4, cancel_at=1), ask("C", 5, 3, arrival=1)]
    account = allocation(served(asked, Continuous(seats=1, blocks=4, block_tokens=4)))
    assert [step.waiting for step in account.steps] == [1, 0, 0, 0]


@given(workloads(), policies())
def test_the_books_of_any_run_without_sharing_balance(asked, policy):
    trace = served(asked, policy, Scripted(), repeats=False)
    shared = [r for r in trace.requests if r.fork_of or any(run.shares for run in r.runs)]
    if policy.blocks is None or shared or not trace.num_steps:
        with pytest.raises(ValueError, match="an allocation needs"):
            allocation(trace)
        return
    account = allocation(trace)
    held = [step.used + step.reserved + step.internal for step in account.steps]
    assert held == [used * policy.block_tokens for used in trace.blocks_used()]
    seated = [0] * trace.num_steps
    for record in trace.requests:
        for stay in record.stays:
            for step in range(stay.first, trace.num_steps if stay.stop is None else stay.stop):
                seated[step] += 1
    assert [step.running for step in account.steps] == seated


@given(
    st.lists(st.integers(0, 3).flatmap(lambda n: small_requests(f"r{n}")), max_size=1),
    st.integers(1, 4),
)
def test_rejected_guesses_are_written_and_never_reserved(asked, drafts):
    asked = [r for r in asked if r.n == 1]
    policy = Continuous(seats=2, blocks=12, block_tokens=2, draft_tokens=drafts)
    if asked:
        account = allocation(served(asked, policy, Scripted(lambda who, at: at % 2), repeats=False))
        assert all(min(step) >= 0 for step in account.steps)


def test_a_static_batch_keeps_what_its_ended_members_hold() -> None:
    account = allocation(
        served([ask("A", 2, 1), ask("B", 2, 3)], Static(seats=2, blocks=4, block_tokens=2))
    )
    assert [(step.used, step.reserved) for step in account.steps] == [(4, 0), (5, 1), (6, 0)]
    assert [(step.running, step.waiting) for step in account.steps] == [(2, 0)] * 3


def test_rows_of_a_long_run_are_means_of_its_parts() -> None:
    steps = tuple(Slots(used, 0, 0, 0, 8 - used, 1, 0) for used in (1, 2, 3, 4, 8))
    account = Allocation(8, steps)
    rows = [row for row in account.rows("x", points=2) if row["kind"] == "used"]
    assert [(row["step"], row["share"]) for row in rows] == [
        (0, Fraction(3, 16)),
        (2, Fraction(5, 8)),
    ]
    assert len(account.rows()) == 5 * len(KINDS)
    for first in range(0, 25, 5):
        assert sum(row["share"] for row in account.rows()[first : first + 5]) == 1
    assert Allocation(8, ()).rows() == []
    with pytest.raises(ValueError, match="points must be at least 1, got 0"):
        account.rows(points=0)


def test_an_account_of_no_steps_has_no_means() -> None:
    empty = Allocation(8, ())
    assert empty.utilisation is None
    assert empty.together is None
    assert "–" in repr(empty)


def test_kinds_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match=r"in step 0 must add up to 8, got 1 \+ 2 \+ 0 \+ 0 \+ 4"):
        Allocation(8, (Slots(1, 2, 0, 0, 4, 1, 0),))
    with pytest.raises(ValueError, match="must add up to 8"):
        Allocation(8, (Slots(9, -1, 0, 0, 0, 1, 0),))


def test_the_account_is_a_table() -> None:
    account = allocation(served([ask("A", 5, 8)], Continuous(seats=2, blocks=2)))
    (row,) = account.table()
    assert (row["used"], row["free"]) == (26.6, 50.0)  # 8.5 and 16 of 32 slots, in %
    assert (row["running"], row["preempted"]) == (1.0, 0)


def test_what_has_no_pool_or_shares_blocks_is_refused() -> None:
    work = lab.Workload.given({"A": (0, 4, 1)})
    with pytest.raises(ValueError, match="this trace has 0 steps and None blocks"):
        allocation(lab.given({"A": [9]}, work))
    with pytest.raises(ValueError, match="this trace has 1 steps and None blocks"):
        allocation(served([ask("A", 4, 1)], Continuous(seats=2)))
    forked = served([ask("A", 4, 3, n=2)], Continuous(seats=2, blocks=9, block_tokens=4))
    with pytest.raises(ValueError, match="request 'A#2' shares some"):
        allocation(forked)
