"""Waste, entries and sharing of blocks of several sizes, against the ledger and real runs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.block_sizes import block_sizes
from lab.worked_numbers import entry

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=8)


def work(rows):
    return lab.Workload.given({f"r{n}": (0, *row) for n, row in enumerate(rows)})


def test_lengths_of_the_worked_number() -> None:
    found = entry("paged-internal-fragment-bound")
    size = found.inputs["block"]
    rows = [block_sizes(work([(n, 1)]), [size])[size] for n in found.inputs["lengths"]]
    assert [(row.entries, row.wasted) for row in rows] == [(1, 15), (1, 0), (2, 15), (7, 12)]


@given(lengths, st.integers(1, 20))
def test_waste_is_below_one_block_a_request_and_tables_hold_every_token(rows, size):
    row = block_sizes(work(rows), [size])[size]
    assert row.entries * size == row.tokens + row.wasted
    assert row.wasted <= (size - 1) * len(rows)
    assert row.waste == Fraction(row.wasted, row.tokens + row.wasted)


@given(lengths, st.integers(1, 8))
def test_smaller_blocks_waste_no_more_and_have_no_shorter_tables(rows, size):
    small, large = block_sizes(work(rows), [size, 2 * size]).rows
    assert small.wasted <= large.wasted
    assert small.entries >= large.entries
    assert small.longest >= large.longest


@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))
def test_what_is_shared_is_what_a_second_request_finds_in_the_cache(common, more, size):
    rows = {
        "A": {"arrival": 0, "prompt": tuple(range(common + more)), "output": 1},
        "B": {"arrival": 1, "prompt": (*range(common), 99), "output": 1},
    }
    asked = lab.Workload.given(rows)
    row = block_sizes(asked, [size])[size]
    policy = lab.Continuous(blocks=99, block_tokens=size, prefix_cache=True)
    trace = lab.simulate(asked, policy, lab.CostModel.equal_steps())
    assert row.common == common
    assert row.shared == trace["B"].runs[0].cached


def test_equal_prompts_share_all_but_the_block_of_the_last_token() -> None:
    rows = {name: {"prompt": tuple(range(8)), "output": 2} for name in "AB"}
    account = block_sizes(lab.Workload.given(rows), [4, 16])
    assert [(row.common, row.shared, row.sharing) for row in account.rows] == [
        (8, 4, Fraction(1, 2)),
        (8, 0, 0),
    ]


def test_the_account_is_a_table() -> None:
    account = block_sizes(work([(100, 1)]), [16])
    assert account[16].sharing == Fraction(99 // 16 * 16, 100)
    (row,) = account.table()
    assert (row["block of"], row["entries"], row["wasted slots"]) == ("16 tokens", 7, 12)
    assert row["shared"] == "96 of 100"
    with pytest.raises(KeyError, match="no block size 8"):
        account[8]


def test_answers_of_one_prompt_have_tables_of_their_own() -> None:
    asked = lab.Workload.given({"A": {"prompt": 8, "output": 2, "n": 3}})
    assert block_sizes(asked, [4])[4].entries == 9


def test_no_requests_and_empty_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 request, got 0"):
        block_sizes([])
    with pytest.raises(ValueError, match="a block must have at least 1 token, got 0"):
        block_sizes(work([(1, 1)]), [4, 0])
