"""How a kernel is judged: a budget from data, poisoned memory, mutants, counted traffic.

On a CPU the kernels run in Triton's interpreter (`conftest.py` asks for it), in float32 and
float16: bfloat16 is silently wrong there, and is checked in `tests/gpu`.
"""

from __future__ import annotations

import importlib
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from triton.runtime.interpreter import interpreter_builder as builder

import kernels.triton as compiled
from kernels import Context, choice, reference

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


class Batch(NamedTuple):
    """Queries of several sequences, and a cache in which their K and V lie in disorder."""

    q_THE: Tensor
    cache_NB2KE: Tensor
    """NaN wherever no sequence has written."""
    context: Context
    tables: list[list[int]]

    def exact(self) -> Tensor:
        """Attention by the reference, sequence by sequence."""
        context, parts, first = self.context, [], 0
        for table, queries, length in zip(
            self.tables, context.queries, context.lengths, strict=True
        ):
            k_LKE, v_LKE = reference.in_one_piece(self.cache_NB2KE.cpu(), table, length)
            q_QHE = self.q_THE[first : first + queries].cpu()
            parts.append(reference.attention(q_QHE, k_LKE, v_LKE, causal=context.causal))
            first += queries
        return torch.cat(parts)

    def finite(self) -> Tensor:
        """The cache as torch needs it: what nobody has written is 0, since it is read as well."""
        return self.cache_NB2KE.nan_to_num()


def batch(
    queries: Sequence[int],
    lengths: Sequence[int],
    *,
    heads: tuple[int, int] = (4, 2),
    width: int = 16,
    block_tokens: int = 4,
    dtype: torch.dtype = torch.float32,
    causal: bool = True,
) -> Batch:
    """Sequences with these numbers of queries and positions, their blocks dealt from a pack.

    For the first query of each sequence one key scores so high that only a running maximum
    survives it: an early one, in every second sequence the last that it sees.
    """
    (H, K), counts = heads, [-(-length // block_tokens) for length in lengths]
    pack = list(range(sum(counts) + 2))
    random.Random(0).shuffle(pack)
    tables = [[pack.pop() for _ in range(count)] for count in counts]
    cache_NB2KE = drawn(sum(counts) + 2, block_tokens, 2, K, width, dtype=dtype, seed=3)
    written = torch.zeros(cache_NB2KE.shape[:2], dtype=torch.bool)
    for table, length in zip(tables, lengths, strict=True):
        for position in range(length):
            written[table[position // block_tokens], position % block_tokens] = True
    cache_NB2KE[~written.to(DEVICE)] = float("nan")
    qkv_THE = drawn(sum(queries), H + 2 * K, width, dtype=dtype, seed=4)  # as a decoder has it
    firsts = [0, *accumulate(queries)]
    for s, (table, asked, length) in enumerate(zip(tables, queries, lengths, strict=True)):
        block, place = divmod((length - asked) * (s % 2), block_tokens)
        if asked:
            cache_NB2KE[table[block], place, 0, 0] = qkv_THE[firsts[s], 0] * 60
    cache_NB2KE[~written.to(DEVICE)] = float("nan")
    qkv_THE = drawn(sum(queries), H + 2 * K, width, dtype=dtype, seed=4)  # as a decoder has it
    for position, times in ((0, 60), (lengths[0] - queries[0], 90)) if len(qkv_THE) else ():
        block, place = divmod(position, block_tokens)
        cache_NB2KE[tables[0][block], place, 0, 0] = qkv_THE[0, 0] * times
    context = Context.of(tables, queries, lengths, cache_NB2KE, causal=causal)
    return Batch(qkv_THE[:, :H], cache_NB2KE, context, tables)


def assert_attention_is_right(operation: Callable[..., Tensor], given: Batch) -> None:
    """The Triton body within the budget that the torch body sets."""
    with running("torch"):
        rounded = operation(given.q_THE, given.finite(), given.context)
    with running("triton"):
        got = operation(given.q_THE, given.cache_NB2KE, given.context)
    assert_within_budget(got, given.exact(), rounded)


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
def mutant(file: str, old: str, new: str, folder: Path) -> Iterator[None]:
    """Triton kernels in which one piece of the code of `file` is replaced."""
    name = f"mutant_{folder.name}_{abs(hash((file, old, new)))}"
    shutil.copytree(ROOT / "kernels/triton", folder / name)
    for path in (folder / name).glob("*.py"):
        text = path.read_text(encoding="utf-8").replace("kernels.triton.", f"{name}.")
        if path.stem == file:
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}.py"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(choice, "compiled", importlib.import_module(name))
        yield


def assert_found(file: str, old: str, new: str, folder: Path, check: Callable[[], None]) -> None:
    """The check passes, and fails once this piece of the kernel is replaced."""
    check()
    with mutant(file, old, new, folder), np.errstate(all="ignore"), pytest.raises(AssertionError):
        check()


# Traffic, as the interpreter sees it


@dataclass
class Counts:
    """What the kernels did between two moments. Bytes are those of floating-point numbers and
    codes; the int32 and int64 that say where things lie are left out."""

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
    kind = ptrs.get_element_ty()
    if not kind.is_floating() and kind.primitive_bitwidth > 8:
        return 0
    return len(set(ptrs.data[mask.data.astype(bool)].ravel().tolist())) * (
        kind.primitive_bitwidth // 8
    )


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
