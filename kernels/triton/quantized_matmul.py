"""Activations times quantized weights: few tokens read all weights, so fewer bits are less time.

Codes become numbers on the chip, exactly; scales are applied to sums. The product is computed as
weights x activations, so that the many rows of the weights fill the matrix unit, even for 1 token.
"""

import triton
import triton.language as tl


@triton.jit
def int8_matmul_kernel(
    out_ptr, x_ptr, codes_ptr, scale_ptr, num_tokens, x_stride,
    D: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr,
    STEP: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """One scale for each row of the weights. A program sums PART of the inputs."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    is_row, is_token = row < F, token < num_tokens
    begin = tl.program_id(2) * PART
    codes = codes_ptr + row.to(tl.int64)[:, None] * D
    x_places = x_ptr + token.to(tl.int64)[None, :] * x_stride

    sums = tl.zeros([ROWS, TOKENS], tl.float32)
    for start in range(begin, tl.minimum(begin + PART, D), STEP):
        d = start + tl.arange(0, STEP)
        mask = is_row[:, None] & (d < D)[None, :]
        w = tl.load(codes + d[None, :], mask=mask, other=0)
        mask = (d < D)[:, None] & is_token[None, :]
        x = tl.load(x_places + d[:, None], mask=mask, other=0.0)
        sums = tl.dot(w.to(x.dtype), x, sums, input_precision="ieee")

    scale = tl.load(scale_ptr + row, mask=is_row, other=0.0)
    place = (tl.program_id(2) * num_tokens + token).to(tl.int64)[None, :] * F + row[:, None]
    tl.store(out_ptr + place, sums * scale[:, None], mask=is_row[:, None] & is_token[None, :])


@triton.jit
def int4_matmul_kernel(
    out_ptr, x_ptr, codes_ptr, scale_ptr, num_tokens, x_stride,
    D: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr,
    STEP: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """One scale for each group of STEP inputs, whose first half lies in the low four bits."""
    HALF: tl.constexpr = STEP // 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    is_row, is_token = row < F, token < num_tokens
    begin = tl.program_id(2) * PART
    half = tl.arange(0, HALF)
    codes = codes_ptr + row.to(tl.int64)[:, None] * (D // 2) + half[None, :]
    scales = scale_ptr + row.to(tl.int64) * (D // STEP)
    x_places = x_ptr + token.to(tl.int64)[None, :] * x_stride + half[:, None]

    sums = tl.zeros([ROWS, TOKENS], tl.float32)
    for start in range(begin, tl.minimum(begin + PART, D), STEP):
        both = tl.load(codes + start // 2, mask=is_row[:, None], other=0)
        low = tl.load(x_places + start, mask=is_token[None, :], other=0.0)
        high = tl.load(x_places + start + HALF, mask=is_token[None, :], other=0.0)
        first = ((both & 15).to(tl.int8) - 8).to(low.dtype)
        second = ((both >> 4).to(tl.int8) - 8).to(low.dtype)
        part = tl.dot(first, low, input_precision="ieee")
        part = tl.dot(second, high, part, input_precision="ieee")
        sums += part * tl.load(scales + start // STEP, mask=is_row, other=0.0)[:, None]

    place = (tl.program_id(2) * num_tokens + token).to(tl.int64)[None, :] * F + row[:, None]
    tl.store(out_ptr + place, sums, mask=is_row[:, None] & is_token[None, :])
