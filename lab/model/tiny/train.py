"""Trains the shipped pair: a target, then a draft that imitates it, on one vocabulary.

    python -m lab.model.tiny.train target --corpus Rdata.rdb --work DIR
    python -m lab.model.tiny.train draft  --corpus Rdata.rdb --work DIR
    python -m lab.model.tiny.release      --corpus Rdata.rdb --work DIR

`corpus.py` says how to fetch the text. Progress goes to the terminal and to DIR/*.log. A checkpoint
is written every few minutes, and the same command goes on from it as if nothing had happened.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.model.tiny.corpus import novels
from lab.model.tiny.muon import Muon
from lab.model.tiny.network import RECIPES, Network, Recipe
from lab.model.tiny.texts import Texts

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of the logits for these ids, and the tokens that really follow."""

IMITATION = 0.9  # the draft learns the target's distribution, and a little the text itself
REPORT, MEASURE, CHECKPOINT = 20, 200, 50  # steps


class Training:
    """A network, its optimizers, and how far they have come."""

    def __init__(self, recipe: Recipe, work: Path, name: str) -> None:
        self.recipe = recipe
        self.file, self.log = work / f"{name}.pt", work / f"{name}.log"
        torch.manual_seed(recipe.seed)
        self.network = Network(recipe)
        matrices = list(self.network.layers.parameters())
        others = [p for p in self.network.parameters() if p.ndim == 1]
        self.optimizers = (
            Muon((p for p in matrices if p.ndim == 2), recipe.muon_lr, recipe.weight_decay),
            torch.optim.AdamW(
                [self.network.embed_tokens, *others], betas=(0.9, 0.95), weight_decay=0
            ),
        )
        self.step, self.cpu_s = 0, 0.0
        if self.file.exists():
            self._resume()

    def _resume(self) -> None:
        state = torch.load(self.file)
        self.network.load_state_dict(state["network"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        torch.set_rng_state(state["random"])
        self.step, self.cpu_s = state["step"], state["cpu_s"]

    def save(self) -> None:
        """Write the checkpoint beside the old one, then put it in its place."""
        state = {
            "network": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "random": torch.get_rng_state(),
            "step": self.step,
            "cpu_s": self.cpu_s,
        }
        new = self.file.with_suffix(".new")
        torch.save(state, new)
        os.replace(new, self.file)

    def learn(self, loss: Tensor) -> None:
        """One step of the optimizers."""
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        factor = self.recipe.rate(self.step)
        rates = (self.recipe.muon_lr, self.recipe.adam_lr)
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1

    def run(self, texts: Texts, loss_of: Loss, forward: Callable[[Tensor], Tensor]) -> None:
        """Learn to the end of the recipe. `forward` is the network, or a compiled form of it."""
        before = self.cpu_s - _cpu_s()
        while self.step < self.recipe.steps:
            ids, after = texts.batch(self.recipe.batch, self.recipe.seed * 1_000_003 + self.step)
            loss = loss_of(ids, forward(ids), after)
            self.learn(loss)
            self.cpu_s = before + _cpu_s()
            if self.step % REPORT == 0:
                self.report(loss=loss.item(), cpu_s=self.cpu_s)
            if self.step % MEASURE == 0 or self.step == self.recipe.steps:
                self.report(bits_per_byte=self.measure(texts))
            if self.step % CHECKPOINT == 0 or self.step == self.recipe.steps:
                self.save()

    def measure(self, texts: Texts) -> float:
        """Bits per byte on the held-out text, without dropout."""
        self.network.train(False)
        found = texts.bits_per_byte(lambda ids_T: self.network(ids_T[None])[0])
        self.network.train()
        return found

    def report(self, **figures: float) -> None:
        """One line of JSON in the log and on the terminal."""
        rounded = {name: round(figure, 4) for name, figure in figures.items()}
        line = json.dumps({"step": self.step, "of": self.recipe.steps, **rounded})
        print(line, flush=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


def reading(ids: Tensor, logits: Tensor, after: Tensor) -> Tensor:
    """The target's loss: nats per token of the text."""
    return F.cross_entropy(logits.flatten(0, 1), after.flatten())


def imitating(teacher: Callable[[Tensor], Tensor]) -> Loss:
    """The draft's loss: how far its distributions are from the teacher's, and from the text."""

    def loss_of(ids: Tensor, logits: Tensor, after: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = teacher(ids).flatten(0, 1).log_softmax(-1)
        guessed = logits.flatten(0, 1).log_softmax(-1)
        apart = F.kl_div(guessed, wanted, log_target=True, reduction="batchmean")
        return IMITATION * apart + (1 - IMITATION) * F.nll_loss(guessed, after.flatten())

    return loss_of


def _cpu_s() -> float:
    return sum(os.times()[:2])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--corpus", type=Path, required=True, help="the file Rdata.rdb")
    parser.add_argument("--work", type=Path, required=True, help="for checkpoints and logs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="faster; needs a C++ compiler")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    asked.work.mkdir(parents=True, exist_ok=True)
    texts = Texts.of(novels(asked.corpus), asked.work / "tokenizer.json")
    made: Callable[[Network], Callable[[Tensor], Tensor]]
    made = torch.compile if asked.compile else lambda network: network
    loss_of: Loss = reading
    if asked.name == "draft":
        loss_of = imitating(
            made(Training(RECIPES["target"], asked.work, "target").network.train(False))
        )
    training = Training(RECIPES[asked.name], asked.work, asked.name)
    training.run(texts, loss_of, made(training.network))


if __name__ == "__main__":
    main()
