"""Rotary positions: how fast each pair of numbers in a head turns from one token to the next.

A pair (a, b) of a query or key at position p is turned by the angle p x rate. The scaling variants
change the rates, so that a model reaches further than the lengths it was first trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

NEEDS = {
    "default": (),
    "linear": ("factor",),
    "llama3": (
        *("factor", "low_freq_factor", "high_freq_factor"),
        "original_max_position_embeddings",
    ),
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""The supported kinds, and what each must be told. The names are those of config.json.

`dynamic` is not among them: its rates change as a sequence grows, so keys that were cached at one
length are wrong at the next.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """The rotary part of a model's configuration; the names are those of config.json."""

    rope_type: str = "default"
    rope_theta: float = 10_000.0
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Rope:
        """From config.json, in its older form (`rope_theta`, `rope_scaling`) or its newer one
        (`rope_parameters`). ValueError for an unsupported kind or a missing number, by name."""
        given = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        given.setdefault("rope_theta", config.get("rope_theta", 10_000.0))
        kind = given.pop("type", "default")
        kind = given.setdefault("rope_type", kind)
        if kind not in NEEDS:
            raise ValueError(f"rope type {kind!r} is not supported; supported: {', '.join(NEEDS)}")
        if missing := [name for name in NEEDS[kind] if given.get(name) is None]:
            raise ValueError(f"rope type {kind!r} needs {missing[0]!r}, and config.json has none")
        if given.get("partial_rotary_factor", 1.0) != 1.0:
            raise ValueError(
                "partial_rotary_factor must be 1.0 (all of a head is turned), "
                f"got {given['partial_rotary_factor']}"
            )
        known = {field.name for field in fields(cls)}
        return cls(**{k: v for k, v in given.items() if k in known and v is not None})

    def rates(self, head_dim: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Radians per position of each of the head_dim / 2 pairs, computed in `dtype`.

            theta^(-2 i / head_dim), i = 0, 1, ...

        then divided by `factor`: all of them (`linear`), or the slow ones with a soft border,
        which is given in turns over the original length (`llama3`, `yarn`).
        """
        exponents = torch.arange(0, head_dim, 2, dtype=dtype) / head_dim
        rates = 1.0 / self.rope_theta**exponents
        match self.rope_type:
            case "linear":
                return rates / self.factor
            case "llama3":
                return self._mixed(rates, self._llama3_kept(rates))
            case "yarn":
                return self._mixed(rates, self._yarn_kept(head_dim, dtype))
        return rates

    @property
    def magnitude(self) -> float:
        """What queries and keys are multiplied by while they are turned: 1 but for `yarn`."""
        if self.rope_type != "yarn":
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._yarn_scale(self.mscale) / self._yarn_scale(self.mscale_all_dim)
        return self._yarn_scale(1.0)

    def _mixed(self, rates: Tensor, kept: Tensor) -> Tensor:
        """`kept` 1: as it was; 0: divided by the factor."""
        return rates / self.factor * (1 - kept) + rates * kept

    def _llama3_kept(self, rates: Tensor) -> Tensor:
        """By how often a pair turns over the original length, in a straight line."""
        turns = self.original_max_position_embeddings * rates / (2 * math.pi)
        low, high = self.low_freq_factor, self.high_freq_factor
        return ((turns - low) / (high - low)).clamp(0, 1)

    def _yarn_kept(self, head_dim: int, dtype: torch.dtype) -> Tensor:
        """By the index of the pair, between the pairs that turn `beta_fast` and `beta_slow` times
        over the original length."""
        low, high = (self._pair_that_turns(n, head_dim) for n in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head_dim - 1)
        width = high - low if high != low else 0.001
        return 1 - ((torch.arange(head_dim // 2, dtype=dtype) - low) / width).clamp(0, 1)

    def _pair_that_turns(self, times: float, head_dim: int) -> float:
        """The index (a real number) of the pair that turns `times` times over the original
        length: rate x length = 2 pi x times, solved for the index."""
        length = self.original_max_position_embeddings
        return head_dim * math.log(length / (times * 2 * math.pi)) / (2 * math.log(self.rope_theta))

    def _yarn_scale(self, mscale: float) -> float:
        return 1.0 if self.factor <= 1 else 0.1 * mscale * math.log(self.factor) + 1.0
