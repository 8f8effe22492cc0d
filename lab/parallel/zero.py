"""Training on several ranks that each keep a part of the state: ZeRO, stages 0 to 3.

Every rank computes its own share of the batch. What is kept whole and what in parts:

    stage 0   everything whole; the gradients are added up by an all-reduce
    stage 1   the optimizer's states in parts: gradients go to their owner by a reduce-scatter at
              the end of the step, new parameters come back by an all-gather
    stage 2   the gradients too: each layer's are sent to their owners as soon as they are known
    stage 3   the parameters too: a layer's are gathered when it is computed, forward and again
              backward, and forgotten after

A layer's numbers lie in one row, which is cut into equal runs; a rest is padded with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.parallel.collectives import Group
from lab.parallel.world import World

# S sequence, T token, D width of the model, F width of an MLP, V vocabulary, N number of a layer

Layer: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From a layer's numbers, its input and the batch to its output; the last one gives the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A small model that learns which token follows which, and how it is trained."""

    vocab: int = 64
    hidden: int = 32
    ffn: int = 64
    blocks: int = 3
    sequences: int = 8
    tokens: int = 16
    rate: float = 0.01
    seed: int = 0
    dtype: str = "float64"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each layer: the embedding, the blocks, the head."""
        table, block = self.vocab * self.hidden, 2 * self.hidden * self.ffn
        return (table, *[block] * self.blocks, table)

    @property
    def parameters(self) -> int:
        """Numbers of all layers: 16,384 as it stands."""
        return sum(self.sizes)


class Trained(NamedTuple):
    """What came of a training."""

    losses: tuple[float, ...]
    """Before each step, over the whole batch."""
    gathered_bytes: int
    """The most bytes of parameters that were gathered from others at one time."""


def train(
    world: World,
    *,
    stage: int,
    steps: int,
    recipe: Recipe = Recipe(),
    microbatches: int = 1,
) -> Trained:
    """Train for some steps under ZeRO `stage` on the ranks of dp, each with its share of the batch
    in `microbatches` pieces.

        lab.launch(train, 2, stage=3, steps=5).values[0].losses

    One rank with 2 microbatches adds up the same two gradients as 2 ranks with 1, so its losses
    are the same, bit for bit. Bytes are taken down as `world.held["parameters"]`, "gradients" and
    "optimizer". ValueError for another stage, for no microbatch, and for a batch that cannot be cut
    evenly.
    """
    if stage not in range(4):
        raise ValueError(f"stage must be 0, 1, 2 or 3, got {stage}")
    if microbatches < 1:
        raise ValueError(f"microbatches must be at least 1, got {microbatches}")
    group = world.along("dp")
    pieces = group.size * microbatches
    if recipe.sequences % pieces:
        raise ValueError(
            f"{recipe.sequences} sequences must divide evenly among {pieces} microbatches: "
            f"{group.size} ranks with {microbatches} each"
        )
    trainer = _Trainer(recipe, stage, group)
    losses = []
    for step in range(steps):
        found = torch.zeros((), dtype=trainer.dtype, device=group.device)
        for batch_ST in _batch(recipe, step).chunk(pieces)[group.index :: group.size]:
            found += trainer.learn(batch_ST.to(group.device))
        losses.append(float(world.everyone.all_reduce(found) / pieces))
        trainer.update(pieces, step + 1)
    world.held |= trainer.held
    return Trained(tuple(losses), trainer.gathered_bytes)


class _Trainer:
    """A rank's parameters, gradients and optimizer states, whole or in parts."""

    def __init__(self, recipe: Recipe, stage: int, group: Group) -> None:
        self.recipe, self.stage, self.group = recipe, stage, group
        self.dtype: torch.dtype = getattr(torch, recipe.dtype)
        self.layers = _layers(recipe)
        self.gathered_bytes = 0
        drawn = [self._padded(w_N.to(group.device)) for w_N in _drawn(recipe, self.dtype)]
        self.parameters = [self._part(whole) if stage == 3 else whole for whole in drawn]
        kept = [self._part(whole) if stage >= 2 else whole for whole in drawn]
        self.gradients = [torch.zeros_like(one) for one in kept]
        owned = [self._part(whole) if stage >= 1 else whole for whole in drawn]
        self.momenta = [torch.zeros_like(one) for one in owned]
        self.variances = [torch.zeros_like(one) for one in owned]

    @property
    def held(self) -> dict[str, int]:
        """Bytes between two steps, by what they are."""
        optimizer = [*self.momenta, *self.variances]
        kinds = {
            "parameters": self.parameters,
            "gradients": self.gradients,
            "optimizer": optimizer,
        }
        return {name: sum(one.nbytes for one in kept) for name, kept in kinds.items()}

    def learn(self, batch_ST: Tensor) -> Tensor:
        """Forward and backward over a microbatch; its gradients are added to what is kept. Of the
        forward pass only the inputs of layers are remembered. Returns the loss."""
        x, inputs = batch_ST, []
        with torch.no_grad():
            for number, layer in enumerate(self.layers):
                inputs.append(x)
                x = layer(self._whole(number), x, batch_ST)
        loss, gradient = x, torch.ones_like(x)
        for number in reversed(range(len(self.layers))):
            w_N, x = self._whole(number).detach().requires_grad_(), inputs.pop()
            needs = (w_N, x.requires_grad_()) if x.is_floating_point() else (w_N,)
            y = self.layers[number](w_N, x, batch_ST)
            of_w_N, *of_x = torch.autograd.grad(y, needs, gradient)
            self._keep(number, of_w_N)
            gradient = of_x[0] if of_x else gradient
        return loss

    def update(self, pieces: int, step: int) -> None:
        """One step of Adam with the mean gradient; every rank updates what it owns."""
        for number, kept_N in enumerate(self.gradients):
            gradient_N = self._summed(kept_N) / pieces
            parameters_N = self.parameters[number]
            owned_N = self._part(parameters_N) if self.stage in (1, 2) else parameters_N
            m_N, v_N = self.momenta[number], self.variances[number]
            m_N.lerp_(gradient_N, 0.1)
            v_N.lerp_(gradient_N.square(), 0.001)
            size_N = (v_N / (1 - 0.999**step)).sqrt() + 1e-8
            owned_N = owned_N - self.recipe.rate * (m_N / (1 - 0.9**step)) / size_N
            whole = self.group.all_gather(owned_N).flatten() if self.stage in (1, 2) else owned_N
            parameters_N.copy_(whole)
            kept_N.zero_()

    def _keep(self, number: int, gradient_N: Tensor) -> None:
        if self.stage >= 2:
            gradient_N = self.group.reduce_scatter(self._cut(gradient_N))
        self.gradients[number] += gradient_N

    def _summed(self, kept_N: Tensor) -> Tensor:
        """Over all ranks, of what this one owns."""
        if self.stage == 0:
            return self.group.all_reduce(kept_N)
        return self.group.reduce_scatter(self._cut(kept_N)) if self.stage == 1 else kept_N

    def _whole(self, number: int) -> Tensor:
        """The numbers of a layer, from all ranks where they lie there."""
        if self.stage < 3:
            return self.parameters[number]
        whole_N = self.group.all_gather(self.parameters[number]).flatten()
        self.gathered_bytes = max(self.gathered_bytes, whole_N.nbytes)
        return whole_N

    def _padded(self, whole_N: Tensor) -> Tensor:
        return F.pad(whole_N, (0, -len(whole_N) % self.group.size))

    def _cut(self, whole_N: Tensor) -> Tensor:
        return whole_N.view(self.group.size, -1)

    def _part(self, whole_N: Tensor) -> Tensor:
        return self._cut(whole_N)[self.group.index].clone()


def _layers(recipe: Recipe) -> tuple[Layer, ...]:
    """The model. A layer reads as many numbers as it has; padding may stand behind them."""
    width, inner, vocab = recipe.hidden, recipe.ffn, recipe.vocab

    def embed(w_N: Tensor, ids_ST: Tensor, _: Tensor) -> Tensor:
        return F.embedding(ids_ST[:, :-1], w_N[: vocab * width].view(vocab, width))

    def block(w_N: Tensor, x_STD: Tensor, _: Tensor) -> Tensor:
        into_FD = w_N[: inner * width].view(inner, width)
        back_DF = w_N[inner * width : 2 * inner * width].view(width, inner)
        return x_STD + F.linear(F.silu(F.linear(F.rms_norm(x_STD, (width,)), into_FD)), back_DF)

    def head(w_N: Tensor, x_STD: Tensor, ids_ST: Tensor) -> Tensor:
        logits_STV = F.linear(x_STD, w_N[: vocab * width].view(vocab, width))
        return F.cross_entropy(logits_STV.flatten(0, 1), ids_ST[:, 1:].flatten())

    return (embed, *[block] * recipe.blocks, head)


def _drawn(recipe: Recipe, dtype: torch.dtype) -> Iterator[Tensor]:
    """The numbers of each layer, from the seed."""
    dice = torch.Generator().manual_seed(recipe.seed)
    for size in recipe.sizes:
        drawn_N = torch.randn(size, generator=dice, dtype=torch.float64)
        yield (drawn_N / recipe.hidden**0.5).to(dtype)


def _batch(recipe: Recipe, step: int) -> Tensor:
    """Sequences in which the token after t is 5 t + 3, but for one in eight that is drawn."""
    dice = torch.Generator().manual_seed(1000 * recipe.seed + step + 1)
    shape = (recipe.sequences, recipe.tokens + 1)
    ids_ST = torch.randint(recipe.vocab, shape, generator=dice)
    is_drawn_ST = torch.rand(shape, generator=dice) < 1 / 8
    for place in range(1, shape[1]):
        follows_S = (5 * ids_ST[:, place - 1] + 3) % recipe.vocab
        ids_ST[:, place] = torch.where(is_drawn_ST[:, place], ids_ST[:, place], follows_S)
    return ids_ST
