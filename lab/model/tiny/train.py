"""Trains the shipped pair: a target, then a draft that imitates it, on one vocabulary.

    python -m lab.model.tiny.train target --work DIR --corpus Rdata.rdb
    python -m lab.model.tiny.train draft  --work DIR --corpus Rdata.rdb

Progress goes to the terminal and to DIR/*.log. A checkpoint is written every few minutes, and the
same command goes on from it. `release.py` beside this file then writes the folders and the card.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional as F

from lab.clock import WallClock
from lab.model.tiny.corpus import Novel, novels

# B sequence, T token, D width, H head, E element of a head, V word

VOCABULARY = 1024
CONTEXT = 512
END_OF_TEXT = "<|endoftext|>"
CHECKPOINT_S = 240


@dataclass(frozen=True)
class Recipe:
    """The sizes of a model and how it is trained."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    steps: int
    batch: int = 16
    muon_lr: float = 0.02
    adam_lr: float = 0.003
    weight_decay: float = 0.1
    dropout: float = 0.0
    warm_up: int = 60
    cool_down: float = 0.4  # the last part of the steps, over which the rates fall to 0
    head_dim: int = 32
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    seed: int = 1


RECIPES = {
    "target": Recipe(layers=4, width=256, heads=8, kv_heads=2, inner=512, steps=1600, dropout=0.1),
    "draft": Recipe(layers=1, width=128, heads=4, kv_heads=2, inner=384, steps=2400),
}


class Layer(nn.Module):
    """Attention and a gated MLP, each after a norm and added to what came in."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        r, query = recipe, recipe.heads * recipe.head_dim
        kv = r.kv_heads * r.head_dim
        self.recipe = r
        self.input_layernorm = nn.Parameter(torch.ones(r.width))
        self.post_attention_layernorm = nn.Parameter(torch.ones(r.width))
        self.q_proj, self.o_proj = _matrix(query, r.width), _matrix(r.width, query)
        self.k_proj, self.v_proj = _matrix(kv, r.width), _matrix(kv, r.width)
        self.gate_proj, self.up_proj = _matrix(r.inner, r.width), _matrix(r.inner, r.width)
        self.down_proj = _matrix(r.width, r.inner)

    def forward(self, x_BTD: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
        r = self.recipe
        h = _norm(x_BTD, self.input_layernorm, r.norm_eps)
        q, k, v = (_linear(h, w) for w in (self.q_proj, self.k_proj, self.v_proj))
        q_BHTE = _rotated(q.unflatten(-1, (r.heads, -1)).transpose(1, 2), cos_TE, sin_TE)
        k_BHTE = _rotated(k.unflatten(-1, (r.kv_heads, -1)).transpose(1, 2), cos_TE, sin_TE)
        v_BHTE = v.unflatten(-1, (r.kv_heads, -1)).transpose(1, 2)
        k_BHTE, v_BHTE = (t.repeat_interleave(r.heads // r.kv_heads, 1) for t in (k_BHTE, v_BHTE))
        a = F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, is_causal=True)
        a = _linear(a.transpose(1, 2).flatten(2), self.o_proj)
        x_BTD = x_BTD + F.dropout(a, r.dropout, self.training)
        h = _norm(x_BTD, self.post_attention_layernorm, r.norm_eps)
        h = F.silu(_linear(h, self.gate_proj)) * _linear(h, self.up_proj)
        return x_BTD + F.dropout(_linear(h, self.down_proj), r.dropout, self.training)


class Network(nn.Module):
    """The Llama architecture as it is trained: whole sequences, no cache, matrices in bfloat16."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.embed_tokens = nn.Parameter(torch.randn(VOCABULARY, recipe.width) * 0.02)
        self.layers = nn.ModuleList(Layer(recipe) for _ in range(recipe.layers))
        self.norm = nn.Parameter(torch.ones(recipe.width))
        rate_E = recipe.rope_theta ** (
            -torch.arange(0, recipe.head_dim, 2, dtype=torch.float64) / recipe.head_dim
        )
        angle_TE = torch.outer(torch.arange(CONTEXT, dtype=torch.float64), rate_E).repeat(1, 2)
        self.register_buffer("cos_TE", angle_TE.cos().bfloat16(), persistent=False)
        self.register_buffer("sin_TE", angle_TE.sin().bfloat16(), persistent=False)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Logits in float32 of the token after each position."""
        embed = self.embed_tokens.bfloat16()
        x_BTD = F.embedding(ids_BT, embed)
        x_BTD = F.dropout(x_BTD, self.recipe.dropout, self.training)
        T = ids_BT.shape[1]
        for layer in self.layers:
            x_BTD = layer(x_BTD, self.cos_TE[:T], self.sin_TE[:T])
        return F.linear(_norm(x_BTD, self.norm, self.recipe.norm_eps), embed).float()


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * (0.5 / math.sqrt(columns)))


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight.bfloat16())


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps) * weight).bfloat16()


def _rotated(x: Tensor, cos_TE: Tensor, sin_TE: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos_TE + torch.cat((-b, a), -1) * sin_TE


class Muon(torch.optim.Optimizer):
    """Momentum whose step is made orthogonal, so that every direction of a matrix learns alike.

    After Keller Jordan, kellerjordan.github.io/posts/muon. Five Newton-Schulz iterations bring
    the singular values of the momentum near 1; a step is scaled by sqrt(max(1, rows / columns)).
    """

    def __init__(self, params: list[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.lerp_(p.grad, 1 - group["momentum"])
                update = _orthogonal(p.grad.lerp(momentum, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def _orthogonal(gradient: Tensor) -> Tensor:
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient.bfloat16()
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        xx = x @ x.T
        x = a * x + (b * xx + c * xx @ xx) @ x
    return (x if wide else x.T).to(gradient.dtype)


@dataclass
class Texts:
    """The corpus as tokens."""

    tokenizer: Tokenizer
    training_T: Tensor
    held_out: list[Tensor]
    held_out_bytes: int = field(default=0)

    @classmethod
    def of(cls, rdb: Path, work: Path) -> Texts:
        """The novels in tokens; the vocabulary is made once and kept in `work`."""
        found = novels(rdb)
        kept = work / "tokenizer.json"
        if not kept.exists():
            _vocabulary(found).save(str(kept))
        tokenizer = Tokenizer.from_file(str(kept))
        training = torch.cat([_tokens(tokenizer, novel.training) for novel in found])
        held_out = [_tokens(tokenizer, novel.held_out) for novel in found]
        size = sum(len(text.encode()) for novel in found for text in novel.held_out)
        return cls(tokenizer, training, held_out, size)

    def batch(self, recipe: Recipe, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and what follows them: stretches of the training text, drawn from the step."""
        dice = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        last = len(self.training_T) - CONTEXT - 1
        starts = torch.randint(0, last + 1, (recipe.batch, 1), generator=dice)
        ids = self.training_T[starts + torch.arange(CONTEXT + 1)]
        return ids[:, :-1], ids[:, 1:]


def _vocabulary(found: tuple[Novel, ...]) -> Tokenizer:
    """Byte-level BPE on the training part alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for n in found for text in n.training), trainer)
    return tokenizer


def _tokens(tokenizer: Tokenizer, documents: tuple[str, ...]) -> Tensor:
    """Documents with the end of text after each."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    return torch.tensor([i for d in documents for i in (*tokenizer.encode(d).ids, end)])


@torch.no_grad()
def bits_per_byte(network: nn.Module, texts: Texts, stride: int = CONTEXT // 2) -> float:
    """Bits that the held-out text costs, over its bytes.

    Windows of CONTEXT tokens advance by `stride`; a token counts once, in the first window that
    reaches it, so all but a novel's first have at least CONTEXT - stride tokens before them.
    """
    network.eval()
    nats = 0.0
    for ids_T in texts.held_out:
        done = 1  # the first token of a novel has nothing before it and is not counted
        for start in range(0, len(ids_T) - 1, stride):
            window = ids_T[start : start + CONTEXT + 1]
            if start + len(window) <= done:
                break
            loss_T = F.cross_entropy(network(window[None, :-1])[0], window[1:], reduction="none")
            nats += loss_T[done - start - 1 :].sum().item()
            done = start + len(window)
    network.train()
    return nats / math.log(2) / texts.held_out_bytes


def _rate(recipe: Recipe, step: int) -> float:
    """Warm up, stay, cool down in a straight line: the factor of the learning rates."""
    left = (recipe.steps - step) / (recipe.cool_down * recipe.steps)
    return min(1.0, (step + 1) / recipe.warm_up, left)


class Training:
    """A network, its optimizers, and how far they have come. `save` and `resume` are exact."""

    def __init__(self, name: str, texts: Texts, work: Path) -> None:
        self.recipe, self.texts = RECIPES[name], texts
        self.file, self.log_file = work / f"{name}.pt", work / f"{name}.log"
        torch.manual_seed(self.recipe.seed)
        self.network = Network(self.recipe)
        matrices = [p for p in self.network.layers.parameters() if p.ndim == 2]
        others = [p for p in self.network.parameters() if p.ndim == 1]
        embedding = self.network.embed_tokens
        self.optimizers = [
            Muon(matrices, self.recipe.muon_lr, self.recipe.weight_decay),
            torch.optim.AdamW([embedding, *others], betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.step, self.cpu_s, self.wall_s = 0, 0.0, 0.0

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        if self.file.exists():
            state = torch.load(self.file)
            self.network.load_state_dict(state["network"])
            for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(kept)
            torch.set_rng_state(state["random"])
            self.step, self.cpu_s, self.wall_s = state["step"], state["cpu_s"], state["wall_s"]

    def save(self) -> None:
        """Write the checkpoint beside the old one, then put it in its place."""
        state = {
            "network": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "random": torch.get_rng_state(),
            "step": self.step,
            "cpu_s": self.cpu_s,
            "wall_s": self.wall_s,
        }
        torch.save(state, self.file.with_suffix(".new"))
        os.replace(self.file.with_suffix(".new"), self.file)

    def learn(self, loss: Tensor) -> None:
        """One step of the optimizers."""
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        factor = _rate(self.recipe, self.step)
        rates = (self.recipe.muon_lr, self.recipe.adam_lr)
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def report(self, **figures: float) -> None:
        """One line of JSON in the log, and on the terminal."""
        line = json.dumps({"step": self.step, "of": self.recipe.steps, **figures})
        print(line, flush=True)
        with self.log_file.open("a") as log:
            log.write(line + "\n")


def _imitation(logits: Tensor, teacher: Tensor, after: Tensor) -> Tensor:
    """Mostly the distribution of the target, a little of the text itself."""
    kl = F.kl_div(logits.log_softmax(-1), teacher.log_softmax(-1), log_target=True, reduction="sum")
    text = F.cross_entropy(logits.flatten(0, 1), after.flatten())
    return 0.9 * kl / after.numel() + 0.1 * text


def _cpu_s() -> float:
    return sum(os.times()[:2])


def train(name: str, work: Path, rdb: Path, every: int = 20, measure_every: int = 200) -> None:
    """Train one of the pair to the end of its recipe, from where it was left."""
    texts = Texts.of(rdb, work)
    training = Training(name, texts, work)
    training.resume()
    teacher = None
    if name == "draft":
        trained = Training("target", texts, work)
        trained.resume()
        teacher = torch.compile(trained.network.eval())
    network = torch.compile(training.network)
    clock, cpu, saved, wall = WallClock(), _cpu_s(), 0.0, 0.0
    while training.step < training.recipe.steps:
        ids, after = texts.batch(training.recipe, training.step)
        logits = network(ids)
        if teacher is None:
            loss = F.cross_entropy(logits.flatten(0, 1), after.flatten())
        else:
            with torch.no_grad():
                wanted = teacher(ids)
            loss = _imitation(logits, wanted, after)
        training.learn(loss)
        training.cpu_s += _cpu_s() - cpu
        training.wall_s += clock.now() - wall
        cpu, wall = _cpu_s(), clock.now()
        if training.step % every == 0:
            training.report(
                loss=round(loss.item(), 4),
                cpu_s=round(training.cpu_s, 1),
                wall_s=round(training.wall_s, 1),
            )
        if training.step % measure_every == 0:
            training.report(bits_per_byte=round(bits_per_byte(training.network, texts), 4))
        if wall - saved > CHECKPOINT_S:
            training.save()
            saved = wall
    training.save()
    training.report(bits_per_byte=round(bits_per_byte(training.network, texts), 4))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints and logs lie")
    parser.add_argument("--corpus", type=Path, required=True, help="the file Rdata.rdb")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.work.mkdir(parents=True, exist_ok=True)
    train(asked.name, asked.work, asked.corpus)


if __name__ == "__main__":
    main()
