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
    K, each_S = drafts_SK.shape[1], torch.arange(len(drafts_SK), device=drafts_SK.device)
    token_SK1 = drafts_SK.clamp(0, target_SQV.shape[2] - 1)[:, :, None]
    draft_SK = draft_SKV.gather(2, token_SK1)[:, :, 0]
    target_SK = target_SQV[:, :K].gather(2, token_SK1)[:, :, 0]
    stands_SK = uniforms_SQ[:, :K] * draft_SK < target_SK
    accepted_S = torch.minimum(stands_SK.cumprod(1).sum(1), counts_S)

    left_SV = target_SV = target_SQV[each_S, accepted_S]
    if K:
        missing_SV = target_SV - draft_SKV[each_S, accepted_S.clamp(max=K - 1)]
        is_rejected_S = (accepted_S < counts_S) & (missing_SV.amax(1) > 0)
        left_SV = torch.where(is_rejected_S[:, None], missing_SV.clamp_(min=0), target_SV)
    below_SV = left_SV.cumsum(1, dtype=torch.float64)
    mass_S1 = below_SV[:, -1:].contiguous()
    next_S1 = torch.searchsorted(below_SV, uniforms_SQ[:, K:] * mass_S1, right=True)
    last_S1 = torch.searchsorted(below_SV, mass_S1)
    return Verdict(accepted_S, torch.minimum(next_S1, last_S1)[:, 0])


def _check(
    drafts_SK: Tensor, counts_S: Tensor, draft_SKV: Tensor, target_SQV: Tensor, uniforms_SQ: Tensor
) -> None:
    given = [drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ]
    shapes = [list(tensor.shape) for tensor in given]
    (S, K), V = (shapes[0] + [0, 0])[:2], shapes[3][-1]
    if shapes != [[S, K], [S], [S, K, V], [S, K + 1, V], [S, K + 1]]:
        raise ValueError(
            "rejection_sample needs drafts [S, K], counts [S], draft [S, K, V], target "
            f"[S, K + 1, V] and uniforms [S, K + 1], got {', '.join(map(str, shapes))}"
        )
    kinds = {tensor.dtype for tensor in given[2:]}
    if kinds != {torch.float32} and kinds != {torch.float64}:
        raise ValueError(f"probabilities and uniforms must all be float32 or float64, got {kinds}")
    for tensor, shape in zip(given, shapes, strict=True):
        if not tensor.is_contiguous():
            raise ValueError(
                f"rejection_sample needs contiguous inputs, got {shape} with strides "
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
