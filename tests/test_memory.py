"""Cache bytes are the ledger's; the blocks that fit are checked at the edge of the memory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ledgers.latent import cached_model, known_cached_models
from lab.ledgers.memory import (
    activation_bytes,
    kv_blocks_that_fit,
    kv_bytes,
    kv_bytes_per_token,
    kv_cache,
    room,
    weight_bytes,
)
from lab.ledgers.precision import known_precisions, precision
from lab.ledgers.sizes import GB, KB, GiB, KiB, Number, device, known_models, model_size
from lab.worked_numbers import entry, worked


def bytes_of(id: str, **changed: Any) -> Number:
    """Cache bytes for the inputs that the ledger gives, some of them changed."""
    inputs = entry(id).inputs | changed
    return kv_bytes(
        layers=inputs["L"],
        sequences=inputs["B"],
        tokens=inputs["T"],
        kv_heads=inputs["H_kv"],
        head_dim=inputs["d_h"],
        bytes_per_element=inputs["b"],
    )


def gib_of(id: str, **changed: Any) -> Fraction:
    return Fraction(bytes_of(id, **changed)) / GiB


def test_the_byte_formula() -> None:
    worked("kv-bytes-formula", bytes_of("kv-bytes-formula"))


def test_the_four_worked_sizes() -> None:
    one = bytes_of("kv-worked-1gib")
    log2 = int(one).bit_length() - 1
    assert one == 2**log2
    worked("kv-worked-1gib", {"bytes": one, "log2": log2, "gib": gib_of("kv-worked-1gib")})
    for id in ("kv-worked-mha-4gib", "kv-worked-b16-gqa", "kv-worked-b16-mha"):
        worked(id, gib_of(id))


def test_bytes_of_one_token_with_few_and_many_kv_heads() -> None:
    llama = model_size("llama-3-8b")
    kib = [
        Fraction(kv_bytes_per_token(replace(llama, kv_heads=kv_heads))) / KiB
        for kv_heads in entry("kv-bytes-per-token").inputs["H_kv"]
    ]
    worked("kv-bytes-per-token", kib)


def test_each_factor_is_linear() -> None:
    id = "kv-linear-factors"
    inputs = entry(id).inputs
    doubled = [bytes_of(id, **{name: 2 * inputs[name]}) for name in ("T", "B", "L", "H_kv")]
    worked(id, [Fraction(size) / Fraction(bytes_of(id)) for size in doubled])


def test_one_byte_elements_take_half() -> None:
    id = "kv-one-byte-elements"
    worked(id, gib_of(id, b=entry(id).inputs["b2"]))


def test_four_bit_elements_stay_exact() -> None:
    assert gib_of("kv-worked-1gib", b=Fraction(1, 2)) == Fraction(1, 4)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens must be at least 0, got -1"):
        bytes_of("kv-worked-1gib", T=-1)


def test_weights_and_blocks_of_the_docstring() -> None:
    llama, h100 = model_size("llama-3-8b"), device("h100")
    assert weight_bytes(llama) == 16_060_522_496
    assert kv_blocks_that_fit(llama, h100) == 26_674
    assert 16 * kv_blocks_that_fit(llama, h100) == 426_784


def test_one_block_more_would_not_fit() -> None:
    llama = model_size("llama-3-8b")
    block = 16 * int(kv_bytes_per_token(llama))
    exact = int(weight_bytes(llama)) + 10 * block
    for spare, blocks in ((-1, 9), (0, 10), (block - 1, 10), (block, 11)):
        card = replace(device("h100"), memory_bytes=exact + spare)
        assert kv_blocks_that_fit(llama, card, reserve=0) == blocks


def test_a_reserve_typed_as_a_decimal_means_that_decimal() -> None:
    llama = model_size("llama-3-8b")
    block = 16 * int(kv_bytes_per_token(llama))
    sizes = {blocks: int(weight_bytes(llama)) + blocks * block for blocks in range(10, 19)}
    blocks, needed = next(pair for pair in sizes.items() if pair[1] % 9 == 0)
    card = replace(device("h100"), memory_bytes=needed // 9 * 10)
    assert kv_blocks_that_fit(llama, card, reserve=Fraction(1, 10)) == blocks
    assert kv_blocks_that_fit(llama, card, reserve=0.1) == blocks


def test_smaller_elements_leave_more_room() -> None:
    llama, l4 = model_size("llama-3-8b"), device("l4")
    wide = kv_blocks_that_fit(llama, l4)
    assert kv_blocks_that_fit(llama, l4, kv_bytes_per_element=1) in (2 * wide, 2 * wide + 1)
    assert kv_blocks_that_fit(llama, l4, weight_bytes_per_element=1) > 2 * wide


def test_weights_that_do_not_fit_are_an_error_with_both_amounts() -> None:
    message = r"weights of Llama-3-70B need 141107412992 bytes, and .* has 72000000000 beside"
    with pytest.raises(ValueError, match=message):
        kv_blocks_that_fit(model_size("llama-3-70b"), device("h100"))


def test_weights_that_just_fit_leave_no_block() -> None:
    llama = model_size("llama-3-8b")
    card = replace(device("h100"), memory_bytes=int(weight_bytes(llama)))
    assert kv_blocks_that_fit(llama, card, reserve=0) == 0


@pytest.mark.parametrize("reserve", [-0.1, 1, 80 * GB])
def test_a_reserve_is_a_fraction(reserve: float) -> None:
    with pytest.raises(ValueError, match=r"reserve must be in \[0, 1\), got"):
        kv_blocks_that_fit(model_size("llama-3-8b"), device("h100"), reserve=reserve)


def test_a_block_holds_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="block_tokens must be at least 1, got 0"):
        kv_blocks_that_fit(model_size("llama-3-8b"), device("h100"), block_tokens=0)


# The cache of a model, term by term


@pytest.mark.parametrize("name", known_models())
def test_without_windows_the_account_is_the_formula(name: str) -> None:
    model = replace(model_size(name), window=None, windowed_layers=0)
    for width in (2, Fraction(5, 8)):
        form = precision("fp16") if width == 2 else precision("int4")
        assert kv_cache(model, 1000, sequences=3, kept_in=form).bytes == kv_bytes(
            layers=model.layers,
            tokens=1000,
            sequences=3,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            bytes_per_element=width,
        )


@pytest.mark.parametrize("name", known_cached_models())
def test_a_first_token_weighs_as_much_in_every_account(name: str) -> None:
    model = cached_model(name)
    assert kv_cache(name, 1).bytes == kv_bytes_per_token(model)
    assert kv_cache(name, 0).bytes == 0


# DeepSeek-AI, "Insights into DeepSeek-V3", ISCA 2025, table 1: KV cache per token, KB of 10^3.
PUBLISHED_KB_PER_TOKEN = {"deepseek-v3": 70.272, "llama-3.1-405b": 516.096}


@pytest.mark.parametrize("name", PUBLISHED_KB_PER_TOKEN)
def test_bytes_of_a_token_equal_the_published_ones(name: str) -> None:
    assert float(kv_cache(name, 1).bytes / KB) == PUBLISHED_KB_PER_TOKEN[name]


def test_a_window_holds_its_last_tokens_and_no_more() -> None:
    row = 32 * 2 * 8 * 128 * 2
    for tokens, held in ((4095, 4095), (4096, 4096), (4097, 4096), (32_768, 4096)):
        assert kv_cache("mistral-7b", tokens).bytes == held * row


def test_layers_with_and_without_a_window_stand_in_rows_of_their_own() -> None:
    whole, window = kv_cache("gemma-2-9b", 32_768).parts
    assert (whole.layers, whole.tokens, window.layers, window.tokens) == (21, 32_768, 21, 4096)
    assert window.bytes * 8 == whole.bytes == 21 * 32_768 * 4096 * 2
    both = kv_cache("gemma-2-9b", 32_768).bytes
    assert both == Fraction(9, 16) * kv_bytes_per_token(model_size("gemma-2-9b")) * 32_768


def test_latent_and_rotary_part_are_kept_once() -> None:
    (part,) = kv_cache("deepseek-v2-lite", 100, sequences=2).parts
    assert part.bytes == 2 * 100 * 27 * (512 + 64) * 2
    as_heads = kv_bytes(layers=27, tokens=100, sequences=2, kv_heads=16, head_dim=128)
    assert Fraction(as_heads) / part.bytes == Fraction(64, 9)


def test_scales_and_zero_points_are_rows_and_count() -> None:
    cache = kv_cache("llama-3-8b", 8192, kept_in="int4")
    assert [part.what for part in cache.parts] == ["K and V", "scales", "zero points"]
    assert [part.bytes * 16 / GiB for part in cache.parts] == [4, Fraction(1, 2), Fraction(1, 2)]
    assert cache.gib == Fraction(5, 16)


def test_a_group_that_crosses_a_head_is_refused() -> None:
    odd = replace(precision("int4"), group=48)
    with pytest.raises(ValueError, match=r"divide the 128 numbers that lie together .* got 48"):
        kv_cache("llama-3-8b", 1, kept_in=odd)


def test_the_account_shows_every_term_and_their_sum() -> None:
    table = kv_cache("gemma-3-1b", 32_768).table()
    assert table.columns[1:6] == ("layers", "requests", "tokens", "of a token", "bytes each")
    assert table.rows == (
        ("K and V", 4, 1, "32,768", "2 × 1 × 256", 2, "134,217,728", 0.125),
        ("K and V, window 512", 22, 1, "512", "2 × 1 × 256", 2, "11,534,336", 11 / 1024),
        ("sum", None, None, None, None, None, "145,752,064", 139 / 1024),
    )
    assert len(kv_cache("llama-3-8b", 1).table()) == 1


@given(
    st.sampled_from(known_cached_models()),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 9),
    st.sampled_from(known_precisions()),
)
def test_more_of_anything_never_weighs_less(
    name: str, tokens: int, more: int, sequences: int, form: str
) -> None:
    one = kv_cache(name, tokens, sequences=sequences, kept_in=form)
    assert one.bytes <= kv_cache(name, tokens + more, sequences=sequences, kept_in=form).bytes
    assert one.bytes * 2 == kv_cache(name, tokens, sequences=2 * sequences, kept_in=form).bytes
    assert one.bytes == sum(part.bytes for part in one.parts)
    assert one.bytes <= kv_bytes_per_token(
        cached_model(name), bytes_per_element=precision(form).bytes_per_element
    ) * (tokens * sequences)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tokens": -1}, "tokens must be at least 0, got -1"),
        ({"sequences": -2}, "sequences must be at least 0, got -2"),
        ({"model": "gpt"}, r"unknown model 'gpt'; known: .*deepseek-v3"),
        ({"kept_in": "int3"}, r"unknown precision 'int3'; known: .*int4"),
    ],
)
def test_a_cache_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kv_cache(**{"model": "llama-3-8b", "tokens": 1} | wrong)


# Activations


def test_activations_are_widest_in_the_mlp() -> None:
    llama = model_size("llama-3-8b")
    assert activation_bytes(llama, 8192) == 8192 * (2 * 4096 + 2 * 14336) * 2 == 9 * GiB // 16


def test_activations_are_widest_in_attention_where_heads_are_many() -> None:
    wide = replace(model_size("llama-3-8b"), ffn=1024)
    assert activation_bytes(wide, 999) == 999 * (2 * 4096 + 2 * (32 + 8) * 128) * 2


def test_a_row_of_logits_may_be_more_than_the_layers() -> None:
    llama = model_size("llama-3-8b")
    layers = 36_864 * 2
    row = 128_256 * 4
    assert activation_bytes(llama, 1) == 4096 * 2 + row > layers
    assert activation_bytes(llama, 64, logits_rows=64) == 64 * (4096 * 2 + row)
    assert activation_bytes(llama, 64, logits_rows=0) == 64 * layers
    assert activation_bytes(llama, 0, logits_rows=0) == 0


# What fits on a device


def test_the_room_of_the_docstring() -> None:
    found = room("llama-3-8b", "h100", 8192, sequences=16)
    assert found.for_cache == 72 * GB - 16_060_522_496
    assert found.left == found.for_cache - 16 * GiB
    assert found.sequences == 52


@pytest.mark.parametrize("name", known_cached_models())
@pytest.mark.parametrize("kept_in", known_precisions())
def test_one_sequence_more_would_not_fit(name: str, kept_in: str) -> None:
    found = room(name, "h200", 1000, kept_in=kept_in)
    for sequences, fits in ((found.sequences, True), (found.sequences + 1, False)):
        left = room(name, "h200", 1000, kept_in=kept_in, sequences=sequences).left
        assert (left >= 0) == (fits and found.for_cache >= 0)


def test_room_and_blocks_agree() -> None:
    llama, h100 = model_size("llama-3-8b"), device("h100")
    assert room(llama, h100, 16).sequences == kv_blocks_that_fit(llama, h100)
    short = room(llama, h100, 16, kept_in="int4", weights_in="fp8", reserve=0.2)
    assert short.sequences == kv_blocks_that_fit(
        llama,
        h100,
        reserve=0.2,
        weight_bytes_per_element=1,
        kv_bytes_per_element=Fraction(5, 8),
    )


def test_weights_that_do_not_fit_leave_less_than_nothing() -> None:
    found = room("llama-3-70b", "h100", 8192)
    assert found.for_cache == 72 * GB - 141_107_412_992
    assert found.sequences == 0
    assert "= left           -71,791,767,552  -71.79  -66.86" in repr(found)


def test_room_for_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="tokens must be at least 1, got 0"):
        room("llama-3-8b", "h100", 0)
    with pytest.raises(ValueError, match="sequences must be at least 0, got -1"):
        room("llama-3-8b", "h100", 1, sequences=-1)
    with pytest.raises(ValueError, match=r"reserve must be in \[0, 1\), got 1"):
        room("llama-3-8b", "h100", 1, reserve=1)
