"""Rounding to shorter formats, against torch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.attention.rounding import bf16, fp32

torch = pytest.importorskip("torch")
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(finite)
def test_bf16_is_torchs(number):
    assert bf16(number) == torch.tensor(number, dtype=torch.float32).bfloat16().item()


@given(st.floats(-1e38, 1e38))
def test_fp32_is_torchs(number):
    assert fp32(number) == torch.tensor(number, dtype=torch.float64).float().item()


def test_ties_go_to_the_even_neighbour():
    assert [bf16(n) for n in (256, 257, 258, 259)] == [256, 256, 258, 260]
    assert math.copysign(1, bf16(-0.0)) == -1


def test_what_no_float32_holds_overflows():
    for rounded in (bf16, fp32):
        with pytest.raises(OverflowError):
            rounded(1e39)
