"""A decoder cut between its layers: each stage computes some, and hands the rows on.

A stage that has handed on one microbatch goes on with the next while the following stage computes
the first. Logits appear on the last stage only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lab.model.checkpoint import read_weights
from lab.model.config import ModelConfig
from lab.model.flat_batch import FlatBatch
from lab.model.folder import Model, where
from lab.model.kv_tensors import KVTensors
from lab.model.tokenizer import Tokenizer
from lab.model.weights import Weights
from lab.parallel.layout import Layout, Rank, layout
from lab.parallel.mesh import Mesh
from lab.parallel.tensor import TensorDecoder, shard
from lab.parallel.world import World

# T token of the step, R row whose logits are asked for, D width of the model


class StageDecoder(TensorDecoder):
    """The layers of one stage, cut along tp as well where the mesh says so."""

    def __init__(self, config: ModelConfig, weights: Weights, rank: Rank, world: World) -> None:
        super().__init__(config, weights, rank, world.along("tp"))
        self.stages = world.along("pp")

    @torch.inference_mode()
    def forward(self, ids_T: Tensor, batch: FlatBatch, kv: KVTensors) -> Tensor:
        """As of a whole decoder on the last stage; no logits, [R, 0], on the others."""
        x_TD = self._embed(ids_T) if self.rank.has_embedding else self._from_before(len(ids_T))
        x_TD = self._through_layers(x_TD, batch, kv, narrows=self.rank.has_head)
        if self.rank.has_head:
            return self._head(self._norm(x_TD, self.weights.norm_D))
        self.stages.send(x_TD, self.stages.index + 1)
        return x_TD.new_empty((len(batch.asked_R), 0))

    def _from_before(self, tokens: int) -> Tensor:
        empty_TD = self.weights.embed_VD.new_empty((tokens, self.config.hidden))
        return self.stages.receive(empty_TD, self.stages.index - 1)


def layout_of(model: str, mesh: Mesh) -> Layout:
    """Which rank of `mesh` holds what of a model folder, or of a shipped model: `layout_of("tiny",
    Mesh(tp=2)).ranks[1].heads` is range(4, 8). ValueError for what does not divide, for axes other
    than tp and pp, and where a rank's KV heads are used unequally."""
    for axis in ("dp", "ep", "cp"):
        if getattr(mesh, axis) > 1:
            raise ValueError(
                f"a decoder is cut along tp and pp, got {axis} {getattr(mesh, axis)}: replicas "
                "have engines of their own"
            )
    config = ModelConfig.read(where(model))
    found = layout(config.size(model), mesh)
    for rank in found.ranks:
        shard(config, rank)
    return found


def load_part(model: str, world: World, dtype: torch.dtype = torch.float32) -> Model:
    """This rank's part of a model: nothing else is read from its folder. Its bytes are taken down
    as `world.held["parameters"]`. ValueError as of `layout_of`."""
    rank = layout_of(model, world.mesh).rank(world.rank)
    folder = where(model)
    config = ModelConfig.read(folder)
    part = shard(config, rank)
    weights = read_weights(folder, part.config, dtype, world.device, part)
    world.held["parameters"] = weights.num_bytes
    decoder = StageDecoder(part.config, weights, rank, world)
    return Model(model, config, decoder, Tokenizer.read(folder))
