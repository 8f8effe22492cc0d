"""The live engine on either body: the same greedy ids, and the choice between them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernels import choice, rms_norm

ROOT = Path(__file__).parents[1]
GENERATE = """
import lab
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.folder import Model
from lab.model.weights import Weights

config = ModelConfig(
    layers=2, hidden=32, ffn=48, heads=4, kv_heads=2, head_dim=12, vocab=61, qk_norm=True
)
model = Model("random", config, Decoder(config, Weights.random(config, seed=1)), None)
requests = [
    lab.Request(id=str(n), prompt=tuple((7 * n + 5 * k) % 61 for k in range(tokens)), max_tokens=3)
    for n, tokens in enumerate((3, 17))
]
policy = lab.Continuous(seats=2, token_budget=12, block_tokens=4)
trace = lab.serve(requests, policy, model)
print([trace[request.id].output for request in requests])
"""


def ids(body: str) -> str:
    environment = os.environ | {"LAB_KERNELS": body, "TRITON_INTERPRET": "1"}
    environment |= {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", GENERATE],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.skipif(choice.compiled is None, reason="Triton exists for Linux only")
def test_greedy_ids_are_the_same_with_both_bodies() -> None:
    in_torch = ids("torch")
    assert in_torch.count("[") == 3
    assert ids("triton") == in_torch


# The choice

ROW, WEIGHT = torch.ones(1, 4), torch.ones(4)


def test_on_a_cpu_torch_computes_unless_triton_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LAB_KERNELS", raising=False)
    assert not choice.runs_triton(ROW)
    monkeypatch.setenv("LAB_KERNELS", "torch")
    assert not choice.runs_triton(ROW)


def test_nothing_falls_back_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KERNELS", "cuda")
    with pytest.raises(ValueError, match="LAB_KERNELS must be torch or triton, got 'cuda'"):
        rms_norm(ROW, WEIGHT)
    monkeypatch.setenv("LAB_KERNELS", "triton")
    monkeypatch.setattr(choice, "compiled", None)
    with pytest.raises(ValueError, match="Triton is not installed here: set LAB_KERNELS=torch"):
        rms_norm(ROW, WEIGHT)


@pytest.mark.skipif(choice.compiled is None, reason="Triton exists for Linux only")
def test_triton_says_where_it_runs_and_what_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KERNELS", "triton")
    monkeypatch.setattr(choice.compiled, "INTERPRETED", False)
    with pytest.raises(ValueError, match=r"lies on cpu.*or TRITON_INTERPRET=1 before Python"):
        rms_norm(ROW, WEIGHT)
    monkeypatch.setattr(choice.compiled, "INTERPRETED", True)
    for dtype in (torch.bfloat16, torch.float64):
        with pytest.raises(ValueError, match=f"computes float32 and float16 here, got {dtype}"):
            rms_norm(ROW.to(dtype), WEIGHT.to(dtype))


def test_only_the_kernels_import_triton_and_nothing_imports_lab() -> None:
    for path in (ROOT / "kernels").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import lab" not in text
        assert "from lab" not in text
        if path.parent.name != "triton":
            assert "\nimport triton" not in text
            assert "\nfrom triton" not in text
