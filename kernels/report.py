"""What the compiler makes of every kernel for three chips: `python -m kernels report [--json]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from kernels.choice import Launch
from kernels.context import Context
from kernels.flash_attention import launch as flash_attention
from kernels.paged_attention import launches as paged_attention
from kernels.quantized_matmul import launch as quantized_matmul
from kernels.rejection_sample import launch as rejection_sample
from kernels.rms_norm import launch as rms_norm
from kernels.rope_store import launch as rope_store
from kernels.triton.ahead_of_time import TARGETS, resources

Case: TypeAlias = Callable[[str], Launch]
"""A launch with the tiles for a chip. Its tensors have shapes and no memory."""


class Row(NamedTuple):
    """One kernel on one chip."""

    kernel: str
    case: str
    chip: str
    warps: int
    stages: int
    registers: int
    spilled_bytes: int
    shared_bytes: int
    matrix_unit: str | None


def cases() -> dict[tuple[str, str], Case]:
    """By kernel and size: those of Llama-3-8B where nothing else is said."""
    found: dict[tuple[str, str], Case] = {("rms_norm", "D 4096"): norm}
    found["rope_store", "E 128"] = rope
    found["rejection_sample", "V 128256"] = drafts
    for bits in (8, 4):
        for tokens in (16, 512):
            found["quantized_matmul", f"int{bits} T {tokens}"] = partial(product, bits, tokens)
    for width in (64, 128, 256):
        found["flash_attention", f"E {width} causal"] = partial(chunks, width, True)
        found["paged_attention", f"E {width}"] = partial(decodes, width, 0)
    found["flash_attention", "E 128 full"] = partial(chunks, 128, False)
    found["combine", "E 128"] = partial(decodes, 128, 1)
    return found


def norm(chip: str) -> Launch:
    """With the sum before it; the tiles are the same on every chip."""
    x_TD = half(64, 4096)
    return rms_norm(x_TD, x_TD, half(4096), 1e-6, x_TD)


def rope(chip: str) -> Launch:
    """64 tokens, 32 query and 8 KV heads of 128."""
    turn_TP2 = torch.empty((64, 64, 2), dtype=torch.float32, device="meta")
    slots_T = torch.empty(64, dtype=torch.int64, device="meta")
    return rope_store(half(64, 48, 128), turn_TP2, slots_T, half(1000, 16, 2, 8, 128))


def product(bits: int, tokens: int, chip: str) -> Launch:
    """D 4096, F 14336; with 4 bits, groups of 128."""
    if bits == 8:
        codes = torch.empty((14_336, 4096), dtype=torch.int8, device="meta")
        scale = torch.empty(14_336, dtype=torch.float32, device="meta")
    else:
        codes = torch.empty((14_336, 2048), dtype=torch.uint8, device="meta")
        scale = torch.empty((14_336, 32), dtype=torch.float32, device="meta")
    return quantized_matmul(half(tokens, 4096), codes, scale, chip)


def drafts(chip: str) -> Launch:
    """8 sequences with 4 drafts each; the tiles are the same on every chip."""
    ids = torch.empty((8, 4), dtype=torch.int64, device="meta")
    draft, target, uniforms = (
        torch.empty(shape, dtype=torch.float32, device="meta")
        for shape in ((8, 4, 128_256), (8, 5, 128_256), (8, 5))
    )
    one = ids[:, 0]
    return rejection_sample(one, one, ids, one, draft, target, uniforms)


def chunks(width: int, causal: bool, chip: str) -> Launch:
    """4 chunks of 2,048 queries behind 2,048 positions, 32 query and 8 KV heads."""
    cache_NB2KE = half(1000, 16, 2, 8, width)
    context = Context.of([range(256)] * 4, [2048] * 4, [4096] * 4, cache_NB2KE, causal=causal)
    q_THE = half(4 * 2048, 32, width)
    return flash_attention(q_THE, q_THE, cache_NB2KE, context, None, chip)


def decodes(width: int, place: int, chip: str) -> Launch:
    """64 sequences of 4,096 positions, 32 query and 8 KV heads."""
    cache_NB2KE = half(1000, 16, 2, 8, width)
    context = Context.of([range(256)] * 64, [1] * 64, [4096] * 64, cache_NB2KE)
    q_SHE = half(64, 32, width)
    return paged_attention(q_SHE, q_SHE, cache_NB2KE, context, None, chip)[place]


def half(*shape: int) -> Tensor:
    """A float16 tensor that takes no memory."""
    return torch.empty(shape, dtype=torch.float16, device="meta")


def rows() -> Iterator[Row]:
    """Every kernel at its sizes, compiled for every chip."""
    for (kernel, case), launch_for in cases().items():
        for chip in TARGETS:
            launch = launch_for(chip)
            found = resources(launch, chip)
            yield Row(
                kernel,
                case,
                chip,
                launch.warps,
                launch.stages,
                found.registers,
                found.spilled_bytes,
                found.shared_bytes,
                found.matrix_unit,
            )


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as text, a column for each field."""
    heads = [name.replace("_", " ") for name in Row._fields]
    lines = [heads, *(["-" if x is None else str(x) for x in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ("  ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in aligned)
