"""Rules that look like speculative sampling and are not, and the tests that tell them apart.

Seven are mistakes that are easily made, and one is often chosen on purpose; each is a few lines
beside the right one. What a rule really delivers is enumerated, draw by draw, and what a test would
see of it is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Literal, NamedTuple, TypeAlias

from lab.speculation.acceptance import (
    Check,
    Choose,
    Model,
    Probs,
    Tokens,
    propose,
    quotient,
    stands,
    verify,
)
from lab.speculation.enumeration import dice, one_by_one, texts, total_variation
from lab.speculation.exactness import ALPHA, ChiSquare, Number, chi_square, power


@dataclass(frozen=True, slots=True)
class Pair:
    """A draft and a target as they are sampled, and as they were before a filter; and the sign
    that ends a text."""

    draft: Model
    target: Model
    raw_draft: Model
    raw_target: Model
    stop: int | None = None

    @classmethod
    def of(
        cls, draft: Model, target: Model, keep: int | None = None, stop: int | None = None
    ) -> Pair:
        """Both are sampled from their `keep` likeliest tokens; None: from all."""

        def filtered(model: Model) -> Model:
            return cache(lambda text: likeliest(model(text), keep))

        return cls(filtered(draft), filtered(target), draft, target, stop)


def likeliest(probs: Probs, keep: int | None) -> Probs:
    """The distribution when only its `keep` likeliest tokens may come (top-k)."""
    order = sorted(range(len(probs)), key=lambda token: (-probs[token], token))
    kept = order[:keep]
    total = sum(probs[token] for token in kept)
    return tuple(quotient(p, total) if token in kept else 0 for token, p in enumerate(probs))


def until(stop: int | None, tokens: Tokens) -> Tokens:
    """Tokens up to the first `stop`, which is still one of them."""
    return tokens[: tokens.index(stop) + 1] if stop in tokens else tokens


Rule: TypeAlias = Callable[[Pair, Tokens, int, Choose], Tokens]
"""A round: pair, text so far, number of guesses, draws; it gives the tokens that are delivered."""


def exact(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """The rule as it should be."""
    guesses = propose(pair.draft, text, drafts, choose)
    return until(pair.stop, verify(pair.draft, pair.target, text, guesses, choose))


def from_the_target_again(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """After a rejection it draws from the target, not from what is missing."""
    guesses = propose(pair.draft, text, drafts, choose)
    for place, guess in enumerate(guesses):
        seen = text + guesses[:place]
        if not stands(Check(pair.draft(seen), pair.target(seen)), guess, choose):
            return until(pair.stop, (*guesses[:place], choose(pair.target(seen))))
    return until(pair.stop, (*guesses, choose(pair.target(text + guesses))))


def likeliest_guess(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """It guesses the draft's likeliest token and checks as if that had been drawn."""
    guesses = propose(lambda seen: likeliest(pair.draft(seen), 1), text, drafts, choose)
    return until(pair.stop, verify(pair.draft, pair.target, text, guesses, choose))


def other_draft(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """It draws guesses through the filter and checks with the draft's unfiltered numbers."""
    guesses = propose(pair.draft, text, drafts, choose)
    return until(pair.stop, verify(pair.raw_draft, pair.target, text, guesses, choose))


def other_target(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """The target is filtered, and the check uses its unfiltered numbers."""
    guesses = propose(pair.draft, text, drafts, choose)
    return until(pair.stop, verify(pair.draft, pair.raw_target, text, guesses, choose))


def threshold(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """A guess stands if the target gives it 1/5 or more: no coin is tossed."""
    guesses = propose(pair.draft, text, drafts, choose)
    for place, guess in enumerate(guesses):
        seen = text + guesses[:place]
        check = Check(pair.draft(seen), pair.target(seen))
        if check.target[guess] < Fraction(1, 5):
            new = choose(check.residual or check.target)
            return until(pair.stop, (*guesses[:place], new))
    return until(pair.stop, (*guesses, choose(pair.target(text + guesses))))


def going_on(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """It replaces a guess that falls and keeps checking those that were made behind it."""
    guesses = propose(pair.draft, text, drafts, choose)
    tokens: Tokens = ()
    for place, guess in enumerate(guesses):
        seen = text + guesses[:place]
        check = Check(pair.draft(seen), pair.target(seen))
        stood = stands(check, guess, choose)
        tokens += (guess if stood else choose(check.residual or check.target),)
    return until(pair.stop, (*tokens, choose(pair.target(text + guesses))))


def no_bonus(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """When all guesses stand it throws the target's own next token away."""
    guesses = propose(pair.draft, text, drafts, choose)
    tokens = verify(pair.draft, pair.target, text, guesses, choose)
    return until(pair.stop, tokens[:drafts])


def deaf_to_stops(pair: Pair, text: Tokens, drafts: int, choose: Choose) -> Tokens:
    """It looks for the end of a text only behind the last token of a round."""
    guesses = propose(pair.draft, text, drafts, choose)
    return verify(pair.draft, pair.target, text, guesses, choose)


Test: TypeAlias = Literal["distribution", "tokens per call", "end and usage"]
"""What can find a broken rule: the chi-square test on the first tokens of many answers; a draft
that is the target, with which every call must bring all guesses and the bonus; and the tokens that
are counted beside those that a user may see."""


def delivered(rule: Rule, check: Check) -> tuple[Number, ...]:
    """How often a round of one guess delivers each token first, enumerated.

    Paris 4/5 of the draft and 3/5 of the target, Lyon the rest: `exact` delivers 3/5 and 2/5, and
    `from_the_target_again` 18/25 and 7/25.
    """
    pair = Pair.of(lambda text: check.draft, lambda text: check.target)
    found = texts(partial(_one_guess, rule, pair), 1)
    return tuple(found.get((token,), 0) for token in range(len(check.draft)))


def _one_guess(rule: Rule, pair: Pair, text: Tokens, choose: Choose) -> Tokens:
    return rule(pair, text, 1, choose)


class Broken(NamedTuple):
    """A rule of the gallery."""

    name: str
    rule: Rule
    caught_by: Test
    why: str


GALLERY = (
    Broken(
        "draws again from the target",
        from_the_target_again,
        "distribution",
        "The guesses that stood have brought part of the target already. Drawing from all of it "
        "brings that part twice.",
    ),
    Broken(
        "guesses the likeliest, checks as if drawn",
        likeliest_guess,
        "distribution",
        "The ratio divides by how often a token is guessed. Here one is guessed always.",
    ),
    Broken(
        "filters the draft, divides by the unfiltered",
        other_draft,
        "distribution",
        "What the filter leaves is guessed more often than the ratio believes, so it stands too "
        "often.",
    ),
    Broken(
        "filters the target, checks the unfiltered",
        other_target,
        "distribution",
        "The answer follows the numbers that the check uses, and so it holds tokens that the "
        "filter had taken out.",
    ),
    Broken(
        "accepts from a threshold on",
        threshold,
        "distribution",
        "Whatever passes comes as often as the draft guesses it, not as often as the target would.",
    ),
    Broken(
        "goes on after a rejection",
        going_on,
        "distribution",
        "The guesses behind it were made, and are checked, behind a token that is not there.",
    ),
    Broken(
        "has no bonus token",
        no_bonus,
        "tokens per call",
        "Nothing is wrong with the tokens. A call of the target brings one less than it could.",
    ),
    Broken(
        "does not see a stop inside a round",
        deaf_to_stops,
        "end and usage",
        "What a user sees is cut behind the stop and is right. What is counted and paid is not.",
    ),
)
"""Broken rules, each with the test that catches it."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What is true of a rule, and what the three tests saw of it."""

    expected: Mapping[Tokens, Number]
    """How probable each beginning is when the target decodes alone."""
    shown: Mapping[Tokens, Number]
    """How probable it is by this rule, enumerated."""
    chi_square: ChiSquare
    power: float
    """How often the chi-square test finds it with so many draws; its level where nothing is
    wrong."""
    fewest: int
    """Tokens of the poorest call when the draft is the target."""
    wanted: int
    """What every call must then bring."""
    behind_stop: int
    """Tokens that were delivered behind the end of their text."""
    draws: int
    """Answers that were drawn."""

    @property
    def distance(self) -> Number:
        """Total variation between what is shown and what should be."""
        return total_variation(self.expected, self.shown)

    @property
    def caught_by(self) -> tuple[Test, ...]:
        """The tests that find something."""
        found: dict[Test, bool] = {
            "distribution": self.chi_square.p_value < ALPHA,
            "tokens per call": self.fewest < self.wanted,
            "end and usage": self.behind_stop > 0,
        }
        return tuple(test for test, caught in found.items() if caught)


def examine(
    rule: Rule, pair: Pair, *, drafts: int = 3, length: int = 3, draws: int = 2000, seed: int = 1
) -> Examination:
    """All three tests on one rule: `draws` answers of `length` tokens, with `drafts` guesses a
    round, and exactly what they were drawn from."""

    def round(text: Tokens, choose: Choose) -> Tokens:
        return rule(pair, text, drafts, choose)

    expected = texts(one_by_one(pair.target), length, pair.stop)
    shown: dict[Tokens, Number] = {}
    for text, prob in texts(round, length, pair.stop).items():
        text = until(pair.stop, text)
        shown[text] = shown.get(text, 0) + prob
    choose, rough = dice(seed), _in_floats(pair)
    delivered = [_drawn(rule, rough, drafts, length, choose) for _ in range(draws)]
    seen = Counter(until(pair.stop, text)[:length] for text in delivered)
    same = replace(rough, draft=rough.target, raw_draft=rough.raw_target, stop=None)
    return Examination(
        expected,
        shown,
        chi_square(seen, expected),
        power(expected, shown, draws),
        min(len(rule(same, (), drafts, choose)) for _ in range(100)),
        drafts + 1,
        sum(len(text) - len(until(pair.stop, text)) for text in delivered),
        draws,
    )


def _drawn(rule: Rule, pair: Pair, drafts: int, length: int, choose: Choose) -> Tokens:
    """An answer of at least `length` tokens, or one that is over."""
    text: Tokens = ()
    while len(text) < length and pair.stop not in text:
        text += rule(pair, text, drafts, choose)
    return text


def _in_floats(pair: Pair) -> Pair:
    """The same pair as a machine would have it."""

    def floats(model: Model) -> Model:
        return cache(lambda text: tuple(map(float, model(text))))

    return Pair(
        *(floats(pair.draft), floats(pair.target)),
        *(floats(pair.raw_draft), floats(pair.raw_target)),
        pair.stop,
    )


def table(first: str, *behind: str) -> Model:
    """A model that looks at the last token only: what it says at the beginning, and behind each
    token. `table("0.6 0.4", "1/2 1/2", "0 1")`: behind token 1 it repeats itself for ever."""
    rows = [tuple(map(Fraction, row.split())) for row in (first, *behind)]
    return lambda text: rows[text[-1] + 1 if text else 0]


EXAMPLE = Pair.of(
    table(
        "0.2 0.5 0.2 0.1",
        "0.3 0.3 0.2 0.2",
        "0.6 0.2 0.1 0.1",
        "0.1 0.2 0.5 0.2",
        "0.4 0.3 0.2 0.1",
    ),
    table(
        "0.5 0.3 0.1 0.1",
        "0.1 0.2 0.4 0.3",
        "0.2 0.5 0.1 0.2",
        "0.4 0.3 0.1 0.2",
        "0.3 0.3 0.3 0.1",
    ),
    keep=3,
    stop=3,
)
"""Four tokens, of which the three likeliest may come; the last one ends a text."""
