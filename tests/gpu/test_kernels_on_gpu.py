"""Every kernel on a GPU, at the sizes of a model, in all formats: against torch in float64.

The tests of `tests/test_kernels_*.py` run there as well; here stand the tiles of real widths, and
bfloat16.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton exists for Linux only")
sys.path.insert(0, str(Path(__file__).parents[1]))

from kernel_checks import Batch, assert_within_budget, batch, drawn, running

from kernels import (
    flash_attention,
    paged_attention,
    quantized_matmul,
    rejection_sample,
    rms_norm,
    rope_store,
)
from kernels.context import Context
from kernels.quantized_matmul import pack_int4

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, and there is none"),
]
FORMATS = [torch.float32, torch.float16, torch.bfloat16]
WIDTHS = [64, 128, 256]


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("width", [128, 4096, 5120, 16_384])
def test_rms_norm(width: int, dtype: torch.dtype) -> None:
    x_TD, weight_D = drawn(777, width, dtype=dtype), drawn(width, dtype=dtype)
    with running("torch"):
        exact, rounded = rms_norm(x_TD.double(), weight_D.double()), rms_norm(x_TD, weight_D)
    with running("triton"):
        assert_within_budget(rms_norm(x_TD, weight_D), exact, rounded)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_rope_store(width: int, dtype: torch.dtype) -> None:
    qkv_THE = drawn(333, 48, width, dtype=dtype)
    angles_TP = drawn(333, width // 2) * 100
    turn_TP = torch.polar(torch.ones_like(angles_TP), angles_TP)
    slots_T = torch.randperm(400, device=qkv_THE.device)[:333]

    def run(body: str, kind: torch.dtype) -> Tensor:
        qkv, turn = qkv_THE.to(kind, copy=True), turn_TP
        cache = torch.zeros(25, 16, 2, 8, width, dtype=kind, device=qkv.device)
        with running(body):
            rope_store(
                qkv, turn.to(torch.complex128) if kind == torch.float64 else turn, slots_T, cache
            )
        return torch.cat((qkv[:, :32].flatten(), cache.flatten()))

    assert_within_budget(run("triton", dtype), run("torch", torch.float64), run("torch", dtype))


def assert_attention(operation: Callable[..., Tensor], given: Batch) -> None:
    q_THE, cache_NB2KE, tables = given.q_THE, given.finite(), given.tables
    sizes = given.context.queries, given.context.lengths
    exact_cache = cache_NB2KE.double()
    context = Context.of(tables, *sizes, exact_cache, causal=given.context.causal)
    with running("torch"):
        exact = operation(q_THE.double(), exact_cache, context)
        rounded = operation(q_THE, cache_NB2KE, given.context)
    with running("triton"):
        assert_within_budget(operation(q_THE, given.cache_NB2KE, given.context), exact, rounded)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("heads", [(32, 8), (8, 8), (16, 1)], ids=str)
def test_paged_attention(heads: tuple[int, int], width: int, dtype: torch.dtype) -> None:
    lengths = [1, 511, 512, 513, 3000]
    given = batch([1] * 5, lengths, heads=heads, width=width, block_tokens=16, dtype=dtype)
    assert_attention(paged_attention, given)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention(causal: bool, width: int, dtype: torch.dtype) -> None:
    given = batch(
        [700, 0, 1, 129, 64], [700, 9, 400, 1000, 64],
        heads=(32, 8), width=width, block_tokens=16, dtype=dtype, causal=causal,
    )  # fmt: skip
    assert_attention(flash_attention, given)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("tokens", [1, 16, 17, 300])
def test_quantized_matmul(tokens: int, bits: int, dtype: torch.dtype) -> None:
    most = 2 ** (bits - 1)
    x_TD = drawn(tokens, 4096, dtype=dtype)
    codes = torch.randint(-most, most, (1000, 4096), device=x_TD.device).to(torch.int8)
    scale = drawn(1000).abs() if bits == 8 else drawn(1000, 32).abs()
    codes = codes if bits == 8 else pack_int4(codes, 128)
    with running("torch"):
        exact = quantized_matmul(x_TD.double(), codes, scale)
        rounded = quantized_matmul(x_TD, codes, scale)
    with running("triton"):
        assert_within_budget(quantized_matmul(x_TD, codes, scale), exact, rounded)


def test_rejection_sample() -> None:
    draft_SKV, target_SQV = drawn(64, 4, 128_256).softmax(-1), drawn(64, 5, 128_256).softmax(-1)
    target_SQV[:, :2] = draft_SKV[:, :2]  # so that some drafts stand
    drafts_SK = torch.multinomial(draft_SKV.flatten(0, 1), 1).view(64, 4).tolist()
    drafts = [tokens[: s % 5] for s, tokens in enumerate(drafts_SK)]
    uniforms = [torch.rand(len(tokens) + 1).tolist() for tokens in drafts]
    given = drafts, uniforms, draft_SKV, target_SQV
    with running("torch"):
        wanted = rejection_sample(*given)
    with running("triton"):
        got = rejection_sample(*given)
    assert got.accepted == wanted.accepted
    same = [a == b for a, b in zip(got.following, wanted.following, strict=True)]
    assert sum(same) > 0.9 * len(same)  # the others are near a border of two tokens
