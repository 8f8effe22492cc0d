"""The figures of attention in tiles: golden texts, and rules that hold for each of them."""

from __future__ import annotations

import json
from itertools import chain

import pytest
from drawn_runs import policies, served, workloads
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.attention.online_softmax import MASKED, ln, online_softmax
from lab.attention.tiling import tile_grid
from lab.figures.tiles import online_steps, paged_decode, places, said, tile_programs
from lab.worked_numbers import worked

SCORES, VALUES = [ln(weight) for weight in (4, 2, 1, 1)], [1, 3, 0, 2]

REVERSED = """\
What must stay of a tile when the next one is read?
1 query, 4 keys, 2 tiles of at most 2 (derived)

step         1           2
keys         3–4         1–2
scores       ln 1, ln 1  ln 4, ln 2
values       0, 2        1, 3
maximum      ln 1        ln 4
rescale      –           × 1/4
weights      1, 1        1, 1/2
numerator    2           3
denominator  2           2
output       1           3/2

1  keys 3–4 read; the largest score is ln 1; numerator: 1 × 0 + 1 × 2 = 2; denominator: 1 + 1 = 2; \
output so far: 1
2  keys 1–2 read; the maximum rises from ln 1 to ln 4, so what was kept is multiplied by 1/4; \
numerator: 2 × 1/4 + 1 × 1 + 1/2 × 3 = 3; denominator: 2 × 1/4 + 1 + 1/2 = 2; output so far: 3/2

Numerator 3 over denominator 2: the output is 3/2."""

GRID = """\
Which tiles must be read?
6 queries, 6 keys, one program a lane (derived)

step         1       2        3
queries 1–2  3 of 4  skipped  skipped
queries 3–4  4 of 4  3 of 4   skipped
queries 5–6  4 of 4  4 of 4   3 of 4

1  keys 1–2: queries 3–4 and 5–6 see them all; queries 1–2 see some of them
2  keys 3–4: queries 5–6 see them all; queries 3–4 see some of them; queries 1–2 skip them, \
all lie ahead
3  keys 5–6: queries 5–6 see some of them; queries 1–2 and 3–4 skip them, all lie ahead

6 of 9 tiles are read: 24 pairs computed for 21 that count, of 36."""

PAGED = """\
Who reads which block?
step 3 of: 2 requests, continuous batching, 2 seats, 12 blocks, equal steps; 2 tokens a block, \
at most 2 blocks a program (derived)

step       1        2        3    4
A, part 1  block 0  block 1  sum  out
A, part 2  block 2  block 4  sum
B          block 3  block 5  out

1  A reads blocks 0 and 2; B reads block 3
2  A reads blocks 1 and 4; B reads block 5
3  parts 1 and 2 of A kept maximum and sums; B has its output
4  the 2 parts of A are merged into its output

3 programs read 6 blocks, at most 2 one after the other."""


def small_run():
    work = lab.Workload.given({"A": (0, 6, 4), "B": (0, 2, 4)})
    rule = lab.Continuous(seats=2, blocks=12, block_tokens=2)
    return lab.simulate(work, rule, lab.CostModel.equal_steps())


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


# One query


def test_the_pass_in_words():
    steps = online_softmax(SCORES, VALUES, 2, order=(1, 0))
    assert plain(online_steps(steps).text()) == REVERSED


def test_the_numbers_of_the_ledger_stand_in_the_figure_without_a_maximum():
    scene = online_steps(
        online_softmax(SCORES, VALUES, 2, track_maximum=False), track_maximum=False
    )
    assert not {"maximum", "rescale"} & set(scene.lanes)
    labels = {mark.id: mark.label for mark in scene.marks}
    assert [labels["numerator.0"], labels["denominator.0"]] == ["10", "6"]
    assert [labels["numerator.1"], labels["denominator.1"]] == ["12", "8"]
    assert labels["output.1"] == "3/2"
    assert "numerator: 10 + 1 × 0 + 1 × 2 = 12" in scene.frames[1].caption


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), min_size=1, max_size=9),
    st.integers(1, 4),
)
def test_each_lane_says_what_the_pass_recorded(pairs, tile):
    scores, values = [ln(w) for w, _ in pairs], [v for _, v in pairs]
    steps = online_softmax(scores, values, tile)
    scene = online_steps(steps)
    assert len(scene.frames) == len(steps)
    for number, step in enumerate(steps):
        stands = {lane: scene.at(lane, number).label for lane in scene.lanes}
        assert stands["denominator"] == said(step.kept.denominator)
        assert stands["numerator"] == said(step.kept.numerator)
        assert stands["keys"] == places(step.keys)
        assert stands["rescale"] == ("–" if number == 0 else f"× {said(step.rescale)}")
        assert f"output so far: {stands['output']}" in scene.frames[number].caption
    assert json.dumps(scene.to_json(), allow_nan=False)


def test_a_row_of_numbers_is_one_word_so_that_no_part_of_it_stands_alone():
    for mark in online_steps(online_softmax(SCORES, VALUES, 2)).marks:
        if mark.lane in ("scores", "values", "weights"):
            assert " " not in mark.label


def test_masked_keys_are_said_to_change_nothing():
    scene = online_steps(online_softmax([0.5, MASKED, MASKED], [(1.0, 2.0)] * 3, 1))
    assert "all of them masked, so nothing changes" in scene.frames[2].caption
    assert scene.at("scores", 1).label == "−∞"
    assert plain(scene.at("values", 0).label) == "(1, 2)"
    before = online_steps(online_softmax([MASKED, 0.5], [1.0, 2.0], 1))
    assert before.at("output", 0).label == "–"
    assert "the largest score is 0.5" in before.frames[1].caption


# The tiles of a mask


def test_the_grid_in_words():
    assert tile_programs(tile_grid(6, 6, 2, 2)).text() == GRID


@given(st.integers(1, 9), st.integers(0, 6), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_every_tile_has_a_mark_and_the_skipped_ones_are_those_ahead(q, cached, rows, cols, causal):
    grid = tile_grid(q, q + cached, rows, cols, causal=causal)
    scene = tile_programs(grid)
    roles = {"all": "read", "some": "partly", "none": "skipped"}
    found = [mark.role for mark in scene.marks]
    assert found == [roles[tile.sees] for tile in chain(*grid)]
    assert len(scene.lanes) == len(grid)
    assert len(scene.frames) == len(grid[0])
    assert ("skipped" in found) <= causal


# A decode in blocks


def test_the_programs_in_words():
    assert paged_decode(small_run(), 2, 2).text() == PAGED


def tables_at(trace, step):
    """The block table of each request that decodes in a step, from the plans up to then."""
    tables, decoding = {}, []
    for done in list(trace.steps())[: step + 1]:
        decoding = []
        for chunk in done.chunks:
            record = trace[chunk.request_id]
            table = tables.setdefault(chunk.request_id, [])
            if done.number in {stay.first for stay in record.stays}:
                table.clear()
            if chunk.copy:
                table[table.index(chunk.copy[0])] = chunk.copy[1]
            table.extend(chunk.blocks)
            run = next(r for r in record.runs if r.first <= done.number < r.stop)
            if run.kind == "decode":
                decoding.append(chunk.request_id)
    return {who: tables[who] for who in decoding}


@given(workloads(), policies(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_in_any_run_each_table_is_read_once_and_split_requests_are_merged(
    asked, policy, blocks_a_program, dice
):
    trace = served(asked, policy)
    steps = [step for step in range(trace.num_steps) if tables_at(trace, step)]
    if not policy.blocks or not steps:
        return
    step = dice.choice(steps)
    scene = paged_decode(trace, step, blocks_a_program)
    tables = tables_at(trace, step)
    assert {mark.who for mark in scene.marks} == set(tables)
    for who, table in tables.items():
        read = [mark.label for mark in scene.marks if mark.who == who and mark.role == "read"]
        assert read == [f"block {block}" for block in table]
        kept = [mark.label for mark in scene.marks if mark.who == who and mark.role == "kept"]
        parts = -(-len(table) // blocks_a_program)
        assert sorted(kept) == ["out"] + ["sum"] * (parts if parts > 1 else 0)


def test_what_has_no_tiles_or_blocks_is_refused():
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        online_steps([])
    with pytest.raises(ValueError, match="at least 1 tile, got 0"):
        tile_programs([])
    run = small_run()
    with pytest.raises(ValueError, match="nobody decodes in step 0"):
        paged_decode(run, 0, 2)
    with pytest.raises(ValueError, match=r"the step must be in 0\.\.3, got 4"):
        paged_decode(run, 4, 2)
    work = lab.Workload.given({"A": (0, 6, 4)})
    bare = lab.simulate(work, lab.Continuous(seats=1), lab.CostModel.equal_steps())
    with pytest.raises(ValueError, match="this trace has none"):
        paged_decode(bare, 1, 2)


def test_the_reversed_pass_has_the_ledgers_factor():
    forward, backward = (online_softmax(SCORES, VALUES, 2, order=o) for o in ((0, 1), (1, 0)))
    worked(
        "flash-online-softmax-max",
        {
            "forward": forward[-1].kept.output,
            "reversed": backward[-1].kept.output,
            "rescale_factor_reversed": backward[-1].rescale,
        },
    )
