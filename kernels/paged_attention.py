"""Attention of decodes: one query a sequence, K and V through block tables.

Meaning: `kernels.reference.attention`. Bytes and FLOPs: `lab.ledgers.kernels`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.choice import Launch, chip, next_power_of_2, runs_triton
from kernels.context import Context, attention_in_torch, check_attention, in_powers_of_2

# S sequence, H query head, K KV head, E element of a head, N block, B slot of a block


class Tile(NamedTuple):
    """How a program takes its split of the context."""

    split: int
    """Positions of a split."""
    keys: int
    """Positions that are on the chip at once."""
    warps: int
    stages: int
    joined: int = 16
    """Splits of a query head that the second kernel joins at a time."""


# By chip, and by the width of a head up to which it holds. On NVIDIA's chips the block numbers of a
# tile must have come before its keys can be asked for: of 5 stages, 2 hold keys and values.
TILES = {
    "sm_90": {64: Tile(512, 128, 4, 5), 128: Tile(512, 64, 4, 5), 256: Tile(512, 32, 4, 5)},
    "sm_80": {64: Tile(512, 64, 4, 5), 128: Tile(512, 32, 4, 5), 256: Tile(512, 16, 4, 5)},
    "gfx942": {64: Tile(512, 64, 4, 2), 128: Tile(512, 64, 4, 2), 256: Tile(512, 32, 4, 2)},
}
SMALL = Tile(split=32, keys=16, warps=4, stages=1, joined=4)
"""For float32, which is there to be compared with, and for the interpreter."""


def paged_attention(
    q_SHE: Tensor,
    cache_NB2KE: Tensor,
    context: Context,
    *,
    scale: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """softmax(q k^T x scale) v for the one query of each sequence, over all that it may look at.

    `cache_NB2KE` holds K and V of a layer: block, slot, keys or values, KV head, element. Query
    head h reads KV head h // (H / K). `scale` is 1 / sqrt(E) if not given. Sums are float32.
    Returns a tensor like q, or `out` where it is given.
    ValueError, with the shapes, for what does not fit, or if a sequence has not one query.
    """
    check_attention("paged_attention", q_SHE, cache_NB2KE, context, out)
    if not context.is_decode:
        raise ValueError(
            f"paged_attention needs one query a sequence, got {list(context.queries)}: "
            "flash_attention takes any number"
        )
    triton = runs_triton(q_SHE)
    out_SHE = q_SHE.new_empty(q_SHE.shape) if out is None else out
    if triton:
        for launch in launches(out_SHE, q_SHE, cache_NB2KE, context, scale, chip(q_SHE.device)):
            launch.start()
    else:
        attention_in_torch(out_SHE, q_SHE, cache_NB2KE, context, scale)
    return out_SHE


def launches(
    out_SHE: Tensor,
    q_SHE: Tensor,
    cache_NB2KE: Tensor,
    context: Context,
    scale: float | None,
    on_chip: str,
) -> list[Launch]:
    """The kernel over sequences, KV heads and splits; a second one where there are more splits."""
    (S, H, E), (_, B, _, K, _) = q_SHE.shape, cache_NB2KE.shape
    if not S:
        return []
    columns = max(16, next_power_of_2(E))
    is_small = on_chip == "interpreter" or q_SHE.dtype == torch.float32
    tile = SMALL if is_small else TILES[on_chip][max(64, columns)]
    splits = -(-max(context.lengths) // tile.split)
    parts = out_SHE if splits == 1 else q_SHE.new_empty((S, H, splits, E), dtype=torch.float32)
    sums = None if splits == 1 else q_SHE.new_empty((S, H, splits), dtype=torch.float32)
    sizes = {"WIDTH": E, "COLUMNS": columns, "SPLIT": tile.split}
    over_splits = Launch(
        kernel="paged_attention_kernel",
        grid=(S, K, splits),
        arguments=(
            *(parts, sums, q_SHE, cache_NB2KE, context.tables_SN, context.lengths_S),
            *(in_powers_of_2(scale, E), q_SHE.stride(0), context.tables_SN.stride(0)),
        ),
        constants={
            "KV_HEADS": K,
            "GROUP": H // K,
            "BLOCK_TOKENS": B,
            "ROWS": max(16, next_power_of_2(H // K)),
            "KEYS": tile.keys,
            **sizes,
        },
        warps=tile.warps,
        stages=tile.stages,
    )
    if sums is None:
        return [over_splits]
    joined = Launch(
        kernel="combine_kernel",
        grid=(S, H),
        arguments=(out_SHE, parts, sums, context.lengths_S, splits),
        constants={"SPLITS": tile.joined, **sizes},
        warps=4,
    )
    return [over_splits, joined]
