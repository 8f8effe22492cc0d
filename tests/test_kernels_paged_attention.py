"""Attention of decodes: both bodies against float64, wrong kernels found, traffic counted."""

from __future__ import annotations

from collections.abc import Sequence
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
    drawn,
    running,
)

from kernels import Context, paged_attention
from lab.ledgers.kernels import paged_attention_work

LENGTHS = [1, 63, 140, 32, 33]  # splits have 32 positions, 4 are joined at a time

LAYOUTS = {
    "MHA": {"heads": (3, 3)},
    "GQA": {"heads": (6, 2)},
    "MQA": {"heads": (5, 1)},
    "narrow": {"width": 6},
    "odd": {"width": 20},
    "wide": {"width": 72},
    "blocks of 1": {"block_tokens": 1},
    "blocks of 48": {"block_tokens": 48},
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_decodes_of_all_lengths(dtype: torch.dtype) -> None:
    assert_attention_is_right(paged_attention, batch([1] * 5, LENGTHS, dtype=dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_heads_and_blocks(layout: str) -> None:
    given = batch([1, 1], [33, 5], dtype=torch.float16, **LAYOUTS[layout])
    assert_attention_is_right(paged_attention, given)


@pytest.mark.parametrize("lengths", [[1], [31, 32]], ids=str)
def test_one_split_and_many(lengths: Sequence[int]) -> None:
    assert_attention_is_right(paged_attention, batch([1] * len(lengths), lengths))


def test_an_answer_does_not_depend_on_who_else_is_there() -> None:
    given = batch([1] * 5, LENGTHS, dtype=torch.float16)
    with running("triton"):
        together = paged_attention(given.q_THE, given.cache_NB2KE, given.context)
        for place, (table, length) in enumerate(zip(given.tables, LENGTHS, strict=True)):
            alone = Context.of([table], [1], [length], given.cache_NB2KE)
            got = paged_attention(given.q_THE[place : place + 1], given.cache_NB2KE, alone)
            assert torch.equal(got[0], together[place])


def test_no_sequences_are_no_work() -> None:
    given = batch([], [])
    for body in ("torch", "triton"):
        with running(body):
            out = paged_attention(given.q_THE, given.cache_NB2KE, given.context)
            assert out.shape == (0, 4, 16)


def test_a_scale_of_ones_own() -> None:
    given = batch([1, 1], [30, 7])
    with running("torch"):
        rounded = paged_attention(given.q_THE, given.finite(), given.context, scale=0.5)
    with running("triton"):
        got = paged_attention(given.q_THE, given.cache_NB2KE, given.context, scale=0.5)
    torch.testing.assert_close(got, rounded)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tile", "tl.maximum(peak, tl.max(scores, axis=1))", "tl.max(scores, axis=1)"),
        ("tile", "mixed * shrink[:, None]", "mixed"),
        ("tile", "total = total * shrink + ", "total = total + "),
        ("tile", "position % BLOCK_TOKENS", "position % (BLOCK_TOKENS - 1)"),
        ("paged_attention", "tl.where(is_seen[None, :], scores", "tl.where(True, scores"),
        ("paged_attention", "tl.minimum(first + SPLIT, length)", "first + SPLIT - KEYS"),
        ("paged_attention", "* scale\n", "* scale * 1.01\n"),
        ("paged_attention", "peak + tl.log2(total)", "peak"),
        ("paged_attention", "tl.exp2(sums - higher)", "tl.exp2(sums)"),
        ("paged_attention", "total * shrink + tl.sum(shares", "total + tl.sum(shares"),
        ("paged_attention", 'other=float("-inf"))\n        parts', "other=0.0)\n        parts"),
    ],
)
def test_a_slightly_wrong_kernel_is_found(file: str, old: str, new: str, tmp_path: Path) -> None:
    given = batch([1, 1, 1], [140, 135, 5])
    assert_found(
        file, old, new, tmp_path, lambda: assert_attention_is_right(paged_attention, given)
    )


@pytest.mark.parametrize("lengths", [[70, 33, 5], [32, 7]], ids=["splits", "one split"])
def test_bytes_and_products_are_those_of_the_ledger(lengths: list[int]) -> None:
    given = batch([1] * len(lengths), lengths, heads=(6, 2), dtype=torch.float16)
    work = paged_attention_work(lengths, heads=6, kv_heads=2, head_dim=16, split=32)
    with running("triton"), counted() as counts:
        paged_attention(given.q_THE, given.cache_NB2KE, given.context)
    assert (counts.bytes_read, counts.bytes_written) == (work.bytes_read, work.bytes_written)
    tiles = sum(-(-length // 16) for length in lengths) * 2  # for each KV head
    assert counts.dot_operations == tiles * 4 * 16 * 16 * 16  # rows (3 are used), keys, elements
    assert work.operations == sum(lengths) * 2 * 4 * 3 * 16


def test_faults_are_named_with_the_shapes() -> None:
    given = batch([1, 1], [30, 7])
    q, cache, context = given.q_THE, given.cache_NB2KE, given.context
    two = Context.of(given.tables, [2, 0], [30, 7], cache)
    with pytest.raises(ValueError, match=r"one query a sequence, got \[2, 0\]"):
        paged_attention(q, cache, two)
    with pytest.raises(ValueError, match=r"H a multiple of K, got \[2, 3, 16\] and"):
        paged_attention(q[:, :3], cache, context)
    with pytest.raises(
        ValueError, match="got 1 queries and blocks of 4 tokens, and a context of 2"
    ):
        paged_attention(q[:1], cache, context)
    with pytest.raises(ValueError, match=r"queries in torch\.float16, a cache in torch\.float32"):
        paged_attention(q.half(), cache, context)
    with pytest.raises(ValueError, match="in one piece and a contiguous cache, got strides"):
        paged_attention(drawn(2, 8, 16)[:, ::2], cache, context)
    wide = drawn(1, 1, 2, 1, 512)
    with pytest.raises(ValueError, match="up to 256 elements, got 512"):
        paged_attention(drawn(1, 1, 512), wide, Context.of([[0]], [1], [1], wide))
    with pytest.raises(ValueError, match="a sequence of 3 positions cannot have 4 queries"):
        Context.of([[0]], [4], [3], cache)
    with pytest.raises(ValueError, match="9 positions need 3 blocks, and the table has 2"):
        Context.of([[0, 1]], [1], [9], cache)
