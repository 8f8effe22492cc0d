"""The Triton kernels on a GPU, beside torch and beside two ceilings measured in the same run.

    python -m benchmarks.kernels

Ceilings: how many bytes a second a copy of 1 GiB reads and writes, and how many FLOP a second a
product of two 8,192 x 8,192 matrices in bfloat16 does. A kernel's bytes and FLOPs come from
`lab.ledgers.kernels`, so `of copy` and `of matrix` are shares of what this GPU can do; `torch` is
the time of torch's best way to compute the same, divided by the kernel's: above 1 the kernel is
faster. Times are medians of runs, each after the cache was overwritten. Results are written to
benchmarks/results/<device>.json, with device, versions and date.

Aims for an H200: rms_norm and rope_store 90 % of the copy from 64 MiB on; paged_attention 80 % at
long contexts; flash_attention 450 TFLOP/s at head width 128 and 8,192 tokens, and 70 % of torch's
best; quantized_matmul in 4 bits 2.5 times as fast as float16 for up to 16 tokens. Not yet measured.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels import (
    Context,
    flash_attention,
    paged_attention,
    quantized_matmul,
    rms_norm,
    rope_store,
)
from kernels.quantized_matmul import pack_int4
from kernels.rejection_sample import launch as launch_drafts
from lab.ledgers import kernels as ledger
from lab.ledgers.kernels import KernelWork
from lab.ledgers.sizes import GB, TFLOP, GiB, MiB

RESULTS = Path(__file__).parent / "results"
HEADS, KV_HEADS, WIDTH, BLOCK = 32, 8, 128, 16
SIZES = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": WIDTH}


class Case(NamedTuple):
    """One kernel at one size, and the ways in which torch computes the same."""

    name: str
    run: Callable[[], object]
    work: KernelWork
    peers: dict[str, Callable[[], object]]


class Ceilings(NamedTuple):
    """What this GPU does at best."""

    bytes_per_s: float
    flops_per_s: float


def seconds(run: Callable[[], object], repeats: int = 50) -> float:
    """The median time of a call on the GPU, from a captured graph, with a cold cache."""
    flush = torch.empty(256 * MiB, dtype=torch.int8, device="cuda")
    for _ in range(5):
        run()
    graph = torch.cuda.CUDAGraph()  # what Python needs to start a kernel is not the kernel's time
    with torch.cuda.graph(graph):
        run()
    spans = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        begin.record()
        graph.replay()
        end.record()
        spans.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in spans) / 1000


def ceilings() -> Ceilings:
    """A copy, and a product of matrices."""
    source = torch.empty(GiB, dtype=torch.int8, device="cuda").random_()
    target = torch.empty_like(source)
    a, b = normal(8192, 8192), normal(8192, 8192)
    return Ceilings(
        bytes_per_s=2 * GiB / seconds(lambda: target.copy_(source)),
        flops_per_s=2 * 8192**3 / seconds(lambda: a @ b),
    )


def normal(*shape: int) -> Tensor:
    """Numbers of both signs: zeros would be multiplied faster."""
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def cases() -> Iterator[Case]:
    """All kernels, each at the sizes at which its aim is stated."""
    yield from norms()
    yield ropes()
    for sequences, length in ((1, 32_768), (16, 8192), (64, 4096)):
        yield decodes(sequences, length)
    for tokens in (2048, 8192):
        yield prefill(tokens)
    for tokens in (1, 16, 512):
        for bits in (8, 4):
            yield product(tokens, bits)
    yield drafts()


def norms() -> Iterator[Case]:
    """8,192 rows of 4,096: 64 MiB, alone and with the residual."""
    x_TD, weight_D, residual_TD = normal(8192, 4096), normal(4096), normal(8192, 4096)
    peer = {"F.rms_norm": lambda: F.rms_norm(x_TD, (4096,), weight_D, 1e-6)}
    yield Case(
        "rms_norm 8192 x 4096",
        lambda: rms_norm(x_TD, weight_D),
        ledger.rms_norm_work(8192, 4096),
        peer,
    )
    peer = {"add, F.rms_norm": lambda: F.rms_norm(residual_TD.add_(x_TD), (4096,), weight_D, 1e-6)}
    yield Case(
        "rms_norm 8192 x 4096, residual",
        lambda: rms_norm(x_TD, weight_D, 1e-6, residual_TD),
        ledger.rms_norm_work(8192, 4096, residual=True),
        peer,
    )


def ropes() -> Case:
    """8,192 tokens: 96 MiB of queries, keys and values."""
    tokens = 8192
    qkv_THE = normal(tokens, HEADS + 2 * KV_HEADS, WIDTH)
    cache_NB2KE = normal(tokens // BLOCK, BLOCK, 2, KV_HEADS, WIDTH)
    angles_TP = torch.rand(tokens, WIDTH // 2, device="cuda")
    turn_TP = torch.polar(torch.ones_like(angles_TP), angles_TP)
    slots_T = torch.randperm(tokens, device="cuda")
    return Case(
        f"rope_store {tokens} tokens",
        lambda: rope_store(qkv_THE, turn_TP, slots_T, cache_NB2KE),
        ledger.rope_store_work(tokens, **SIZES),
        {},
    )


def decodes(sequences: int, length: int) -> Case:
    """One query each, blocks in disorder; torch has the same K and V in one piece."""
    blocks = sequences * length // BLOCK
    cache_NB2KE = normal(blocks, BLOCK, 2, KV_HEADS, WIDTH)
    tables = torch.randperm(blocks).view(sequences, -1).tolist()
    context = Context.of(tables, [1] * sequences, [length] * sequences, cache_NB2KE)
    q_SHE = normal(sequences, HEADS, WIDTH)
    k, v = (normal(sequences, KV_HEADS, length, WIDTH) for _ in range(2))
    return Case(
        f"paged_attention {sequences} x {length}",
        lambda: paged_attention(q_SHE, cache_NB2KE, context),
        ledger.paged_attention_work([length] * sequences, **SIZES),
        {
            f"SDPA {kind.name}": attention(kind, q_SHE[:, :, None], k, v, causal=False)
            for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)
        },
    )


def prefill(tokens: int) -> Case:
    """One prompt, causal."""
    blocks = tokens // BLOCK
    cache_NB2KE = normal(blocks, BLOCK, 2, KV_HEADS, WIDTH)
    context = Context.of([torch.randperm(blocks).tolist()], [tokens], [tokens], cache_NB2KE)
    q_THE = normal(tokens, HEADS, WIDTH)
    k, v = (normal(1, KV_HEADS, tokens, WIDTH) for _ in range(2))
    q = q_THE.transpose(0, 1)[None].contiguous()
    return Case(
        f"flash_attention {tokens} causal",
        lambda: flash_attention(q_THE, cache_NB2KE, context),
        ledger.flash_attention_work([tokens], [tokens], **SIZES),
        {
            f"SDPA {kind.name}": attention(kind, q, k, v, causal=True)
            for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)
        },
    )


def attention(
    kind: SDPBackend, q: Tensor, k: Tensor, v: Tensor, *, causal: bool
) -> Callable[[], object]:
    """torch's attention by one backend."""

    def run() -> Tensor:
        with sdpa_kernel(kind):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    return run


def product(tokens: int, bits: int) -> Case:
    """4,096 inputs, 28,672 outputs; torch multiplies with 16-bit weights."""
    inputs, outputs, group = 4096, 28_672, 128
    most = 2 ** (bits - 1)
    codes = torch.randint(-most, most, (outputs, inputs), device="cuda").to(torch.int8)
    scale = (
        torch.rand(outputs, device="cuda")
        if bits == 8
        else torch.rand(outputs, inputs // group, device="cuda")
    )
    codes = codes if bits == 8 else pack_int4(codes, group)
    x_TD, weight_FD = normal(tokens, inputs), normal(outputs, inputs)
    return Case(
        f"quantized_matmul int{bits}, {tokens} tokens",
        lambda: quantized_matmul(x_TD, codes, scale),
        ledger.quantized_matmul_work(
            tokens, inputs, outputs, bits=bits, group=None if bits == 8 else group
        ),
        {"matmul bf16": lambda: F.linear(x_TD, weight_FD)},
    )


def drafts() -> Case:
    """64 sequences, 4 drafts, all of them rejected at once."""
    draft_SKV = torch.rand(64, 4, 128_256, device="cuda").softmax(-1)
    target_SQV = torch.rand(64, 5, 128_256, device="cuda").softmax(-1)
    target_SQV[:, :, 0] = 0
    written = [torch.zeros(64, dtype=torch.long, device="cuda") for _ in range(2)]
    ids_SK = torch.zeros(64, 4, dtype=torch.long, device="cuda")
    counts_S = torch.full((64,), 4, device="cuda")
    uniforms_SQ = torch.rand(64, 5, device="cuda")
    given = launch_drafts(*written, ids_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ)
    return Case(
        "rejection_sample 64 x 128256",
        given.start,
        ledger.rejection_sample_work([4] * 64, [0] * 64, vocab=128_256),
        {},
    )


def measured(case: Case, top: Ceilings) -> dict[str, Any]:
    """One row: rates of the kernel, shares of the ceilings, and torch beside it."""
    taken = seconds(case.run)
    row: dict[str, Any] = {
        "case": case.name,
        "us": taken * 1e6,
        "GB_per_s": case.work.bytes_moved / taken / GB,
        "TFLOP_per_s": case.work.operations / taken / TFLOP,
        "of_copy": case.work.bytes_moved / taken / top.bytes_per_s,
        "of_matrix": case.work.operations / taken / top.flops_per_s,
    }
    for name, peer in case.peers.items():
        try:
            row[f"torch: {name}"] = seconds(peer) / taken
        except RuntimeError as error:  # a backend that does not take these shapes says so
            row[f"torch: {name}"] = str(error).splitlines()[0]
    return row


def main() -> int:
    """Measure, print, write; 2 where there is no GPU."""
    if not torch.cuda.is_available():
        print("benchmarks/kernels.py needs a GPU that torch and Triton know", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    top = ceilings()
    device = torch.cuda.get_device_name()
    rates = f"copy {top.bytes_per_s / GB:.0f} GB/s, matrix {top.flops_per_s / TFLOP:.0f} TFLOP/s"
    print(f"{device}: {rates}")
    rows = []
    for case in cases():
        rows.append(measured(case, top))
        print(
            "  ".join(
                f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()
            )
        )
    RESULTS.mkdir(exist_ok=True)
    found = {
        "device": device,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("torch", "triton")},
        "ceilings": top._asdict(),
        "rows": rows,
    }
    file = RESULTS / f"{device.replace(' ', '-')}.json"
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"written to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
