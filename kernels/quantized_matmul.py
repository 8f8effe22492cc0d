"""Activations times quantized weights: 8 bits with a scale a row, or 4 with a scale a group.

Meaning: `kernels.reference.quantized_matmul`. Bytes and FLOPs:
`lab.ledgers.kernels.quantized_matmul_work`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.choice import Launch, chip, runs_triton

# T token, D input, F output, C byte with the codes of two inputs, G group of inputs, S split


class Tile(NamedTuple):
    """What a program has on the chip at once."""

    rows: int
    """Outputs."""
    tokens: int
    inputs: int
    """With 8 bits; with 4 it is a group."""
    warps: int
    stages: int
    shortest: int = 1024
    """Inputs of a split, at least."""


FEW = 16
"""Up to so many tokens, reading the weights is all that takes time."""
TILES = {  # by chip: for few tokens, for many
    "sm_90": (Tile(64, 16, 128, 4, 5), Tile(128, 128, 64, 8, 4)),
    "sm_80": (Tile(64, 16, 128, 4, 4), Tile(128, 64, 64, 4, 3)),
    "gfx942": (Tile(64, 16, 128, 4, 2), Tile(128, 64, 64, 4, 2)),
}
SMALL = Tile(rows=16, tokens=16, inputs=32, warps=4, stages=1, shortest=64)
"""For float32, which is there to be compared with, and for the interpreter."""
PROGRAMS = 512
"""Few tokens and few outputs leave a chip idle: inputs are split until there are so many."""


def quantized_matmul(x_TD: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
    """x times the transposed weights: [T, F] in the format of x, summed in float32.

        8 bits: codes_FD int8, scale_F float32:     weight = code x scale of its row
        4 bits: codes_FC uint8, scale_FG float32:   weight = (code - 8) x scale of its group

    With 4 bits a group is D / G inputs, a power of 2 from 32 on; byte j of it has input j in its
    low bits and input j + half a group in its high bits, as `pack_int4` makes them.
    ValueError, with the shapes, for what does not fit.
    """
    check(x_TD, codes, scale)
    if not runs_triton(x_TD):
        weight_FD = _weights(codes, scale).to(torch.promote_types(x_TD.dtype, torch.float32))
        return F.linear(x_TD.to(weight_FD.dtype), weight_FD).to(x_TD.dtype)
    if not len(x_TD):
        return x_TD.new_empty((0, len(codes)))
    found = launch(x_TD, codes, scale, chip(x_TD.device))
    found.start()
    out_STF = found.arguments[0]
    assert isinstance(out_STF, Tensor)
    out_TF: Tensor = out_STF[0] if len(out_STF) == 1 else out_STF.sum(0).to(x_TD.dtype)
    return out_TF


def pack_int4(codes_FD: Tensor, group: int) -> Tensor:
    """Codes from -8 to 7 as `quantized_matmul` reads them: 8 is added, two stand in a byte."""
    biased = (codes_FD + 8).to(torch.uint8).unflatten(1, (-1, 2, group // 2))
    codes_FC: Tensor = (biased[:, :, 0] | biased[:, :, 1] << 4).flatten(1)
    return codes_FC


def check(x_TD: Tensor, codes: Tensor, scale: Tensor) -> None:
    """ValueError, with the shapes, if the three do not fit each other."""
    x, held, scales = list(x_TD.shape), list(codes.shape), list(scale.shape)
    inputs = {torch.int8: held[-1], torch.uint8: 2 * held[-1]}.get(codes.dtype)
    if inputs is None or len(held) != 2 or len(x) != 2 or x[1] != inputs:
        raise ValueError(
            "quantized_matmul needs x [T, D] and codes [F, D] in int8 or [F, D / 2] in uint8, "
            f"got {x} and {held} in {codes.dtype}"
        )
    groups = scales[1:] if codes.dtype == torch.uint8 else [1]
    group = inputs // groups[0] if groups else 0
    if scales[:1] != held[:1] or len(scales) != (2 if codes.dtype == torch.uint8 else 1):
        raise ValueError(f"scale must be [F], or [F, G] for uint8, got {scales} for codes {held}")
    if codes.dtype == torch.uint8 and (
        group * groups[0] != inputs or group & (group - 1) or group < 32
    ):
        raise ValueError(
            f"a group must be a power of 2 from 32 on, got {inputs} inputs in {groups[0]} groups"
        )
    if scale.dtype != torch.float32 or x_TD.stride(-1) != 1:
        raise ValueError(
            f"scale must be float32 and rows of x in one piece, got {scale.dtype} and strides "
            f"{x_TD.stride()}"
        )
    if not (codes.is_contiguous() and scale.is_contiguous()):
        raise ValueError(f"codes and scale must be contiguous, got strides {codes.stride()}")


def _weights(codes: Tensor, scale: Tensor) -> Tensor:
    """What the codes stand for, in float32."""
    if codes.dtype == torch.int8:
        return codes.float() * scale[:, None]
    halves = codes.unflatten(1, (scale.shape[1], 1, -1))
    groups = torch.cat((halves & 15, halves >> 4), dim=2).flatten(2).float() - 8
    return (groups * scale[:, :, None]).flatten(1)


def launch(x_TD: Tensor, codes: Tensor, scale: Tensor, on_chip: str) -> Launch:
    """The kernel over outputs, tokens and splits of the inputs. Its first argument is what it
    writes: one part a split, in float32 where they are still to be added."""
    (T, inputs), outputs, bits = x_TD.shape, len(codes), 8 if codes.dtype == torch.int8 else 4
    if on_chip == "interpreter" or x_TD.dtype == torch.float32:
        tile = SMALL
    else:
        tile = TILES[on_chip][0 if T <= FEW else 1]
    step = tile.inputs if bits == 8 else inputs // scale.shape[1]
    programs = -(-outputs // tile.rows)
    splits = max(1, min(PROGRAMS // programs, inputs // tile.shortest)) if T <= FEW else 1
    part = -(-inputs // (splits * step)) * step
    splits = -(-inputs // part)
    kind = x_TD.dtype if splits == 1 else torch.float32
    return Launch(
        kernel=f"int{bits}_matmul_kernel",
        grid=(programs, -(-T // tile.tokens), splits),
        arguments=(
            x_TD.new_empty((splits, T, outputs), dtype=kind),
            *(x_TD, codes, scale, T, x_TD.stride(0)),
        ),
        constants={
            "D": inputs,
            "F": outputs,
            "ROWS": tile.rows,
            "TOKENS": tile.tokens,
            "STEP": step,
            "PART": part,
        },
        warps=tile.warps,
        stages=tile.stages,
    )
