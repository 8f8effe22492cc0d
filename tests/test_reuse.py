"""Hits, copies and moves are counted from the trace, and hits only on a first admission."""

from __future__ import annotations

from fractions import Fraction

import pytest
from drawn_runs import ask, served
from golden_runs import shared

import lab
from lab.ledgers.reuse import block_bytes
from lab.ledgers.sizes import MiB
from lab.policy import Continuous
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
        "prompt tokens  from the cache  hit rate  evicted  copied  out  in",
        "-------------  --------------  --------  -------  ------  ---  --",
        "           22               4      2/11        2       1    3   3",
    ]


def test_where_nothing_was_computed_there_is_no_rate() -> None:
    assert lab.reuse(Trace("s", {}, starts=[], ends=[])).hit_rate is None
    with pytest.raises(ValueError, match="reuse needs steps"):
        lab.reuse(Trace("s", {}))


def test_a_block_of_llama_3_8b_is_two_mebibytes() -> None:
    assert block_bytes(lab.model_size("llama-3-8b")) == 2 * MiB
    with pytest.raises(ValueError, match="block_tokens must be at least 1, got 0"):
        block_bytes(lab.model_size("llama-3-8b"), block_tokens=0)
