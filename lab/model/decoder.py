"""The Llama-family decoder: all tokens of a step in one row, attention through block tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.model.config import ModelConfig
from lab.model.flat_batch import FlatBatch, Group, Span
from lab.model.kv_tensors import KVTensors
from lab.model.weights import LayerWeights, Weights

# T token of the step, R row whose logits are asked for, D width of the model, F width of the MLP,
# H query head, K KV head, G query heads of a KV head, E element of a head, P pair of elements,
# S sequence of a group, Q its new tokens, L position that a group reads, V vocabulary


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
        turn_T1P = self._turn(batch.positions_T)
        x_TD = F.embedding(ids_T, self.weights.embed_VD)
        *layers, last = self.weights.layers
        for number, layer in enumerate(layers):
            q_THE = self._queries(x_TD, turn_T1P, layer, number, batch, kv)
            x_TD = self._finish(x_TD, q_THE, layer, number, batch.groups, kv)
        q_THE = self._queries(x_TD, turn_T1P, last, len(layers), batch, kv)
        x_RD, q_RHE = x_TD[batch.asked_R], q_THE[batch.asked_R]
        x_RD = self._finish(x_RD, q_RHE, last, len(layers), batch.asked_groups, kv)
        return F.linear(self._norm(x_RD, self.weights.norm_D), self.weights.head_VD)

    def _queries(
        self,
        x_TD: Tensor,
        turn_T1P: Tensor,
        weights: LayerWeights,
        number: int,
        batch: FlatBatch,
        kv: KVTensors,
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
        _turn_in_place(qkv_THE[:, : c.heads + c.kv_heads], turn_T1P)
        kv.write(number, batch.slots_T, qkv_THE[:, c.heads :])
        return q_THE

    def _finish(
        self,
        x_TD: Tensor,
        q_THE: Tensor,
        weights: LayerWeights,
        number: int,
        groups: Sequence[Group],
        kv: KVTensors,
    ) -> Tensor:
        """The rest of a layer for these rows: attention and the MLP, each added to `x_TD`."""
        a_THE = torch.empty_like(q_THE, memory_format=torch.contiguous_format)
        for group in groups:
            k_SLKE, v_SLKE = kv.read(number, group.tables_SN)
            _attend(a_THE[group.rows], q_THE[group.rows], k_SLKE, v_SLKE, group.mask_SQL)
        x_TD = x_TD.addmm_(a_THE.flatten(1), weights.output.T)
        if weights.output_bias is not None:
            x_TD += weights.output_bias
        h_TD = self._norm(x_TD, weights.mlp_norm_D)
        gate_TF, up_TF = F.linear(h_TD, weights.gate_up).chunk(2, dim=-1)
        return x_TD.addmm_(F.silu(gate_TF, inplace=True).mul_(up_TF), weights.down.T)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.norm_eps)

    def _turn(self, positions_T: Tensor) -> Tensor:
        """What the pairs of a token are multiplied by: complex numbers of one magnitude."""
        angle_TP = positions_T[:, None].to(self._rates_P.dtype) * self._rates_P
        magnitude = torch.tensor(self.config.rope.magnitude, dtype=angle_TP.dtype)
        return torch.polar(magnitude.to(angle_TP.device).expand_as(angle_TP), angle_TP)[:, None]


def _turn_in_place(x_THE: Tensor, turn_T1P: Tensor) -> None:
    """Rotary positions. A pair (a, b) is the complex number a + b i."""
    exact = x_THE.to(turn_T1P.real.dtype)  # itself, but for 16-bit formats
    torch.view_as_complex(exact.unflatten(-1, (-1, 2))).mul_(turn_T1P)
    if exact is not x_THE:
        x_THE.copy_(exact)


def _attend(
    out_THE: Tensor, q_THE: Tensor, k_SLKE: Tensor, v_SLKE: Tensor, mask_SQL: Tensor
) -> None:
    """Attention of the queries of a group. The G query heads of a KV head stand beside each other
    as if they were G queries, so K and V are not repeated."""
    (S, Q, _), K, G = mask_SQL.shape, k_SLKE.shape[2], q_THE.shape[1] // k_SLKE.shape[2]
    q_SKGQE = q_THE.view(S, Q, K, G, -1).permute(0, 2, 3, 1, 4)
    mask_S1GQL = mask_SQL[:, None, None]
    a = F.scaled_dot_product_attention(
        q_SKGQE.flatten(2, 3),
        k_SLKE.transpose(1, 2),
        v_SLKE.transpose(1, 2),
        mask_S1GQL.expand(S, 1, G if Q > 1 else 1, Q, -1).flatten(2, 3),
    )
    out_THE.view(S, Q, K, G, -1).copy_(a.unflatten(2, (G, Q)).permute(0, 3, 1, 2, 4))


def logits_alone(decoder: Decoder, ids: Sequence[int]) -> Tensor:
    """The logits_V after `ids`, computed alone, without anything cached before."""
    kv = KVTensors(decoder.config, 1, len(ids), decoder.dtype, decoder.weights.embed_VD.device)
    batch = FlatBatch.of([Span(len(ids), len(ids), (0,))], kv)
    return decoder.forward(kv.index(ids), batch, kv)[0]


def greedy_oracle(decoder: Decoder, prompt: Sequence[int], tokens: int) -> list[int]:
    """The greedy continuation by the plainest way: no cache, one sequence, every token computed
    again for each new one. What the engine generates is compared with it, in float64."""
    ids = list(prompt)
    for _ in range(tokens):
        ids.append(int(logits_alone(decoder, ids).argmax()))
    return ids[len(prompt) :]
