"""Random weights: the same from one seed, others from another, and of a size that lives."""

from __future__ import annotations

from dataclasses import replace

import torch

from lab.model.config import ModelConfig
from lab.model.decoder import Decoder, greedy_oracle
from lab.model.weights import Weights

CONFIG = ModelConfig(
    layers=3, hidden=24, ffn=32, heads=4, kv_heads=2, head_dim=6, vocab=37, qkv_bias=True
)


def test_a_seed_gives_the_same_weights_in_every_format() -> None:
    one, again = Weights.random(CONFIG, 5), Weights.random(CONFIG, 5)
    double, other = Weights.random(CONFIG, 5, torch.float64), Weights.random(CONFIG, 6)
    for layer in range(3):
        assert torch.equal(one.layers[layer].qkv, again.layers[layer].qkv)
        assert torch.equal(one.layers[layer].qkv, double.layers[layer].qkv.float())
        assert not torch.equal(one.layers[layer].qkv, other.layers[layer].qkv)


def test_what_a_model_does_not_have_is_absent() -> None:
    weights = Weights.random(CONFIG)
    layer = weights.layers[0]
    assert (layer.q_norm_E, layer.k_norm_E, layer.output_bias) == (None, None, None)
    assert layer.qkv_bias is not None
    assert layer.qkv_bias.shape == ((4 + 2 * 2) * 6,)
    tied = Weights.random(replace(CONFIG, tied_embeddings=True))
    assert tied.head_VD is tied.embed_VD


def test_the_answers_of_random_models_differ() -> None:
    answers = {
        tuple(greedy_oracle(Decoder(CONFIG, Weights.random(CONFIG, seed)), [1, 2, 3], 8))
        for seed in range(5)
    }
    assert len(answers) == 5
