"""Rotary positions and the write into the cache: against float64, in both bodies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernel_checks import (
    DEVICE,
    FLOATS,
    Number,
    assert_found,
    assert_within_budget,
    counted,
    drawn,
    running,
)

from kernels import reference, rope_store
from lab.ledgers.kernels import rope_store_work

SLOTS = [7, 0, 12, 3, 19]
LAYOUTS = {"MHA": (3, 3, 8), "GQA": (12, 3, 16), "MQA": (17, 1, 6), "odd": (2, 1, 20)}


def given(
    layout: tuple[int, int, int], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    heads, kv_heads, width = layout
    qkv_THE = drawn(5, heads + 2 * kv_heads, width, dtype=dtype)
    angles_TP = drawn(5, width // 2) * 10
    turn_TP = torch.polar(torch.full_like(angles_TP, 1.25), angles_TP)  # a magnitude, as in yarn
    cache_NB2KE = torch.full((5, 4, 2, kv_heads, width), float("nan"), dtype=dtype, device=DEVICE)
    return qkv_THE, turn_TP, torch.tensor(SLOTS, device=DEVICE), cache_NB2KE


def check(layout: tuple[int, int, int], dtype: torch.dtype) -> None:
    qkv_THE, turn_TP, slots_T, cache_NB2KE = given(layout, dtype)
    q, exact_cache = reference.rope_store(
        *(x.cpu() for x in (qkv_THE, turn_TP, slots_T, cache_NB2KE))
    )
    answers = {}
    for body in ("torch", "triton"):
        qkv, cache = qkv_THE.clone(), cache_NB2KE.clone()
        with running(body):
            rope_store(qkv, turn_TP, slots_T, cache)
        answers[body] = qkv[:, : layout[0]], cache.flatten(0, 1)[SLOTS], cache
    exact = q, exact_cache.flatten(0, 1)[SLOTS]
    for got, wanted, rounded in zip(answers["triton"], exact, answers["torch"], strict=False):
        assert_within_budget(got, wanted, rounded)
    for *_, cache in answers.values():
        assert torch.equal(cache.isnan().cpu(), exact_cache.isnan()), "somebody else's slot"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_are_turned_and_keys_and_values_stored(layout: str, dtype: torch.dtype) -> None:
    check(LAYOUTS[layout], dtype)


def test_no_tokens_are_no_work() -> None:
    _, _, _, cache = given((3, 3, 8), torch.float32)
    for body in ("torch", "triton"):
        with running(body):
            turn = torch.polar(drawn(0, 4), drawn(0, 4))
            rope_store(drawn(0, 9, 8), turn, torch.tensor([], dtype=torch.long), cache)
    assert cache.isnan().all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a * cos[None, :] - b", "a * cos[None, :] + b"),
        ("(head < TURNED)", "(head < ALL)"),
        ("(head < TURNED)", "(head < HEADS)"),
        ("token * WIDTH + element", "element"),
        ("token * (ALL * WIDTH)", "token * (TURNED * WIDTH)"),
        ("is_head & (head >= HEADS)", "is_head & (head > HEADS)"),
    ],
)
def test_a_slightly_wrong_kernel_is_found(old: str, new: str, tmp_path: Path) -> None:
    assert_found("rope_store", old, new, tmp_path, lambda: check((12, 3, 16), torch.float16))


def test_bytes_are_those_of_the_ledger() -> None:
    qkv_THE, turn_TP, slots_T, cache_NB2KE = given((12, 3, 16), torch.float16)
    work = rope_store_work(5, heads=12, kv_heads=3, head_dim=16)
    with running("triton"), counted() as counts:
        rope_store(qkv_THE, turn_TP, slots_T, cache_NB2KE)
    assert (counts.bytes_read, counts.bytes_written) == (work.bytes_read, work.bytes_written)


def test_operations_are_those_of_the_ledger() -> None:
    Number.operations = 0
    for _ in range(5 * (4 + 2)):
        for _ in range(3):
            a, b, cos, sin = (Number(x) for x in (1.0, 2.0, 0.6, 0.8))
            assert [a * cos - b * sin, a * sin + b * cos]
    work = rope_store_work(5, heads=4, kv_heads=2, head_dim=6)
    assert Number.operations == work.operations


def test_faults_are_named_with_the_shapes() -> None:
    qkv, turn, slots, cache = given((3, 3, 8), torch.float32)
    with pytest.raises(ValueError, match=r"got \[5, 6, 8\] and \[5, 4, 2, 3, 8\]"):
        rope_store(qkv[:, 3:], turn, slots, cache)
    with pytest.raises(ValueError, match=r"5 tokens of width 8, got \[4, 4\] in torch.complex64"):
        rope_store(qkv, turn[1:], slots, cache)
    with pytest.raises(ValueError, match=r"got \[5, 4\] in torch.float32"):
        rope_store(qkv, turn.real, slots, cache)
    with pytest.raises(ValueError, match=r"a contiguous qkv and cache, got strides \(72, 8, 1\)"):
        rope_store(drawn(10, 9, 8)[:5, :, :], turn, slots, cache.transpose(0, 1))
