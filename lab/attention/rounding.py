"""What a number becomes in a shorter format, in pure Python."""

from __future__ import annotations

import struct
from fractions import Fraction


def bf16(number: int | float | Fraction) -> float:
    """The nearest bfloat16, ties to even: the range of float32 with 8 bits of significand.

    257 becomes 256.0, 1.003 becomes 1.0, 1.005 becomes 1.0078125. OverflowError above the largest
    float32.
    """
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    kept = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    (rounded,) = struct.unpack("<f", struct.pack("<I", kept & 0xFFFFFFFF))
    return float(rounded)


def fp32(number: int | float | Fraction) -> float:
    """The nearest float32, ties to even. OverflowError above the largest."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])
