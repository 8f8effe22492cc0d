"""What kernels do and move: the worked numbers of the formulas, and what they must add up to.

That the kernels really do so is counted in `tests/test_kernels_*.py`.
"""

from __future__ import annotations

import pytest

from lab.ledgers.compute import attention_macs, attention_pairs, flops
from lab.ledgers.kernels import (
    flash_attention_work,
    paged_attention_work,
    quantized_matmul_work,
    rejection_sample_work,
    rms_norm_work,
    rope_store_work,
)
from lab.ledgers.memory import kv_bytes

LLAMA = {"heads": 32, "kv_heads": 8, "head_dim": 128}


def test_the_worked_numbers_of_norm_and_positions() -> None:
    norm = rms_norm_work(64, 4096)
    assert (norm.bytes_read, norm.bytes_written) == (532_480, 524_288)
    assert norm.bytes_moved == 532_480 + 524_288
    rope = rope_store_work(64, **LLAMA)
    assert (rope.bytes_read, rope.bytes_written) == (884_736, 786_432)


def test_a_decode_reads_the_keys_and_values_that_the_cache_holds() -> None:
    work = paged_attention_work([4096] * 64, **LLAMA)
    held = kv_bytes(layers=1, tokens=4096, kv_heads=8, head_dim=128, sequences=64)
    assert held == 1_073_741_824
    assert work.bytes_read == 1_086_390_272
    queries = 64 * 32 * 128 * 2
    alone = paged_attention_work([512] * 64, **LLAMA)  # one split: nothing is joined
    assert alone.bytes_read == held // 8 + queries
    assert alone.bytes_written == queries


def test_a_prefill_computes_the_triangle() -> None:
    work = flash_attention_work([8192], [8192], **LLAMA)
    pairs = attention_pairs(8192)
    assert work.operations == flops(attention_macs(pairs, heads=32, head_dim=128))
    assert work.operations == 549_822_922_752
    assert work.bytes_read == 4_378_853_376
    whole = flash_attention_work([8192], [8192], **LLAMA, causal=False)
    assert whole.operations == 4 * 32 * 128 * 8192**2


def test_chunks_compute_what_the_whole_prompt_does() -> None:
    chunks = [flash_attention_work([2048], [2048 * (n + 1)], **LLAMA).operations for n in range(4)]
    assert sum(chunks) == flash_attention_work([8192], [8192], **LLAMA).operations


def test_decodes_are_chunks_of_one_token() -> None:
    lengths = [5, 600, 4096]
    one = paged_attention_work(lengths, **LLAMA)
    assert one.operations == flash_attention_work([1] * 3, lengths, **LLAMA).operations


def test_the_worked_numbers_of_quantized_weights() -> None:
    work = quantized_matmul_work(1, 4096, 14_336, bits=4, group=128)
    activations = 14_336 // 64 * 4096 * 2
    assert work.bytes_read == 29_360_128 + 1_835_008 + activations
    half = quantized_matmul_work(1, 4096, 14_336, bits=16)
    assert half.bytes_read - activations == 117_440_512 + 14_336 * 4
    assert work.operations == half.operations == 2 * 4096 * 14_336


def test_the_worked_numbers_of_speculation() -> None:
    assert rejection_sample_work([1], [0], vocab=128_256).bytes_read == 2_052_096 + 16
    bonus = rejection_sample_work([4], [4], vocab=128_256)
    assert bonus.bytes_read == (128_256 + 13) * 4


def test_faults_are_named_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        rms_norm_work(0, 8)
    with pytest.raises(ValueError, match="a group must divide the 100 inputs, got 32"):
        quantized_matmul_work(1, 100, 8, bits=4, group=32)
    with pytest.raises(ValueError, match=r"accepted must be in \[0, 2\], got 3"):
        rejection_sample_work([2], [3], vocab=8)
