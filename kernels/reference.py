"""What each operation means: plain torch, in float64, one row or one head at a time.

Nothing here is fast, and no kernel imports it. What a kernel computes is compared with it.

T token, D width of the model, S sequence, H query head, K KV head, E element of a head, P pair of
elements, N block, B slot of a block, L position
"""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x_TD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) x weight, for each row."""
    rows = []
    for x_D in x_TD.double():
        rows.append(x_D / torch.sqrt((x_D * x_D).mean() + eps) * weight_D.double())
    return torch.stack(rows)


def rope_store(
    qkv_THE: Tensor, turn_TP: Tensor, slots_T: Tensor, cache_NB2KE: Tensor
) -> tuple[Tensor, Tensor]:
    """The queries turned, and the cache with keys (turned) and values (as they are) written.

    The pair of elements 2 p and 2 p + 1 is the complex number x[2 p] + i x[2 p + 1].
    """
    K, block_tokens = cache_NB2KE.shape[3], cache_NB2KE.shape[1]
    q_THE, k_TKE, v_TKE = (
        x.clone() for x in qkv_THE.double().split([qkv_THE.shape[1] - 2 * K, K, K], 1)
    )
    cache_NB2KE = cache_NB2KE.double().clone()
    for t, slot in enumerate(slots_T.tolist()):
        block, place = divmod(slot, block_tokens)
        for x_HE in (q_THE[t], k_TKE[t]):
            pairs_HP = torch.view_as_complex(x_HE.unflatten(1, (-1, 2)))
            pairs_HP.mul_(turn_TP[t].to(torch.complex128))
        cache_NB2KE[block, place, 0] = k_TKE[t]
        cache_NB2KE[block, place, 1] = v_TKE[t]
    return q_THE, cache_NB2KE


def attention(
    q_THE: Tensor,
    k_LKE: Tensor,
    v_LKE: Tensor,
    *,
    causal: bool = True,
    scale: float | None = None,
) -> Tensor:
    """Attention of one sequence: T queries, the last of them at the last of L positions.

    Query head h reads KV head h // (H / K). A causal query sees its own position and all before.
    """
    (T, H, E), (L, K, _) = q_THE.shape, k_LKE.shape
    out_THE = torch.zeros(T, H, E, dtype=torch.float64)
    for t in range(T):
        sees = L - T + t + 1 if causal else L
        for h in range(H):
            k_LE, v_LE = k_LKE[:sees, h // (H // K)].double(), v_LKE[:sees, h // (H // K)].double()
            scores_L = k_LE @ q_THE[t, h].double() * (E**-0.5 if scale is None else scale)
            weights_L = torch.exp(scores_L - scores_L.max())
            out_THE[t, h] = weights_L @ v_LE / weights_L.sum()
    return out_THE


def in_one_piece(cache_NB2KE: Tensor, table_N: list[int], length: int) -> tuple[Tensor, Tensor]:
    """K and V of one sequence: its blocks one behind the other, up to its length."""
    slots_L2KE = torch.cat([cache_NB2KE[block] for block in table_N])[:length]
    return slots_L2KE[:, 0], slots_L2KE[:, 1]


def quantized_matmul(x_TD: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
    """x times the transposed weights, which are made again from their codes one by one."""
    (_, D), F = x_TD.shape, len(codes)
    weight_FD = torch.zeros(F, D, dtype=torch.float64)
    for f in range(F):
        for d in range(D):
            if codes.dtype == torch.int8:
                weight_FD[f, d] = float(codes[f, d]) * float(scale[f])
            else:
                group = D // scale.shape[1]
                g, place = divmod(d, group)
                is_high, j = divmod(place, group // 2)
                byte = int(codes[f, g * group // 2 + j])
                code = byte // 16 if is_high else byte % 16
                weight_FD[f, d] = (code - 8) * float(scale[f, g])
    return x_TD.double() @ weight_FD.T


def rejection_sample(
    drafts_K: list[int], draft_KV: Tensor, target_QV: Tensor, uniforms_Q: list[float]
) -> tuple[int, int]:
    """How many drafts of one sequence stand, and the token behind them."""
    accepted = 0
    for token, draft_V, target_V, uniform in zip(
        drafts_K, draft_KV.double(), target_QV.double(), uniforms_Q, strict=False
    ):
        if not uniform * float(draft_V[token]) < float(target_V[token]):
            break
        accepted += 1
    left_V = target_QV[accepted].double()
    if accepted < len(drafts_K):
        residual_V = (left_V - draft_KV[accepted].double()).clamp(min=0)
        if residual_V.sum() > 0:
            left_V = residual_V / residual_V.sum()
    return accepted, first_above(left_V, uniforms_Q[-1])


def first_above(weights_V: Tensor, uniform: float) -> int:
    """The first token at which the running sum exceeds the uniform; the last possible one where
    rounding leaves none."""
    total, last = 0.0, 0
    for token, weight in enumerate(weights_V.tolist()):
        if weight > 0:
            total, last = total + weight, token
            if total > uniform:
                return token
    return last
