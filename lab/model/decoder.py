"""The Llama-family decoder: all tokens of a step in one row, attention through block tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from kernels import flash_attention, paged_attention, rms_norm, rope_store
from lab.model.config import ModelConfig
from lab.model.flat_batch import FlatBatch, Read, Span
from lab.model.kv_tensors import KVTensors
from lab.model.weights import LayerWeights, Weights

# T token of the step, R row whose logits are asked for, D width of the model, F width of the MLP,
# H query head, K KV head, E element of a head, P pair of elements, N block, B slot, V vocabulary,
# I input of a matrix


class Decoder:
    """A model that computes the next step of many sequences at once."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        exact = torch.promote_types(weights.embed_VD.dtype, torch.float32)
        rates_P = config.rope.rates(config.head_dim, exact)
        self._rates_P = rates_P.to(weights.embed_VD.device)

    @property
    def dtype(self) -> torch.dtype:
        """The format in which it computes."""
        return self.weights.embed_VD.dtype

    @torch.inference_mode()
    def forward(self, ids_T: Tensor, batch: FlatBatch, kv: KVTensors) -> Tensor:
        """Compute the tokens `ids_T` of `batch`, write their K and V, and return logits_RV: a row
        for each token that a span asks for, in order."""
        x_RD = self._through_layers(self._embed(ids_T), batch, kv, narrows=True)
        return self._head(self._norm(x_RD, self.weights.norm_D))

    def _through_layers(
        self, x_TD: Tensor, batch: FlatBatch, kv: KVTensors, *, narrows: bool
    ) -> Tensor:
        """All layers that are here. Where the last one `narrows`, it goes on with the rows alone
        whose logits are asked for."""
        turn_TP = self._turn(batch.positions_T)
        last, reads = self.weights.layers[-1], batch.reads
        for weights, cache_NB2KE in zip(self.weights.layers, kv.layers, strict=True):
            q_THE = self._queries(x_TD, turn_TP, weights, batch.slots_T, cache_NB2KE)
            if narrows and weights is last:
                x_TD, q_THE, reads = x_TD[batch.asked_R], q_THE[batch.asked_R], batch.asked_reads
            x_TD = self._finish(x_TD, q_THE, weights, reads, cache_NB2KE)
        return x_TD

    def _embed(self, ids_T: Tensor) -> Tensor:
        return F.embedding(ids_T, self.weights.embed_VD)

    def _head(self, x_RD: Tensor) -> Tensor:
        return F.linear(x_RD, self.weights.head_VD)

    def _add(self, x_TD: Tensor, y_TI: Tensor, matrix_DI: Tensor) -> Tensor:
        """x + y matrix^T, in the place of x."""
        return x_TD.addmm_(y_TI, matrix_DI.T)

    def _queries(
        self,
        x_TD: Tensor,
        turn_TP: Tensor,
        weights: LayerWeights,
        slots_T: Tensor,
        cache_NB2KE: Tensor,
    ) -> Tensor:
        """The queries of a layer; its keys and values go to their slots."""
        c = self.config
        h_TD = self._norm(x_TD, weights.input_norm_D)
        qkv_T = F.linear(h_TD, weights.qkv, weights.qkv_bias)
        qkv_THE = qkv_T.view(len(x_TD), c.heads + 2 * c.kv_heads, c.head_dim)
        q_THE, k_TKE = qkv_THE[:, : c.heads], qkv_THE[:, c.heads : c.heads + c.kv_heads]
        if weights.q_norm_E is not None and weights.k_norm_E is not None:
            q_THE.copy_(self._norm(q_THE, weights.q_norm_E))
            k_TKE.copy_(self._norm(k_TKE, weights.k_norm_E))
        rope_store(qkv_THE, turn_TP, slots_T, cache_NB2KE)
        return q_THE

    def _finish(
        self,
        x_TD: Tensor,
        q_THE: Tensor,
        weights: LayerWeights,
        reads: Sequence[Read],
        cache_NB2KE: Tensor,
    ) -> Tensor:
        """The rest of a layer for these rows: attention and the MLP, each added to `x_TD`."""
        a_THE = q_THE.new_empty(q_THE.shape)
        for rows, context in reads:
            attention = paged_attention if context.is_decode else flash_attention
            attention(q_THE[rows], cache_NB2KE, context, out=a_THE[rows])
        x_TD = self._add(x_TD, a_THE.flatten(1), weights.output)
        if weights.output_bias is not None:
            x_TD += weights.output_bias
        h_TD = self._norm(x_TD, weights.mlp_norm_D)
        gate_TF, up_TF = F.linear(h_TD, weights.gate_up).chunk(2, dim=-1)
        return self._add(x_TD, F.silu(gate_TF, inplace=True).mul_(up_TF), weights.down)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight, self.config.norm_eps)

    def _turn(self, positions_T: Tensor) -> Tensor:
        """What the pairs of a token are multiplied by: complex numbers of one magnitude."""
        angle_TP = positions_T[:, None].to(self._rates_P.dtype) * self._rates_P
        magnitude = torch.tensor(self.config.rope.magnitude, dtype=angle_TP.dtype)
        return torch.polar(magnitude.to(angle_TP.device).expand_as(angle_TP), angle_TP)


def last_logits(decoder: Decoder, ids: Sequence[int], count: int) -> Tensor:
    """The logits_RV after each of the last `count` of `ids`, computed alone, without anything
    cached before."""
    kv = KVTensors(decoder.config, 1, len(ids), decoder.dtype, decoder.weights.embed_VD.device)
    batch = FlatBatch.of([Span(len(ids), len(ids), (0,), count)], kv)
    return decoder.forward(kv.index(ids), batch, kv)


def logits_alone(decoder: Decoder, ids: Sequence[int]) -> Tensor:
    """The logits_V after `ids`, computed alone, without anything cached before."""
    return last_logits(decoder, ids, 1)[0]


def greedy_oracle(decoder: Decoder, prompt: Sequence[int], tokens: int) -> list[int]:
    """The greedy continuation by the plainest way: no cache, one sequence, every token computed
    again for each new one. What the engine generates is compared with it, in float64."""
    ids = list(prompt)
    for _ in range(tokens):
        ids.append(int(logits_alone(decoder, ids).argmax()))
    return ids[len(prompt) :]
