"""A model folder as one object, made by transformers, and the shipped pair by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from model_folders import hf_model, save
from test_tokenizer import bytes_tokenizer

from lab.model.decoder import greedy_oracle
from lab.model.folder import load


def folder(path: Path, family: str = "llama", vocab: int = 258, **how: object) -> Path:
    save(hf_model(family, vocab_size=vocab), path, **how)
    bytes_tokenizer().save(str(path / "tokenizer.json"))
    return path


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("shard", ["1GB", "40KB"])
def test_a_folder_saved_by_transformers_answers_as_it_does_there(
    family: str, shard: str, tmp_path: Path
) -> None:
    model = load(folder(tmp_path, family, max_shard_size=shard))
    prompt = model.tokenizer.encode("Is it so?")
    theirs = hf_model(family, vocab_size=258).generate(
        torch.tensor([prompt]), max_new_tokens=12, min_new_tokens=12, do_sample=False
    )
    assert greedy_oracle(model.decoder, prompt, 12) == theirs[0, len(prompt) :].tolist()


def test_it_computes_in_the_format_asked_for(tmp_path: Path) -> None:
    assert load(folder(tmp_path)).decoder.dtype == torch.float32
    assert load(tmp_path, torch.float64).decoder.dtype == torch.float64


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tinny is neither a folder nor one of tiny, tiny-draft"):
        load("tinny")
    with pytest.raises(ValueError, match=r"config\.json is not there"):
        load(tmp_path)


def test_a_vocabulary_larger_than_the_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json has 258 tokens, and the model 200"):
        load(folder(tmp_path, vocab=200))
