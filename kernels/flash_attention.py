"""Attention of chunks: many queries a sequence, lengths of all kinds in one flat batch.

Meaning: `kernels.reference.attention`. Bytes and FLOPs: `lab.ledgers.kernels`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.choice import Launch, chip, next_power_of_2, runs_triton
from kernels.context import Context, attention_in_torch, check_attention, in_powers_of_2

# T query of the step, S sequence, H query head, K KV head, E element of a head, N block, B slot


class Tile(NamedTuple):
    """What a program has on the chip at once."""

    rows: int
    """Queries x query heads of a KV head."""
    keys: int
    """Positions."""
    warps: int
    stages: int


# By chip, and by the width of a head up to which it holds. On NVIDIA's chips the block numbers of a
# tile must have come before its keys can be asked for: of 5 stages, 2 hold keys and values.
TILES = {
    "sm_90": {64: Tile(128, 64, 4, 5), 128: Tile(128, 128, 8, 5), 256: Tile(128, 32, 8, 5)},
    "sm_80": {64: Tile(128, 64, 8, 5), 128: Tile(128, 32, 8, 5), 256: Tile(64, 16, 8, 5)},
    "gfx942": {64: Tile(128, 64, 4, 2), 128: Tile(128, 32, 4, 2), 256: Tile(64, 32, 4, 1)},
}
SMALL = Tile(rows=16, keys=16, warps=4, stages=1)
"""For float32, which is there to be compared with, and for the interpreter."""


def flash_attention(
    q_THE: Tensor,
    cache_NB2KE: Tensor,
    context: Context,
    *,
    scale: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """softmax(q k^T x scale) v for the queries of each sequence, over what each may look at.

    `cache_NB2KE` holds K and V of a layer, those of the queries' own tokens among them: block,
    slot, keys or values, KV head, element. Query head h reads KV head h // (H / K). `scale` is
    1 / sqrt(E) if not given. Sums are float32. Returns a tensor like q, or `out` where it is given.
    ValueError, with the shapes, for what does not fit.
    """
    check_attention("flash_attention", q_THE, cache_NB2KE, context, out)
    triton = runs_triton(q_THE)
    out_THE = q_THE.new_empty(q_THE.shape) if out is None else out
    if not triton:
        attention_in_torch(out_THE, q_THE, cache_NB2KE, context, scale)
    elif len(q_THE):
        launch(out_THE, q_THE, cache_NB2KE, context, scale, chip(q_THE.device)).start()
    return out_THE


def launch(
    out_THE: Tensor,
    q_THE: Tensor,
    cache_NB2KE: Tensor,
    context: Context,
    scale: float | None,
    on_chip: str,
) -> Launch:
    """The kernel over tiles of queries, KV heads and sequences."""
    (_, H, E), (_, B, _, K, _) = q_THE.shape, cache_NB2KE.shape
    columns = max(16, next_power_of_2(E))
    is_small = on_chip == "interpreter" or q_THE.dtype == torch.float32
    tile = SMALL if is_small else TILES[on_chip][max(64, columns)]
    rows = max(tile.rows, next_power_of_2(H // K))
    queries = rows // (H // K)
    return Launch(
        kernel="flash_attention_kernel",
        grid=(-(-max(context.queries) // queries), K, len(context.queries)),
        arguments=(
            *(out_THE, q_THE, cache_NB2KE),
            *(context.tables_SN, context.lengths_S, context.starts_Z),
            *(in_powers_of_2(scale, E), q_THE.stride(0), context.tables_SN.stride(0)),
        ),
        constants={
            "KV_HEADS": K,
            "GROUP": H // K,
            "WIDTH": E,
            "BLOCK_TOKENS": B,
            "ROWS": rows,
            "COLUMNS": columns,
            "KEYS": tile.keys,
            "CAUSAL": context.causal,
        },
        warps=tile.warps,
        stages=tile.stages,
    )
