"""A decoder cut along its heads and its width: each rank computes a part of every layer.

Matrices that read the hidden row (queries, keys, values, gate, up) are cut by their outputs, those
that write it (output, down) by their inputs: what a rank makes with the first it needs for the
second, and the ranks add up once after each pair. A rank holds every KV head that its query heads
read, so fewer KV heads than ranks lie on several. The tables of the vocabulary are cut by rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.weights import Shard, Weights
from lab.parallel.collectives import Group
from lab.parallel.layout import Piece, Rank

# T token of the step, R row whose logits are asked for, D width of the model, I input of a matrix,
# V vocabulary, W most rows of the vocabulary that a rank has, P rank


class TensorDecoder(Decoder):
    """The part of a decoder that `rank` holds. Its answers are the whole decoder's, on all ranks of
    `group`; only the sums are added up in another order."""

    def __init__(self, config: ModelConfig, weights: Weights, rank: Rank, group: Group) -> None:
        super().__init__(config, weights)
        self.rank, self.group = rank, group
        self._vocab = [len(part) for part in group.shares(config.vocab)]

    def _embed(self, ids_T: Tensor) -> Tensor:
        """Rows of other ranks are 0 here, and come with the sum."""
        if self.group.size == 1:
            return super()._embed(ids_T)
        rows_T = ids_T - self.rank.vocab.start
        is_other_T = (rows_T < 0) | (rows_T >= len(self.rank.vocab))
        x_TD = super()._embed(rows_T.masked_fill(is_other_T, 0))
        return self.group.all_reduce(x_TD.masked_fill_(is_other_T[:, None], 0))

    def _add(self, x_TD: Tensor, y_TI: Tensor, matrix_DI: Tensor) -> Tensor:
        if self.group.size == 1:
            return super()._add(x_TD, y_TI, matrix_DI)
        return x_TD.add_(self.group.all_reduce(F.linear(y_TI, matrix_DI)))

    def _head(self, x_RD: Tensor) -> Tensor:
        """All logits, on every rank: a part of fewer rows is sent with as many as the longest."""
        part_RV = super()._head(x_RD)
        if self.group.size == 1:
            return part_RV
        padding = max(self._vocab) - part_RV.shape[1]
        parts_PRW = self.group.all_gather(F.pad(part_RV, (0, padding)))
        parts = zip(parts_PRW, self._vocab, strict=True)
        return torch.cat([part_RW[:, :rows] for part_RW, rows in parts], dim=1)


def shard(config: ModelConfig, rank: Rank) -> Shard:
    """What `rank` reads of a model's files, and the sizes of its part.

    ValueError where its KV heads serve unequally many of its query heads, which the kernels do not
    compute: 6 heads and 3 KV heads in 2 parts are 2 and 1 for the first two KV heads.
    """
    if not rank.is_even:
        uses = [rank.kv_of_heads.count(kv) for kv in range(len(rank.kv_heads))]
        raise ValueError(
            f"rank {rank.number}: {len(rank.heads)} of {config.heads} query heads read its "
            f"{len(rank.kv_heads)} KV heads unequally often: {', '.join(map(str, uses))}"
        )
    pieces = {piece.name: piece for piece in rank.pieces()}
    own = replace(
        config,
        layers=len(rank.layers),
        heads=len(rank.heads),
        kv_heads=len(rank.kv_heads),
        ffn=len(rank.ffn),
    )
    return Shard(
        config=own,
        layers=rank.layers,
        embed=rank.vocab if rank.has_embedding else range(0),
        head=rank.vocab if rank.has_head else range(0),
        cut=lambda name, shape: _cut(pieces, name, shape),
    )


def _cut(
    pieces: Mapping[str, Piece], name: str, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    piece = pieces[name.rpartition(".")[0]]
    if len(shape) == 1:  # a norm or a bias has a number for each output
        return piece.of[1:], (_slice(piece.outputs),)
    return piece.of[::-1], (_slice(piece.outputs), _slice(piece.inputs))


def _slice(run: range) -> slice:
    return slice(run.start, run.stop)
