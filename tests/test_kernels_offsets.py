"""Addresses beyond 2^31 elements: the caches of large machines are longer than an int32 can say.

Memory that nobody touches costs nothing, so the whole range can be laid out here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernel_checks import DEVICE, drawn, mutant, running

from kernels import Context, flash_attention, paged_attention, rms_norm, rope_store

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="a GPU's memory is not laid out untouched")
BLOCK = 16 * 2 * 2 * 16  # elements: 16 slots, K and V, 2 heads of 16
FAR = 2**31 // BLOCK + 5  # a block that begins beyond


@pytest.fixture(scope="module")
def far() -> Tensor:
    """More than 2^31 float16: zero where they begin, untouched behind."""
    memory = torch.empty((FAR + 1) * BLOCK, dtype=torch.float16)
    memory[: 8 * BLOCK] = 0
    return memory


def test_both_attentions_read_blocks_far_away(far: Tensor) -> None:
    cache_NB2KE = far.view(FAR + 1, 16, 2, 2, 16)
    near_NB2KE = drawn(1, 16, 2, 2, 16, dtype=torch.float16)
    cache_NB2KE[FAR] = near_NB2KE[0]
    q_THE = drawn(1, 4, 16, dtype=torch.float16)
    for attention in (paged_attention, flash_attention):
        with running("triton"):
            got = attention(q_THE, cache_NB2KE, Context.of([[FAR]], [1], [13], cache_NB2KE))
            near = attention(q_THE, near_NB2KE, Context.of([[0]], [1], [13], near_NB2KE))
        assert torch.equal(got, near)


def test_keys_and_values_are_stored_far_away(far: Tensor) -> None:
    cache_NB2KE = far.view(FAR + 1, 16, 2, 2, 16)
    qkv_THE = drawn(1, 8, 16, dtype=torch.float16)
    with running("triton"):
        turn_TP = torch.ones(1, 8, dtype=torch.complex64)
        rope_store(qkv_THE, turn_TP, torch.tensor([FAR * 16 + 15]), cache_NB2KE)
    assert torch.equal(cache_NB2KE[FAR, 15].flatten(0, 1), qkv_THE[0, 4:])


def test_rows_far_apart_are_normalized(far: Tensor) -> None:
    x_TD = far.as_strided((3, 8), (2**30 + 8, 1))
    x_TD.copy_(drawn(3, 8, dtype=torch.float16))
    weight_D = drawn(8, dtype=torch.float16)
    with running("triton"):
        assert torch.equal(rms_norm(x_TD, weight_D), rms_norm(x_TD.contiguous(), weight_D))


def test_offsets_in_32_bits_would_be_found(far: Tensor, tmp_path: Path) -> None:
    """A slot that wraps around comes back to the beginning, where there is nothing."""
    cache_NB2KE = far.view(FAR + 1, 16, 2, 2, 16)
    q_THE = drawn(1, 4, 16, dtype=torch.float16)
    context = Context.of([[FAR]], [1], [13], cache_NB2KE)
    with running("triton"):
        got = paged_attention(q_THE, cache_NB2KE, context)
        wraps = "((block * BLOCK_TOKENS + position % BLOCK_TOKENS) * SLOT).to(tl.uint32)"
        right = "(block.to(tl.int64) * BLOCK_TOKENS + position % BLOCK_TOKENS) * SLOT"
        with mutant("tile", right, f"{wraps} % 2**31", tmp_path):
            assert not torch.equal(paged_attention(q_THE, cache_NB2KE, context), got)
