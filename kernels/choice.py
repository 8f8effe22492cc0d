"""Which body an operation runs, and what starting a Triton kernel takes.

The device chooses: Triton on a GPU, torch elsewhere. LAB_KERNELS=torch or LAB_KERNELS=triton
overrides. Nothing falls back in silence: what was asked for and cannot run is a ValueError.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

compiled: Any = None  # the package with the kernels; Triton itself exists for Linux only
if find_spec("triton"):
    from kernels import triton as compiled

COMPUTED = (torch.float32, torch.float16, torch.bfloat16)


def runs_triton(x: Tensor) -> bool:
    """Whether Triton computes what begins with `x`.

    ValueError, with advice, if Triton must and cannot: it is not installed, `x` lies where it does
    not run, or has a format that it does not compute.
    """
    asked = os.environ.get("LAB_KERNELS")
    if asked not in (None, "", "torch", "triton"):
        raise ValueError(f"LAB_KERNELS must be torch or triton, got {asked!r}")
    if not (asked == "triton" or (not asked and x.is_cuda)):
        return False
    if compiled is None:
        raise ValueError("Triton is not installed here: set LAB_KERNELS=torch")
    if not (x.is_cuda or compiled.INTERPRETED):
        raise ValueError(
            f"Triton runs on a GPU, and this tensor lies on {x.device.type}: set LAB_KERNELS=torch,"
            " or TRITON_INTERPRET=1 before Python starts to have it interpreted, slowly"
        )
    if x.dtype not in COMPUTED or (x.dtype == torch.bfloat16 and compiled.INTERPRETED):
        formats = "float32 and float16" if compiled.INTERPRETED else "float32, float16 and bfloat16"
        raise ValueError(f"Triton computes {formats} here, got {x.dtype}: set LAB_KERNELS=torch")
    return True


def chip(device: torch.device) -> str:
    """The chip whose tile sizes are right for a device: see `TILES` of the attention kernels."""
    if compiled is not None and compiled.INTERPRETED:
        return "interpreter"
    return _chip(device)


@cache
def _chip(device: torch.device) -> str:
    if torch.version.hip:
        return "gfx942"
    return "sm_90" if torch.cuda.get_device_capability(device) >= (9, 0) else "sm_80"


class Launch(NamedTuple):
    """A Triton kernel, over how many programs, with what. It can be started, or only compiled."""

    kernel: str
    grid: tuple[int, ...]
    arguments: tuple[Tensor | float | None, ...]
    constants: dict[str, Any]
    """What is compiled in, by name."""
    warps: int
    stages: int = 1
    """How many tiles are on their way at once: those loaded ahead, and the one in use."""

    def start(self) -> None:
        """Run it, on the GPU of its arguments or in the interpreter."""
        getattr(compiled, self.kernel)[self.grid](
            *self.arguments, **self.constants, num_warps=self.warps, num_stages=self.stages
        )


def next_power_of_2(n: int) -> int:
    """The smallest power of 2 that is at least n: Triton's tiles have such sides. 63: 64."""
    return 1 << (n - 1).bit_length()
