"""How a kernel is judged: a budget from data, poisoned memory, mutants, counted traffic.

On a CPU the kernels run in Triton's interpreter (`conftest.py` asks for it), in float32 and
float16: bfloat16 is silently wrong there, and is checked in `tests/gpu`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from triton.runtime.interpreter import interpreter_builder as builder

import kernels.triton as compiled

ROOT = Path(__file__).parents[1]
DEVICE = "cpu" if compiled.INTERPRETED else "cuda"
FLOATS = [
    pytest.param(torch.float32, id="fp32"),
    pytest.param(torch.float16, id="fp16"),
    *([] if compiled.INTERPRETED else [pytest.param(torch.bfloat16, id="bf16")]),
]


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Numbers of both signs."""
    dice = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=dice, dtype=torch.float64).to(dtype).to(DEVICE)


def rms(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt()) if x.numel() else 0.0


def assert_within_budget(got: Tensor, exact: Tensor, rounded: Tensor) -> None:
    """`got` may be three times as wrong as torch is in the same precision, and no more.

    `exact` is the reference in float64, `rounded` the torch body's answer. Errors are root mean
    squares: over many numbers roundings cancel and a bias does not, so a bias smaller than one
    rounding is seen; a budget on the largest error would let it pass.
    """
    assert torch.isfinite(got).all(), "not finite: a place that nobody wrote, or a wrong number"
    half_step = torch.finfo(got.dtype).eps / 2 * rms(exact)
    budget = max(3 * rms(rounded.double().cpu() - exact.cpu()), half_step)
    error = rms(got.double().cpu() - exact.cpu())
    assert error <= budget, f"error {error:.2e} is above the budget {budget:.2e}"


@contextmanager
def running(body: str) -> Iterator[None]:
    """Operations run this body: "torch" or "triton". Fresh memory is full of NaN meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_KERNELS", body)
        patch.setattr(Tensor, "new_empty", _poisoned)
        yield


_new_empty = Tensor.new_empty


def _poisoned(like: Tensor, *shape: Any, **options: Any) -> Tensor:
    fresh = _new_empty(like, *shape, **options)
    return fresh.fill_(float("nan") if fresh.is_floating_point() else 113)


@contextmanager
def mutant(operation: str, old: str, new: str, folder: Path) -> Iterator[None]:
    """The kernels of an operation with one piece of their code replaced."""
    source = (ROOT / f"kernels/triton/{operation}.py").read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {operation}.py"
    file = folder / f"{operation}.py"
    file.write_text(source.replace(old, new), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"mutant_{operation}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        for name, thing in vars(module).items():
            if name.endswith("_kernel"):
                patch.setattr(compiled, name, thing)
        yield


def assert_found(
    operation: str, old: str, new: str, folder: Path, check: Callable[[], None]
) -> None:
    """The check passes, and fails once this piece of the kernel is replaced."""
    check()
    with mutant(operation, old, new, folder), pytest.raises(AssertionError):
        check()


# Traffic, as the interpreter sees it


@dataclass
class Counts:
    """What the kernels did between two moments."""

    bytes_read: int = 0
    bytes_written: int = 0
    dot_operations: int = 0


@contextmanager
def counted() -> Iterator[Counts]:
    """Count loads, stores and matrix products of interpreted kernels.

    A load of one address by several lanes at once counts once; masked lanes do not count.
    """
    if not compiled.INTERPRETED:
        pytest.skip("loads and stores are counted in Triton's interpreter, and this is a GPU")
    counts = Counts()
    load, store, dot = builder.create_masked_load, builder.create_masked_store, builder.create_dot

    def masked_load(ptrs: Any, mask: Any, *rest: Any) -> Any:
        counts.bytes_read += _bytes(ptrs, mask)
        return load(ptrs, mask, *rest)

    def masked_store(ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        counts.bytes_written += _bytes(ptrs, mask)
        return store(ptrs, value, mask, *rest)

    def create_dot(a: Any, b: Any, *rest: Any) -> Any:
        counts.dot_operations += 2 * a.data.size * b.data.shape[-1]
        return dot(a, b, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "create_masked_load", masked_load)
        patch.setattr(builder, "create_masked_store", masked_store)
        patch.setattr(builder, "create_dot", create_dot)
        yield counts


def _bytes(ptrs: Any, mask: Any) -> int:
    addresses = set(ptrs.data[mask.data].ravel().tolist())
    return len(addresses) * (ptrs.get_element_ty().primitive_bitwidth // 8)


class Number:
    """A number that counts the additions and products it takes part in."""

    operations = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def _with(self, other: Number | float, value: Callable[[float, float], float]) -> Number:
        Number.operations += 1
        return Number(value(self.value, other.value if isinstance(other, Number) else other))

    def __add__(self, other: Number | float) -> Number:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Number | float) -> Number:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Number | float) -> Number:
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other: Number | float) -> Number:
        return self._with(other, lambda a, b: a / b)
