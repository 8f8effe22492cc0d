"""The configuration of a Llama-family decoder, read from a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.ledgers.sizes import ModelSize
from lab.model.rope import Rope

ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What a decoder's arithmetic depends on. Sizes have the names of `lab.ledgers.sizes`."""

    architecture: str = "LlamaForCausalLM"
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_positions: int = 2048
    norm_eps: float = 1e-6
    rope: Rope = field(default_factory=Rope)
    tied_embeddings: bool = False
    qk_norm: bool = False
    """Queries and keys of a head are normalized before they are turned (Qwen3)."""
    qkv_bias: bool = False
    output_bias: bool = False
    end_ids: tuple[int, ...] = ()
    """Tokens that end a text."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even to be turned in pairs, got {self.head_dim}")

    @classmethod
    def read(cls, folder: Path) -> ModelConfig:
        """From `config.json`, and `generation_config.json` where there is one.

        ValueError for an architecture, a rope type or another feature that is not supported, and
        for a missing field, each by its name.
        """
        config = _json(folder / "config.json")
        named = config.get("architectures") or [f"none, model_type {config.get('model_type')!r}"]
        if named[0] not in ARCHITECTURES:
            raise ValueError(
                f"architecture {named[0]} is not supported; supported: {', '.join(ARCHITECTURES)}"
            )
        _refuse_what_is_not_computed(config, named[0])
        heads, hidden = _field(config, "num_attention_heads"), _field(config, "hidden_size")
        generation = folder / "generation_config.json"
        endings = _json(generation) if generation.exists() else {}
        return cls(
            architecture=named[0],
            layers=_field(config, "num_hidden_layers"),
            hidden=hidden,
            ffn=_field(config, "intermediate_size"),
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or hidden // heads,
            vocab=_field(config, "vocab_size"),
            max_positions=_field(config, "max_position_embeddings"),
            norm_eps=_field(config, "rms_norm_eps"),
            rope=Rope.read(config),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            qk_norm=named[0] == "Qwen3ForCausalLM",
            qkv_bias=named[0] == "Qwen2ForCausalLM" or bool(config.get("attention_bias")),
            output_bias=named[0] != "Qwen2ForCausalLM" and bool(config.get("attention_bias")),
            end_ids=_ids(endings.get("eos_token_id", config.get("eos_token_id"))),
        )

    def size(self, name: str, source: str = "config.json") -> ModelSize:
        """The same sizes as the ledgers read them. Biases are left out there."""
        return ModelSize(
            name=name,
            layers=self.layers,
            hidden=self.hidden,
            ffn=self.ffn,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab=self.vocab,
            tied_embeddings=self.tied_embeddings,
            qk_norm=self.qk_norm,
            source=source,
        )


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"{file} is not there: a model folder has a {file.name}")
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{file} must hold an object, got {type(content).__name__}")
    return content


def _field(config: Mapping[str, Any], name: str) -> Any:
    if config.get(name) is None:
        raise ValueError(f"config.json has no {name!r}")
    return config[name]


def _ids(given: int | list[int] | None) -> tuple[int, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, int) else tuple(given)


def _refuse_what_is_not_computed(config: Mapping[str, Any], architecture: str) -> None:
    """A feature that would change the answers must not pass unnoticed."""
    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ValueError(f"hidden_act {activation!r} is not supported; supported: silu")
    if config.get("mlp_bias"):
        raise ValueError("mlp_bias is not supported; it must be false")
    if config.get("quantization_config"):
        raise ValueError("quantization_config is not supported: the weights must be plain numbers")
    windows = architecture == "MistralForCausalLM" or config.get("use_sliding_window")
    if windows and config.get("sliding_window"):
        raise ValueError(
            f"sliding_window {config['sliding_window']} is not supported; it must be null"
        )
    for kind in config.get("layer_types") or ():
        if kind != "full_attention":
            raise ValueError(f"layer type {kind!r} is not supported; supported: full_attention")
