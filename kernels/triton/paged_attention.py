"""Attention of one query a sequence: reading K and V once is all its time, so that is spread out.

The context is cut into splits of a fixed length. A program takes one split and the query heads of
one KV head; a second kernel joins the splits. Since the cuts depend on no other sequence, neither
does the answer.
"""

import triton
import triton.language as tl

from kernels.triton.tile import fold, slots


@triton.jit
def paged_attention_kernel(
    out_ptr, sums_ptr, q_ptr, cache_ptr, tables_ptr, lengths_ptr, scale, q_stride, table_stride,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, BLOCK_TOKENS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, KEYS: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """The softmax of one split, and in `sums` the logarithm (of base 2) of what it divided by."""
    sequence, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths_ptr + sequence)
    first = split * SPLIT
    if first >= length:
        return
    table_ptr = tables_ptr + sequence * table_stride
    row, element = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    head, inside = kv_head * GROUP + row, element < WIDTH
    is_query = (row < GROUP)[:, None] & inside[None, :]
    q_place = sequence * q_stride + head[:, None] * WIDTH + element[None, :]
    q = tl.load(q_ptr + q_place, mask=is_query, other=0.0)

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(first, tl.minimum(first + SPLIT, length), KEYS):
        position = start + tl.arange(0, KEYS)
        is_seen = position < length
        slot = slots(table_ptr, position, length, BLOCK_TOKENS, 2 * KV_HEADS * WIDTH)
        keys = cache_ptr + slot[:, None] + kv_head * WIDTH + element[None, :]
        mask = is_seen[:, None] & inside[None, :]
        k = tl.load(keys, mask=mask, other=0.0)
        v = tl.load(keys + KV_HEADS * WIDTH, mask=mask, other=0.0)
        scores = tl.dot(q, k.T, input_precision="ieee") * scale
        scores = tl.where(is_seen[None, :], scores, float("-inf"))
        peak, total, mixed = fold(peak, total, mixed, scores, v)

    place = (sequence * KV_HEADS * GROUP + head) * tl.num_programs(2) + split
    out = mixed / total[:, None]
    tl.store(out_ptr + place[:, None] * WIDTH + element[None, :], out, mask=is_query)
    if sums_ptr is not None:
        tl.store(sums_ptr + place, peak + tl.log2(total), mask=row < GROUP)


@triton.jit
def combine_kernel(
    out_ptr, parts_ptr, sums_ptr, lengths_ptr, num_splits,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """The splits of one query head joined, each by the share of the softmax that it saw."""
    row = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    splits = tl.cdiv(tl.load(lengths_ptr + tl.program_id(0)), SPLIT)  # no others were written
    element = tl.arange(0, COLUMNS)
    inside = element < WIDTH

    peak = float("-inf")
    total = 0.0
    mixed = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, splits, SPLITS):
        split = start + tl.arange(0, SPLITS)
        place = row * num_splits + split
        sums = tl.load(sums_ptr + place, mask=split < splits, other=float("-inf"))
        parts = tl.load(
            parts_ptr + place[:, None] * WIDTH + element[None, :],
            mask=(split < splits)[:, None] & inside[None, :], other=0.0,
        )  # fmt: skip
        higher = tl.maximum(peak, tl.max(sums, axis=0))
        shares = tl.exp2(sums - higher)
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(shares, axis=0)
        mixed = mixed * shrink + tl.sum(parts * shares[:, None], axis=0)
        peak = higher
    tl.store(out_ptr + row * WIDTH + element, mixed / total, mask=inside)
