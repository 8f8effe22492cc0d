"""The decoder beside transformers, and any step beside the plain computation of one sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_folders import hf_model, save
from test_rope import VARIANTS
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel

from lab.model.checkpoint import read_weights
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder, greedy_oracle
from lab.model.flat_batch import FlatBatch, Span
from lab.model.kv_tensors import KVTensors
from lab.model.weights import Weights

# Beside transformers

LAYOUTS = {
    "GQA": {},
    "MHA": {"num_key_value_heads": 6},
    "MQA": {"num_key_value_heads": 1},
    "wide heads": {"head_dim": 14},
    "tied": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True},
    **{f"rope {variant}": {"rope_parameters": rope} for variant, rope in VARIANTS.items()},
}
CASES = [
    *(("llama", layout) for layout in LAYOUTS),
    *(("qwen3", layout) for layout in ("GQA", "MHA", "MQA", "wide heads", "tied", "rope yarn")),
    *(("qwen2", layout) for layout in ("GQA", "tied")),
    ("mistral", "GQA"),
]
IDS = torch.randint(0, 61, (75,), generator=torch.Generator().manual_seed(7))


def in_double(model: PreTrainedModel) -> PreTrainedModel:
    """The model with nothing left in float32: as it comes, its norms and angles stay there.

    The rates are taken from `lab`, since theirs are rounded; `test_rope.py` compares them.
    """
    for module in model.double().modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(_norm, module)
    model.model.rotary_emb.forward = MethodType(_angles, model.model.rotary_emb)
    return model


def _norm(self: Any, x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + self.variance_epsilon).sqrt() * self.weight


def _angles(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    angles = position_ids[..., None].double() * self.exact_rates
    return tuple(
        torch.cat((t, t), -1) * self.attention_scaling for t in (angles.cos(), angles.sin())
    )


def logits_of(model: PreTrainedModel) -> Tensor:
    with torch.inference_mode():
        return model(IDS[None], use_cache=False).logits[0]


def all_logits(decoder: Decoder, ids: Tensor = IDS) -> Tensor:
    """Logits after every token, in one step over blocks of 16 in disorder."""
    blocks = -(-len(ids) // 16)
    kv = KVTensors(decoder.config, blocks + 2, 16, decoder.dtype)
    table = tuple(reversed(range(1, blocks + 1)))
    return decoder.forward(ids, FlatBatch.of([Span(len(ids), len(ids), table, len(ids))], kv), kv)


def rms(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt())


def decoder_of(folder: Path, dtype: torch.dtype) -> Decoder:
    config = ModelConfig.read(folder)
    return Decoder(config, read_weights(folder, config, dtype))


@pytest.mark.parametrize(("family", "layout"), CASES)
def test_logits_are_those_of_transformers(family: str, layout: str, tmp_path: Path) -> None:
    model = hf_model(family, **LAYOUTS[layout])
    exact, single = (decoder_of(save(model, tmp_path), d) for d in (torch.float64, torch.float32))
    theirs = logits_of(model)
    model.model.rotary_emb.exact_rates = exact.config.rope.rates(exact.config.head_dim)
    wanted = logits_of(in_double(model))
    assert rms(all_logits(exact) - wanted) < 1e-12 * rms(wanted)
    assert rms(all_logits(single) - wanted) < 3 * rms(theirs - wanted)


@pytest.fixture
def llama(tmp_path: Path) -> tuple[Decoder, Tensor]:
    model = hf_model("llama")
    decoder = decoder_of(save(model, tmp_path), torch.float64)
    model.model.rotary_emb.exact_rates = decoder.config.rope.rates(decoder.config.head_dim)
    return decoder, logits_of(in_double(model))


def test_a_slightly_wrong_model_would_be_found(llama: tuple[Decoder, Tensor]) -> None:
    decoder, wanted = llama
    config, weights = decoder.config, decoder.weights
    theta = replace(config, rope=replace(config.rope, rope_theta=10_001.0))
    eps = replace(config, norm_eps=1.1e-6)
    layer = weights.layers[1]
    heads = layer.qkv.clone()
    heads[:8], heads[8:16] = layer.qkv[8:16], layer.qkv[:8]  # two query heads of one KV head
    swapped = replace(weights, layers=(weights.layers[0], replace(layer, qkv=heads)))
    for wrong in (Decoder(theta, weights), Decoder(eps, weights), Decoder(config, swapped)):
        assert rms(all_logits(wrong) - wanted) > 1e-9 * rms(wanted)


# Any step beside one sequence alone

CONFIG = ModelConfig(
    layers=2, hidden=16, ffn=20, heads=4, kv_heads=2, head_dim=6, vocab=29, qk_norm=True
)
DECODER = Decoder(CONFIG, Weights.random(CONFIG, seed=0, dtype=torch.float64))


def alone(ids: Sequence[int]) -> Tensor:
    """Logits after every token of one sequence: one step, one block, nothing cached before."""
    kv = KVTensors(CONFIG, 1, len(ids), torch.float64)
    span = Span(len(ids), len(ids), (0,), len(ids))
    return DECODER.forward(torch.tensor(ids), FlatBatch.of([span], kv), kv)


def steps_of(tokens: int, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[0, tokens) in pieces."""
    yield from pairwise(sorted({0, tokens, *(cut for cut in cuts if cut < tokens)}))


@st.composite
def schedules(draw: st.DrawFn) -> tuple[int, list[list[int]], list[list[tuple[int, int]]]]:
    """A block size, sequences with lengths around block boundaries, and their chunks."""
    block = draw(st.integers(1, 5))
    near = st.builds(lambda k, d: max(1, k * block + d), st.integers(0, 4), st.integers(-1, 1))
    lengths = draw(st.lists(near, min_size=1, max_size=5))
    ids = [draw(st.lists(st.integers(0, 28), min_size=n, max_size=n)) for n in lengths]
    cuts = [draw(st.lists(st.integers(1, 20), max_size=4)) for _ in lengths]
    return block, ids, [list(steps_of(n, c)) for n, c in zip(lengths, cuts, strict=True)]


@given(schedules(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_any_mix_of_chunks_gives_the_logits_of_each_sequence_alone(
    schedule: tuple[int, list[list[int]], list[list[tuple[int, int]]]], dice: Any
) -> None:
    block, ids, pending = schedule
    blocks = sum(-(-len(one) // block) for one in ids)
    kv = KVTensors(CONFIG, blocks, block, torch.float64)
    free = list(range(blocks))
    dice.shuffle(free)
    tables = [[free.pop() for _ in range(-(-len(one) // block))] for one in ids]
    wanted = [alone(one) for one in ids]
    while going := [n for n, chunks in enumerate(pending) if chunks]:
        chosen = dice.sample(going, dice.randint(1, len(going)))
        chunks = {n: pending[n].pop(0) for n in chosen}
        asked = {n: dice.randint(0, stop - start) for n, (start, stop) in chunks.items()}
        spans = [Span(b - a, b, tables[n], asked[n]) for n, (a, b) in chunks.items()]
        new = kv.index(i for n, (a, b) in chunks.items() for i in ids[n][a:b])
        logits = DECODER.forward(new, FlatBatch.of(spans, kv), kv)
        rows = [wanted[n][b - asked[n] : b] for n, (_, b) in chunks.items()]
        torch.testing.assert_close(logits, torch.cat(rows), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("block", [1, 4, 7])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_greedy_ids_with_a_cache_are_the_oracles(block: int, offset: int) -> None:
    prompt = [(5 * n + 2) % 29 for n in range(2 * block + offset)]
    wanted = greedy_oracle(DECODER, prompt, 12)
    kv = KVTensors(CONFIG, 40, block, torch.float64)
    ids, done = list(prompt), 0
    for _ in range(12):
        batch = FlatBatch.of([Span(len(ids) - done, len(ids), range(39, 0, -1))], kv)
        logits_1V = DECODER.forward(kv.index(ids[done:]), batch, kv)
        done = len(ids)
        ids.append(int(logits_1V.argmax()))
    assert ids[len(prompt) :] == wanted
    assert len(set(wanted)) > 2


def test_a_cache_that_holds_somebody_elses_keys_would_be_found() -> None:
    ids = list(range(10))
    kv = KVTensors(CONFIG, 4, 4, torch.float64)
    DECODER.forward(kv.index(ids[:9]), FlatBatch.of([Span(9, 9, (0, 1, 2))], kv), kv)
    right = FlatBatch.of([Span(1, 10, (0, 1, 2))], kv)
    wrong = FlatBatch.of([Span(1, 10, (0, 3, 2))], kv)
    last = alone(ids)[-1:]
    torch.testing.assert_close(DECODER.forward(kv.index([9]), right, kv), last)
    assert not torch.allclose(DECODER.forward(kv.index([9]), wrong, kv), last)


def test_a_step_that_asks_for_nothing_still_fills_the_cache() -> None:
    ids = [3, 1, 4, 1, 5, 9]
    kv = KVTensors(CONFIG, 2, 4, torch.float64)
    first = FlatBatch.of([Span(5, 5, (1, 0), asked=0)], kv)
    assert DECODER.forward(kv.index(ids[:5]), first, kv).shape == (0, CONFIG.vocab)
    then = DECODER.forward(kv.index(ids[5:]), FlatBatch.of([Span(1, 6, (1, 0))], kv), kv)
    torch.testing.assert_close(then, alone(ids)[-1:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_formats_come_close(dtype: torch.dtype) -> None:
    ids = torch.tensor(range(20))
    small = Decoder(CONFIG, Weights.random(CONFIG, seed=0, dtype=dtype))
    wanted = all_logits(DECODER, ids)
    error = rms(all_logits(small, ids).double() - wanted) / rms(wanted)
    assert error < 20 * torch.finfo(dtype).eps
