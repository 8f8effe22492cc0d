"""Keys and values in blocks: where a slot lies, copies, swaps, and the bytes of the ledger."""

from __future__ import annotations

import pytest
import torch

from lab.ledgers.memory import kv_bytes
from lab.model.config import ModelConfig
from lab.model.kv_tensors import KVTensors

CONFIG = ModelConfig(
    layers=3, hidden=24, ffn=32, heads=4, kv_heads=2, head_dim=6, vocab=17, max_positions=64
)


def filled(num_blocks: int = 5, block_tokens: int = 4) -> KVTensors:
    """Blocks in which every number is another one."""
    kv = KVTensors(CONFIG, num_blocks, block_tokens)
    slots = num_blocks * block_tokens
    for layer in range(CONFIG.layers):
        numbers = torch.arange(slots * 24, dtype=torch.float32) + 10_000 * layer
        kv.layers[layer].view(-1).copy_(numbers)
    return kv


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_bytes_are_those_of_the_ledger(dtype: torch.dtype) -> None:
    kv = KVTensors(CONFIG, 7, 16, dtype)
    assert kv.num_bytes == kv_bytes(
        layers=3, tokens=7 * 16, kv_heads=2, head_dim=6, bytes_per_element=dtype.itemsize
    )


def test_keys_and_values_have_the_shape_of_blocks() -> None:
    kv = KVTensors(CONFIG, 7, 16)
    assert kv.k(2).shape == kv.v(0).shape == (7, 16, 2, 6)
    assert not kv.k(1).any()


def test_a_layer_is_what_the_kernels_take() -> None:
    kv = KVTensors(CONFIG, 5, 4)
    assert kv.layers[1].shape == (5, 4, 2, 2, 6)
    assert kv.layers[1].is_contiguous()
    kv.layers[1][3, 2, 0] = 1.0
    kv.layers[1][3, 2, 1] = 2.0
    assert torch.equal(kv.k(1)[3, 2], torch.ones(2, 6))
    assert torch.equal(kv.v(1)[3, 2], 2 * torch.ones(2, 6))
    assert not kv.k(0).any()
    assert not kv.k(2).any()


def test_blocks_are_copied_in_every_layer_as_they_were_before() -> None:
    kv, before = filled(), filled()
    kv.copy_blocks([(0, 3), (3, 1)])
    for layer in range(3):
        assert torch.equal(kv.k(layer)[3], before.k(layer)[0])
        assert torch.equal(kv.v(layer)[1], before.v(layer)[3])
        assert torch.equal(kv.k(layer)[[0, 2, 4]], before.k(layer)[[0, 2, 4]])
    kv.copy_blocks([])


def test_what_went_to_the_host_comes_back_into_other_blocks() -> None:
    kv, before = filled(), filled()
    saved = kv.to_host([2, 0])
    assert saved.nbytes == kv_bytes(
        layers=3, tokens=2 * 4, kv_heads=2, head_dim=6, bytes_per_element=4
    )
    kv.copy_blocks([(4, 2), (4, 0)])  # somebody else has the blocks meanwhile
    kv.from_host(saved, [1, 3])
    for layer in range(3):
        assert torch.equal(kv.k(layer)[1], before.k(layer)[2])
        assert torch.equal(kv.v(layer)[3], before.v(layer)[0])


def test_faults_are_named_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="num_blocks must be at least 1, got 0"):
        KVTensors(CONFIG, 0, 4)
    with pytest.raises(ValueError, match="block_tokens must be at least 1, got -1"):
        KVTensors(CONFIG, 2, -1)
    kv = filled()
    with pytest.raises(ValueError, match="2 blocks were saved, and 1 are given"):
        kv.from_host(kv.to_host([0, 1]), [0])


def test_what_is_cleared_is_zero_in_every_layer_and_the_rest_stays() -> None:
    kv, before = filled(), filled()
    kv.layers[1][3] = torch.nan
    kv.clear([3, 0])
    for layer, cache in enumerate(kv.layers):
        assert not cache[[0, 3]].any()
        assert torch.equal(cache[[1, 2, 4]], before.layers[layer][[1, 2, 4]])
    kv.clear([])
