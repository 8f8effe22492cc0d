"""The live engine on a GPU: the same greedy ids with torch and with the kernels, on trained weights
and on a folder that transformers wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton exists for Linux only")
sys.path.insert(0, str(Path(__file__).parents[1]))

from kernel_checks import running
from model_folders import hf_model, save

import lab
from lab.model.checkpoint import read_weights
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.folder import Model, load

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, and there is none"),
]
DEVICE = "cuda"


def assert_one_answer(model: Model, tokens: int = 16) -> None:
    """Chunks, decodes and company, in float32: both bodies say the same."""
    vocab = model.config.vocab
    requests = [
        lab.Request(
            id=str(n),
            prompt=tuple((7 * n + 5 * k) % vocab for k in range(length)),
            max_tokens=tokens,
        )
        for n, length in enumerate((3, 17, 40, 65))
    ]
    said = []
    for body in ("torch", "triton"):
        with running(body):
            trace = lab.serve(requests, lab.Continuous(seats=3, token_budget=24), model)
        trace.check()
        said.append([trace[request.id].output for request in requests])
    assert said[0] == said[1]


def test_the_shipped_pair() -> None:
    for name in ("tiny", "tiny-draft"):
        assert_one_answer(load(name, torch.float32, DEVICE))


def test_a_folder_that_transformers_wrote(tmp_path: Path) -> None:
    for kind in ("llama", "qwen3"):
        folder = save(hf_model(kind), tmp_path / kind)
        config = ModelConfig.read(folder)
        decoder = Decoder(config, read_weights(folder, config, torch.float32, DEVICE))
        assert_one_answer(Model(kind, config, decoder, None), tokens=8)  # type: ignore[arg-type]
