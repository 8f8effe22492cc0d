"""Products with quantized weights: both bodies against float64, wrong kernels found, traffic."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernel_checks import (
    DEVICE,
    FLOATS,
    assert_found,
    assert_within_budget,
    counted,
    drawn,
    running,
)

from kernels import quantized_matmul, reference
from kernels.quantized_matmul import pack_int4
from lab.ledgers.kernels import quantized_matmul_work


def weights(bits: int, outputs: int, inputs: int, group: int = 32) -> tuple[Tensor, Tensor]:
    """Codes of all values, and scales that differ from each other."""
    dice = torch.Generator().manual_seed(inputs)
    most = 2 ** (bits - 1)
    codes = torch.randint(-most, most, (outputs, inputs), generator=dice).to(torch.int8).to(DEVICE)
    if bits == 8:
        return codes, drawn(outputs).abs() + 0.01
    return pack_int4(codes, group), drawn(outputs, inputs // group).abs() + 0.01


def check(
    bits: int, tokens: int, outputs: int, inputs: int, dtype: torch.dtype, group: int = 32
) -> None:
    x_TD = drawn(tokens, inputs, dtype=dtype)
    codes, scale = weights(bits, outputs, inputs, group)
    with running("torch"):
        rounded = quantized_matmul(x_TD, codes, scale)
    with running("triton"):
        got = quantized_matmul(x_TD, codes, scale)
    exact = reference.quantized_matmul(x_TD.cpu(), codes.cpu(), scale.cpu())
    assert_within_budget(got, exact, rounded)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("tokens", "outputs", "inputs"), [(1, 17, 32), (3, 16, 96), (17, 33, 64), (2, 5, 160)]
)
def test_products_of_all_shapes(
    bits: int, tokens: int, outputs: int, inputs: int, dtype: torch.dtype
) -> None:
    check(bits, tokens, outputs, inputs, dtype)


def test_rows_of_eight_bits_may_have_any_length() -> None:
    check(8, 2, 5, 75, torch.float16)


@pytest.mark.parametrize("group", [64, 128])
def test_groups_of_other_sizes(group: int) -> None:
    check(4, 2, 17, 256, torch.float16, group)


def test_codes_are_packed_half_a_group_apart() -> None:
    codes = torch.arange(-8, 8, dtype=torch.int8).repeat(4)[None]
    packed = pack_int4(codes, 32)
    assert packed.shape == (1, 32)
    assert [(byte % 16 - 8, byte // 16 - 8) for byte in packed[0].tolist()[:3]] == [
        (-8, -8), (-7, -7), (-6, -6),
    ]  # fmt: skip
    assert (int(packed[0, 15]) % 16 - 8, int(packed[0, 16]) % 16 - 8) == (7, -8)


def test_no_tokens_are_no_work() -> None:
    codes, scale = weights(8, 3, 32)
    for body in ("torch", "triton"):
        with running(body):
            assert quantized_matmul(drawn(0, 32), codes, scale).shape == (0, 3)


@pytest.mark.parametrize(
    ("bits", "old", "new"),
    [
        (8, "sums * scale[:, None]", "sums * 0.5"),
        (8, "+ PART, D), STEP):\n        d =", "+ PART, D) - STEP, STEP):\n        d ="),
        (8, "(d < D)[None, :]", "(d < D - 1)[None, :]"),
        (4, "both & 15", "both & 7"),
        (4, "both >> 4).to(tl.int8) - 8", "both >> 4).to(tl.int8) - 7"),
        (4, "x_places + start + HALF", "x_places + start"),
        (4, "scales + start // STEP", "scales"),
        (4, "codes + start // 2", "codes"),
    ],
)  # fmt: skip
def test_a_slightly_wrong_kernel_is_found(bits: int, old: str, new: str, tmp_path: Path) -> None:
    assert_found(
        "quantized_matmul", old, new, tmp_path, lambda: check(bits, 2, 17, 160, torch.float16)
    )


@pytest.mark.parametrize(
    ("bits", "inputs", "splits"), [(8, 32, 1), (4, 32, 1), (8, 160, 2), (4, 160, 2)]
)
def test_bytes_and_products_are_those_of_the_ledger(bits: int, inputs: int, splits: int) -> None:
    x_TD, (codes, scale) = drawn(3, inputs, dtype=torch.float16), weights(bits, 33, inputs)
    with running("triton"), counted() as counts:
        quantized_matmul(x_TD, codes, scale)
    work = quantized_matmul_work(
        3, inputs, 33, bits=bits, group=32 if bits == 4 else None,
        tile_outputs=16, splits=splits,
    )  # fmt: skip
    assert (counts.bytes_read, counts.bytes_written) == (work.bytes_read, work.bytes_written)
    assert counts.dot_operations == 2 * 16 * inputs * 48  # 3 tokens in a tile of 16, 33 rows in 3
    assert work.operations == 2 * 3 * inputs * 33


def test_faults_are_named_with_the_shapes() -> None:
    x_TD, (codes, scale) = drawn(2, 64), weights(4, 3, 64)
    with pytest.raises(ValueError, match=r"got \[2, 63\] and \[3, 32\] in torch.uint8"):
        quantized_matmul(x_TD[:, :63], codes, scale)
    with pytest.raises(ValueError, match=r"in torch.int16"):
        quantized_matmul(x_TD, codes.to(torch.int16), scale)
    with pytest.raises(ValueError, match=r"got \[3\] for codes \[3, 32\]"):
        quantized_matmul(x_TD, codes, scale[:, 0])
    with pytest.raises(ValueError, match="a power of 2 from 32 on, got 64 inputs in 4 groups"):
        quantized_matmul(x_TD, codes, torch.ones(3, 4))
    with pytest.raises(ValueError, match="scale must be float32"):
        quantized_matmul(x_TD, codes, scale.half())
    with pytest.raises(ValueError, match="must be contiguous, got strides"):
        quantized_matmul(x_TD, weights(4, 64, 64)[0].T[:3, :32], scale)
