"""The training of the shipped pair, in small: it learns, it resumes exactly, and what it writes
is the model that it trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_corpus import write

from lab.model.checkpoint import read_weights
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.folder import load
from lab.model.tiny import release, texts
from lab.model.tiny.corpus import novels
from lab.model.tiny.muon import orthogonal
from lab.model.tiny.network import CONTEXT, RECIPES, Recipe
from lab.model.tiny.texts import Texts
from lab.model.tiny.train import Training, imitating, reading

CONFIG = replace(RECIPES["draft"].config, hidden=32, ffn=48, heads=2, kv_heads=1, head_dim=16)
SMALL = Recipe(CONFIG, steps=8, batch=2, warm_up=2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    folder = tmp_path_factory.mktemp("corpus")
    whole = Texts.of(novels(write(folder / "Rdata.rdb")), folder / "tokenizer.json")
    return replace(whole, held_out=tuple(ids[:800] for ids in whole.held_out), held_out_bytes=6400)


def trained(texts: Texts, work: Path, stops: list[int], recipe: Recipe = SMALL) -> Training:
    """A training that was interrupted after each of these steps."""
    for stop in stops:
        training = Training(replace(recipe, steps=stop), work, "one")
        training.recipe = replace(recipe, steps=recipe.steps)
        while training.step < stop:
            ids, after = texts.batch(recipe.batch, training.step)
            training.learn(reading(ids, training.network(ids), after))
        training.save()
    return training


def test_an_interrupted_training_ends_with_the_same_weights(corpus: Texts, tmp_path: Path) -> None:
    recipe = replace(SMALL, dropout=0.1)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = trained(corpus, tmp_path / "a", [6], recipe).network.state_dict()
    parts = trained(corpus, tmp_path / "b", [1, 4, 6], recipe).network.state_dict()
    for name, weight in whole.items():
        assert torch.equal(weight, parts[name]), name


def test_it_learns_and_says_so(corpus: Texts, tmp_path: Path) -> None:
    training = Training(SMALL, tmp_path, "one")
    before = training.measure(corpus)
    training.run(corpus, reading, training.network)
    last = json.loads((tmp_path / "one.log").read_text().splitlines()[-1])
    assert last == {"step": 8, "of": 8, "bits_per_byte": round(training.measure(corpus), 4)}
    assert last["bits_per_byte"] < 0.9 * before
    assert Training(SMALL, tmp_path, "one").step == 8


def test_a_draft_that_imitates_comes_nearer_to_its_teacher(corpus: Texts, tmp_path: Path) -> None:
    teacher = Training(SMALL, tmp_path, "teacher").network.train(False)
    student = Training(replace(SMALL, seed=2), tmp_path, "student")
    loss_of = imitating(teacher)
    ids, after = corpus.batch(2, 0)
    before = loss_of(ids, student.network(ids), after).item()
    student.run(corpus, loss_of, student.network)
    assert loss_of(ids, student.network(ids), after).item() < before
    own = loss_of(ids, teacher(ids), after).item()
    assert own == pytest.approx(0.1 * reading(ids, teacher(ids), after).item(), rel=1e-3)


def test_rates_warm_up_stay_and_cool_down() -> None:
    recipe = Recipe(CONFIG, steps=100, warm_up=4, cool_down=0.5)
    assert [recipe.rate(step) for step in (0, 1, 3, 50, 75, 99)] == [0.25, 0.5, 1, 1, 0.5, 0.02]


@pytest.mark.parametrize("shape", [(24, 24), (16, 40), (40, 16)])
def test_a_step_of_muon_has_singular_values_near_1(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(matrix * 1e-3))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.4


def test_bits_per_byte_counts_every_held_out_token_once(corpus: Texts) -> None:
    seen = []

    def even(ids_T: torch.Tensor) -> torch.Tensor:
        seen.append(len(ids_T))
        return torch.zeros(len(ids_T), texts.VOCABULARY)

    bits = corpus.bits_per_byte(even)
    counted = sum(len(ids_T) - 1 for ids_T in corpus.held_out)
    assert bits == pytest.approx(10 * counted / corpus.held_out_bytes)
    assert max(seen) == CONTEXT


def test_the_vocabulary_gives_every_text_back(corpus: Texts) -> None:
    assert corpus.tokenizer.get_vocab_size() <= texts.VOCABULARY
    for text in ("She walked.", "Ünïcödé €\n\n"):
        assert corpus.tokenizer.decode(corpus.tokenizer.encode(text).ids) == text


def test_what_is_written_is_what_was_trained(corpus: Texts, tmp_path: Path) -> None:
    training = trained(corpus, tmp_path, [6])
    corpus.tokenizer.save(str(tmp_path / "tokenizer.json"))
    release.write(tmp_path / "model", training, tmp_path / "tokenizer.json")
    model = load(tmp_path / "model")
    assert model.config == replace(CONFIG, end_ids=(0,))
    ids, _ = corpus.batch(1, 3)
    with torch.no_grad():
        wanted = training.network.train(False)(ids)[0]
    got = release.logits(model.decoder, ids[0])
    error = (got - wanted).square().mean().sqrt() / wanted.square().mean().sqrt()
    assert error < 4 * torch.finfo(torch.bfloat16).eps


def test_a_model_agrees_with_itself_and_less_with_another(corpus: Texts, tmp_path: Path) -> None:
    training = trained(corpus, tmp_path, [2])
    corpus.tokenizer.save(str(tmp_path / "tokenizer.json"))
    release.write(tmp_path / "model", training, tmp_path / "tokenizer.json")
    config = ModelConfig.read(tmp_path / "model")
    decoder = Decoder(config, read_weights(tmp_path / "model", config))
    same = release.agreement(decoder, decoder, corpus)
    assert (same.same_argmax, round(same.accepted, 5)) == (1.0, 1.0)
    other = replace(decoder.weights, norm_D=-decoder.weights.norm_D)
    assert release.agreement(decoder, Decoder(config, other), corpus).accepted < 0.99
