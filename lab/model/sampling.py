"""From logits to tokens, for a batch of requests with settings of their own.

Shapes: S rows that get a token, V ids of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lab.sampling import Sampling, uniform


class Logprobs(NamedTuple):
    """Log-probabilities at one position: of the chosen token, and of the likeliest ones."""

    chosen: float
    top: tuple[tuple[int, float], ...]


class Choosing(NamedTuple):
    """What is known of one row: its settings, the position of the token to be chosen, and what was
    said before, for penalties: ids of the prompt and of the answer so far."""

    sampling: Sampling
    position: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()

    def after(self, tokens: Sequence[int]) -> Choosing:
        """What is known when these tokens have been said too."""
        output = self.output
        if self.sampling.has_penalties:
            output = [*output, *tokens]
        return Choosing(self.sampling, self.position + len(tokens), self.prompt, output)


def choose(logits_SV: Tensor, rows: Sequence[Choosing]) -> tuple[list[int], list[Logprobs | None]]:
    """The next token of each row, and its log-probabilities where they are asked for.

    A row's token depends on its own logits and its own key only. ValueError for another number of
    rows, and for logits that are not finite.
    """
    if are_plain(rows):
        check_rows(logits_SV, len(rows))
        return likeliest(logits_SV), [None] * len(rows)
    probs_SV = distributions(logits_SV, rows)
    tokens = draws(probs_SV, [uniform(row.sampling.seed, row.position) for row in rows])
    return tokens, [
        logprobs(logits_SV, probs_SV, place, token, row.sampling)
        for place, (token, row) in enumerate(zip(tokens, rows, strict=True))
    ]


def are_plain(rows: Iterable[Choosing]) -> bool:
    """Whether nothing but the likeliest tokens is asked for."""
    return all(
        row.sampling.is_greedy and row.sampling.logprobs is None and not row.sampling.has_penalties
        for row in rows
    )


def likeliest(logits_SV: Tensor) -> list[int]:
    """The token of each row with the highest logit, of equals the one with the lowest id.
    ValueError for logits that are not finite."""
    if not math.isfinite(logits_SV.sum()) and not logits_SV.amax(dim=-1).isfinite().all():
        raise ValueError(f"logits must be finite, got {logits_SV.amax(dim=-1).tolist()}")
    tokens: list[int] = logits_SV.argmax(dim=-1).tolist()
    return tokens


def distribution(logits_V: Tensor, row: Choosing) -> Tensor:
    """The distribution that a row is sampled from, as `distributions`."""
    return distributions(logits_V[None], [row])[0]


def distributions(logits_SV: Tensor, rows: Sequence[Choosing]) -> Tensor:
    """What each row is sampled from: after penalties, temperature, top-k and top-p. In the format
    of the logits, of 16 bits in float32. With temperature 0 all of it is on one token. ValueError
    as `choose`."""
    check_rows(logits_SV, len(rows))
    scores_SV = logits_SV if logits_SV.dtype == torch.float64 else logits_SV.float()
    settings = [row.sampling for row in rows]
    kinds = {id(s): s for s in settings}.values()  # the rows of one request share theirs
    if any(s.has_penalties for s in kinds):
        scores_SV = torch.stack([_penalised(*one) for one in zip(scores_SV, rows, strict=True)])
    probs_SV = torch.softmax(_over_temperature(scores_SV, settings, kinds), dim=-1)
    if not math.isfinite(sum(probs_SV[:, 0].tolist())):  # what is no number makes a whole row so
        raise ValueError(f"logits must be finite, got {scores_SV.amax(dim=-1).tolist()}")
    if any(s.is_greedy for s in kinds):
        greedy = [place for place, s in enumerate(settings) if s.is_greedy]
        probs_SV[greedy] = 0
        probs_SV[greedy, scores_SV[greedy].argmax(dim=-1)] = 1
    if any(s.is_cut for s in kinds):
        cut = [place for place, s in enumerate(settings) if s.is_cut]
        probs_SV[cut] = _cut(probs_SV[cut], [settings[place] for place in cut])
    return probs_SV


def draws(probs_SV: Tensor, at: Sequence[float]) -> list[int]:
    """The token of each row at `at`, from 0 to 1, of the whole mass laid out in the order of ids.

    A token of mass 0 is never drawn.
    """
    mass_SV = torch.cumsum(probs_SV, dim=-1, dtype=torch.float64)
    at_S = torch.tensor(at, dtype=mass_SV.dtype, device=mass_SV.device)
    wanted_S1 = (at_S * mass_SV[:, -1])[:, None]
    tokens: list[int] = torch.searchsorted(mass_SV, wanted_S1, right=True)[:, 0].tolist()
    for row, token in enumerate(tokens):
        if token == mass_SV.shape[1]:  # rounded up to the whole mass
            tokens[row] = int(torch.nonzero(probs_SV[row])[-1])
    return tokens


def logprobs(
    logits_SV: Tensor, probs_SV: Tensor, place: int, token: int, sampling: Sampling
) -> Logprobs | None:
    """The log-probabilities of row `place`, if they are asked for, when `token` was chosen there
    from `probs_SV`."""
    if sampling.logprobs is None:
        return None
    if sampling.logprobs_of == "logits":
        logs_V = torch.log_softmax(logits_SV[place].double(), dim=-1)
    else:
        logs_V = torch.log(probs_SV[place])
    order = torch.sort(logs_V, descending=True, stable=True).indices[: sampling.logprobs]
    top = tuple((int(id), float(logs_V[id])) for id in order)
    return Logprobs(float(logs_V[token]), top)


def check_rows(logits_SV: Tensor, count: int) -> None:
    """ValueError for another number of rows of logits than there is to choose for."""
    if logits_SV.shape[0] != count:
        raise ValueError(f"there are {logits_SV.shape[0]} rows of logits and {count} to choose for")


def _cut(probs_SV: Tensor, settings: Sequence[Sampling]) -> Tensor:
    """Only the likeliest tokens, by number and by mass."""
    V, where = probs_SV.shape[1], probs_SV.device
    top_k_S = torch.tensor([V if s.top_k is None else s.top_k for s in settings], device=where)
    top_p_S = torch.tensor([s.top_p for s in settings], device=where, dtype=probs_SV.dtype)
    place_V = torch.arange(V, device=where)
    kept_SV, order_SV = torch.sort(
        probs_SV, dim=-1, descending=True, stable=True
    )  # of equals, lower ids first
    kept_SV = kept_SV.masked_fill_(place_V >= top_k_S[:, None], 0)
    mass_SV = torch.cumsum(kept_SV / kept_SV.sum(-1, keepdim=True), dim=-1)
    count_S = (mass_SV < top_p_S[:, None]).sum(-1) + 1
    is_over_SV = (place_V >= count_S[:, None]) & (top_p_S < 1)[:, None]
    cut_SV = torch.zeros_like(probs_SV).scatter_(1, order_SV, kept_SV.masked_fill_(is_over_SV, 0))
    return cut_SV / cut_SV.sum(-1, keepdim=True)


def _over_temperature(
    scores_SV: Tensor, settings: Sequence[Sampling], kinds: Iterable[Sampling]
) -> Tensor:
    temperatures = {s.temperature or 1.0 for s in kinds}
    if temperatures == {1.0}:
        return scores_SV
    if len(temperatures) == 1:
        return scores_SV / temperatures.pop()
    return scores_SV / scores_SV.new_tensor([[s.temperature or 1.0] for s in settings])


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
