"""config.json: what is read, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_folders import CONFIGS, SMALL, hf_model, save

from lab.ledgers.memory import weight_bytes
from lab.model.config import ModelConfig

GIVEN: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 3,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
}


def read(folder: Path, **changed: Any) -> ModelConfig:
    given = {name: value for name, value in (GIVEN | changed).items() if value != "absent"}
    (folder / "config.json").write_text(json.dumps(given))
    return ModelConfig.read(folder)


def test_sizes_by_the_names_of_the_ledgers(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert (config.layers, config.hidden, config.ffn) == (3, 32, 48)
    assert (config.heads, config.kv_heads, config.head_dim, config.vocab) == (4, 2, 8, 50)
    assert (config.max_positions, config.norm_eps) == (128, 1e-5)


def test_what_is_left_out_has_the_usual_meaning(tmp_path: Path) -> None:
    assert read(tmp_path, num_key_value_heads="absent").kv_heads == 4
    assert read(tmp_path, head_dim=20).head_dim == 20
    assert read(tmp_path, head_dim=None).head_dim == 8
    assert not read(tmp_path).tied_embeddings
    assert read(tmp_path, tie_word_embeddings=True).tied_embeddings


def test_ends_of_text_come_from_the_generation_config_first(tmp_path: Path) -> None:
    assert read(tmp_path).end_ids == ()
    assert read(tmp_path, eos_token_id=2).end_ids == (2,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    assert read(tmp_path, eos_token_id=2).end_ids == (7, 9)


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_is_read_as_transformers_saves_it(family: str, tmp_path: Path) -> None:
    model = hf_model(family)
    config = ModelConfig.read(save(model, tmp_path))
    assert config.qk_norm == (family == "qwen3")
    assert config.qkv_bias == (family == "qwen2")
    assert config.end_ids == (SMALL["eos_token_id"],)
    biases = sum(p.numel() for name, p in model.named_parameters() if name.endswith("bias"))
    assert config.size(family).parameters + biases == model.num_parameters()
    assert weight_bytes(config.size(family), bytes_per_element=4) + 4 * biases == sum(
        p.nbytes for p in model.parameters()
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "architecture GPT2LMHeadModel is not supported"),
        ({"architectures": None, "model_type": "t5"}, "architecture none, model_type 't5' is not"),
        ({"hidden_size": "absent"}, "config.json has no 'hidden_size'"),
        ({"rms_norm_eps": "absent"}, "config.json has no 'rms_norm_eps'"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported; supported: silu"),
        ({"mlp_bias": True}, "mlp_bias is not supported; it must be false"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is not supported"),
        ({"num_key_value_heads": 3}, "heads must be a multiple of kv_heads, got 4 and 3"),
        ({"num_hidden_layers": 0}, "layers must be at least 1, got 0"),
        ({"head_dim": 5}, "head_dim must be even to be turned in pairs, got 5"),
        ({"layer_types": ["sliding_attention"]}, "layer type 'sliding_attention' is not supp"),
        ({"rope_scaling": {"rope_type": "dynamic"}}, "rope type 'dynamic' is not supported"),
        (
            {"architectures": ["MistralForCausalLM"], "sliding_window": 4096},
            "sliding_window 4096 is not supported; it must be null",
        ),
        (
            {
                "architectures": ["Qwen2ForCausalLM"],
                "use_sliding_window": True,
                "sliding_window": 9,
            },
            "sliding_window 9 is not supported",
        ),
    ],
)
def test_what_is_not_supported_is_named(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, **changed)


def test_a_window_that_is_not_used_is_no_fault(tmp_path: Path) -> None:
    read(tmp_path, architectures=["Qwen2ForCausalLM"], use_sliding_window=False, sliding_window=9)


def test_a_folder_without_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json is not there: a model folder has a config"):
        ModelConfig.read(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="must hold an object, got list"):
        ModelConfig.read(tmp_path)
