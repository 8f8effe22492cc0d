"""From logits to tokens, for a batch of requests with settings of their own.

Shapes: S rows that get a token, V ids of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lab.sampling import Sampling, uniform


class Logprobs(NamedTuple):
    """Log-probabilities at one position: of the chosen token, and of the likeliest ones."""

    chosen: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Choosing:
    """What is known of one row: its settings, the position of the token to be chosen, and what was
    said before, for penalties: ids of the prompt and of the answer so far."""

    sampling: Sampling
    position: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()


def choose(logits_SV: Tensor, rows: Sequence[Choosing]) -> tuple[list[int], list[Logprobs | None]]:
    """The next token of each row, and its log-probabilities where they are asked for.

    A row's token depends on its own logits and its own key only. ValueError for another number of
    rows, and for logits that are not finite.
    """
    if len(rows) != len(logits_SV):
        raise ValueError(f"there are {len(logits_SV)} rows of logits and {len(rows)} to choose for")
    if all(row.sampling.is_greedy and _is_plain(row.sampling) for row in rows):
        tokens: list[int] = logits_SV.argmax(dim=-1).tolist()
        return tokens, [None] * len(rows)
    tokens, said = [], []
    for logits_V, row in zip(logits_SV, rows, strict=True):
        probs_V = distribution(logits_V, row)
        token = draw(probs_V, uniform(row.sampling.seed, row.position))
        tokens.append(token)
        said.append(_logprobs(logits_V, probs_V, token, row.sampling))
    return tokens, said


def distribution(logits_V: Tensor, row: Choosing) -> Tensor:
    """The distribution that a row is sampled from, in float64: after penalties, temperature, top-k
    and top-p. With temperature 0 all of it is on one token."""
    sampling = row.sampling
    scores_V = _penalised(logits_V.double(), row)
    if not bool(torch.isfinite(scores_V.max())):
        raise ValueError(f"logits must be finite, got {float(scores_V.max())}")
    if sampling.is_greedy:
        probs_V = torch.zeros_like(scores_V)
        probs_V[scores_V.argmax()] = 1
        return probs_V
    probs_V = torch.softmax(scores_V / sampling.temperature, dim=-1)
    if sampling.top_k is None and sampling.top_p == 1:
        return probs_V
    order_V = torch.sort(
        probs_V, descending=True, stable=True
    ).indices  # of equals, lower ids first
    kept = len(order_V) if sampling.top_k is None else min(sampling.top_k, len(order_V))
    probs_K = probs_V[order_V[:kept]]
    if sampling.top_p < 1:
        mass_K = torch.cumsum(probs_K / probs_K.sum(), dim=-1)
        kept = int(torch.searchsorted(mass_K, sampling.top_p)) + 1
    allowed = order_V[:kept]
    cut_V = torch.zeros_like(probs_V)
    cut_V[allowed] = probs_V[allowed]
    return cut_V / cut_V.sum()


def draw(probs_V: Tensor, at: float) -> int:
    """The token at `at`, from 0 to 1, of the whole mass laid out in the order of ids.

    A token of mass 0 is never drawn.
    """
    mass_V = torch.cumsum(probs_V, dim=-1)
    token = int(torch.searchsorted(mass_V, at * float(mass_V[-1]), right=True))
    last = int(torch.nonzero(probs_V)[-1])
    return min(token, last)


def _is_plain(sampling: Sampling) -> bool:
    """Whether nothing but the likeliest token is asked for."""
    return not sampling.has_penalties and sampling.logprobs is None


def _penalised(scores_V: Tensor, row: Choosing) -> Tensor:
    sampling = row.sampling
    if not sampling.has_penalties:
        return scores_V
    scores_V = scores_V.clone()
    said = torch.tensor([*row.prompt, *row.output], dtype=torch.long).unique()
    before = scores_V[said]
    penalty = sampling.repetition_penalty
    scores_V[said] = torch.where(before > 0, before / penalty, before * penalty)
    if row.output:
        ids, counts = torch.tensor(row.output, dtype=torch.long).unique(return_counts=True)
        scores_V[ids] -= sampling.presence_penalty + sampling.frequency_penalty * counts
    return scores_V


def _logprobs(logits_V: Tensor, probs_V: Tensor, token: int, sampling: Sampling) -> Logprobs | None:
    if sampling.logprobs is None:
        return None
    if sampling.logprobs_of == "logits":
        logs_V = torch.log_softmax(logits_V.double(), dim=-1)
    else:
        logs_V = torch.log(probs_V)
    order = torch.sort(logs_V, descending=True, stable=True).indices[: sampling.logprobs]
    top = tuple((int(id), float(logs_V[id])) for id in order)
    return Logprobs(float(logs_V[token]), top)
