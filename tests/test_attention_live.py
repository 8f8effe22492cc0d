"""Attention taken from a run of the shipped model: the same over the matrix and in tiles."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from lab.attention import live  # noqa: E402
from lab.attention.online_softmax import online_softmax  # noqa: E402
from lab.model.folder import load  # noqa: E402

TEXT = "It is a truth universally acknowledged, that a single man in possession of a good fortune"


@pytest.fixture(scope="module")
def model():
    return load("tiny")


@pytest.fixture(scope="module")
def heads(model):
    return live.attention_of(model, TEXT, layer=1)


def test_a_row_stands_for_each_head_and_token_and_sees_what_came_before(model, heads):
    tokens = len(model.tokenizer.encode(TEXT))
    group = model.config.heads // model.config.kv_heads
    assert heads.q_KRE.shape == (model.config.kv_heads, group * tokens, model.config.head_dim)
    assert heads.k_KLE.shape == heads.v_KLE.shape
    seen = (heads.mask_RL == 0).sum(1).tolist()
    assert seen == [1 + n for n in range(tokens)] * group


def test_tiles_give_the_attention_of_the_matrix_in_float64(heads):
    exact = heads.to(torch.float64)
    for tile in (1, 7, 1000):
        found = live.in_tiles(exact, tile, torch.float64)
        assert live.relative_error(found, live.over_matrix(exact)) < 1e-14


def test_they_are_the_pass_of_the_plain_module_row_by_row(heads):
    exact = heads.to(torch.float64)
    found = live.in_tiles(exact, 5, torch.float64)
    scale = 1 / math.sqrt(exact.q_KRE.shape[-1])
    for row in (0, 3, exact.q_KRE.shape[1] - 1):
        scores = exact.q_KRE[0, row] @ exact.k_KLE[0].mT * scale + exact.mask_RL[row]
        values = [tuple(v) for v in exact.v_KLE[0].tolist()]
        plain = online_softmax(scores.tolist(), values, 5)[-1].kept.output
        assert found[0, row].tolist() == pytest.approx(plain)


def test_in_float32_tiles_are_as_exact_as_torch(heads):
    exact = live.over_matrix(heads.to(torch.float64))
    tiles = live.relative_error(live.in_tiles(heads, 16), exact)
    assert tiles < 3 * live.relative_error(live.by_torch(heads), exact) < 1e-5


def test_short_sums_cost_more_than_short_factors(heads):
    short = heads.to(torch.bfloat16)
    exact = live.over_matrix(short.to(torch.float64))
    long_sums = live.relative_error(live.in_tiles(short, 1), exact)
    short_sums = live.relative_error(live.in_tiles(short, 1, torch.bfloat16), exact)
    assert 1e-4 < long_sums < 0.5 * short_sums


def test_a_forgotten_rescale_would_be_seen(heads, monkeypatch):
    exact = live.over_matrix(heads.to(torch.float64))
    right = live.in_tiles(heads, 4)
    monkeypatch.setattr(torch, "maximum", lambda old, new: new)  # the maximum of the tile alone
    wrong = live.in_tiles(heads, 4)
    assert live.relative_error(right, exact) < 1e-5
    assert not live.relative_error(wrong, exact) < 1e-5


def test_a_layer_that_is_not_there_is_refused(model):
    with pytest.raises(ValueError, match=r"layer must be in 0\.\.3, got 4"):
        live.attention_of(model, TEXT, 4)
