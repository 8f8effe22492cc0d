"""Attention of many queries of each sequence: scores stay on the chip, a tile of keys at a time.

A program takes a tile of rows: some queries of one sequence, each with all query heads of one KV
head, so that K and V are read once for the heads that share them.
"""

import triton
import triton.language as tl

from kernels.triton.tile import fold, slots


@triton.jit
def _read(
    peak, total, mixed, q, sees, start, stop, cache_ptr, table_ptr, kv_head, element, scale,
    KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, KEYS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """One tile of keys. With ALL every row sees every key of it, and no score is masked."""
    position = start + tl.arange(0, KEYS)
    slot = slots(table_ptr, position, stop, BLOCK_TOKENS, 2 * KV_HEADS * WIDTH)
    keys = cache_ptr + slot[:, None] + kv_head * WIDTH + element[None, :]
    if ALL and WIDTH == COLUMNS:
        k, v = tl.load(keys), tl.load(keys + KV_HEADS * WIDTH)
    else:
        mask = (position < stop)[:, None] & (element < WIDTH)[None, :]
        k = tl.load(keys, mask=mask, other=0.0)
        v = tl.load(keys + KV_HEADS * WIDTH, mask=mask, other=0.0)
    scores = tl.dot(q, k.T, input_precision="ieee") * scale
    if not ALL:
        scores = tl.where(position[None, :] < sees[:, None], scores, float("-inf"))
    return fold(peak, total, mixed, scores, v)


@triton.jit
def flash_attention_kernel(
    out_ptr, q_ptr, cache_ptr, tables_ptr, lengths_ptr, starts_ptr, scale, q_stride, table_stride,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, BLOCK_TOKENS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, KEYS: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """ROWS // GROUP queries of one sequence; the last ones, which see most, begin first."""
    QUERIES: tl.constexpr = ROWS // GROUP
    sequence, kv_head = tl.program_id(2), tl.program_id(1)
    start = tl.load(starts_ptr + sequence)
    queries = tl.load(starts_ptr + sequence + 1) - start
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * QUERIES
    if first >= queries:
        return
    length = tl.load(lengths_ptr + sequence)
    table_ptr = tables_ptr + sequence.to(tl.int64) * table_stride

    row, element = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    query, head = first + row // GROUP, kv_head * GROUP + row % GROUP
    is_query = ((row < QUERIES * GROUP) & (query < queries))[:, None] & (element < WIDTH)[None, :]
    token = (start + query).to(tl.int64)
    place = head[:, None] * WIDTH + element[None, :]
    q = tl.load(q_ptr + token[:, None] * q_stride + place, mask=is_query, other=0.0)

    sees = tl.full([ROWS], 0, tl.int32) + length
    seen_by_all = length
    if CAUSAL:
        sees = tl.minimum(length - queries + query + 1, length)
        seen_by_all = length - queries + first + 1
    stop = tl.minimum(seen_by_all + QUERIES - 1, length)
    whole = seen_by_all // KEYS * KEYS

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, COLUMNS], tl.float32)
    for position in range(0, whole, KEYS):
        peak, total, mixed = _read(
            peak, total, mixed, q, sees, position, stop, cache_ptr, table_ptr, kv_head, element,
            scale, KV_HEADS, WIDTH, COLUMNS, KEYS, BLOCK_TOKENS, ALL=True,
        )  # fmt: skip
    for position in range(whole, stop, KEYS):
        peak, total, mixed = _read(
            peak, total, mixed, q, sees, position, stop, cache_ptr, table_ptr, kv_head, element,
            scale, KV_HEADS, WIDTH, COLUMNS, KEYS, BLOCK_TOKENS, ALL=False,
        )  # fmt: skip
    out = mixed / total[:, None]
    out_place = token[:, None] * (KV_HEADS * GROUP * WIDTH) + place
    tl.store(out_ptr + out_place, out, mask=is_query)
