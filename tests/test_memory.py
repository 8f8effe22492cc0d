"""Cache bytes are the ledger's; the blocks that fit are checked at the edge of the memory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from lab.ledgers.memory import kv_blocks_that_fit, kv_bytes, kv_bytes_per_token, weight_bytes
from lab.ledgers.sizes import GB, GiB, KiB, Number, device, model_size
from lab.worked_numbers import entry, worked


def bytes_of(id: str, **changed: Any) -> Number:
    """Cache bytes for the inputs that the ledger gives, some of them changed."""
    given = entry(id).inputs | changed
    return kv_bytes(
        layers=given["L"],
        sequences=given["B"],
        tokens=given["T"],
        kv_heads=given["H_kv"],
        head_dim=given["d_h"],
        bytes_per_element=given["b"],
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
    given = entry(id).inputs
    doubled = [bytes_of(id, **{name: 2 * given[name]}) for name in ("T", "B", "L", "H_kv")]
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
