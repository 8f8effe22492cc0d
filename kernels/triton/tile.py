"""What both attentions do with a tile of keys: find it through the block table, and fold it in."""

import triton
import triton.language as tl


@triton.jit
def slots(table_ptr, position, stop, BLOCK_TOKENS: tl.constexpr, SLOT: tl.constexpr):
    """Where the slots of these positions begin in the cache; those from `stop` on: block 0."""
    block = tl.load(table_ptr + position // BLOCK_TOKENS, mask=position < stop, other=0)
    return (block.to(tl.int64) * BLOCK_TOKENS + position % BLOCK_TOKENS) * SLOT


@triton.jit
def fold(peak, total, mixed, scores, v):
    """One more tile of keys in a running softmax, in powers of 2.

    `peak` is the largest score of a row so far, `total` the sum of 2^(score - peak), `mixed` the
    sum of the values with these weights. A higher peak makes what came before smaller.
    """
    higher = tl.maximum(peak, tl.max(scores, axis=1))
    weights = tl.exp2(scores - higher[:, None])
    shrink = tl.exp2(peak - higher)
    total = total * shrink + tl.sum(weights, axis=1)
    mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None], input_precision="ieee")
    return higher, total, mixed
