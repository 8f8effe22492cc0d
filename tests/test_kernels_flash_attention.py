"""Attention of chunks: both bodies against float64, wrong kernels found, traffic counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernel_checks import (
    FLOATS,
    assert_attention_is_right,
    assert_found,
    batch,
    counted,
    running,
)

from kernels import Context, flash_attention
from lab.ledgers.kernels import flash_attention_work

# A whole prompt, a chunk behind what is cached, nobody, a decode, a draft check
QUERIES, LENGTHS = [17, 9, 0, 1, 3], [17, 40, 6, 33, 3]
LAYOUTS = {
    "MHA": {"heads": (2, 2)},
    "GQA": {"heads": (6, 2)},
    "MQA": {"heads": (5, 1)},
    "more heads than rows": {"heads": (17, 1)},
    "narrow": {"width": 6},
    "wide": {"width": 72},
    "blocks of 1": {"block_tokens": 1},
    "blocks of 48": {"block_tokens": 48},
}


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_flat_batch_of_all_lengths(dtype: torch.dtype, causal: bool) -> None:
    given = batch(QUERIES, LENGTHS, dtype=dtype, causal=causal)
    assert_attention_is_right(flash_attention, given)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_heads_and_blocks(layout: str) -> None:
    given = batch([9, 2], [17, 19], dtype=torch.float16, **LAYOUTS[layout])
    assert_attention_is_right(flash_attention, given)


def test_nobody_with_queries_is_no_work() -> None:
    given = batch([0, 0], [5, 1])
    for body in ("torch", "triton"):
        with running(body):
            out = flash_attention(given.q_THE, given.finite(), given.context)
            assert out.shape == (0, 4, 16)


def test_the_answer_goes_where_it_is_told_to() -> None:
    given = batch([3, 2], [3, 9])
    for body in ("torch", "triton"):
        with running(body):
            out = torch.full_like(given.q_THE, float("nan"))
            assert flash_attention(given.q_THE, given.finite(), given.context, out=out) is out
            torch.testing.assert_close(out.double(), given.exact(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tile", "tl.maximum(peak, tl.max(scores, axis=1))", "tl.max(scores, axis=1)"),
        ("tile", "mixed * shrink[:, None]", "mixed"),
        ("flash_attention", "range(0, whole, KEYS)", "range(KEYS, whole, KEYS)"),
        ("flash_attention", "< sees[:, None]", "<= sees[:, None]"),
        ("flash_attention", "k.T, input_precision=\"ieee\") * scale", "k.T) * scale * 1.01"),
        ("flash_attention", "seen_by_all // KEYS * KEYS", "tl.cdiv(seen_by_all, KEYS) * KEYS"),
        ("flash_attention", "row // GROUP, kv_head", "row % QUERIES, kv_head"),
        ("flash_attention", "(query < queries)", "(query < queries - 1)"),
    ],
)  # fmt: skip
def test_a_slightly_wrong_kernel_is_found(file: str, old: str, new: str, tmp_path: Path) -> None:
    given = batch([5, 17], [40, 18])
    assert_found(
        file, old, new, tmp_path, lambda: assert_attention_is_right(flash_attention, given)
    )


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_bytes_and_products_are_those_of_the_ledger(causal: bool) -> None:
    given = batch(QUERIES, LENGTHS, heads=(4, 2), dtype=torch.float16, causal=causal)
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 16}
    work = flash_attention_work(QUERIES, LENGTHS, **sizes, tile_rows=16, causal=causal)
    with running("triton"), counted() as counts:
        flash_attention(given.q_THE, given.cache_NB2KE, given.context)
    assert (counts.bytes_read, counts.bytes_written) == (work.bytes_read, work.bytes_written)
    tiles = 0  # of 8 queries and 16 keys; a tile of keys is computed if any query sees any of it
    for asked, length in zip(QUERIES, LENGTHS, strict=True):
        for first in range(0, asked, 8):
            tiles += -(-(min(length, length - asked + first + 8) if causal else length) // 16)
    assert counts.dot_operations == tiles * 2 * 4 * 16 * 16 * 16  # for each KV head


def test_faults_are_named_with_the_shapes() -> None:
    given = batch([3], [7])
    q, cache, context = given.q_THE, given.cache_NB2KE, given.context
    with pytest.raises(ValueError, match=r"flash_attention needs q \[T, H, E\] and a cache"):
        flash_attention(q[0], cache, context)
    with pytest.raises(ValueError, match=r"out of the shape of q, \[3, 4, 16\], got \[2, 4, 16\]"):
        flash_attention(q, cache, context, out=torch.empty(2, 4, 16))
    with pytest.raises(ValueError, match="got 3 queries and blocks of 4 tokens, and a context"):
        flash_attention(q, cache, Context.of(given.tables, [2], [7], cache))
