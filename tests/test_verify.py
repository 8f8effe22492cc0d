"""Which guesses stand: by hand, by key, and by two ways that must agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.reference import rejection_sample
from lab.model.sampling import Choosing, distribution, distributions
from lab.sampling import GREEDY, Sampling, uniform
from lab.speculation.proposer import Guess
from lab.speculation.verify import Check, verify

V = 7


def drawn(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, V, generator=torch.Generator().manual_seed(seed)).double() * 2


@st.composite
def checks(draw: st.DrawFn) -> list[Check]:
    """Sequences with guesses of several lengths, sure or drawn, each with its own settings."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        tokens = tuple(draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=4)))
        sampling = draw(
            st.sampled_from(
                (
                    GREEDY,
                    Sampling(),
                    Sampling(temperature=0.5, top_p=0.8),
                    Sampling(frequency_penalty=2.0, top_k=4),
                )
            )
        )
        seed = draw(st.integers(0, 99))
        choosing = Choosing(replace(sampling, seed=seed), 9 + number, (1, 2), (3,))
        probs_KV = None if draw(st.booleans()) else drawn(len(tokens), seed).softmax(-1)
        found.append(Check(choosing, Guess(tokens, probs_KV)))
    return found


@given(checks(), st.integers(0, 99))
def test_each_is_judged_by_the_reference_with_the_draws_of_its_keys(
    asked: list[Check], seed: int
) -> None:
    logits_RV = drawn(sum(len(check.guess.tokens) + 1 for check in asked), seed)
    said, _ = verify(logits_RV, asked)
    start = 0
    for (choosing, (tokens, probs_KV)), found in zip(asked, said, strict=True):
        K = len(tokens)
        rows = [choosing.after(tokens[:k]) for k in range(K + 1)]
        target_QV = torch.stack(
            [distribution(logits_RV[start + k], row) for k, row in enumerate(rows)]
        )
        if probs_KV is None:
            probs_KV = torch.eye(V).double()[list(tokens)]
        keyed = choosing.sampling.seed, choosing.position
        uniforms = [uniform(keyed[0], keyed[1] + k, "accept") for k in range(K)]
        accepted, behind = rejection_sample(
            list(tokens), probs_KV, target_QV, [*uniforms, uniform(*keyed, "residual")]
        )
        assert found == [*tokens[:accepted], behind]
        start += K + 1


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=4))
def test_greedy_guesses_stand_alike_alone_and_beside_somebody_who_draws(
    guessed: list[list[int]],
) -> None:
    greedy = [Check(Choosing(GREEDY, 4), Guess(tuple(tokens))) for tokens in guessed]
    logits_RV = drawn(sum(map(len, guessed)) + len(guessed), len(guessed[0])).float()
    logits_RV[:, :3] += 4
    alone, _ = verify(logits_RV, greedy)
    other = Check(Choosing(Sampling(), 4), Guess((1,)))
    beside, _ = verify(torch.cat([logits_RV, drawn(2, 0).float()]), [*greedy, other])
    assert beside[:-1] == alone


def test_a_row_too_many_or_no_number_is_refused() -> None:
    check = Check(Choosing(Sampling(), 4), Guess((1, 2)))
    for sampling in (Sampling(), GREEDY):
        asked = [check._replace(choosing=Choosing(sampling, 4))]
        with pytest.raises(ValueError, match="there are 4 rows of logits and 3 to choose for"):
            verify(drawn(4, 0), asked)
    with pytest.raises(ValueError, match="logits must be finite"):
        verify(drawn(3, 0).fill_(torch.nan), [check])


def test_log_probabilities_stand_beside_each_token() -> None:
    sampling = Sampling(temperature=0, logprobs=1, logprobs_of="logits")
    logits_RV = drawn(3, 5)
    likeliest = logits_RV.argmax(-1).tolist()
    wrong = (likeliest[1] + 1) % V
    check = Check(Choosing(sampling, 4), Guess((likeliest[0], wrong)))
    (tokens,), (said,) = verify(logits_RV, [check])
    assert tokens == likeliest[:2]
    logs_RV = logits_RV.log_softmax(-1)
    assert [one.chosen for one in said if one] == pytest.approx(
        [float(logs_RV[k, token]) for k, token in enumerate(tokens)]
    )
    assert distributions(logits_RV, check.rows).argmax(-1).tolist() == likeliest
