"""Weights from safetensors files, single or sharded, without a second copy in memory."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from lab.model.config import ModelConfig
from lab.model.weights import Shard, Weights

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
NOT_NEEDED = ("rotary_emb.inv_freq",)  # older checkpoints keep what follows from config.json


def read_weights(
    folder: Path,
    config: ModelConfig,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
) -> Weights:
    """The weights in `folder`. Files are mapped into memory; each tensor is converted to `dtype`
    on its way to its place. Of a `shard`, whose config is given, nothing else is read.

    ValueError for a missing file, a missing tensor, a shape that is not the one config.json
    speaks of, and a tensor that the model would not use: each by its name.
    """
    with ExitStack() as opened:
        where = {}
        for file in _files(folder):
            held = opened.enter_context(safe_open(file, framework="pt", device="cpu"))
            where.update(dict.fromkeys(held.keys(), held))
        used = set()

        def read(name: str, shape: tuple[int, ...], place: Tensor) -> None:
            if name not in where:
                raise ValueError(f"{folder} has no tensor {name!r}")
            tensor = where[name].get_slice(name)
            found = tuple(tensor.get_shape())
            whole, part = shard.cut(name, shape) if shard else (shape, None)
            if found != whole:
                raise ValueError(f"{name} must have the shape {whole}, got {found}")
            place.copy_(tensor[part] if part else where[name].get_tensor(name))
            used.add(name)

        weights = Weights.read(config, read, dtype, device, shard)
        if shard is None:
            _refuse_what_was_not_used(folder, where.keys() - used, config)
    return weights


def _files(folder: Path) -> list[Path]:
    if (folder / INDEX).is_file():
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        files = [folder / name for name in sorted(set(index["weight_map"].values()))]
    else:
        files = [folder / SINGLE]
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} is not there: weights are in {SINGLE} or named by {INDEX}")
    return files


def _refuse_what_was_not_used(folder: Path, names: set[str], config: ModelConfig) -> None:
    """A bias or a norm that the architecture does not know would change every answer."""
    tied = {"lm_head.weight"} if config.tied_embeddings else set()
    unknown = sorted(n for n in names - tied if not n.endswith(NOT_NEEDED))
    if unknown:
        raise ValueError(
            f"{folder} holds {unknown[0]!r}, which {config.architecture} has no use for"
        )
