"""How many multiply-accumulates prefill and decode need. Pure functions of sizes, exact integers.

A MAC is one multiplication and one addition, so two FLOPs. Counted are the matrix products.
Left out everywhere: norms, softmax, rotary positions, activation functions, sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lab.ledgers.sizes import ModelSize


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMacs:
    """The MACs of one layer by part; they sum to `total`."""

    query_output: int
    key_value: int
    mlp: int
    attention: int

    @property
    def projections(self) -> int:
        """Q, K, V and output projections together."""
        return self.query_output + self.key_value

    @property
    def linear(self) -> int:
        """Everything that grows with the tokens computed, whatever the context."""
        return self.projections + self.mlp

    @property
    def total(self) -> int:
        """All parts: linear + attention."""
        return self.linear + self.attention

    @property
    def attention_share(self) -> Fraction:
        """Attention's part of the total; Llama-2-7B, 4,096 tokens, full square: 32/225."""
        return Fraction(self.attention, self.total)


def flops(macs: int) -> int:
    """Floating-point operations in `macs` multiply-accumulates: 2 x macs; 10 MACs = 20 FLOP."""
    return 2 * macs


def attention_pairs(new_tokens: int, cached_tokens: int = 0, *, causal: bool = True) -> int:
    """Query-key pairs when `new_tokens` follow `cached_tokens`, in one head of one layer.

        causal: new x cached + new x (new + 1) / 2      a token sees itself and what came before
        full:   new x (cached + new)

    4,096 tokens without cache: 8,390,656 causal, 16,777,216 full; their ratio is 4097/8192.
    One decode token at context length T has T pairs, itself included. ValueError below 0.
    """
    _at_least("new_tokens", new_tokens, 0)
    _at_least("cached_tokens", cached_tokens, 0)
    if causal:
        return new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2
    return new_tokens * (cached_tokens + new_tokens)


def query_output_macs(tokens: int, *, hidden: int, heads: int, head_dim: int) -> int:
    """MACs of the query and output projections in one layer.

        2 x tokens x hidden x heads x head_dim

    One token, hidden 4,096, 32 heads of 128: 33,554,432 MAC.
    """
    return 2 * tokens * hidden * heads * head_dim


def key_value_macs(tokens: int, *, hidden: int, kv_heads: int, head_dim: int) -> int:
    """MACs of the key and value projections in one layer: what grouped queries make cheaper.

        2 x tokens x hidden x kv_heads x head_dim

    One token, hidden 4,096, heads of 128: 33,554,432 MAC with 32 KV heads, 8,388,608 with 8.
    """
    return 2 * tokens * hidden * kv_heads * head_dim


def mlp_macs(tokens: int, *, hidden: int, ffn: int) -> int:
    """MACs of the SwiGLU MLP in one layer, which has three matrices.

        3 x tokens x hidden x ffn

    4,096 tokens, hidden 4,096, ffn 11,008: 554,050,781,184 MAC.
    """
    return 3 * tokens * hidden * ffn


def attention_macs(pairs: int, *, heads: int, head_dim: int) -> int:
    """MACs of scores and value mixing in one layer for `pairs` query-key pairs.

        2 x pairs x heads x head_dim

    The full square of 4,096 tokens with 32 heads of 128: 137,438,953,472 MAC.
    """
    return 2 * pairs * heads * head_dim


def layer_macs(model: ModelSize, *, tokens: int, pairs: int) -> LayerMacs:
    """MACs of one layer for `tokens` new tokens and `pairs` query-key pairs, by part.

    Prefill, a chunk of it and decode differ in these two numbers only.
    """
    return LayerMacs(
        query_output=query_output_macs(
            tokens, hidden=model.hidden, heads=model.heads, head_dim=model.head_dim
        ),
        key_value=key_value_macs(
            tokens, hidden=model.hidden, kv_heads=model.kv_heads, head_dim=model.head_dim
        ),
        mlp=mlp_macs(tokens, hidden=model.hidden, ffn=model.ffn),
        attention=attention_macs(pairs, heads=model.heads, head_dim=model.head_dim),
    )


def prefill_layer_macs(
    model: ModelSize, tokens: int, *, cached_tokens: int = 0, causal: bool = True
) -> LayerMacs:
    """MACs of one layer in a prefill of `tokens` tokens behind `cached_tokens`.

        4 T d^2 + 3 T d d_ff + 2 T^2 d      with as many KV heads as heads, not causal

    Llama-2-7B (d = 4,096, d_ff = 11,008), T = 4,096, `causal=False`: 966,367,641,600 MAC.
    ValueError for less than 1 token.
    """
    _at_least("tokens", tokens, 1)
    return layer_macs(
        model, tokens=tokens, pairs=attention_pairs(tokens, cached_tokens, causal=causal)
    )


def decode_layer_macs(model: ModelSize, context_tokens: int) -> LayerMacs:
    """MACs of one layer for one new token, which is the last of `context_tokens`.

        4 d^2 + 3 d d_ff + 2 T d      with as many KV heads as heads

    Llama-2-7B at T = 4,096: 235,929,600 MAC. ValueError for less than 1 token of context.
    """
    _at_least("context_tokens", context_tokens, 1)
    return layer_macs(model, tokens=1, pairs=context_tokens)


def logits_macs(model: ModelSize, tokens: int = 1) -> int:
    """MACs of the output matrix for `tokens` positions whose next token is wanted.

        tokens x hidden x vocab

    Llama-3-8B, one position: 4,096 x 128,256 = 525,336,576 MAC.
    """
    return tokens * model.hidden * model.vocab


def prefill_macs(
    model: ModelSize,
    tokens: int,
    *,
    cached_tokens: int = 0,
    causal: bool = True,
    logits_tokens: int = 1,
) -> int:
    """MACs of the whole model in a prefill: all layers, and logits of `logits_tokens` positions.

        layers x layer + logits_tokens x hidden x vocab

    A serving engine wants the logits of the last position only; a chunk before it wants none.
    Llama-2-7B, 4,096 tokens, `causal=False`: 32 x 966,367,641,600 + 131,072,000 MAC.
    """
    layer = prefill_layer_macs(model, tokens, cached_tokens=cached_tokens, causal=causal)
    return model.layers * layer.total + logits_macs(model, logits_tokens)


def decode_macs(model: ModelSize, context_tokens: int) -> int:
    """MACs of the whole model for one new token, the last of `context_tokens`, and its logits.

        layers x layer + hidden x vocab

    Llama-2-7B at 4,096: 32 x 235,929,600 + 131,072,000 = 7,680,819,200 MAC.
    """
    return model.layers * decode_layer_macs(model, context_tokens).total + logits_macs(model)


def attention_crossover_tokens(model: ModelSize, *, causal: bool = True) -> Fraction:
    """Prompt length at which attention needs as many MACs as all linear parts together.

        full:   linear MACs of a token / (2 x heads x head_dim)   = 2 d + 1.5 d_ff for MHA
        causal: (T + 1) / 2 keys on average, so twice as long, less 1

    Llama-2-7B, full square: 24,704 tokens. Below it the linear layers are the larger part.
    """
    per_pair = attention_macs(1, heads=model.heads, head_dim=model.head_dim)
    full = Fraction(layer_macs(model, tokens=1, pairs=0).linear, per_pair)
    return 2 * full - 1 if causal else full


def computed_positions(prompt_tokens: int, output_tokens: int, *, kv_cache: bool) -> int:
    """Token positions computed to answer with `output_tokens`, the first from the prompt's logits.

        without a cache: prompt + (prompt + 1) + ... + (prompt + output - 1)
        with a cache:    prompt + output - 1        the last token is only read

    Prompt 4, output 4: 22 without, 7 with. ValueError for an empty prompt or answer.
    """
    _at_least("prompt_tokens", prompt_tokens, 1)
    _at_least("output_tokens", output_tokens, 1)
    if kv_cache:
        return prompt_tokens + output_tokens - 1
    return sum(prompt_tokens + step for step in range(output_tokens))


def _at_least(name: str, amount: int, least: int) -> None:
    if amount < least:
        raise ValueError(f"{name} must be at least {least}, got {amount}")
