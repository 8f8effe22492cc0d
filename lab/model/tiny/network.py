"""The shipped pair as it is trained: whole sequences, no cache, matrices in bfloat16.

The same architecture as `lab.model.decoder`, and the same names of weights as a Hugging Face
checkpoint. bfloat16 is what current processors multiply fastest; weights are kept in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.model.config import ModelConfig

# B sequence, T token, D width, H head, E element of a head

VOCABULARY = 1024
CONTEXT = 512


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained."""

    config: ModelConfig
    steps: int
    batch: int = 16  # sequences of CONTEXT tokens
    muon_lr: float = 0.02
    adam_lr: float = 0.003
    weight_decay: float = 0.1
    dropout: float = 0.0
    warm_up: int = 60  # steps
    cool_down: float = 0.4  # the share of the steps over which the rates fall to 0
    seed: int = 1

    def rate(self, step: int) -> float:
        """The factor of the learning rates: warm up, stay, cool down in a straight line."""
        left = (self.steps - step) / (self.cool_down * self.steps)
        return min(1.0, (step + 1) / self.warm_up, left)


RECIPES = {
    "target": Recipe(
        ModelConfig(
            layers=4,
            hidden=256,
            ffn=512,
            heads=8,
            kv_heads=2,
            head_dim=32,
            vocab=VOCABULARY,
            max_positions=CONTEXT,
            tied_embeddings=True,
        ),
        steps=1600,
        dropout=0.1,
    ),
    "draft": Recipe(
        ModelConfig(
            layers=1,
            hidden=128,
            ffn=384,
            heads=4,
            kv_heads=2,
            head_dim=32,
            vocab=VOCABULARY,
            max_positions=CONTEXT,
            tied_embeddings=True,
        ),
        steps=2000,
    ),
}


class Layer(nn.Module):
    """Attention and a gated MLP, each after a norm and added to what came in."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        c, self.config, self.dropout = config, config, dropout
        query, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.input_layernorm = nn.Parameter(torch.ones(c.hidden))
        self.post_attention_layernorm = nn.Parameter(torch.ones(c.hidden))
        self.q_proj, self.o_proj = _matrix(query, c.hidden), _matrix(c.hidden, query)
        self.k_proj, self.v_proj = _matrix(kv, c.hidden), _matrix(kv, c.hidden)
        self.gate_proj, self.up_proj = _matrix(c.ffn, c.hidden), _matrix(c.ffn, c.hidden)
        self.down_proj = _matrix(c.hidden, c.ffn)

    def forward(self, x_BTD: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
        h = _norm(x_BTD, self.input_layernorm, self.config.norm_eps)
        q, k, v = (self._heads(_linear(h, w)) for w in (self.q_proj, self.k_proj, self.v_proj))
        q, k = _turned(q, cos_TE, sin_TE), _turned(k, cos_TE, sin_TE)
        repeats = self.config.heads // self.config.kv_heads
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self._dropped(_linear(a.transpose(1, 2).flatten(2), self.o_proj))
        h = _norm(x_BTD, self.post_attention_layernorm, self.config.norm_eps)
        h = F.silu(_linear(h, self.gate_proj)) * _linear(h, self.up_proj)
        return x_BTD + self._dropped(_linear(h, self.down_proj))

    def _heads(self, x_BT: Tensor) -> Tensor:
        """(B, T, heads x E) as (B, heads, T, E)."""
        return x_BT.view(*x_BT.shape[:2], -1, self.config.head_dim).transpose(1, 2)

    def _dropped(self, x_BTD: Tensor) -> Tensor:
        return F.dropout(x_BTD, self.dropout, self.training)


class Network(nn.Module):
    """Token ids to logits of the token after each."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        c, self.config, self.dropout = recipe.config, recipe.config, recipe.dropout
        self.embed_tokens = nn.Parameter(torch.randn(c.vocab, c.hidden) * 0.02)
        self.layers = nn.ModuleList(Layer(c, recipe.dropout) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.hidden))
        positions_T = torch.arange(c.max_positions, dtype=torch.float64)
        angle_TE = torch.outer(positions_T, c.rope.rates(c.head_dim)).repeat(1, 2)
        self.cos_TE, self.sin_TE = angle_TE.cos().bfloat16(), angle_TE.sin().bfloat16()

    def forward(self, ids_BT: Tensor) -> Tensor:
        embed = self.embed_tokens.bfloat16()
        x_BTD = F.dropout(F.embedding(ids_BT, embed), self.dropout, self.training)
        cos_TE, sin_TE = (table[: ids_BT.shape[1]] for table in (self.cos_TE, self.sin_TE))
        for layer in self.layers:
            x_BTD = layer(x_BTD, cos_TE, sin_TE)
        return F.linear(_norm(x_BTD, self.norm, self.config.norm_eps), embed).float()

    def checkpoint(self) -> dict[str, Tensor]:
        """The weights by their names in a Hugging Face checkpoint."""
        names = {
            name: f"model.{name}.weight" for name in ("embed_tokens", "norm")
        }  # the two outside the layers
        found = {}
        for name, tensor in self.state_dict().items():
            *where, last = name.split(".")
            inside = "self_attn." if last[:2] in ("q_", "k_", "v_", "o_") else "mlp."
            inside = "" if last.endswith("layernorm") else inside
            full = names.get(name) or f"model.{'.'.join(where)}.{inside}{last}.weight"
            found[full] = tensor
        return found


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * (0.5 / math.sqrt(columns)))


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight.bfloat16())


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    exact = x.float()
    return (exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + eps) * weight).bfloat16()


def _turned(x: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos_TE + torch.cat((-b, a), -1) * sin_TE
