"""Which guesses stand, and the token behind them: the exact rule, for many sequences at once.

Shapes: R rows of logits (those of a sequence stand together: one for each guess, and one more),
S sequence, K guess, Q guess and one more, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from kernels import rejection_sample
from lab.model.sampling import (
    Choosing,
    Logprobs,
    are_plain,
    check_rows,
    distributions,
    likeliest,
    logprobs,
)
from lab.sampling import uniform
from lab.speculation.proposer import Guess


class Check(NamedTuple):
    """One sequence: what its next token depends on, and the guesses from there on."""

    choosing: Choosing
    guess: Guess

    @property
    def rows(self) -> list[Choosing]:
        """What the distribution of each row of logits depends on."""
        tokens = self.guess.tokens
        if not self.choosing.sampling.has_penalties:
            return [self.choosing] * (len(tokens) + 1)
        return [self.choosing.after(tokens[:count]) for count in range(len(tokens) + 1)]


def verify(
    logits_RV: Tensor, checks: Sequence[Check]
) -> tuple[list[list[int]], list[list[Logprobs | None]]]:
    """The next tokens of each sequence: the guesses that stand, and one more. With them their
    log-probabilities, where they are asked for.

    Guess k stands if all before it do and `uniform(seed, position, "accept") · q < p`, where q is
    the probability with which it was guessed and p that of the target, each after the settings of
    the request. The token behind is drawn with the number that has the position of the first guess
    and the purpose "residual". At temperature 0 a guess stands if it is the likeliest token.
    ValueError for another number of rows, and for logits that are not finite.
    """
    starts = [*accumulate((len(check.guess.tokens) + 1 for check in checks), initial=0)]
    check_rows(logits_RV, starts[-1])
    if are_plain(check.choosing for check in checks):
        best = likeliest(logits_RV)
        said = [
            _that_match(check.guess.tokens, best[start:stop])
            for check, (start, stop) in zip(checks, pairwise(starts), strict=True)
        ]
        return said, [[None] * len(tokens) for tokens in said]
    rows = [row for check in checks for row in check.rows]
    target_RV = distributions(logits_RV, rows)
    said = _by_rejection(target_RV, checks)
    found: list[list[Logprobs | None]] = [
        [
            logprobs(logits_RV, target_RV, start + place, token, check.choosing.sampling)
            for place, token in enumerate(tokens)
        ]
        if check.choosing.sampling.logprobs is not None
        else [None] * len(tokens)
        for check, tokens, start in zip(checks, said, starts, strict=False)
    ]
    return said, found


def _that_match(guesses: Sequence[int], best: Sequence[int]) -> list[int]:
    """The likeliest tokens up to the first that was not guessed."""
    stands = 0
    while stands < len(guesses) and guesses[stands] == best[stands]:
        stands += 1
    return list(best[: stands + 1])


def _by_rejection(target_RV: Tensor, checks: Sequence[Check]) -> list[list[int]]:
    guesses = [check.guess for check in checks]
    counts = [len(guess.tokens) for guess in guesses]
    verdict = rejection_sample(
        [guess.tokens for guess in guesses],
        [_uniforms(check.choosing, count) for check, count in zip(checks, counts, strict=True)],
        _draft_probs(guesses, counts, target_RV).to(target_RV.dtype),
        _in_rows_of(target_RV, counts),
    )
    return [
        [*guess.tokens[:stands], token]
        for guess, stands, token in zip(guesses, *verdict, strict=True)
    ]


def _uniforms(choosing: Choosing, count: int) -> list[float]:
    seed, first = choosing.sampling.seed, choosing.position
    accept = [uniform(seed, position, "accept") for position in range(first, first + count)]
    return [*accept, uniform(seed, first, "residual")]


def _draft_probs(guesses: Sequence[Guess], counts: Sequence[int], target_RV: Tensor) -> Tensor:
    """One matrix for each sequence, filled up with zeros."""
    K = max(counts)
    given = [guess.probs_KV for guess in guesses if guess.probs_KV is not None]
    if len(given) == len(guesses) and min(counts) == K:
        return _stacked(given)
    draft_SKV = target_RV.new_zeros(len(guesses), K, target_RV.shape[1])
    for draft_KV, (tokens, probs_KV) in zip(draft_SKV, guesses, strict=True):
        if probs_KV is None:
            draft_KV[range(len(tokens)), tokens] = 1
        else:
            draft_KV[: len(tokens)] = probs_KV
    return draft_SKV


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """As `torch.stack`; without a copy where they lie one behind the other in one tensor."""
    first = parts[0]
    where, start, step = first.untyped_storage().data_ptr(), first.data_ptr(), first.nbytes
    for number, part in enumerate(parts):
        follows = part.data_ptr() == start + number * step and part.is_contiguous()
        if not follows or part.untyped_storage().data_ptr() != where:
            return torch.stack(list(parts))
    return first.as_strided((len(parts), *first.shape), (first.numel(), *first.stride()))


def _in_rows_of(target_RV: Tensor, counts: Sequence[int]) -> Tensor:
    """As `_draft_probs`, of the target."""
    K = max(counts)
    if min(counts) == K:
        return target_RV.view(len(counts), K + 1, -1)
    target_SQV = target_RV.new_zeros(len(counts), K + 1, target_RV.shape[1])
    start = 0
    for target_QV, count in zip(target_SQV, counts, strict=True):
        target_QV[: count + 1] = target_RV[start : start + count + 1]
        start += count + 1
    return target_SQV
