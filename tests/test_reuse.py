"""Hits, copies and moves are counted from the trace, and hits only on a first admission."""

from __future__ import annotations

from fractions import Fraction

import pytest
from drawn_runs import ask, served
from golden_runs import shared
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.reuse import block_bytes, probing, shared_prefix
from lab.ledgers.sizes import MiB
from lab.policy import Continuous
from lab.prefix import Chain, Identity, PrefixIndex
from lab.trace import Trace

CACHE = Continuous(seats=8, blocks=9, block_tokens=4, prefix_cache=True)


def test_three_of_four_find_two_blocks() -> None:
    trace = served([ask(name, 9, 1, arrival=i) for i, name in enumerate("ABCD")], CACHE)
    account = lab.reuse(trace)
    assert (account.prompt_tokens, account.cached_tokens) == (36, 24)
    assert account.hit_rate == Fraction(2, 3)


def test_a_preempted_request_that_finds_its_own_blocks_is_no_hit() -> None:
    asked = [ask("A", 8, 3), ask("B", range(100, 108), 3)]
    trace = served(asked, Continuous(seats=8, blocks=5, block_tokens=4, prefix_cache=True))
    assert trace["B"].runs[1].cached == 8
    assert lab.reuse(trace).hit_rate == 0


def test_a_prompt_of_several_answers_counts_once() -> None:
    trace = served([ask("A", 9, 1, n=3), ask("B", 9, 1, n=2, arrival=1)], CACHE)
    account = lab.reuse(trace)
    assert (account.prompt_tokens, account.cached_tokens) == (18, 8)


def test_copies_moves_and_evictions_are_counted() -> None:
    account = lab.reuse(shared())
    assert (account.copies, account.evictions) == (1, 2)
    assert (account.blocks_out, account.blocks_in) == (3, 3)
    assert repr(account).splitlines() == [
        "tokens, then blocks",
        "prompt tokens  from the cache  hit rate (%)  evicted  copied  out  in",
        "-------------  --------------  ------------  -------  ------  ---  --",
        "           22               4          18.2        2       1    3   3",
    ]


def test_where_nothing_was_computed_there_is_no_rate() -> None:
    nothing = lab.reuse(Trace("s", {}, starts=[], ends=[]))
    assert nothing.hit_rate is None
    assert "–" in repr(nothing)
    with pytest.raises(ValueError, match="reuse needs steps"):
        lab.reuse(Trace("s", {}))


def test_a_block_of_llama_3_8b_is_two_mebibytes() -> None:
    assert block_bytes(lab.model_size("llama-3-8b")) == 2 * MiB
    with pytest.raises(ValueError, match="block_tokens must be at least 1, got 0"):
        block_bytes(lab.model_size("llama-3-8b"), block_tokens=0)


A, B, C = [10, 11, 12, 13], [10, 11, 12, 14], [20, 21]


@pytest.mark.parametrize(
    ("one", "other", "positions"),
    [(A, B, 3), (A, C, 0), (B, C, 0), (A, A, 4), (A, [99, 10, 11, 12], 0), (A, A[:2], 2)],
)
def test_positions_are_shared_from_the_first_on(one, other, positions):
    assert shared_prefix(one, other).positions == positions
    assert shared_prefix(other, one).positions == positions


def test_full_blocks_are_taken_and_the_last_token_is_computed():
    shared = shared_prefix(A, B, block_tokens=2)
    assert (shared.blocks, shared.cached_tokens, shared.computed_tokens) == (1, 2, 2)
    assert shared_prefix(A, B).computed_tokens == 1
    again = shared_prefix(A, A, block_tokens=2)
    assert (again.positions, again.blocks, again.computed_tokens) == (4, 1, 2)
    assert repr(shared).splitlines()[1:] == [
        "shared  taken  computed",
        "------  -----  --------",
        "     3      2         2",
    ]


@given(
    st.lists(st.integers(0, 1), min_size=1, max_size=12),
    st.lists(st.integers(0, 1), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_the_account_is_what_the_index_finds(one, other, size):
    index, keys = PrefixIndex(), Chain(Identity(), size, one)
    index.publish(keys, range(keys.num_full), range(keys.num_full))
    found = index.match(Chain(Identity(), size, other), (len(other) - 1) // size)
    assert shared_prefix(one, other, block_tokens=size).blocks == len(found)


def test_a_prefix_needs_tokens_and_blocks():
    with pytest.raises(ValueError, match="block_tokens must be at least 1, got 0"):
        shared_prefix(A, B, block_tokens=0)
    with pytest.raises(ValueError, match="at least 1 token, got 4 and 0 tokens"):
        shared_prefix(A, [])


def test_blocks_are_guessed_one_after_the_other():
    tries = probing(3, 10)
    assert (tries.worst, tries.mean, tries.whole) == (30, Fraction(33, 2), 1000)
    assert repr(tries).splitlines()[0] == "guesses"
    assert repr(tries).split()[-2:] == ["16.5", "1000"]
    with pytest.raises(ValueError, match="candidates must be at least 1, got 0"):
        probing(3, 0)
