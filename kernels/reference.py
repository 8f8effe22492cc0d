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
