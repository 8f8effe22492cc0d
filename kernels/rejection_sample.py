"""Speculative sampling: which drafts stand, and the token that follows them.

Meaning: `kernels.reference.rejection_sample`. Bytes and FLOPs:
`lab.ledgers.kernels.rejection_sample_work`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.choice import Launch, runs_triton

# S sequence, K draft, Q draft and one more, V vocabulary

TILE = 4096  # entries of the vocabulary at a time
FORMATS = (torch.float32, torch.float64)


class Verdict(NamedTuple):
    """What became of the drafts of each sequence."""

    accepted: list[int]
    """How many drafts stand: its first ones."""
    following: list[int]
    """The token behind them."""


def rejection_sample(
    drafts: Sequence[Sequence[int]],
    uniforms: Sequence[Sequence[float]],
    draft_SKV: Tensor,
    target_SQV: Tensor,
) -> Verdict:
    """Accept drafts so that every token is distributed as the target's own.

    `drafts` of each sequence, at most K, were drawn from the distributions `draft_SKV`;
    `target_SQV` are the target's at the same positions and at the one behind. What is there for
    drafts that a sequence does not have is not read. Each has one number of `uniforms`, in [0, 1),
    for every draft and one more. Draft k stands if all before it do and (with probability
    min(1, target / draft))

        uniforms[k] x draft[k][token] < target[k][token]

    The token behind is drawn with the last of the uniforms: after a rejection from
    max(target - draft, 0), normalized, else from the target. Where nothing is left (target and
    draft are the same numbers), the target is drawn from. The first token is taken at which the
    running sum exceeds uniform x mass, so a token of probability 0 never is.
    ValueError, with the shapes or counts, for what does not fit, or probabilities in 16 bits.
    """
    _check(drafts, uniforms, draft_SKV, target_SQV)
    body = _in_triton if runs_triton(target_SQV) else _in_torch
    return body(drafts, uniforms, draft_SKV, target_SQV)


def _in_torch(
    drafts: Sequence[Sequence[int]],
    uniforms: Sequence[Sequence[float]],
    draft_SKV: Tensor,
    target_SQV: Tensor,
) -> Verdict:
    """Drafts are few numbers, judged one by one; the rows behind them are drawn from together."""
    draft, target = draft_SKV.cpu().numpy().item, target_SQV.cpu().numpy().item
    accepted = []
    for s, (tokens, drawn) in enumerate(zip(drafts, uniforms, strict=True)):
        k = 0
        while k < len(tokens) and drawn[k] * draft(s, k, tokens[k]) < target(s, k, tokens[k]):
            k += 1
        accepted.append(k)

    place = partial(torch.tensor, device=target_SQV.device)
    at = place([*range(len(drafts))], dtype=torch.long), place(accepted, dtype=torch.long)
    left_SV = target_SQV[at]
    for left_V, draft_KV, tokens, k in zip(left_SV, draft_SKV, drafts, accepted, strict=True):
        if k < len(tokens):
            left_V -= draft_KV[k]
    below_SV = left_SV.clamp_(min=0).cumsum(1, dtype=torch.float64)
    mass = below_SV[:, -1].tolist()
    if 0 in mass:  # of some nothing is left
        below_SV = torch.where(below_SV[:, -1:] > 0, below_SV, target_SQV[at].cumsum(1))
        mass = below_SV[:, -1].tolist()
    wanted = [[drawn[-1] * whole] for drawn, whole in zip(uniforms, mass, strict=True)]
    wanted_S1 = place(wanted, dtype=torch.float64).view(-1, 1)
    return Verdict(accepted, torch.searchsorted(below_SV, wanted_S1, right=True).flatten().tolist())


def _in_triton(
    drafts: Sequence[Sequence[int]],
    uniforms: Sequence[Sequence[float]],
    draft_SKV: Tensor,
    target_SQV: Tensor,
) -> Verdict:
    (S, K, _), place = draft_SKV.shape, partial(torch.tensor, device=target_SQV.device)
    below_1 = 1 - torch.finfo(target_SQV.dtype).eps / 2  # to which no uniform must be rounded
    given = []
    for tokens, drawn in zip(drafts, uniforms, strict=True):
        *judging, drawing = (min(number, below_1) for number in drawn)
        padding = [0] * (K - len(tokens))
        given.append(([*tokens, *padding], [*judging, *padding, drawing]))
    drafts_SK = place([tokens for tokens, _ in given], dtype=torch.long).view(S, K)
    uniforms_SQ = place([drawn for _, drawn in given], dtype=target_SQV.dtype).view(S, K + 1)
    counts_S = place([*map(len, drafts)], dtype=torch.long)
    accepted_S, following_S = counts_S.new_empty(S), counts_S.new_empty(S)
    if S:
        inputs = drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ
        launch(accepted_S, following_S, *inputs).start()
    return Verdict(accepted_S.tolist(), following_S.tolist())


def _check(
    drafts: Sequence[Sequence[int]],
    uniforms: Sequence[Sequence[float]],
    draft_SKV: Tensor,
    target_SQV: Tensor,
) -> None:
    counts = [*map(len, drafts)]
    if counts != [len(drawn) - 1 for drawn in uniforms]:
        raise ValueError(
            f"rejection_sample needs one uniform more than drafts, got {counts} drafts and "
            f"{[*map(len, uniforms)]} uniforms"
        )
    S, most = len(drafts), max(counts, default=0)
    draft, target = draft_SKV.shape, target_SQV.shape
    if len(draft) != 3 or draft[1] < most or target != (S, draft[1] + 1, draft[2]) or draft[0] != S:
        raise ValueError(
            "rejection_sample needs draft [S, K, V] and target [S, K + 1, V] for "
            f"{S} sequences with at most {most} drafts, got {[*draft]} and {[*target]}"
        )
    if draft_SKV.dtype != target_SQV.dtype or target_SQV.dtype not in FORMATS:
        raise ValueError(
            "probabilities must both be float32 or float64, got "
            f"{draft_SKV.dtype} and {target_SQV.dtype}"
        )
    for tensor in (draft_SKV, target_SQV):
        if not tensor.is_contiguous():
            raise ValueError(
                f"rejection_sample needs contiguous inputs, got {[*tensor.shape]} with strides "
                f"{tensor.stride()}"
            )


def launch(
    accepted_S: Tensor,
    following_S: Tensor,
    drafts_SK: Tensor,
    counts_S: Tensor,
    draft_SKV: Tensor,
    target_SQV: Tensor,
    uniforms_SQ: Tensor,
) -> Launch:
    """The kernel over sequences; what it writes is `accepted_S` and `following_S`."""
    written = accepted_S, following_S
    return Launch(
        kernel="rejection_sample_kernel",
        grid=(len(drafts_SK),),
        arguments=(*written, drafts_SK, counts_S, draft_SKV, target_SQV, uniforms_SQ),
        constants={"K": drafts_SK.shape[1], "V": target_SQV.shape[2], "TILE": TILE},
        warps=8,
    )
