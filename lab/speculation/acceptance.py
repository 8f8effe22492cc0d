"""Guesses that are checked so that the answer is the target's: which stand, and what follows them.

A cheap `draft` guesses the next tokens, and the `target` says how probable each would have been
for it. Tokens are places in a vocabulary: 0, 1, ... Probabilities are exact where they are given
as integers or fractions, and floats where they are floats. Papers write p and q for the two, and
not all of them the same way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from lab.speculation.exactness import ROUNDING, Number

Probs: TypeAlias = Sequence[Number]
"""A probability for each token of the vocabulary."""
Tokens: TypeAlias = tuple[int, ...]
Model: TypeAlias = Callable[[Tokens], Probs]
"""What a model says of the next token behind a text: its distribution, after temperature, top-k
and top-p, the one from which it is really drawn."""
Choose: TypeAlias = Callable[[Probs], int]
"""Draws a token from a distribution: with dice, or once for every token that can come."""


# One guess


@dataclass(frozen=True, slots=True)
class Check:
    """One guess, before anybody knows which it is: where each token's probability goes.

    ValueError for distributions of different lengths, and for what is none.
    """

    draft: Probs
    target: Probs

    def __post_init__(self) -> None:
        for name, probs in (("draft", self.draft), ("target", self.target)):
            total = sum(probs)
            off = ROUNDING if isinstance(total, float) else 0.0
            if not probs or min(probs) < 0 or not -off <= total - 1 <= off:
                raise ValueError(
                    f"the {name} must be probabilities of at least 0 that sum to 1, got "
                    f"{_said(probs)} with sum {total}"
                )
        if len(self.draft) != len(self.target):
            raise ValueError(
                f"draft and target must speak of the same tokens, got {len(self.draft)} and "
                f"{len(self.target)}"
            )

    @property
    def accept(self) -> tuple[Number | None, ...]:
        """How often a token stands once it is guessed: min(1, target / draft).

        None where the draft never guesses it. 0.6 and 0.3 of the target over 0.8 and 0.2: 3/4, 1.
        """
        return tuple(
            accept_probability(draft, target) if draft else None for draft, target in self._pairs
        )

    @property
    def accepted_mass(self) -> tuple[Number, ...]:
        """How often each token is guessed and stands: draft · accept = min(draft, target)."""
        return tuple(min(draft, target) for draft, target in self._pairs)

    @property
    def rejected_mass(self) -> tuple[Number, ...]:
        """How often each token is guessed and falls: max(draft − target, 0)."""
        return tuple(max(draft - target, 0) for draft, target in self._pairs)

    @property
    def missing(self) -> tuple[Number, ...]:
        """What each token still lacks when guesses alone count: max(target − draft, 0)."""
        return tuple(max(target - draft, 0) for draft, target in self._pairs)

    @property
    def accepted(self) -> Number:
        """How often the guess stands."""
        return sum(self.accepted_mass)

    @property
    def rejected(self) -> Number:
        """How often it falls, which is also all that is missing together."""
        return sum(self.rejected_mass)

    @property
    def residual(self) -> tuple[Number, ...] | None:
        """What is drawn from after a rejection: `missing`, so enlarged that it sums to 1.

        None where nothing is missing: draft and target are equal, and no guess falls.
        """
        total = sum(self.missing)
        return tuple(quotient(part, total) for part in self.missing) if total else None

    @property
    def refill(self) -> tuple[Number, ...]:
        """How often each token comes in place of a fallen guess: rejected · residual."""
        residual = self.residual or (0,) * len(self.draft)
        return tuple(self.rejected * part for part in residual)

    @property
    def output(self) -> tuple[Number, ...]:
        """How often each token is delivered: accepted_mass + refill, which is the target."""
        return tuple(a + b for a, b in zip(self.accepted_mass, self.refill, strict=True))

    @property
    def _pairs(self) -> list[tuple[Number, Number]]:
        return list(zip(self.draft, self.target, strict=True))


def accept_probability(draft: Number, target: Number) -> Number:
    """How often a guess stands, from how probable it was for the two: min(1, target / draft).

    0.5 for the draft and 0.3 for the target: 0.6. ValueError if the draft could not guess it.
    """
    if not draft > 0:
        raise ValueError(f"a token that was guessed has a draft probability above 0, got {draft}")
    return 1 if target >= draft else quotient(target, draft)


def quotient(numerator: Number, denominator: Number) -> Number:
    """The exact quotient of exact numbers, and a float of floats."""
    if isinstance(numerator, float) or isinstance(denominator, float):
        return float(numerator / denominator)
    return Fraction(numerator) / denominator


# A round: several guesses, one call of the target


def propose(draft: Model, text: Tokens, count: int, choose: Choose) -> Tokens:
    """`count` guesses, each drawn behind those before it."""
    guesses: Tokens = ()
    for _ in range(count):
        guesses += (choose(draft(text + guesses)),)
    return guesses


def verify(draft: Model, target: Model, text: Tokens, guesses: Tokens, choose: Choose) -> Tokens:
    """What a round delivers: the guesses that stand, and one token of the target's behind them.

    Guesses are checked from left to right. The first that falls is replaced by a token from the
    residual, and all behind it are thrown away: they were guessed behind a token that is not
    there. If all stand, the target's own next token comes as a bonus, since its distribution was
    computed with the others. So 4 guesses bring 1 to 5 tokens.
    """
    for place, guess in enumerate(guesses):
        seen = text + guesses[:place]
        check = Check(draft(seen), target(seen))
        if not stands(check, guess, choose):
            return (*guesses[:place], choose(check.residual or check.target))
    return (*guesses, choose(target(text + guesses)))


def stands(check: Check, guess: int, choose: Choose) -> bool:
    """Tosses the coin for a guess. ValueError if the draft could not guess it."""
    accept = accept_probability(check.draft[guess], check.target[guess])
    return choose((1 - accept, accept)) == 1


def greedy_matches(guesses: Sequence[int], choices: Sequence[int]) -> int:
    """How many guesses stand when the target always takes its likeliest token: those before the
    first that is not the token it would have taken there.

    Guesses 7, 3, 9 where it takes 7, 3, 4 and 8: 2 stand, and 4 follows them. ValueError unless
    there is one choice for each guess and one behind the last.
    """
    if len(choices) != len(guesses) + 1:
        raise ValueError(
            f"the target chooses behind the text and behind each guess: {len(guesses)} guesses "
            f"take {len(guesses) + 1} choices, got {len(choices)}"
        )
    for place, guess in enumerate(guesses):
        if guess != choices[place]:
            return place
    return len(guesses)


def _said(probs: Probs) -> str:
    return f"[{', '.join(map(str, probs))}]"
