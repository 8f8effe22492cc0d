"""Speculation on the shipped pair: whatever the settings, answers come as often as the target alone
would give them, and rules that are nearly right are found out.

The statistic is Pearson's over the joint of the first tokens, with 5 expected or more in a bin, at
the level of 1e-6, with fixed seeds. Through the engine five tokens are counted: the first comes
from the prefill, and the others from three guesses and the bonus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor

import lab
from lab.ledgers.speculation import origins
from lab.model.decoder import logits_alone
from lab.model.folder import Model, load
from lab.model.sampling import Choosing, distribution, distributions, draws
from lab.sampling import Sampling, uniform
from lab.speculation import proposer, verify
from lab.speculation.acceptance import Choose
from lab.speculation.enumeration import dice, one_by_one, texts
from lab.speculation.exactness import ALPHA, chi_square, power
from lab.speculation.gallery import GALLERY, Broken, Pair, exact
from lab.speculation.proposer import Guess
from lab.speculation.verify import Check

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT = "It is a truth universally acknowledged, that"
SURE, UNSURE = "I am very much obliged to you, ", "Mr. Dar"
"""Behind the first the target is sure enough that five tokens of any setting make many bins; behind
the second draft and target differ most, which shows with the two likeliest tokens alone."""
LENGTH, FIRST = 3, 5
SETTINGS = {
    "plain": Sampling(),
    "temperature": Sampling(temperature=0.6),
    "top-k": Sampling(top_k=2),
    "top-p": Sampling(top_p=0.7, temperature=0.9),
    "penalties": Sampling(frequency_penalty=1.5, repetition_penalty=1.3, top_k=6),
}
Tokens = tuple[int, ...]


@cache
def model(name: str) -> Model:
    return load(name)


@cache
def encoded(text: str) -> Tokens:
    return tuple(model("tiny").tokenizer.encode(text))


def prompt(setting: str) -> Tokens:
    return encoded(UNSURE if setting == "top-k" else SURE)


@cache
def logits(name: str, behind: Tokens, said: Tokens) -> Tensor:
    return logits_alone(model(name).decoder, [*behind, *said])


def joint(
    logits_of: Callable[[Tokens], Tensor],
    sampling: Sampling,
    least: float,
    known: Tokens = (),
    length: int = LENGTH,
) -> dict[Tokens, float]:
    """How probable each beginning is that is at least as probable as `least`."""
    found = {(): 1.0}
    for place in range(length):
        longer = {}
        for said, prob in found.items():
            row = Choosing(sampling, place, known, said)
            probs = (prob * distribution(logits_of(said), row)).tolist()
            longer.update({(*said, t): p for t, p in enumerate(probs) if p > 0 and p >= least})
        found = longer
    return found


# Through the engine, with the whole vocabulary

ANSWERS, TOGETHER = 1200, 60


@cache
def expected(setting: str) -> dict[Tokens, float]:
    """What is too rare for a bin of its own has no name."""
    known = prompt(setting)
    return joint(partial(logits, "tiny", known), SETTINGS[setting], 5 / ANSWERS, known, FIRST)


def served(setting: str) -> lab.Trace:
    """Many answers, with guesses."""
    requests = [
        lab.Request(
            id=str(number),
            prompt=prompt(setting),
            max_tokens=FIRST + 1,
            n=TOGETHER,
            sampling=replace(SETTINGS[setting], seed=number),
        )
        for number in range(ANSWERS // TOGETHER)
    ]
    policy = lab.Continuous(seats=TOGETHER, blocks=300, draft_tokens=3)
    return lab.serve(requests, policy, model("tiny"), draft=model("tiny-draft"))


def beginnings(trace: lab.Trace) -> Counter[Tokens]:
    return Counter(tuple(record.output[:FIRST]) for record in trace.requests)


@pytest.mark.parametrize("setting", SETTINGS)
def test_answers_come_as_often_as_the_target_gives_them(setting: str) -> None:
    trace = served(setting)
    counts, came = beginnings(trace), origins(trace, FIRST)
    assert counts.total() == ANSWERS
    found = chi_square(counts, expected(setting))
    assert found.p_value > ALPHA
    assert found.degrees >= 10
    assert came["no check"] == ANSWERS  # the first token of each, and no other
    for place in ("guess 1", "guess 2", "guess 3", "bonus"):
        assert came[place] > 100


@pytest.mark.parametrize("setting", SETTINGS)
def test_so_many_answers_would_show_whether_the_draft_gave_some(setting: str) -> None:
    """The power of the test where 3 answers in 10 are the draft's own."""
    mixed, known = {}, prompt(setting)
    for said, prob in expected(setting).items():
        by_draft = 1.0
        for place, token in enumerate(said):
            row = Choosing(SETTINGS[setting], place, known, said[:place])
            probs_V = distribution(logits("tiny-draft", known, said[:place]), row)
            by_draft *= float(probs_V[token])
        mixed[said] = 0.7 * prob + 0.3 * by_draft
    assert power(expected(setting), mixed, ANSWERS) > 0.99


def test_a_draft_that_reports_another_distribution_is_found(monkeypatch: Any) -> None:
    """Its guesses are drawn after top-k, and the numbers it reports are those before."""
    given = proposer.distributions

    def before(logits_SV: Tensor, rows: Sequence[Choosing]) -> Tensor:
        return given(
            logits_SV, [r._replace(sampling=replace(r.sampling, top_k=None)) for r in rows]
        )

    def cut(probs_SV: Tensor, at: Sequence[float]) -> list[int]:
        top = probs_SV.topk(2, dim=-1)
        return draws(torch.zeros_like(probs_SV).scatter_(1, top.indices, top.values), at)

    monkeypatch.setattr(proposer, "distributions", before)
    monkeypatch.setattr(proposer, "draws", cut)
    assert chi_square(beginnings(served("top-k")), expected("top-k")).p_value < ALPHA


def test_drawing_from_the_target_again_after_a_rejection_is_found(monkeypatch: Any) -> None:
    right = verify.rejection_sample

    def again(*given: Any) -> Any:
        verdict, (_, uniforms, _, target_SQV) = right(*given), given
        rows_SV = target_SQV[torch.arange(len(target_SQV)), verdict.accepted]
        return verdict._replace(following=draws(rows_SV, [drawn[-1] for drawn in uniforms]))

    monkeypatch.setattr(verify, "rejection_sample", again)
    assert chi_square(beginnings(served("top-k")), expected("top-k")).p_value < ALPHA


def test_going_on_after_a_rejection_is_found(monkeypatch: Any) -> None:
    right = verify._by_rejection

    def going_on(target_RV: Tensor, checks: Sequence[Check]) -> list[list[int]]:
        said = right(target_RV, checks)
        for tokens, check in zip(said, checks, strict=True):
            tokens += check.guess.tokens[len(tokens) :]
        return said

    monkeypatch.setattr(verify, "_by_rejection", going_on)
    assert chi_square(beginnings(served("top-k")), expected("top-k")).p_value < ALPHA


def test_a_bonus_drawn_at_the_place_before_is_found(monkeypatch: Any) -> None:
    right = verify.rejection_sample

    def too_early(*given: Any) -> Any:
        verdict, (drafts, uniforms, _, target_SQV) = right(*given), given
        rows_SV = target_SQV[range(len(drafts)), [max(len(tokens) - 1, 0) for tokens in drafts]]
        bonus = draws(rows_SV, [drawn[-1] for drawn in uniforms])
        following = [
            one if tokens and stood == len(tokens) else behind
            for one, tokens, stood, behind in zip(bonus, drafts, *verdict, strict=True)
        ]
        return verdict._replace(following=following)

    monkeypatch.setattr(verify, "rejection_sample", too_early)
    assert chi_square(beginnings(served("top-k")), expected("top-k")).p_value < ALPHA


# The verification alone, on eight words of the pair, beside the rules of the gallery

DRAFTS, KEEP, DRAWN = 2, 3, 2000


@cache
def alphabet() -> list[int]:
    """The eight likeliest tokens behind the prompt."""
    return logits("tiny", encoded(TEXT), ()).topk(8).indices.tolist()


@cache
def few(name: str, said: Tokens) -> Tensor:
    """The logits of these eight behind a text of them."""
    ids = alphabet()
    return logits(name, encoded(TEXT), tuple(ids[token] for token in said))[ids].double()


@dataclass
class Text:
    """An answer in the making, and what is guessed of it."""

    sampling: Sampling
    said: Tokens = ()
    guesses: Tokens = ()
    probs: list[Tensor] = field(default_factory=list)

    @property
    def choosing(self) -> Choosing:
        return Choosing(self.sampling, len(self.said), (), self.said)


def verified(sampling: Sampling) -> Counter[Tokens]:
    """The first tokens of answers that `verify` judges all at once, round after round."""
    answers = [Text(replace(sampling, seed=seed)) for seed in range(DRAWN)]
    while open := [one for one in answers if len(one.said) < LENGTH]:
        for _ in range(DRAFTS):
            guess_one_more(open)
        logits_RV = torch.stack(
            [few("tiny", one.said + one.guesses[:k]) for one in open for k in range(DRAFTS + 1)]
        )
        checks = [Check(one.choosing, Guess(one.guesses, torch.stack(one.probs))) for one in open]
        for one, tokens in zip(open, verify.verify(logits_RV, checks)[0], strict=True):
            one.said, one.guesses, one.probs = (*one.said, *tokens), (), []
    return Counter(one.said[:LENGTH] for one in answers)


def guess_one_more(open: Sequence[Text]) -> None:
    rows = [one.choosing.after(one.guesses) for one in open]
    logits_SV = torch.stack([few("tiny-draft", one.said + one.guesses) for one in open])
    probs_SV = distributions(logits_SV, rows)
    at = [uniform(row.sampling.seed, row.position, "draft") for row in rows]
    for one, token, probs_V in zip(open, draws(probs_SV, at), probs_SV, strict=True):
        one.guesses += (token,)
        one.probs.append(probs_V)


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_judged_comes_as_often_as_the_target_gives_it(setting: str) -> None:
    sampling = replace(SETTINGS[setting], top_k=SETTINGS[setting].top_k and KEEP)
    right = joint(partial(few, "tiny"), sampling, 0)
    assert sum(right.values()) == pytest.approx(1)
    assert chi_square(verified(sampling), right).p_value > ALPHA


@cache
def pair() -> Pair:
    """The same eight words for rules on paper: of each distribution the three likeliest."""

    def probs(name: str) -> Callable[[Tokens], Sequence[float]]:
        return cache(lambda said: tuple(few(name, said).softmax(-1).tolist()))

    return Pair.of(probs("tiny-draft"), probs("tiny"), keep=KEEP)


def by(rule: Any) -> Counter[Tokens]:
    choose, seen = dice(1), Counter[Tokens]()
    for _ in range(DRAWN):
        said: Tokens = ()
        while len(said) < LENGTH:
            said += rule(pair(), said, DRAFTS, choose)
        seen[said[:LENGTH]] += 1
    return seen


def test_the_rule_on_paper_passes_on_the_same_numbers() -> None:
    assert (
        chi_square(by(exact), joint(partial(few, "tiny"), Sampling(top_k=KEEP), 0)).p_value > ALPHA
    )


@pytest.mark.parametrize(
    "broken",
    [one for one in GALLERY if one.caught_by == "distribution"],
    ids=lambda one: one.name.replace(" ", "-"),
)
def test_each_broken_rule_of_the_gallery_fails(broken: Broken) -> None:
    """With the same draws and bins that the verification passes; the power is that of the test
    against what the rule really gives, which is enumerated."""
    right = texts(one_by_one(pair().target), LENGTH)

    def round(said: Tokens, choose: Choose) -> Tokens:
        return broken.rule(pair(), said, DRAFTS, choose)

    assert power(right, texts(round, LENGTH), DRAWN) > 0.999
    assert chi_square(by(broken.rule), right).p_value < ALPHA
