"""Rotary positions for queries and keys, and keys and values into their slots of the cache.

Meaning: `kernels.reference.rope_store`. Bytes and FLOPs: `lab.ledgers.kernels.rope_store_work`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.choice import Launch, next_power_of_2, runs_triton

# T token, H query head, K KV head, E element of a head, P pair of elements, N block, B slot

ROWS = 16  # heads of a token in one program


def rope_store(qkv_THE: Tensor, turn_TP: Tensor, slots_T: Tensor, cache_NB2KE: Tensor) -> None:
    """Turn queries and keys to their positions; write keys and values into the cache.

    A token of `qkv_THE` has its query heads, its key heads and its value heads, one behind the
    other, and the two numbers of a pair (a, b) side by side. They are turned as the complex number
    a + b i, times `turn_TP`, in float32 (in float64 for float64). Queries stay in `qkv_THE`; keys
    and values go to slot = block x block_tokens + place in the block, each token to its own. What
    is left in `qkv_THE` behind the queries is not to be read.
    ValueError for shapes that do not fit.
    """
    _check(qkv_THE, turn_TP, slots_T, cache_NB2KE)
    if not runs_triton(qkv_THE):
        _in_torch(qkv_THE, turn_TP, slots_T, cache_NB2KE)
    elif len(qkv_THE):
        launch(qkv_THE, torch.view_as_real(turn_TP), slots_T, cache_NB2KE).start()


def _check(qkv_THE: Tensor, turn_TP: Tensor, slots_T: Tensor, cache_NB2KE: Tensor) -> None:
    qkv, cache = qkv_THE.shape, cache_NB2KE.shape
    if len(cache) != 5 or len(qkv) != 3 or qkv[2] != cache[4] or qkv[1] <= 2 * cache[3]:
        raise ValueError(
            "rope_store needs qkv [T, H + 2 K, E] and a cache [N, B, 2, K, E], "
            f"got {list(qkv)} and {list(cache)}"
        )
    turn, slots = turn_TP.shape, slots_T.shape
    if turn != (qkv[0], qkv[2] // 2) or slots != qkv[:1] or not turn_TP.is_complex():
        raise ValueError(
            f"rope_store needs a complex turn [T, E / 2] and slots [T] for {qkv[0]} tokens of "
            f"width {qkv[2]}, got {list(turn)} in {turn_TP.dtype} and {list(slots)}"
        )
    if not (qkv_THE.is_contiguous() and cache_NB2KE.is_contiguous()):
        raise ValueError(
            "rope_store needs a contiguous qkv and cache, "
            f"got strides {qkv_THE.stride()} and {cache_NB2KE.stride()}"
        )


def _in_torch(qkv_THE: Tensor, turn_TP: Tensor, slots_T: Tensor, cache_NB2KE: Tensor) -> None:
    K = cache_NB2KE.shape[3]
    turned_THE = qkv_THE[:, :-K]
    exact_THE = turned_THE.to(turn_TP.real.dtype)  # itself, but for 16-bit formats
    torch.view_as_complex(exact_THE.unflatten(-1, (-1, 2))).mul_(turn_TP[:, None])
    if exact_THE is not turned_THE:
        turned_THE.copy_(exact_THE)
    slots_XKE = cache_NB2KE.view(-1, 2 * K, cache_NB2KE.shape[4])
    slots_XKE.index_copy_(0, slots_T, qkv_THE[:, -2 * K :])


def launch(qkv_THE: Tensor, turn_TP2: Tensor, slots_T: Tensor, cache_NB2KE: Tensor) -> Launch:
    """The kernel over tokens and sixteens of heads."""
    (T, heads, E), K = qkv_THE.shape, cache_NB2KE.shape[3]
    return Launch(
        kernel="rope_store_kernel",
        grid=(T, -(-heads // ROWS)),
        arguments=(qkv_THE, turn_TP2, slots_T, cache_NB2KE),
        constants={
            "HEADS": heads - 2 * K,
            "KV_HEADS": K,
            "WIDTH": E,
            "ROWS": ROWS,
            "COLUMNS": next_power_of_2(E),
        },
        warps=max(1, ROWS * next_power_of_2(E) // 1024),
    )
