"""The matrices of a decoder, in the form in which it multiplies with them.

Matrices that read the same input lie in one: queries, keys and values; gate and up. In each head of
queries and keys the two numbers that are turned together lie side by side, where a checkpoint has
them half a head apart: one complex product then turns them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias

import torch
from torch import Tensor

from lab.model.config import ModelConfig

# D width of the model, F width of the MLP, E head, V vocabulary; Q, K, V rows of all their heads

Read: TypeAlias = Callable[[str, tuple[int, ...], Tensor], None]
"""Puts the tensor of that name and shape into the given place."""


Cut: TypeAlias = Callable[[str, tuple[int, ...]], tuple[tuple[int, ...], tuple[slice, ...]]]
"""For the name and shape of a part: the shape of the whole tensor, and where it lies in that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The part of a model that one of several ranks holds.

    Of `config` the heads, KV heads, the width of the MLP and the layers are its own, all else is
    the model's. `embed` and `head` are its rows of the two tables of the vocabulary: none where it
    holds no such table.
    """

    config: ModelConfig
    layers: range
    embed: range
    head: range
    cut: Cut


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. A matrix has a row for each output."""

    input_norm_D: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm_E: Tensor | None
    k_norm_E: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    mlp_norm_D: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a model. With a tied head `head_VD` is `embed_VD` itself."""

    embed_VD: Tensor
    layers: tuple[LayerWeights, ...]
    norm_D: Tensor
    head_VD: Tensor

    @classmethod
    def read(
        cls,
        config: ModelConfig,
        read: Read,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        shard: Shard | None = None,
    ) -> Weights:
        """Fill every weight, or those of a `shard`, with `read`, by the names of Hugging Face
        checkpoints. Memory is taken once, in the form that is multiplied with."""
        fill = _Filler(config, read, dtype, device)
        layers, rows = range(config.layers), range(config.vocab)
        embed, head = rows, rows
        if shard is not None:
            layers, embed, head = shard.layers, shard.embed, shard.head
        embed_VD = fill("model.embed_tokens", len(embed), config.hidden)
        is_shared = config.tied_embeddings and embed == head
        table = "model.embed_tokens" if config.tied_embeddings else "lm_head"
        return cls(
            embed_VD=embed_VD,
            layers=tuple(fill.layer(f"model.layers.{n}") for n in layers),
            norm_D=fill("model.norm", config.hidden if head else 0),
            head_VD=embed_VD if is_shared else fill(table, len(head), config.hidden),
        )

    @property
    def num_bytes(self) -> int:
        """Bytes of all weights; a table that is two things is counted once."""
        parts = [getattr(layer, one.name) for layer in self.layers for one in fields(layer)]
        tables = {id(table): table for table in (self.embed_VD, self.head_VD)}.values()
        return sum(part.nbytes for part in (*parts, *tables, self.norm_D) if part is not None)

    @classmethod
    def random(
        cls, config: ModelConfig, seed: int = 0, dtype: torch.dtype = torch.float32
    ) -> Weights:
        """Weights drawn from a seed, of a size that keeps activations near 1; norms near 1."""
        dice = torch.Generator().manual_seed(seed)

        def draw(name: str, shape: tuple[int, ...], place: Tensor) -> None:
            drawn = torch.randn(shape, generator=dice, dtype=torch.float64)
            scale = 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.1
            place.copy_(drawn * scale + (1.0 if "norm" in name else 0.0))

        return cls.read(config, draw, dtype)


class _Filler:
    """Takes memory for a weight and has it read, part by part."""

    def __init__(
        self, config: ModelConfig, read: Read, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self.config, self.read = config, read
        self.dtype, self.device = dtype, device

    def __call__(self, name: str, *shape: int, suffix: str = "weight") -> Tensor:
        place = torch.empty(shape, dtype=self.dtype, device=self.device)
        if place.numel():
            self.read(f"{name}.{suffix}", shape, place)
        return place

    def layer(self, name: str) -> LayerWeights:
        c, attention, mlp = self.config, f"{name}.self_attn", f"{name}.mlp"
        query, key = c.heads * c.head_dim, c.kv_heads * c.head_dim
        projections = {f"{attention}.q_proj": query, f"{attention}.k_proj": key}
        projections[f"{attention}.v_proj"] = key
        norm_E = {p: self(f"{attention}.{p}_norm", c.head_dim) for p in ("q", "k") if c.qk_norm}
        bias = c.output_bias
        return LayerWeights(
            input_norm_D=self(f"{name}.input_layernorm", c.hidden),
            qkv=self._side_by_side(self._stacked(projections, c.hidden)),
            qkv_bias=self._side_by_side(self._stacked(projections)) if c.qkv_bias else None,
            q_norm_E=_paired(norm_E["q"]) if c.qk_norm else None,
            k_norm_E=_paired(norm_E["k"]) if c.qk_norm else None,
            output=self(f"{attention}.o_proj", c.hidden, query),
            output_bias=self(f"{attention}.o_proj", c.hidden, suffix="bias") if bias else None,
            mlp_norm_D=self(f"{name}.post_attention_layernorm", c.hidden),
            gate_up=self._stacked({f"{mlp}.gate_proj": c.ffn, f"{mlp}.up_proj": c.ffn}, c.hidden),
            down=self(f"{mlp}.down_proj", c.hidden, c.ffn),
        )

    def _stacked(self, rows: dict[str, int], *columns: int) -> Tensor:
        """Several matrices (or without columns several biases) as one."""
        place = torch.empty((sum(rows.values()), *columns), dtype=self.dtype, device=self.device)
        suffix = "weight" if columns else "bias"
        for (name, count), part in zip(rows.items(), place.split(list(rows.values())), strict=True):
            self.read(f"{name}.{suffix}", (count, *columns), part)
        return place

    def _side_by_side(self, qkv: Tensor) -> Tensor:
        """Pairs of queries and keys together; values stay as they are."""
        c = self.config
        for head_E in qkv[: (c.heads + c.kv_heads) * c.head_dim].split(c.head_dim):
            head_E.copy_(_paired(head_E))
        return qkv


def _paired(head_E: Tensor) -> Tensor:
    """0, E/2, 1, E/2 + 1, ...: what is turned together, together."""
    first, second = head_E.chunk(2)
    return torch.stack((first, second), dim=1).flatten(0, 1)
