"""What the compiler makes of every kernel for three chips: `python -m kernels report [--json]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from kernels.choice import Launch
from kernels.rms_norm import launch as rms_norm
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
    return {
        ("rms_norm", "D 4096"): lambda chip: rms_norm(
            half(64, 4096), half(64, 4096), half(4096), 1e-6, None
        ),
    }


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
