"""The counts of multiply-accumulates are the ledger's, and add up among themselves."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from lab.ledgers.compute import (
    attention_crossover_tokens,
    attention_macs,
    attention_pairs,
    computed_positions,
    decode_layer_macs,
    decode_macs,
    flops,
    key_value_macs,
    layer_macs,
    prefill_layer_macs,
    prefill_macs,
    query_output_macs,
)
from lab.ledgers.sizes import ModelSize, model_size
from lab.worked_numbers import entry, worked


def ledger_model(id: str) -> ModelSize:
    """Llama-2-7B is the ledger's example: d = 4096, d_ff = 11008, as many KV heads as heads."""
    given = entry(id).inputs
    size = model_size("llama-2-7b")
    assert (size.hidden, size.heads * size.head_dim) == (given["d"], given["d"])
    assert size.ffn == given.get("d_ff", size.ffn)
    return size


def test_prefill_of_one_layer_by_part() -> None:
    size = ledger_model("prefill-layer-total-macs")
    layer = prefill_layer_macs(size, 4096, causal=False)
    worked("prefill-projection-macs", layer.projections)
    worked("prefill-mlp-macs", layer.mlp)
    worked("prefill-attention-macs", layer.attention)
    total = {"macs": layer.total, "attention_share": layer.attention_share}
    worked("prefill-layer-total-macs", total)


def test_the_causal_triangle() -> None:
    tokens = entry("prefill-causal-triangle").inputs["T"]
    causal, full = attention_pairs(tokens), attention_pairs(tokens, causal=False)
    pairs = {"pairs_full": full, "pairs_causal": causal, "ratio": Fraction(causal, full)}
    worked("prefill-causal-triangle", pairs)
    worked("prefill-causal-order-unchanged", Fraction(attention_pairs(2 * tokens), causal))


def test_quadratic_does_not_mean_dominant() -> None:
    size = ledger_model("prefill-quadratic-does-not-mean-dominant")
    crossover = attention_crossover_tokens(size, causal=False)
    share = prefill_layer_macs(size, size.hidden, causal=False).attention_share
    claimed = "more than 1/2" if crossover > size.hidden else "as computed"
    worked(
        "prefill-quadratic-does-not-mean-dominant",
        {"crossover_T": crossover, "attention_share_at_T_eq_d": share},
        wrong=claimed,
    )


@pytest.mark.parametrize("causal", [True, False])
def test_at_the_crossover_attention_is_half(causal: bool) -> None:
    size = model_size("llama-2-7b")
    tokens = int(attention_crossover_tokens(size, causal=causal))
    assert prefill_layer_macs(size, tokens, causal=causal).attention_share == Fraction(1, 2)


def test_decode_of_one_layer() -> None:
    size = ledger_model("decode-layer-macs")
    decode = decode_layer_macs(size, 4096).total
    prefill = prefill_layer_macs(size, 4096, causal=False).total
    worked("decode-layer-macs", {"macs": decode, "prefill_over_decode": Fraction(prefill, decode)})


def test_decode_attention_is_linear_in_context() -> None:
    size = ledger_model("decode-attention-linear-in-context")
    given = entry("decode-attention-linear-in-context").inputs
    short, long = (decode_layer_macs(size, given[name]).attention for name in ("T1", "T2"))
    worked(
        "decode-attention-linear-in-context",
        {"added": long - short, "term_ratio": Fraction(long, short)},
    )


def test_decode_steps_sum_to_the_causal_half_of_prefill() -> None:
    tokens = entry("decode-sum-vs-prefill-attention").inputs["T"]
    steps = sum(attention_macs(t, heads=1, head_dim=1) for t in range(1, tokens + 1))
    full = attention_macs(attention_pairs(tokens, causal=False), heads=1, head_dim=1)
    worked("decode-sum-vs-prefill-attention", {"decode_sum": steps, "prefill_full": full})
    assert steps == attention_macs(attention_pairs(tokens), heads=1, head_dim=1)


def test_grouped_queries_make_only_key_and_value_cheaper() -> None:
    size = ledger_model("decode-gqa-kv-projection")
    layers = [
        decode_layer_macs(replace(size, kv_heads=kv_heads), 1)
        for kv_heads in entry("decode-gqa-kv-projection").inputs["H_kv"]
    ]
    assert len({layer.query_output for layer in layers}) == 1
    worked(
        "decode-gqa-kv-projection",
        {"q_and_o": layers[0].query_output, "kv": [layer.key_value for layer in layers]},
    )
    assert query_output_macs(1, hidden=4096, heads=32, head_dim=128) == layers[0].query_output
    assert key_value_macs(1, hidden=4096, kv_heads=8, head_dim=128) == layers[1].key_value


def test_a_cache_saves_recomputed_positions() -> None:
    given = entry("kv-recompute-saving").inputs
    without, with_cache = (
        computed_positions(given["prompt"], given["outputs"], kv_cache=kv_cache)
        for kv_cache in (False, True)
    )
    worked(
        "kv-recompute-saving",
        {"positions_without_cache": without, "positions_with_cache": with_cache},
    )


@pytest.mark.parametrize("chunk", [1, 63, 64, 65, 999, 1000])
def test_chunks_of_a_prefill_sum_to_the_whole(chunk: int) -> None:
    size = model_size("qwen3-0.6b")
    starts = range(0, 1000, chunk)
    parts = [
        prefill_macs(size, min(chunk, 1000 - start), cached_tokens=start, logits_tokens=0)
        for start in starts
    ]
    assert sum(parts) == prefill_macs(size, 1000, logits_tokens=0)


def test_decode_is_a_prefill_of_one_token_behind_the_cache() -> None:
    size = model_size("llama-3-8b")
    assert decode_macs(size, 4096) == prefill_macs(size, 1, cached_tokens=4095)
    assert layer_macs(size, tokens=1, pairs=4096) == decode_layer_macs(size, 4096)


def test_the_whole_model_with_its_logits() -> None:
    size = model_size("llama-2-7b")
    assert decode_macs(size, 4096) == 7_680_819_200
    assert prefill_macs(size, 4096, causal=False) == 32 * 966_367_641_600 + 131_072_000
    assert flops(decode_macs(size, 4096)) == 2 * 7_680_819_200


def test_every_matrix_weight_is_one_mac_for_each_token() -> None:
    size = model_size("llama-3-8b")
    assert layer_macs(size, tokens=7, pairs=0).linear == 7 * size.layer_matrix_parameters


def test_counts_below_the_least_are_refused() -> None:
    size = model_size("llama-3-8b")
    with pytest.raises(ValueError, match="new_tokens must be at least 0, got -1"):
        attention_pairs(-1)
    with pytest.raises(ValueError, match="cached_tokens must be at least 0, got -2"):
        attention_pairs(1, -2)
    with pytest.raises(ValueError, match="tokens must be at least 1, got 0"):
        prefill_layer_macs(size, 0)
    with pytest.raises(ValueError, match="context_tokens must be at least 1, got 0"):
        decode_layer_macs(size, 0)
    with pytest.raises(ValueError, match="prompt_tokens must be at least 1, got 0"):
        computed_positions(0, 4, kv_cache=True)
    with pytest.raises(ValueError, match="output_tokens must be at least 1, got 0"):
        computed_positions(4, 0, kv_cache=True)
