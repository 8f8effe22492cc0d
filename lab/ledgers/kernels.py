"""What each kernel computes and moves: FLOPs and bytes. Pure functions of sizes, exact integers.

A kernel reads an input once unless its formula says how often. Bytes are those asked of memory:
what a cache of the chip answers is not taken off. Left out everywhere: roots, exponentials,
comparisons, addresses.
"""

from __future__ import annotations

from typing import NamedTuple


class KernelWork(NamedTuple):
    """What one launch does and moves."""

    operations: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes_moved(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written


def rms_norm_work(
    rows: int, width: int, *, residual: bool = False, element_bytes: int = 2
) -> KernelWork:
    """RMSNorm of `rows` rows, with `residual` added before.

        operations = rows x (4 x width + 1)            square, sum, two products; mean and eps
                     + rows x width                    with a residual
        read       = (rows x width + width) x bytes    + rows x width x bytes with a residual
        written    = rows x width x bytes              + rows x width x bytes with a residual

    64 rows of 4,096 in 16 bits: 532,480 bytes read, 524,288 written. ValueError below 1.
    """
    _at_least_1(rows=rows, width=width)
    numbers, times = rows * width, 2 if residual else 1
    return KernelWork(
        operations=rows * (4 * width + 1) + (numbers if residual else 0),
        bytes_read=(times * numbers + width) * element_bytes,
        bytes_written=times * numbers * element_bytes,
    )


def _at_least_1(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
