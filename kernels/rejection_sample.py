"""Speculative sampling: which drafts stand, and the token that follows them.

Meaning: `kernels.reference.rejection_sample`. Bytes and FLOPs:
`lab.ledgers.kernels.rejection_sample_work`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.choice import Launch, runs_triton

# S sequence, K draft, Q draft and one more, V vocabulary

TILE = 4096  # entries of the vocabulary at a time


class Verdict(NamedTuple):
    """What became of the drafts of each sequence."""

    accepted_S: Tensor
    """How many drafts stand: its first ones."""
    next_S: Tensor
    """The token behind them."""


def rejection_sample(
    drafts_SK: Tensor, counts_S: Tensor, draft_SKV: Tensor, target_SQV: Tensor, uniforms_SQ: Tensor
) -> Verdict:
    """Accept drafts so that every token is distributed as the target's own.

    `drafts_SK` were drawn from the distributions `draft_SKV`; `target_SQV` are the target's at the
    same positions and at the one behind. Sequence s has `counts_S[s]` drafts, the rest is not read.
    Draft k stands if all before it do and (with probability min(1, target / draft))

        uniforms[k] x draft[k][token] < target[k][token]

    The token behind is drawn with the last of the uniforms (in [0, 1)): after a rejection from
    max(target - draft, 0), normalized, else from the target. Where nothing is left (target and
    draft are the same numbers), the target is drawn from. The first token is taken at which the
    running sum exceeds uniform x mass, so a token of probability 0 never is.
    ValueError, with the shapes, for what does not fit, or probabilities in 16 bits.
    """
    _check(drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ)
    inputs = (drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ)
    if not runs_triton(target_SQV):
        return _in_torch(*inputs)
    verdict = Verdict(*(drafts_SK.new_empty(len(drafts_SK)) for _ in Verdict._fields))
    if len(drafts_SK):
        launch(verdict, *inputs).start()
    return verdict


def _in_torch(
    drafts_SK: Tensor, counts_S: Tensor, draft_SKV: Tensor, target_SQV: Tensor, uniforms_SQ: Tensor
) -> Verdict:
    """Drafts are few numbers, judged one by one; the rows behind them are drawn from together."""
    draft, target = draft_SKV.cpu().numpy().item, target_SQV.cpu().numpy().item
    asked = zip(drafts_SK.tolist(), counts_S.tolist(), uniforms_SQ.tolist(), strict=True)
    accepted, where = [], drafts_SK.device
    for s, (tokens, count, uniforms) in enumerate(asked):
        k = 0
        while k < count and uniforms[k] * draft(s, k, tokens[k]) < target(s, k, tokens[k]):
            k += 1
        accepted.append(k)

    K, each_S = drafts_SK.shape[1], torch.arange(len(accepted), device=where)
    accepted_S = torch.tensor(accepted, dtype=torch.long, device=where)
    left_SV = target_SV = target_SQV[each_S, accepted_S]
    if K:
        draft_SV = draft_SKV[each_S, accepted_S.clamp(max=K - 1)]
        is_rejected_S1 = (accepted_S < counts_S)[:, None]
        left_SV = torch.where(is_rejected_S1, target_SV - draft_SV, target_SV).clamp_(min=0)
    below_SV = left_SV.cumsum(1, dtype=torch.float64)
    if not below_SV[:, -1].all():  # of some nothing is left
        below_SV = torch.where(below_SV[:, -1:] > 0, below_SV, target_SV.cumsum(1))
    wanted_S1 = uniforms_SQ[:, K:] * below_SV[:, -1:]
    return Verdict(accepted_S, torch.searchsorted(below_SV, wanted_S1, right=True)[:, 0])


def _check(
    drafts_SK: Tensor, counts_S: Tensor, draft_SKV: Tensor, target_SQV: Tensor, uniforms_SQ: Tensor
) -> None:
    given = (drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ)
    shapes = [tuple(tensor.shape) for tensor in given]
    (S, K), V = (*shapes[0], 0, 0)[:2], shapes[3][-1]
    if shapes != [(S, K), (S,), (S, K, V), (S, K + 1, V), (S, K + 1)]:
        found = ", ".join(str([*shape]) for shape in shapes)
        raise ValueError(
            "rejection_sample needs drafts [S, K], counts [S], draft [S, K, V], target "
            f"[S, K + 1, V] and uniforms [S, K + 1], got {found}"
        )
    kinds = [tensor.dtype for tensor in given[2:]]
    if kinds[0] != kinds[1] or not {*kinds} <= {torch.float32, torch.float64}:
        raise ValueError(
            "probabilities must both be float32 or float64, and uniforms one of them, got "
            f"{', '.join(map(str, kinds))}"
        )
    for tensor, shape in zip(given, shapes, strict=True):
        if not tensor.is_contiguous():
            raise ValueError(
                f"rejection_sample needs contiguous inputs, got {[*shape]} with strides "
                f"{tensor.stride()}"
            )


def launch(
    verdict: Verdict,
    drafts_SK: Tensor,
    counts_S: Tensor,
    draft_SKV: Tensor,
    target_SQV: Tensor,
    uniforms_SQ: Tensor,
) -> Launch:
    """The kernel over sequences; what it writes is `verdict`."""
    return Launch(
        kernel="rejection_sample_kernel",
        grid=(len(drafts_SK),),
        arguments=(*verdict, drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ),
        constants={"K": drafts_SK.shape[1], "V": target_SQV.shape[2], "TILE": TILE},
        warps=8,
    )
