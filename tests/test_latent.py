"""Sizes of models with latent attention are checked against the totals that others published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.ledgers.latent import LatentSize, cached_model, known_cached_models
from lab.ledgers.sizes import known_models, model_size

# The safetensors files of V2-Lite; of V3 the 671B without its extra layer for drafting.
PUBLISHED_PARAMETERS = {"deepseek-v2-lite": 15_706_484_224, "deepseek-v3": 671_026_419_200}


def latent(name: str) -> LatentSize:
    found = cached_model(name)
    assert isinstance(found, LatentSize)
    return found


def test_derived_parameters_equal_the_published_counts() -> None:
    names = [name for name in known_cached_models() if name not in known_models()]
    assert {name: latent(name).parameters for name in names} == PUBLISHED_PARAMETERS


def test_the_parts_of_the_docstring_add_up() -> None:
    parts = 6_291_456 + 1_179_648 + 2_097_152 + 4_194_304 + 512
    assert latent("deepseek-v2-lite").attention_parameters == parts == 13_763_072


def test_the_router_chooses_among_all_but_the_shared_experts() -> None:
    small = latent("deepseek-v2-lite")
    one = 3 * 2048 * 1408
    assert small.expert_parameters == 66 * one + 64 * 2048
    assert replace(small, router_bias=True).expert_parameters == small.expert_parameters + 64


def test_without_experts_every_layer_is_dense() -> None:
    small = latent("deepseek-v2-lite")
    dense = replace(small, dense_layers=27)
    swapped = 26 * (small.expert_parameters - 3 * 2048 * 10_944)
    assert small.parameters - dense.parameters == swapped


def test_the_cache_holds_the_latent_vector_and_the_rotary_key_once() -> None:
    (layers,) = latent("deepseek-v3").cache
    assert (layers.layers, layers.numbers, layers.factors) == (61, 576, "512 + 64")
    assert layers.tokens_kept(100_000) == 100_000


def test_names_of_both_kinds_are_known() -> None:
    assert cached_model("Llama-3-8B") is model_size("llama-3-8b")
    assert cached_model("DeepSeek-V3").name == "DeepSeek-V3"
    assert all(cached_model(name).source for name in known_cached_models())
    with pytest.raises(ValueError, match=r"unknown model 'v4'; known: .*deepseek-v2-lite"):
        cached_model("v4")


def test_impossible_sizes_are_refused() -> None:
    small = latent("deepseek-v2-lite")
    with pytest.raises(ValueError, match="latent must be at least 1, got 0"):
        replace(small, latent=0)
    with pytest.raises(ValueError, match="shared_experts must be at least 0, got -1"):
        replace(small, shared_experts=-1)
    with pytest.raises(ValueError, match="dense_layers must be at most 27, got 28"):
        replace(small, dense_layers=28)
