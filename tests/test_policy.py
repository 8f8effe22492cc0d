"""Policies are frozen settings that say what is wrong with them."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from drawn_runs import ask
from hypothesis import given
from hypothesis import strategies as st

from lab.policy import RANKS, Continuous, Policy, Static, next_drafts

ORDERS = "first-come, priority, shortest-first"


@pytest.mark.parametrize("make", [Continuous, Static])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seats": 0}, "seats must be at least 1, got 0"),
        ({"blocks": 0}, "blocks must be at least 1, got 0"),
        ({"block_tokens": -2}, "block_tokens must be at least 1, got -2"),
        ({"order": "fair"}, f"order must be one of {ORDERS}, got 'fair'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_both_policies_refuse_limits_below_1(
    make: type[Policy], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seats": 1, "token_budget": 0}, "token_budget must be at least 1, got 0"),
        (
            {"seats": 8, "token_budget": 7},
            "token_budget must not be below seats, since every running request may need one token "
            "a step: got 7 < 8",
        ),
        ({"preemption": "swop"}, "preemption must be 'recompute', 'swap' or 'never', got 'swop'"),
        (
            {"host_blocks": 4},
            "host_blocks are for preemption='swap', got 4 with 'recompute'",
        ),
        (
            {"host_blocks": 0, "preemption": "swap"},
            "host_blocks must be at least 1, got 0",
        ),
        ({"prefix_cache": True}, "prefix_cache needs a pool: give blocks, got None"),
        ({"patience": -1}, "patience must be at least 0, got -1"),
        ({"draft_tokens": -1}, "draft_tokens must be at least 0, got -1"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_continuous_batching_refuses_what_cannot_work(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Continuous(**wrong)


def test_static_batching_refuses_a_negative_timeout() -> None:
    with pytest.raises(ValueError, match=r"^timeout must not be negative, got -0\.5$"):
        Static(timeout=-0.5)


def test_a_budget_of_one_token_a_seat_is_enough() -> None:
    assert Continuous(seats=8, token_budget=8).token_budget == 8


def test_a_policy_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        Continuous().seats = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("order", "first_to_last"),
    [("first-come", "CABD"), ("priority", "BCAD"), ("shortest-first", "CDAB")],
)
def test_an_order_is_a_rank_in_which_equals_keep_their_arrival(
    order: str, first_to_last: str
) -> None:
    asked = [
        ask("A", 4, 5, arrival=1),
        ask("B", 4, 9, arrival=1, priority=1),
        ask("C", 4, 2),
        ask("D", 4, 2, arrival=1),
    ]
    ranks = {request.id: RANKS[order](request, number) for number, request in enumerate(asked)}
    assert "".join(sorted(ranks, key=ranks.__getitem__)) == first_to_last
    assert len(set(ranks.values())) == 4


def test_a_batch_opens_when_it_is_full_or_its_oldest_has_waited_long_enough() -> None:
    policy = Static(seats=3, timeout=10)
    assert policy.opens(num_waiting=2, oldest=5) == 15
    assert policy.opens(num_waiting=3, oldest=5) == 5
    assert policy.opens(num_waiting=4, oldest=5) == 5


def test_a_static_batch_is_what_continuous_batching_can_be_told_not_to_be() -> None:
    static = Static()
    assert (static.keeps_seats, static.chunked_prefill, static.preemption) == (True, False, "never")
    assert (static.token_budget, static.draft_tokens, static.patience) == (None, 0, 0)
    assert not static.adaptive_drafts
    assert (static.prefix_cache, static.host_blocks) == (False, None)
    assert not Continuous().keeps_seats


@pytest.mark.parametrize(
    ("drafts", "drafted", "accepted", "found"),
    [
        *((4, 4, 4, 4), (4, 4, 1, 2), (4, 4, 0, 1), (2, 2, 2, 3), (1, 1, 1, 2), (1, 1, 0, 1)),
        (4, 1, 1, 4),  # a short round that stood says nothing against long ones
        (4, 2, 1, 2),
        (5, 5, 5, 5),
    ],
)
def test_the_next_guesses_are_those_that_stood_and_one_more(
    drafts: int, drafted: int, accepted: int, found: int
) -> None:
    assert next_drafts(drafts, drafted, accepted, 5 if drafts == 5 else 4) == found


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 6))
def test_the_number_of_guesses_stays_in_its_bounds(luck: list[int], most: int) -> None:
    drafts = most
    for stood in luck:
        drafts = next_drafts(drafts, drafts, min(stood, drafts), most)
        assert 1 <= drafts <= most
