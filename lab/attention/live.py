"""Attention of a model as it is computed: taken from a run, and computed again over the full matrix
and in tiles, in any format."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from lab.model.decoder import logits_alone
from lab.model.folder import Model

# K KV head, R row: a query of one of the heads that share a KV head, L key, E element of a head,
# B key of a tile


class Heads(NamedTuple):
    """The input of one layer's attention."""

    q_KRE: Tensor
    k_KLE: Tensor
    v_KLE: Tensor
    mask_RL: Tensor
    """0 for a key that the row sees, −inf for one that it does not; added to the scores."""

    def to(self, dtype: torch.dtype) -> Heads:
        """The same numbers in another format."""
        return Heads(*(tensor.to(dtype) for tensor in self))


def attention_of(model: Model, text: str, layer: int) -> Heads:
    """What the attention of a layer gets when the model reads `text`. ValueError for a layer that
    the model does not have."""
    if not 0 <= layer < model.config.layers:
        raise ValueError(f"layer must be in 0..{model.config.layers - 1}, got {layer}")
    with _Recorder() as recorder:
        logits_alone(model.decoder, model.tokenizer.encode(text))
    q_SKRE, k_SKLE, v_SKLE, mask = recorder.calls[layer]
    return Heads(q_SKRE[0], k_SKLE[0], v_SKLE[0], mask[0, 0])


def over_matrix(heads: Heads) -> Tensor:
    """The output_KRE by way of the whole matrix: scores, softmax, mixing."""
    q_KRE, k_KLE, v_KLE, mask_RL = heads
    s_KRL = q_KRE @ k_KLE.mT / math.sqrt(q_KRE.shape[-1]) + mask_RL
    return s_KRL.softmax(-1) @ v_KLE


def in_tiles(heads: Heads, tile: int, sums: torch.dtype = torch.float32) -> Tensor:
    """The output_KRE by tiles of `tile` keys: online softmax, for all rows at once.

    Factors have the format of `heads`; scores, maximum, numerator and denominator are kept in the
    format `sums`, as a kernel keeps them in its accumulators. Each row must see the first key.
    """
    q_KRE, scale = heads.q_KRE.to(sums), 1 / math.sqrt(heads.q_KRE.shape[-1])
    n_KRE = torch.zeros_like(q_KRE)
    d_KR1 = torch.zeros_like(q_KRE[..., :1])
    m_KR1 = torch.full_like(d_KR1, -math.inf)
    cut = (heads.k_KLE.split(tile, 1), heads.v_KLE.split(tile, 1), heads.mask_RL.split(tile, 1))
    for k_KBE, v_KBE, mask_RB in zip(*cut, strict=True):
        s_KRB = q_KRE @ k_KBE.mT.to(sums) * scale + mask_RB.to(sums)
        new_KR1 = torch.maximum(m_KR1, s_KRB.amax(-1, keepdim=True))
        rescale_KR1, w_KRB = (m_KR1 - new_KR1).exp(), (s_KRB - new_KR1).exp()
        factor_KRB = w_KRB.to(v_KBE.dtype).to(sums)
        n_KRE = rescale_KR1 * n_KRE + factor_KRB @ v_KBE.to(sums)
        d_KR1 = rescale_KR1 * d_KR1 + w_KRB.sum(-1, keepdim=True)
        m_KR1 = new_KR1
    return (n_KRE / d_KR1).to(heads.q_KRE.dtype)


def by_torch(heads: Heads) -> Tensor:
    """The output_KRE of torch's own kernel, whichever it chooses."""
    q_KRE, k_KLE, v_KLE, mask_RL = heads
    return F.scaled_dot_product_attention(q_KRE[None], k_KLE[None], v_KLE[None], mask_RL)[0]


def relative_error(found: Tensor, exact: Tensor) -> float:
    """The root mean square of the differences, as a share of the root mean square of `exact`."""
    difference = found.to(exact.dtype) - exact
    return float(difference.square().mean().sqrt() / exact.square().mean().sqrt())


class _Recorder(TorchFunctionMode):
    """Keeps what each call of attention was given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Tensor, ...]] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            self.calls.append(tuple(tensor.clone() for tensor in args[:4]))
        return func(*args, **(kwargs or {}))
