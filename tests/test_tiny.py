"""The shipped pair: it is there, it is small, it speaks one vocabulary, and it predicts English."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from needs import cannot
from torch.nn import functional as F

from lab.model import tiny
from lab.model.folder import SHIPPED, Model, load
from lab.model.tiny.release import logits

FOLDER = Path(next(iter(tiny.__path__)))
ENGLISH = (
    "They walked towards the village without speaking, for it was still early, and neither of "
    "them had slept well enough to be cheerful before breakfast."
)


@pytest.fixture(scope="module")
def pair() -> dict[str, Model]:
    if not all((FOLDER / name / "model.safetensors").exists() for name in SHIPPED.values()):
        cannot("the shipped pair is not there: lab/model/tiny/release.py writes it")
    return {name: load(name) for name in SHIPPED}


def bits_per_byte(model: Model, text: str) -> float:
    ids_T = torch.tensor(model.tokenizer.encode("\n\n" + text))
    nats = F.cross_entropy(logits(model.decoder, ids_T[:-1]), ids_T[1:], reduction="sum")
    return float(nats) / math.log(2) / len(text.encode())


def test_the_pair_is_small(pair: dict[str, Model]) -> None:
    parameters = {name: model.config.size(name).parameters for name, model in pair.items()}
    assert 2_300_000 < parameters["tiny"] < 2_700_000
    assert 250_000 < parameters["tiny-draft"] < 350_000
    assert sum(f.stat().st_size for f in FOLDER.rglob("*") if f.is_file()) < 8_000_000


def test_the_pair_has_one_vocabulary(pair: dict[str, Model]) -> None:
    target, draft = (model.tokenizer.table for model in pair.values())
    assert target == draft
    assert len(target) == 1024


def test_english_costs_less_than_disorder_and_less_to_the_target_than_to_the_draft(
    pair: dict[str, Model],
) -> None:
    words = ENGLISH.split()
    disorder = " ".join(words[::2] + words[1::2])
    bits = {name: bits_per_byte(model, ENGLISH) for name, model in pair.items()}
    assert bits["tiny"] < bits["tiny-draft"] < 2.5
    assert bits["tiny"] < bits_per_byte(pair["tiny"], disorder) - 0.2


def test_the_card_names_the_figures(pair: dict[str, Model]) -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    (row,) = (line for line in card.splitlines() if "bits per byte, held out" in line)
    target, draft = (float(cell.strip(" *")) for cell in row.split("|")[2:4])
    assert target < draft < 1.6
    for model in pair.values():
        assert f"{model.config.size('tiny').parameters:,}" in card
