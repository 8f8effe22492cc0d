"""Models with latent attention and experts: sizes that weights and cache depend on, no times.

A layer keeps one compressed vector of a token, from which the keys and values of all heads are
made again, and one short key with its position, which all heads share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lab.ledgers.sizes import CachedLayers, ModelSize, known_models, model_size

_COUNTS = (
    *("layers", "hidden", "heads", "head_dim", "latent", "rotary"),
    *("ffn", "expert_ffn", "experts", "vocab"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSize:
    """The sizes of a decoder with latent attention (MLA), of which all but the first
    `dense_layers` have experts in place of the MLP (DeepSeek-V2 and V3).

    A head's query and key have `head_dim` numbers without and `rotary` numbers with a position;
    its value has `head_dim`. With `query_latent` the queries are made from a vector of that size.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    head_dim: int
    latent: int
    rotary: int
    ffn: int
    dense_layers: int
    expert_ffn: int
    experts: int
    shared_experts: int
    vocab: int
    source: str
    query_latent: int = 0
    router_bias: bool = False

    def __post_init__(self) -> None:
        may_be_none = ("dense_layers", "shared_experts", "query_latent")
        for name in (*_COUNTS, *may_be_none):
            least = 0 if name in may_be_none else 1
            if getattr(self, name) < least:
                raise ValueError(
                    f"model {self.name!r}: {name} must be at least {least}, "
                    f"got {getattr(self, name)}"
                )
        if self.dense_layers > self.layers:
            raise ValueError(
                f"model {self.name!r}: dense_layers must be at most {self.layers}, "
                f"got {self.dense_layers}"
            )

    @property
    def cache(self) -> tuple[CachedLayers, ...]:
        """What the layers keep of a token: latent + rotary numbers, once and not twice.

        DeepSeek-V3: 61 layers of 512 + 64 = 576 numbers.
        """
        kept = self.latent + self.rotary
        return (
            CachedLayers(
                layers=self.layers,
                what="latent, rotary",
                numbers=kept,
                factors=f"{self.latent} + {self.rotary}",
                row=kept,
            ),
        )

    @property
    def attention_parameters(self) -> int:
        """Weights of one layer's attention, with the norms of its compressed vectors.

            queries  hidden x heads x (head_dim + rotary), or through the query's latent vector
            latent   hidden x (latent + rotary) down, latent x heads x 2 x head_dim up
            output   heads x head_dim x hidden

        DeepSeek-V2-Lite: 6,291,456 + 1,179,648 + 2,097,152 + 4,194,304 + 512 = 13,763,072.
        """
        wide = self.heads * (self.head_dim + self.rotary)
        queries = self.hidden * wide
        if self.query_latent:
            queries = self.query_latent * (self.hidden + wide + 1)
        down = self.hidden * (self.latent + self.rotary) + self.latent
        return queries + down + self.heads * self.head_dim * (2 * self.latent + self.hidden)

    @property
    def expert_parameters(self) -> int:
        """Weights of all experts of one layer, and of the router that chooses among them."""
        experts = (self.experts + self.shared_experts) * 3 * self.hidden * self.expert_ffn
        return experts + self.experts * (self.hidden + self.router_bias)

    @property
    def parameters(self) -> int:
        """All weights of the model; those of the experts count whether they are chosen or not.

        DeepSeek-V2-Lite: 15,706,484,224. An extra layer for drafting (V3) is left out.
        """
        mixed = self.layers - self.dense_layers
        in_layers = self.layers * (self.attention_parameters + 2 * self.hidden)
        dense = self.dense_layers * 3 * self.hidden * self.ffn
        rest = (2 * self.vocab + 1) * self.hidden
        return in_layers + dense + mixed * self.expert_parameters + rest


CachedModel: TypeAlias = ModelSize | LatentSize
"""A model whose weights and cache can be counted."""

_LATENT = {
    "deepseek-v2-lite": LatentSize(
        name="DeepSeek-V2-Lite",
        layers=27,
        hidden=2048,
        heads=16,
        head_dim=128,
        latent=512,
        rotary=64,
        ffn=10944,
        dense_layers=1,
        expert_ffn=1408,
        experts=64,
        shared_experts=2,
        vocab=102400,
        source="config.json of deepseek-ai/DeepSeek-V2-Lite",
    ),
    "deepseek-v3": LatentSize(
        name="DeepSeek-V3",
        layers=61,
        hidden=7168,
        heads=128,
        head_dim=128,
        latent=512,
        rotary=64,
        ffn=18432,
        dense_layers=3,
        expert_ffn=2048,
        experts=256,
        shared_experts=1,
        vocab=129280,
        query_latent=1536,
        router_bias=True,
        source="config.json of deepseek-ai/DeepSeek-V3",
    ),
}


def cached_model(name: str) -> CachedModel:
    """The sizes of the model called `name`, of either kind; `cached_model("deepseek-v3").layers`
    is 61.

    Upper and lower case are the same. ValueError lists the known names for an unknown one.
    """
    if name.lower() in _LATENT:
        return _LATENT[name.lower()]
    if name.lower() in known_models():
        return model_size(name)
    raise ValueError(f"unknown model {name!r}; known: {', '.join(known_cached_models())}")


def known_cached_models() -> tuple[str, ...]:
    """The names that `cached_model` understands."""
    return (*known_models(), *_LATENT)
