"""RMSNorm: both bodies against float64, wrong kernels found, bytes and FLOPs counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernel_checks import (
    FLOATS,
    Number,
    assert_found,
    assert_within_budget,
    counted,
    drawn,
    running,
)

from kernels import reference, rms_norm
from lab.ledgers.kernels import rms_norm_work

SHAPES = [(1, 1), (3, 63), (5, 128), (2, 1000), (37, 6), (1, 4096)]
EPS = 1e-3


def check(shape: tuple[int, ...], dtype: torch.dtype, *, residual: bool = False) -> None:
    x, weight = drawn(*shape, dtype=dtype), drawn(shape[-1], dtype=dtype)
    rest = drawn(*shape, dtype=dtype, seed=1) if residual else None
    added = x if rest is None else x + rest
    exact = reference.rms_norm(added.flatten(0, -2), weight, EPS).view(shape)
    got: dict[str, Tensor] = {}
    for body in ("torch", "triton"):
        stream = None if rest is None else rest.clone()
        with running(body):
            got[body] = rms_norm(x, weight, EPS, stream)
        if stream is not None:
            assert torch.equal(stream, added), f"{body}: the residual is not the sum"
    assert_within_budget(got["triton"], exact, got["torch"])


@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_normalized(shape: tuple[int, int], dtype: torch.dtype, residual: bool) -> None:
    check(shape, dtype, residual=residual)


@pytest.mark.parametrize("dtype", FLOATS)
def test_heads_of_tokens_that_lie_apart_are_normalized(dtype: torch.dtype) -> None:
    qkv_THE, weight_E = drawn(5, 12, 24, dtype=dtype), drawn(24, dtype=dtype)
    q_THE = qkv_THE[:, 2:9]
    with running("torch"):
        rounded = rms_norm(q_THE, weight_E, EPS)
    with running("triton"):
        got = rms_norm(q_THE, weight_E, EPS)
    exact = reference.rms_norm(q_THE.flatten(0, 1), weight_E, EPS).view(q_THE.shape)
    assert_within_budget(got, exact, rounded)


def test_no_rows_are_no_work() -> None:
    for body in ("torch", "triton"):
        with running(body):
            assert rms_norm(drawn(0, 8), drawn(8)).shape == (0, 8)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/ WIDTH", "/ COLUMNS"),
        ("mean_square + eps", "mean_square + 2 * eps"),
        ("* weight[None, :]", ""),
        ("other=0.0)\n    if", "other=0.01)\n    if"),
        ("(row // HEADS).to(tl.int64) * token_stride", "row // HEADS * WIDTH"),
    ],
)
def test_a_slightly_wrong_kernel_is_found(old: str, new: str, tmp_path: Path) -> None:
    shape = (4, 3, 63)
    x, weight = drawn(4, 5, 63)[:, :3], drawn(63)
    exact = reference.rms_norm(x.flatten(0, 1), weight, EPS).view(shape)

    def judged() -> None:
        with running("torch"):
            rounded = rms_norm(x, weight, EPS)
        with running("triton"):
            assert_within_budget(rms_norm(x, weight, EPS), exact, rounded)

    assert_found("rms_norm", old, new, tmp_path, judged)


@pytest.mark.parametrize("residual", [False, True])
def test_bytes_are_those_of_the_ledger(residual: bool) -> None:
    x, weight = drawn(5, 1000, dtype=torch.float16), drawn(1000, dtype=torch.float16)
    with running("triton"), counted() as counts:
        rms_norm(x, weight, EPS, x.clone() if residual else None)
    work = rms_norm_work(5, 1000, residual=residual)
    programs = 3  # of two rows each; every program reads the weight
    assert counts.bytes_read == work.bytes_read + (programs - 1) * 1000 * 2
    assert counts.bytes_written == work.bytes_written


@pytest.mark.parametrize("residual", [False, True])
def test_operations_are_those_of_the_ledger(residual: bool) -> None:
    Number.operations = 0
    for _ in range(3):
        row = [Number(v) for v in (1.0, 2.0, -3.0, 4.0, 5.0)]
        if residual:
            row = [a + b for a, b in zip(row, row, strict=True)]
        total, *rest = [a * a for a in row]
        for square in rest:
            total = total + square
        scale = Number((total / 5 + EPS).value ** -0.5)
        assert [a * scale * 1.5 for a in row]
    assert Number.operations == rms_norm_work(3, 5, residual=residual).operations


def test_faults_are_named_with_the_shapes() -> None:
    with pytest.raises(ValueError, match=r"got \[2, 8\] and \[7\]"):
        rms_norm(torch.ones(2, 8), torch.ones(7))
    with pytest.raises(ValueError, match=r"the shape of x, got \[3, 8\] and \[2, 8\]"):
        rms_norm(torch.ones(2, 8), torch.ones(8), 1e-6, torch.ones(3, 8))
    with running("triton"):
        with pytest.raises(ValueError, match="D 20000 is above 16384"):
            rms_norm(drawn(1, 20_000), drawn(20_000))
        with pytest.raises(ValueError, match=r"needs a contiguous x, got strides \(2,\)"):
            rms_norm(drawn(3, 8)[:, ::2], drawn(4))
