"""Bytes of attention: formulas beside algorithms that count every element they touch."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.attention.online_softmax import MASKED, merge, of_block, online_softmax
from lab.ledgers.attention_io import (
    BOTH_WAYS,
    BOTH_WAYS_WORK,
    FORWARD_BY_BLOCK,
    bytes_moved,
    computed_pairs,
    in_tiles,
    largest_tile,
    written_out,
)
from lab.ledgers.compute import attention_macs, attention_pairs, flops


class Memory:
    """Device memory that counts elements: `read` and `write` move rows to and from the chip."""

    def __init__(self, **arrays):
        self.arrays = arrays
        self.moved = Counter()

    def read(self, name, row):
        self.moved[name] += len(self.arrays[name][row])
        return self.arrays[name][row]

    def write(self, name, row, values):
        self.moved[name] += len(values)
        self.arrays.setdefault(name, {})[row] = values


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def drawn(queries, keys, head_dim, seed=0):
    dice = random.Random(seed)

    def rows(count):
        return {n: [dice.uniform(-1, 1) for _ in range(head_dim)] for n in range(count)}

    shifted = {keys - queries + n: row for n, row in rows(queries).items()}
    return Memory(Q=shifted, K=rows(keys), V=rows(keys))


def score(q, k, at, key, causal):
    return MASKED if causal and key > at else dot(q, k)


def run_written_out(memory, causal=False):
    """Three operations, each of which reads and writes device memory row by row."""
    queries, keys = list(memory.arrays["Q"]), list(memory.arrays["K"])
    K = [memory.read("K", key) for key in keys]
    for at in queries:
        q = memory.read("Q", at)
        memory.write("S", at, [score(q, K[key], at, key, causal) for key in keys])
    for at in queries:
        S = memory.read("S", at)
        kept = [of_block([s], [0.0]) for s in S]
        whole = of_block(S, [0.0] * len(S))
        parts = [k.relative_to(whole.maximum).denominator / whole.denominator for k in kept]
        memory.write("P", at, parts)
    V = [memory.read("V", key) for key in keys]
    for at in queries:
        P = memory.read("P", at)
        columns = zip(*V, strict=True)
        memory.write("O", at, [dot(P, column) for column in columns])


def cut(positions, size):
    return [positions[at : at + size] for at in range(0, len(positions), size)]


def block(queries, K, V, causal):
    """The statistics of each query of a tile over a tile of keys."""
    return {
        at: of_block(
            [score(q, k, at, key, causal) for key, k in K.items()], [tuple(v) for v in V.values()]
        )
        for at, q in queries.items()
    }


def hidden(rows, columns, causal):
    return causal and columns[0] > rows[-1]


def run_queries_outer(memory, query_tile, key_tile, causal):
    for rows in cut(list(memory.arrays["Q"]), query_tile):
        queries = {at: memory.read("Q", at) for at in rows}
        kept = {}
        for columns in cut(list(memory.arrays["K"]), key_tile):
            if hidden(rows, columns, causal):
                continue
            K, V = ({key: memory.read(name, key) for key in columns} for name in "KV")
            for at, new in block(queries, K, V, causal).items():
                kept[at] = merge(kept[at], new) if at in kept else new
        for at, statistics in kept.items():
            memory.write("O", at, list(statistics.output))
            memory.write("statistics", at, [0.0])  # maximum + ln(denominator)


def run_keys_outer(memory, query_tile, key_tile, causal):
    chip = {}
    for columns in cut(list(memory.arrays["K"]), key_tile):
        K, V = ({key: memory.read(name, key) for key in columns} for name in "KV")
        for rows in cut(list(memory.arrays["Q"]), query_tile):
            if hidden(rows, columns, causal):
                continue
            queries = {at: memory.read("Q", at) for at in rows}
            for at, new in block(queries, K, V, causal).items():
                if at in chip:
                    memory.read("O", at), memory.read("statistics", at)
                chip[at] = merge(chip[at], new) if at in chip else new
                memory.write("O", at, list(chip[at].output))
                memory.write("statistics", at, [chip[at].maximum, chip[at].denominator])


def counted(memory):
    moved = memory.moved
    return {
        "queries": moved["Q"],
        "keys_values": moved["K"] + moved["V"],
        "matrix": moved["S"] + moved["P"],
        "output": moved["O"],
        "statistics": moved["statistics"],
    }


def parts(moved):
    return {name: getattr(moved, name) for name in counted(Memory())}


small = st.integers(1, 7)


@given(small, small, st.integers(1, 3))
@settings(max_examples=40)
def test_writing_the_matrix_out_moves_what_the_formula_says(queries, cached, head_dim):
    keys = queries + cached - 1
    memory = drawn(queries, keys, head_dim)
    run_written_out(memory)
    assert counted(memory) == parts(written_out(queries, keys, head_dim))


@pytest.mark.parametrize("outer", ["queries", "keys"])
@given(small, small, st.integers(1, 3), small, small, st.booleans())
@settings(max_examples=60)
def test_tiles_move_what_the_formula_says(
    outer, queries, cached, head_dim, query_tile, key_tile, causal
):
    keys = queries + cached - 1
    memory = drawn(queries, keys, head_dim)
    run = run_queries_outer if outer == "queries" else run_keys_outer
    run(memory, query_tile, key_tile, causal)
    tiles = {"query_tile": query_tile, "key_tile": key_tile, "causal": causal, "outer": outer}
    moved = in_tiles(queries, keys, head_dim, **tiles)
    assert counted(memory) == parts(moved)
    assert moved.total == sum(parts(moved).values())


@pytest.mark.parametrize("causal", [True, False])
def test_the_counting_algorithms_compute_the_same_attention(causal):
    outputs = []
    for run in (
        lambda memory: run_written_out(memory, causal),
        lambda memory: run_queries_outer(memory, 3, 2, causal),
        lambda memory: run_keys_outer(memory, 2, 3, causal),
    ):
        memory = drawn(5, 7, 2, seed=1)
        run(memory)
        outputs.append(memory.arrays["O"])
    for at, row in outputs[0].items():
        scores = [
            score(memory.arrays["Q"][at], k, at, key, causal)
            for key, k in memory.arrays["K"].items()
        ]
        values = [tuple(v) for v in memory.arrays["V"].values()]
        plain = online_softmax(scores, values, 7)[-1].kept.output
        for other in (row, outputs[1][at], outputs[2][at]):
            assert other == pytest.approx(plain)


def test_a_tile_that_is_read_once_too_often_would_be_noticed():
    memory = drawn(4, 4, 2)
    run_queries_outer(memory, 2, 2, causal=True)
    memory.read("K", 0)
    moved = in_tiles(4, 4, 2, query_tile=2, key_tile=2, causal=True)
    assert counted(memory) != parts(moved)


def test_the_documented_examples_hold():
    assert written_out(4, 4, 2).total == 96
    assert largest_tile(98_304, 64) == 210
    assert computed_pairs(4096, 4096, query_tile=128, key_tile=128) == 8_650_752
    assert attention_pairs(4096) == 8_390_656


@given(st.integers(1, 3), st.integers(1, 8))
def test_one_query_has_little_to_gain(head_dim, keys):
    plain = written_out(1, keys, head_dim)
    tiled = in_tiles(1, keys, head_dim, query_tile=1, key_tile=4, causal=True)
    assert tiled.keys_values == plain.keys_values
    assert plain.total - tiled.total == 4 * keys - 1


@given(st.integers(1, 40), st.integers(1, 12))
def test_the_largest_tile_fits_and_the_next_does_not(spare, head_dim):
    def needs(tile):
        return 4 * tile * head_dim + tile**2 + 2 * tile

    elements = needs(1) + spare * 10
    tile = largest_tile(elements, head_dim)
    assert needs(tile) <= elements < needs(tile + 1)


@given(st.integers(1, 60), st.integers(1, 9))
def test_computed_pairs_are_the_needed_ones_and_what_cut_tiles_waste(tokens, tile):
    computed = computed_pairs(tokens, tokens, query_tile=tile, key_tile=tile)
    assert attention_pairs(tokens) <= computed <= attention_pairs(tokens, causal=False)
    assert computed - attention_pairs(tokens) <= tokens * (tile - 1) / 2


# What was printed


def printed(block):
    """The paper's forward pass: its loop order, 64 sequences of 16 heads, 2 bytes an element."""
    moved = in_tiles(1024, 1024, 64, query_tile=64, key_tile=block, outer="keys")
    return bytes_moved(moved, heads=64 * 16) / 1e9


@pytest.mark.parametrize("block", FORWARD_BY_BLOCK.values)
def test_the_forward_pass_of_the_paper_moves_what_its_figure_shows(block):
    shown = FORWARD_BY_BLOCK.values[block]
    assert printed(int(block)) == pytest.approx(shown, abs=0.15)


def test_the_other_loop_order_would_not_fit_that_figure():
    moved = in_tiles(1024, 1024, 64, query_tile=64, key_tile=64, outer="queries")
    assert bytes_moved(moved, heads=64 * 16) / 1e9 < 0.75 * FORWARD_BY_BLOCK.values["64"]


def test_forward_alone_is_below_forward_and_backward():
    matrix = bytes_moved(written_out(1024, 1024, 64), heads=64 * 16) / 1e9
    assert matrix < BOTH_WAYS.values["standard"]
    assert printed(256) < BOTH_WAYS.values["FlashAttention"]


def test_the_printed_work_fits_as_a_ratio_and_not_as_a_number():
    standard, tiled = BOTH_WAYS_WORK.values.values()
    products = (2 + 4, 2 + 5)  # forward and backward; the tiled way computes the scores twice
    assert tiled / standard == pytest.approx(products[1] / products[0], abs=0.05)
    pairs = attention_pairs(1024, causal=False)
    assert flops(attention_macs(pairs, heads=64 * 16, head_dim=64)) / 1e9 > 4 * standard


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: written_out(0, 1, 1), "queries must be at least 1, got 0"),
        (lambda: in_tiles(1, 1, 0, query_tile=1, key_tile=1), "head_dim must be at least 1, got 0"),
        (lambda: in_tiles(1, 1, 1, query_tile=0, key_tile=1), "query_tile must be at least 1"),
        (lambda: largest_tile(10, 2), "takes 11 elements, and the chip has room for 10"),
    ],
)
def test_impossible_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
