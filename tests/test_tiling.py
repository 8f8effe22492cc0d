"""Tiles and programs: every pair once, every block once."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.attention.tiling import decode_programs, tile_grid

sizes = st.integers(1, 20)


@given(sizes, sizes, sizes, sizes, st.booleans())
def test_the_tiles_hold_every_pair_once(queries, cached, query_tile, key_tile, causal):
    keys = queries + cached - 1
    grid = tile_grid(queries, keys, query_tile, key_tile, causal=causal)
    where = [(q, k) for tile in chain(*grid) for q in tile.queries for k in tile.keys]
    assert sorted(where) == [(q, k) for q in range(keys - queries, keys) for k in range(keys)]
    for tile in chain(*grid):
        seen = [k <= q or not causal for q in tile.queries for k in tile.keys]
        assert tile.pairs == sum(seen)
        assert tile.sees == ("all" if all(seen) else "some" if any(seen) else "none")


def test_six_tokens_in_tiles_of_two_are_nine_tiles():
    grid = tile_grid(6, 6, 2, 2)
    assert [[tile.sees for tile in row] for row in grid] == [
        ["some", "none", "none"],
        ["all", "some", "none"],
        ["all", "all", "some"],
    ]
    assert {tile.sees for row in tile_grid(6, 6, 2, 2, causal=False) for tile in row} == {"all"}


def test_a_decode_sees_its_whole_context():
    assert {tile.sees for tile in chain(*tile_grid(1, 9, 4, 4))} == {"all"}


@given(st.integers(1, 60), st.integers(1, 7), st.integers(1, 5))
def test_the_programs_read_every_token_once_in_order(context, block_tokens, blocks_a_program):
    table = [100 - n for n in range(-(-context // block_tokens) + 1)]
    programs = decode_programs("A", table, context, block_tokens, blocks_a_program)
    reads = [read for program in programs for read in program.reads]
    assert [place for place, _, _ in reads] == list(range(len(reads)))
    assert all(table[place] == block for place, block, _ in reads)
    assert [tokens for _, _, tokens in reads[:-1]] == [block_tokens] * (len(reads) - 1)
    assert sum(program.tokens for program in programs) == context
    assert [program.part for program in programs] == list(range(len(programs)))
    assert all(len(program.reads) == blocks_a_program for program in programs[:-1])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1, 1, 1), "queries must be at least 1, got 0"),
        ((1, 0, 1, 1), "keys must be at least 1, got 0"),
        ((1, 1, 0, 1), "query_tile must be at least 1, got 0"),
        ((1, 1, 1, 0), "key_tile must be at least 1, got 0"),
        ((3, 2, 1, 1), "got 3 queries and 2 keys"),
    ],
)
def test_sizes_that_make_no_grid_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        tile_grid(*sizes)


def test_a_table_that_ends_too_soon_is_refused():
    with pytest.raises(ValueError, match="9 tokens need 3 blocks of 4, and the table of 'A' has 2"):
        decode_programs("A", [5, 6], 9, 4, 1)
    for sizes in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="must be at least 1, got 0"):
            decode_programs("A", [5], *sizes)
