"""Safetensors folders: single and sharded, tied and untied, and every fault by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from model_folders import hf_model, save
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.model.checkpoint import INDEX, SINGLE, read_weights
from lab.model.config import ModelConfig
from lab.model.weights import Weights


def read(folder: Path, dtype: torch.dtype = torch.float32) -> Weights:
    return read_weights(folder, ModelConfig.read(folder), dtype)


def edit(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    tensors = load_file(folder / SINGLE)
    change(tensors)
    save_file(tensors, folder / SINGLE, metadata={"format": "pt"})


def test_matrices_that_read_the_same_input_lie_in_one(tmp_path: Path) -> None:
    model = hf_model("llama")
    weights = read(save(model, tmp_path))
    theirs, ours = model.model.layers[1], weights.layers[1]
    key = 2 * 8
    assert torch.equal(ours.qkv[-key:], theirs.self_attn.v_proj.weight)
    assert torch.equal(ours.gate_up[:80], theirs.mlp.gate_proj.weight)
    assert torch.equal(ours.gate_up[80:], theirs.mlp.up_proj.weight)
    assert torch.equal(weights.head_VD, model.lm_head.weight)


def test_pairs_that_are_turned_together_lie_together(tmp_path: Path) -> None:
    model = hf_model("llama")
    ours = read(save(model, tmp_path)).layers[0].qkv
    q = model.model.layers[0].self_attn.q_proj.weight
    head = 3 * 8  # the fourth query head
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    assert torch.equal(ours[head : head + 8], q[[head + e for e in order]])


def test_a_sharded_folder_holds_the_same_weights(tmp_path: Path) -> None:
    model = hf_model("qwen3")
    whole = read(save(model, tmp_path / "whole"))
    save(model, tmp_path / "sharded", max_shard_size="20KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 2
    parts = read(tmp_path / "sharded")
    assert torch.equal(whole.embed_VD, parts.embed_VD)
    for ours, theirs in zip(whole.layers, parts.layers, strict=True):
        assert torch.equal(ours.qkv, theirs.qkv)
        assert torch.equal(ours.down, theirs.down)


def test_a_tied_head_is_the_embedding_itself(tmp_path: Path) -> None:
    tied = read(save(hf_model("llama", tie_word_embeddings=True), tmp_path / "tied"))
    assert tied.head_VD is tied.embed_VD
    untied = read(save(hf_model("llama"), tmp_path / "untied"))
    assert not torch.equal(untied.head_VD, untied.embed_VD)


def test_the_format_is_chosen_by_the_reader(tmp_path: Path) -> None:
    model = hf_model("llama").half()
    weights = read(save(model, tmp_path), torch.float64)
    assert weights.embed_VD.dtype == torch.float64
    assert torch.equal(weights.embed_VD.half(), model.model.embed_tokens.weight)


def test_weights_outlive_their_file(tmp_path: Path) -> None:
    weights = read(save(hf_model("llama"), tmp_path))
    kept = weights.embed_VD.clone()
    (tmp_path / SINGLE).write_bytes(b"\0" * (tmp_path / SINGLE).stat().st_size)
    assert torch.equal(weights.embed_VD, kept)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    save(hf_model("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.__delitem__(name))
    with pytest.raises(ValueError, match=f"has no tensor '{name}'"):
        read(tmp_path)


def test_a_wrong_shape_is_named_with_both(tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.k_proj.weight"
    save(hf_model("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({name: torch.zeros(16, 47)}))
    with pytest.raises(ValueError, match=rf"{name} must have the shape \(16, 48\), got \(16, 47\)"):
        read(tmp_path)


def test_a_tensor_that_nobody_would_use_is_named(tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.q_proj.bias"
    save(hf_model("llama"), tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({name: torch.zeros(48)}))
    with pytest.raises(ValueError, match=f"holds '{name}', which LlamaForCausalLM has no use for"):
        read(tmp_path)


def test_what_older_checkpoints_keep_besides_is_no_fault(tmp_path: Path) -> None:
    save(hf_model("llama", tie_word_embeddings=True), tmp_path)
    extra = {"lm_head.weight": torch.zeros(61, 48)}
    extra["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    edit(tmp_path, lambda tensors: tensors.update(extra))
    read(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    save(hf_model("llama"), tmp_path, max_shard_size="20KB")
    next(tmp_path.glob("*-00002-of-*.safetensors")).unlink()
    with pytest.raises(ValueError, match=r"00002-of-.*safetensors is not there"):
        read(tmp_path)
    (tmp_path / INDEX).unlink()
    with pytest.raises(ValueError, match=rf"{SINGLE} is not there: weights are in {SINGLE} or"):
        read(tmp_path)
