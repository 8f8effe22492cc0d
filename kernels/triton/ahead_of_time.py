"""Compile a launch for a GPU that is not here, and read back what the compiler made of it.

TRITON_INTERPRET must not be set: an interpreted kernel cannot be compiled.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.choice import Launch, compiled

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""The chips that every kernel is compiled for: A100; H100 and H200; MI300X."""

MATRIX_UNITS = {"wgmma": r"wgmma\.mma_async", "mma": r"\bmma\.sync", "mfma": r"\bv_mfma_"}
TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
TYPES |= {"int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64"}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


class Resources(NamedTuple):
    """What a compiled kernel takes on a chip, and which matrix unit it uses."""

    registers: int
    """Of a thread."""
    spilled_bytes: int
    """What a thread keeps in memory because it has no registers for it."""
    shared_bytes: int
    """Of a program."""
    matrix_unit: str | None
    """wgmma, mma or mfma: the widest that occurs."""


def resources(launch: Launch, target: str) -> Resources:
    """Compile a launch for one of TARGETS, as starting it there would, and read the result."""
    binary = _compile(launch, target)
    is_amd = target.startswith("gfx")
    text = binary.asm["amdgcn" if is_amd else "ptx"]
    registers, spilled_bytes = _of_amd(text) if is_amd else _of_nvidia(binary.asm["cubin"])
    units = (unit for unit, pattern in MATRIX_UNITS.items() if re.search(pattern, text))
    return Resources(registers, spilled_bytes, binary.metadata.shared, next(units, None))


def _compile(launch: Launch, target: str) -> Any:
    kernel = getattr(compiled, launch.kernel)
    signature = dict.fromkeys(kernel.arg_names, "constexpr")
    constants, attributes = dict(launch.constants), {}
    for place, value in enumerate(launch.arguments):
        name = kernel.arg_names[place]
        if value is None or (isinstance(value, int) and value == 1):
            constants[name] = value
            continue
        signature[name] = _type(value)
        if isinstance(value, Tensor) or (isinstance(value, int) and value % 16 == 0):
            attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": launch.warps, "num_stages": launch.stages}
    return triton.compile(source, target=TARGETS[target], options=options)


def _type(value: Tensor | float) -> str:
    if isinstance(value, Tensor):
        return "*" + TYPES[str(value.dtype).removeprefix("torch.")]
    if isinstance(value, float):
        return "fp32"
    return "i32" if abs(value) < 2**31 else "i64"


def _of_nvidia(cubin: bytes) -> tuple[int, int]:
    """Registers and stack bytes of a thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run(
            [CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", said).groups()  # type: ignore[union-attr]
    return int(registers), int(stack)


def _of_amd(text: str) -> tuple[int, int]:
    """Vector registers and scratch bytes of a thread."""
    names = (".vgpr_count", ".private_segment_fixed_size")
    registers, scratch = (re.search(rf"{name}:\s+(\d+)", text)[1] for name in names)  # type: ignore[index]
    return int(registers), int(scratch)
