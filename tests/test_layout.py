"""Layouts: every number of a model is held, and by those whom the mesh names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.ledgers.links import link
from lab.ledgers.memory import kv_bytes_per_token
from lab.ledgers.sizes import GB, ModelSize, model_size
from lab.ledgers.training import training_state, training_traffic
from lab.parallel.layout import Experts, Layout, layout
from lab.parallel.mesh import AXES, Mesh, Place, share

SMALL = ModelSize(
    name="small",
    layers=3,
    hidden=4,
    ffn=12,
    heads=6,
    kv_heads=2,
    head_dim=2,
    vocab=7,
    tied_embeddings=False,
    qk_norm=True,
    source="given",
)

axes = st.integers(1, 3)
meshes = st.builds(Mesh, dp=axes, tp=st.sampled_from((1, 2, 3, 6)), pp=axes, cp=axes)
models = st.builds(
    lambda tied, kv, norms, layers: replace(
        SMALL, tied_embeddings=tied, kv_heads=kv, qk_norm=norms, layers=layers
    ),
    st.booleans(),
    st.sampled_from((1, 2, 3, 6)),
    st.booleans(),
    st.integers(3, 5),
)


def cells(rank):
    """Every single number that a rank holds, as (name, input, output)."""
    return Counter(
        (piece.name, i, o) for piece in rank.pieces() for i in piece.inputs for o in piece.outputs
    )


@settings(max_examples=25, deadline=None)
@given(models, meshes, st.none() | st.builds(Experts, st.integers(3, 5), st.integers(1, 3)), axes)
def test_ranks_hold_the_whole_model_and_the_rest_is_copies(model, mesh, experts, ep):
    mesh = replace(mesh, dp=1, cp=1, ep=ep if experts else 1)
    laid = layout(model, mesh, experts=experts)
    alone = cells(layout(model, Mesh(), experts=experts).ranks[0])
    held = [cells(rank) for rank in laid.ranks]
    assert all(set(mine.values()) == {1} for mine in held)
    together = Counter(cell for mine in held for cell in mine)
    assert set(together) == set(alone)
    assert len(alone) == laid.whole
    assert sum(together.values()) - len(alone) == laid.copies


@given(models, meshes)
@settings(max_examples=25, deadline=None)
def test_what_is_cut_along_tp_is_held_once_along_it(model, mesh):
    laid = layout(model, mesh)
    for group in mesh.groups("tp"):
        found = Counter()
        for number in group:
            found.update(cells(laid.ranks[number]))
        for (name, _, _), count in found.items():
            if "norm" in name:
                assert count == mesh.tp
            elif not re.search("[kv]_proj", name):
                assert count == 1, name


@given(models, meshes)
@settings(max_examples=25, deadline=None)
def test_each_query_head_finds_its_kv_head_on_its_own_rank(model, mesh):
    group = model.heads // model.kv_heads
    for rank in layout(model, mesh).ranks:
        for head, local in zip(rank.heads, rank.kv_of_heads, strict=True):
            assert rank.kv_heads[local] == head // group
        assert {head // group for head in rank.heads} == set(rank.kv_heads)


@given(meshes)
def test_places_and_ranks_turn_round_and_groups_share_all_other_axes(mesh):
    places = [mesh.place(rank) for rank in range(mesh.ranks)]
    assert [mesh.rank(place) for place in places] == list(range(mesh.ranks))
    for axis in AXES:
        groups = mesh.groups(axis)
        assert sorted(rank for group in groups for rank in group) == list(range(mesh.ranks))
        for group in groups:
            seen = [places[rank]._replace(**{axis: 0}) for rank in group]
            assert len(set(seen)) == 1
            assert [getattr(places[rank], axis) for rank in group] == list(range(len(group)))


@given(st.integers(0, 40), st.integers(1, 9))
def test_shares_follow_one_another_and_differ_by_at_most_one(total, parts):
    runs = [share(total, parts, part) for part in range(parts)]
    assert [number for run in runs for number in run] == list(range(total))
    sizes = [len(run) for run in runs]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_neighbours_on_tp_have_neighbouring_numbers():
    mesh = Mesh(dp=2, tp=2, pp=2)
    assert mesh.groups("tp") == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert mesh.groups("dp") == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert mesh.groups("pp") == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert mesh.place(6) == Place(tp=0, cp=0, ep=0, dp=1, pp=1)


@pytest.mark.parametrize(
    ("tp", "kv_heads", "kv_of_heads"),
    [
        (2, [range(1), range(1, 2)], [(0, 0, 0), (0, 0, 0)]),
        (3, [range(1), range(2), range(1, 2)], [(0, 0), (0, 1), (0, 0)]),
        (6, [range(1)] * 3 + [range(1, 2)] * 3, [(0,)] * 6),
    ],
)
def test_two_kv_heads_of_six_heads_are_copied_where_they_are_used(tp, kv_heads, kv_of_heads):
    ranks = layout(SMALL, Mesh(tp=tp)).ranks
    assert [rank.kv_heads for rank in ranks] == kv_heads
    assert [rank.kv_of_heads for rank in ranks] == kv_of_heads
    assert all(rank.is_even for rank in ranks)


def test_a_group_cut_askew_is_uneven():
    askew = replace(SMALL, heads=12, kv_heads=3, ffn=12)
    ranks = layout(askew, Mesh(tp=2)).ranks
    assert [rank.kv_of_heads for rank in ranks] == [(0, 0, 0, 0, 1, 1), (0, 0, 1, 1, 1, 1)]
    assert not any(rank.is_even for rank in ranks)


def test_columns_and_rows_come_in_pairs():
    pieces = {
        piece.name.split(".")[-1]: piece for piece in layout(SMALL, Mesh(tp=2)).ranks[1].pieces()
    }
    hidden = range(4)
    assert (pieces["q_proj"].inputs, pieces["q_proj"].outputs) == (hidden, range(6, 12))
    assert (pieces["k_proj"].inputs, pieces["k_proj"].outputs) == (hidden, range(2, 4))
    assert (pieces["o_proj"].inputs, pieces["o_proj"].outputs) == (range(6, 12), hidden)
    assert (pieces["up_proj"].inputs, pieces["up_proj"].outputs) == (hidden, range(6, 12))
    assert (pieces["down_proj"].inputs, pieces["down_proj"].outputs) == (range(6, 12), hidden)
    assert (pieces["embed_tokens"].outputs, pieces["lm_head"].outputs) == (range(4, 7),) * 2
    assert pieces["norm"].is_whole
    assert not pieces["down_proj"].is_whole


def test_layers_that_do_not_divide_go_to_the_first_stages():
    laid = layout(replace(SMALL, layers=5), Mesh(pp=3))
    assert [rank.layers for rank in laid.ranks] == [range(2), range(2, 4), range(4, 5)]
    assert [rank.has_embedding for rank in laid.ranks] == [True, False, False]
    assert [rank.has_head for rank in laid.ranks] == [False, False, True]
    assert laid.copies == 0


def test_a_tied_table_lies_on_the_first_and_the_last_stage():
    tied = replace(SMALL, tied_embeddings=True)
    assert layout(tied, Mesh(pp=2)).copies == tied.embedding_parameters
    assert layout(tied, Mesh(pp=1)).copies == 0


def test_experts_are_cut_and_attention_is_copied_along_ep():
    experts = Experts(count=5, active=2)
    laid = layout(SMALL, Mesh(ep=2), experts=experts)
    assert [rank.experts for rank in laid.ranks] == [range(3), range(3, 5)]
    mlp = 3 * SMALL.hidden * SMALL.ffn
    shared = laid.whole - SMALL.layers * experts.count * mlp
    assert laid.copies == shared
    assert [laid.requests(rank, 8) for rank in (0, 1)] == [range(4), range(4, 8)]


def test_mixtral_has_the_published_number_of_parameters():
    mixtral = replace(model_size("mistral-7b"), name="Mixtral-8x7B")
    assert layout(mixtral, Mesh(ep=8), experts=Experts(8, 2)).whole == 46_702_792_704


@given(meshes, st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_kv_bytes_of_a_sequence_add_up_but_for_copied_heads(mesh, tokens):
    model = replace(SMALL, kv_heads=6)
    laid = layout(model, mesh)
    held = sum(laid.kv_bytes(rank, tokens) for rank in range(mesh.ranks))
    assert held == mesh.dp * tokens * kv_bytes_per_token(model)


def test_the_docstrings_have_their_numbers():
    llama = model_size("llama-3-8b")
    two = layout(llama, Mesh(tp=2))
    assert two.ranks[1].heads == range(16, 32)
    assert two.weight_bytes(0) == 8_030_527_488
    assert two.copies == llama.norm_parameters
    assert [layout(llama, Mesh(**{axis: 2})).kv_bytes(1, 8192) for axis in ("tp", "pp", "cp")] == [
        2**29
    ] * 3


@given(st.integers(1, 5), st.integers(0, 3))
def test_zero_cuts_the_states_that_its_stage_names(dp, stage):
    laid = layout(SMALL, Mesh(dp=dp))
    whole = range(laid.whole)
    for kind in range(3):
        runs = [laid.state(rank, stage)[kind] for rank in range(dp)]
        if stage >= 3 - kind:
            assert [number for run in runs for number in run] == list(whole)
        else:
            assert runs == [whole] * dp


@pytest.mark.parametrize(
    ("stage", "gigabytes"), [(0, 120), (1, 31.40625), (2, 16.640625), (3, 1.875)]
)
def test_zero_leaves_what_its_paper_says(stage, gigabytes):
    state = training_state(7_500_000_000, 64, stage)
    assert state.total == sum(state)
    assert state.total == gigabytes * GB
    assert training_state(7_500_000_000, 1, stage).total == 120 * GB


@pytest.mark.parametrize(("stage", "ranks"), [(4, 1), (-1, 1), (0, 0)])
def test_zero_has_its_limits(stage, ranks):
    with pytest.raises(ValueError, match="must be"):
        training_state(1, ranks, stage)


@pytest.mark.parametrize(
    ("model", "mesh", "experts", "message"),
    [
        (SMALL, Mesh(tp=4), None, "heads must divide evenly among tp, got 6 and 4: 3/2 each"),
        (replace(SMALL, ffn=13), Mesh(tp=2), None, "ffn must divide evenly among tp, got 13 and 2"),
        (SMALL, Mesh(pp=4), None, "each stage needs a layer, got 4 stages and 3"),
        (SMALL, Mesh(ep=2), None, "this model has none, got ep 2"),
        (SMALL, Mesh(ep=5), Experts(4, 1), "each rank of ep needs an expert, got 5 and 4"),
        (SMALL, Mesh(), Experts(4, 5), "from 1 to all 4, got 5"),
    ],
)
def test_what_does_not_divide_is_refused_with_both_numbers(model, mesh, experts, message):
    with pytest.raises(ValueError, match=message):
        layout(model, mesh, experts=experts)


def test_a_mesh_has_its_limits():
    with pytest.raises(ValueError, match="cp must be at least 1, got 0"):
        Mesh(cp=0)
    with pytest.raises(ValueError, match="has 4 ranks, counted from 0, got 4"):
        Mesh(tp=4).place(4)
    with pytest.raises(ValueError, match="stage must be 0, 1, 2 or 3, got 4"):
        layout(SMALL, Mesh()).state(0, 4)
    for ask in (Layout.weight_bytes, partial(Layout.kv_bytes, tokens=1)):
        with pytest.raises(ValueError, match="has 1 ranks, counted from 0, got -1"):
            ask(layout(SMALL, Mesh()), -1)
    assert Mesh(tp=2, dp=3).ranks == prod((2, 3))


def test_stages_1_and_2_send_what_no_zero_sends_and_stage_3_half_more():
    over = link("nvlink-4")
    sent = [
        sum(one.sent_bytes for one in training_traffic(1000, 10, stage, over)) for stage in range(4)
    ]
    assert sent == [3600, 3600, 3600, 5400]
    with pytest.raises(ValueError, match="stage must be 0, 1, 2 or 3, got 4"):
        training_traffic(1, 1, 4, over)


TABLE = """\
small on 3 ranks; numbers held: 912 once and 176 copies
rank  tp  layers  heads  KV heads  ffn   vocab  numbers
----  --  ------  -----  --------  ----  -----  -------
   0   0  0:3     0:2    0:1       0:4   0:3        352
   1   1  0:3     2:4    0:2       4:8   3:5        392
   2   2  0:3     4:6    1:2       8:12  5:7        344"""


def test_a_layout_is_shown_as_its_table():
    assert repr(layout(SMALL, Mesh(tp=3))) == TABLE
    columns = layout(SMALL, Mesh(ep=2, pp=2), experts=Experts(3, 1)).table().columns
    assert columns[:3] == ("rank", "pp", "ep")
    assert "experts" in columns
