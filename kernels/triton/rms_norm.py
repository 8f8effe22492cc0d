"""RMSNorm in one pass: torch alone would read and write a row several times.

A program holds whole rows, so that the sum of squares and the division see the same registers.
"""

import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    out_ptr, x_ptr, weight_ptr, residual_ptr, num_rows, token_stride, eps,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One program normalizes ROWS rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row < num_rows)[:, None] & (column < WIDTH)[None, :]
    place = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    source = (row // HEADS).to(tl.int64) * token_stride + (row % HEADS) * WIDTH

    x = tl.load(x_ptr + source[:, None] + column[None, :], mask=inside, other=0.0)
    if residual_ptr is not None:
        x += tl.load(residual_ptr + place, mask=inside, other=0.0)
        tl.store(residual_ptr + place, x, mask=inside)
    x = x.to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)

    mean_square = tl.sum(x * x, axis=1) / WIDTH
    out = x * tl.rsqrt(mean_square + eps)[:, None] * weight[None, :]
    tl.store(out_ptr + place, out, mask=inside)
