"""The exact rule of speculative sampling: a program a sequence, drafts first, then the vocabulary.

A rejected draft's vocabulary is read twice: for the mass of what is left, and to draw from it.
"""

import triton
import triton.language as tl


@triton.jit
def _left(target_ptr, draft_ptr, v, V: tl.constexpr, is_rejected):
    """What may be drawn: max(target - draft, 0) after a rejection, else the target itself."""
    target = tl.load(target_ptr + v, mask=v < V, other=0.0)
    draft = tl.load(draft_ptr + v, mask=(v < V) & is_rejected, other=0.0)
    return tl.maximum(target - draft, 0.0)


@triton.jit
def rejection_sample_kernel(
    accepted_ptr, next_ptr, drafts_ptr, counts_ptr, draft_ptr, target_ptr, uniforms_ptr,
    K: tl.constexpr, V: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """How many drafts stand, and the token behind them."""
    sequence = tl.program_id(0).to(tl.int64)
    count = tl.load(counts_ptr + sequence)
    accepted = 0
    for k in range(count):
        token = tl.load(drafts_ptr + sequence * K + k)
        draft = tl.load(draft_ptr + (sequence * K + k) * V + token)
        target = tl.load(target_ptr + (sequence * (K + 1) + k) * V + token)
        uniform = tl.load(uniforms_ptr + sequence * (K + 1) + k)
        stands = (uniform * draft < target) & (accepted == k)
        accepted += stands.to(tl.int32)
    tl.store(accepted_ptr + sequence, accepted)

    is_rejected = accepted < count
    target_row = target_ptr + (sequence * (K + 1) + accepted) * V
    draft_row = draft_ptr + (sequence * K + accepted) * V
    mass = 0.0
    for start in range(0, tl.where(is_rejected, V, 0), TILE):
        v = start + tl.arange(0, TILE)
        mass += tl.sum(_left(target_row, draft_row, v, V, is_rejected))
    is_rejected = is_rejected & (mass > 0.0)
    wanted = tl.load(uniforms_ptr + sequence * (K + 1) + K) * tl.where(is_rejected, mass, 1.0)

    below = 0.0
    found, last = V, 0
    for start in range(0, V, TILE):
        v = start + tl.arange(0, TILE)
        left = _left(target_row, draft_row, v, V, is_rejected)
        is_over = (below + tl.cumsum(left) > wanted) & (left > 0.0)
        found = tl.minimum(found, tl.min(tl.where(is_over, v, V)))
        last = tl.maximum(last, tl.max(tl.where(left > 0.0, v, 0)))
        below += tl.sum(left)
    tl.store(next_ptr + sequence, tl.where(found < V, found, last))
