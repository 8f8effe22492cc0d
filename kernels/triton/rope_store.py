"""Rotary positions and the write into the cache in one pass: each number is read once.

A program takes 16 heads of one token. Queries stay where they are, keys and values go to the cache.
"""

import triton
import triton.language as tl


@triton.jit
def rope_store_kernel(
    qkv_ptr, turn_ptr, slots_ptr, cache_ptr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A pair (a, b) is the complex number a + b i, and `turn` what it is multiplied by."""
    TURNED: tl.constexpr = HEADS + KV_HEADS
    ALL: tl.constexpr = HEADS + 2 * KV_HEADS
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    element = tl.arange(0, COLUMNS)
    inside = element < WIDTH
    is_head = (head < ALL)[:, None] & inside[None, :]
    places = qkv_ptr + token * (ALL * WIDTH) + head[:, None] * WIDTH + element[None, :]

    x = tl.load(places, mask=is_head, other=0.0)
    turn = tl.load(turn_ptr + token * WIDTH + element, mask=inside, other=0.0)
    cos, sin = tl.split(turn.reshape(COLUMNS // 2, 2))
    a, b = tl.split(x.to(tl.float32).reshape(ROWS, COLUMNS // 2, 2))
    turned = tl.join(a * cos[None, :] - b * sin[None, :], a * sin[None, :] + b * cos[None, :])
    turned = turned.reshape(ROWS, COLUMNS).to(x.dtype)
    out = tl.where((head < TURNED)[:, None], turned, x)

    slot = tl.load(slots_ptr + token).to(tl.int64)
    cached = cache_ptr + slot * (2 * KV_HEADS * WIDTH) + (head - HEADS)[:, None] * WIDTH
    tl.store(places, out, mask=is_head & (head < HEADS)[:, None])
    tl.store(cached + element[None, :], out, mask=is_head & (head >= HEADS)[:, None])
