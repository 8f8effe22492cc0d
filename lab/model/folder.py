"""A model folder as one object: configuration, decoder and vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch

from lab.model.checkpoint import read_weights
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.tokenizer import Tokenizer

SHIPPED = {"tiny": "target", "tiny-draft": "draft"}
"""The pair in `lab/model/tiny/`, by name: a small model and a smaller one that guesses for it."""


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that a folder says about a model."""

    name: str
    config: ModelConfig
    decoder: Decoder
    tokenizer: Tokenizer


def loaded(model: Model | str | PathLike[str]) -> Model:
    """`model` itself, or the one of that name: what `load` takes."""
    return model if isinstance(model, Model) else load(model)


def where(folder: str | PathLike[str]) -> Path:
    """The folder itself, or that of the shipped model of this name. ValueError for neither."""
    path = Path(folder)
    if str(folder) in SHIPPED:
        path = Path(__file__).parent / "tiny" / SHIPPED[str(folder)]
    if not path.is_dir():
        raise ValueError(f"{folder} is neither a folder nor one of {', '.join(SHIPPED)}")
    return path


def load(
    folder: str | PathLike[str],
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Model:
    """The model in `folder`, in the layout of Hugging Face, or a shipped one: "tiny" and
    "tiny-draft".

    `dtype` is the format it computes in, whatever the files hold. ValueError, by name, for what is
    missing or not supported, and for a vocabulary that is larger than the model's.
    """
    path = where(folder)
    config, tokenizer = ModelConfig.read(path), Tokenizer.read(path)
    if tokenizer.size > config.vocab:
        raise ValueError(
            f"{folder}: tokenizer.json has {tokenizer.size} tokens, and the model {config.vocab}"
        )
    decoder = Decoder(config, read_weights(path, config, dtype, device))
    return Model(str(folder), config, decoder, tokenizer)
