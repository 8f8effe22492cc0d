"""The rates of rotary positions: by hand, and those of transformers for every scaling variant."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from model_folders import hf_model

from lab.model.rope import NEEDS, Rope

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 10_000.0,
    },
    "yarn": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 10_000.0,
    },
    "yarn with its own constants": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.7,
        "mscale_all_dim": 1.3,
        "truncate": False,
        "rope_theta": 10_000.0,
    },
}


def test_the_first_pair_turns_one_radian_a_token_and_the_others_less_and_less() -> None:
    rates = Rope(rope_theta=10_000.0).rates(8)
    assert rates.tolist() == pytest.approx([1.0, 0.1, 0.01, 0.001])
    assert Rope(rope_type="linear", factor=2.0).rates(8).tolist() == pytest.approx(
        [0.5, 0.05, 0.005, 0.0005]
    )


def test_llama3_keeps_fast_pairs_and_divides_slow_ones() -> None:
    plain = Rope().rates(64)
    scaled = Rope(rope_type="llama3", factor=8.0, original_max_position_embeddings=100).rates(64)
    turns = 100 * plain / (2 * math.pi)
    assert torch.equal(scaled[turns >= 4], plain[turns >= 4])
    assert torch.equal(scaled[turns <= 1], plain[turns <= 1] / 8)
    between = (turns > 1) & (turns < 4)
    assert between.any()
    assert ((scaled < plain) & (scaled > plain / 8))[between].all()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("head_dim", [8, 64])
def test_rates_are_those_of_transformers(variant: str, head_dim: int) -> None:
    theirs = hf_model(
        "llama", head_dim=head_dim, rope_parameters=VARIANTS[variant]
    ).model.rotary_emb
    rope = Rope.read({"rope_parameters": VARIANTS[variant]})
    ours = rope.rates(head_dim, torch.float32)
    torch.testing.assert_close(ours, theirs.inv_freq, rtol=1e-6, atol=0)
    assert rope.magnitude == pytest.approx(theirs.attention_scaling)


def test_a_wrong_theta_is_not_close() -> None:
    right, wrong = Rope(rope_theta=500.0).rates(8), Rope(rope_theta=505.0).rates(8)
    assert not torch.allclose(right, wrong, rtol=1e-6, atol=0)


def test_the_older_form_says_the_same() -> None:
    given = dict(VARIANTS["llama3"])
    new = Rope.read({"rope_parameters": given})
    theta = given.pop("rope_theta")
    kind = given.pop("rope_type")
    assert Rope.read({"rope_theta": theta, "rope_scaling": {"type": kind, **given}}) == new
    assert Rope.read({"rope_theta": 7.0, "rope_scaling": None}) == Rope(rope_theta=7.0)


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "ntk"])
def test_an_unsupported_kind_is_named(kind: str) -> None:
    with pytest.raises(ValueError, match=f"rope type '{kind}' is not supported; supported: def"):
        Rope.read({"rope_scaling": {"rope_type": kind, "factor": 2.0}})


@pytest.mark.parametrize(("kind", "name"), [(kind, n) for kind in NEEDS for n in NEEDS[kind]])
def test_a_missing_number_is_named(kind: str, name: str) -> None:
    given = {n: 2.0 for n in NEEDS[kind] if n != name}
    with pytest.raises(ValueError, match=f"rope type '{kind}' needs '{name}', and config.json"):
        Rope.read({"rope_scaling": {"rope_type": kind, **given}})


def test_turning_only_a_part_of_a_head_is_refused() -> None:
    with pytest.raises(ValueError, match=r"partial_rotary_factor must be 1.0 .*, got 0.5"):
        Rope.read({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})
