"""Softmax without all scores at hand: tiles of keys, three numbers that are kept, and their merge.

One query looks at many keys. Each key has a score s and a value v, and the answer is the mean of
the values, weighted by exp(s). A tile of keys is read, used and forgotten; what stays of it is its
`Statistics`. Numbers are exact where scores are given as `ln(weight)` and values as integers or
fractions, and floats where scores are floats. A value may be a vector: a tuple of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Ln:
    """The score ln(weight), kept as its weight, so that exp(ln 4 − ln 2) is exactly 2."""

    weight: Fraction

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"a weight must be at least 0, got {self.weight}")

    def __sub__(self, other: Ln) -> Ln:
        return Ln(self.weight / other.weight)

    def __repr__(self) -> str:
        return f"ln {self.weight}"


Score: TypeAlias = float | Ln
Number: TypeAlias = int | float | Fraction
Value: TypeAlias = Number | tuple[Number, ...]
MASKED = -math.inf
"""The score of a key that the query may not see: its weight is 0. `ln(0)` is the exact one."""


def ln(weight: int | Fraction) -> Ln:
    """The score whose exponential is exactly `weight`. ValueError below 0."""
    return Ln(Fraction(weight))


def exp(score: Score) -> Number:
    """The weight of a score. OverflowError for a float above 709: no double is as large."""
    return score.weight if isinstance(score, Ln) else math.exp(score)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is kept of the keys of one query that were seen so far.

    The weight of a key is exp(score − maximum); `numerator` is the sum of weight × value and
    `denominator` the sum of the weights. Without any key that may be seen, `maximum` is masked,
    and both sums are 0.
    """

    maximum: Score
    numerator: Value
    denominator: Number

    @property
    def output(self) -> Value:
        """The weighted mean of the values. ValueError where no key may be seen."""
        if not self.denominator:
            raise ValueError("a query must see at least 1 key with a weight above 0, got 0")
        return _map(lambda part: quotient(part, self.denominator), self.numerator)

    def relative_to(self, maximum: Score) -> Statistics:
        """The same keys, with weights relative to another score."""
        factor = rescale(self.maximum, maximum)
        return Statistics(maximum, _times(factor, self.numerator), factor * self.denominator)


def rescale(old: Score, new: Score) -> Number:
    """exp(old − new): what the sums are multiplied by when the maximum changes. 1 if it stays, 0
    where there was no key before."""
    if _is_masked(old):
        return 1 if _is_masked(new) else 0
    return exp(old - new)  # type: ignore[operator]  # both are floats, or both are exact


def of_block(scores: Sequence[Score], values: Sequence[Value]) -> Statistics:
    """The statistics of a tile by itself: weights are relative to its own largest score.

    ValueError for no key, for unequal numbers of scores and values, and for exact scores beside
    floats.
    """
    _check(scores, values)
    return _sums(scores, values, max(scores))


def merge(one: Statistics, other: Statistics) -> Statistics:
    """The statistics of the keys of both. The order does not matter, nor does who is merged
    first, as long as numbers are exact."""
    maximum = max(one.maximum, other.maximum)
    one, other = one.relative_to(maximum), other.relative_to(maximum)
    return Statistics(
        maximum, _plus(one.numerator, other.numerator), one.denominator + other.denominator
    )


class Step(NamedTuple):
    """One tile of keys on its way through the chip."""

    keys: range
    scores: tuple[Score, ...]
    values: tuple[Value, ...]
    rescale: Number
    """What the sums that were kept are multiplied by: exp(old maximum − new maximum)."""
    weights: tuple[Number, ...]
    """exp(score − new maximum) of each key of the tile."""
    added: Statistics
    """The sums of this tile alone, relative to the new maximum."""
    kept: Statistics
    """The sums of all keys so far."""


def online_softmax(
    scores: Sequence[Score],
    values: Sequence[Value],
    tile: int,
    *,
    order: Iterable[int] | None = None,
    track_maximum: bool = True,
    rounding: Callable[[Number], Number] | None = None,
) -> tuple[Step, ...]:
    """The pass over the keys in tiles of `tile` keys, recorded tile by tile; the answer is
    `steps[-1].kept.output`.

    `order` says which tile is read when (tile 0 holds the first keys; all of them from first to
    last if it is not given). Without `track_maximum` weights are exp(score) as they are, which
    overflows for large scores. `rounding` is applied to both sums after each tile: the format in
    which they are kept. ValueError for tiles of less than 1 key, for an order that does not name
    each tile once, and for what `of_block` refuses.
    """
    _check(scores, values)
    if tile < 1:
        raise ValueError(f"a tile must hold at least 1 key, got {tile}")
    tiles = [range(at, min(at + tile, len(scores))) for at in range(0, len(scores), tile)]
    chosen = list(range(len(tiles)) if order is None else order)
    if sorted(chosen) != list(range(len(tiles))):
        raise ValueError(f"the order must name each of {len(tiles)} tiles once, got {chosen}")
    nothing = ln(0) if isinstance(scores[0], Ln) else MASKED
    kept = Statistics(nothing, _map(lambda _: 0, values[0]), 0)
    if not track_maximum:
        kept = Statistics(ln(1) if isinstance(scores[0], Ln) else 0.0, kept.numerator, 0)
    steps: list[Step] = []
    for keys in (tiles[place] for place in chosen):
        mine = tuple(scores[key] for key in keys), tuple(values[key] for key in keys)
        step = _step(keys, *mine, kept, track_maximum, rounding)
        kept = step.kept
        steps.append(step)
    return tuple(steps)


def softmax_average(scores: Sequence[Score], values: Sequence[Value]) -> Value:
    """The answer as the formula has it: all scores at once, and no maximum.

    Σ exp(s) v / Σ exp(s): weights 4, 2, 1, 1 and values 1, 3, 0, 2 give 12 / 8 = 3/2. OverflowError
    for a float above 709.
    """
    _check(scores, values)
    weights = [exp(score) for score in scores]
    numerator = _sum(map(_times, weights, values))
    return Statistics(scores[0], numerator, sum(weights)).output


def equal_average(outputs: Sequence[Value]) -> Value:
    """The mean of the tiles' own outputs, each counted once: the wrong way to merge them."""
    return _map(lambda part: quotient(part, len(outputs)), _sum(outputs))


def quotient(numerator: Number, denominator: Number) -> Number:
    """The exact quotient of exact numbers, and a float of floats."""
    if isinstance(numerator, float) or isinstance(denominator, float):
        return numerator / denominator
    return Fraction(numerator) / denominator


def _step(
    keys: range,
    scores: tuple[Score, ...],
    values: tuple[Value, ...],
    before: Statistics,
    track_maximum: bool,
    rounding: Callable[[Number], Number] | None,
) -> Step:
    maximum = max(before.maximum, *scores) if track_maximum else before.maximum
    factor = rescale(before.maximum, maximum)
    added = _sums(scores, values, maximum)
    old = before.relative_to(maximum)
    numerator = _plus(old.numerator, added.numerator)
    denominator = old.denominator + added.denominator
    if rounding is not None:
        numerator, denominator = _map(rounding, numerator), rounding(denominator)
    weights = tuple(rescale(score, maximum) for score in scores)
    kept = Statistics(maximum, numerator, denominator)
    return Step(keys, scores, values, factor, weights, added, kept)


def _sums(scores: Sequence[Score], values: Sequence[Value], maximum: Score) -> Statistics:
    if _is_masked(maximum):
        return Statistics(maximum, _map(lambda _: 0, values[0]), 0)
    weights = [rescale(score, maximum) for score in scores]
    return Statistics(maximum, _sum(map(_times, weights, values)), sum(weights))


def _is_masked(score: Score) -> bool:
    return score.weight == 0 if isinstance(score, Ln) else score == MASKED


def _check(scores: Sequence[Score], values: Sequence[Value]) -> None:
    if not scores:
        raise ValueError("a query needs at least 1 key, got 0")
    if len(scores) != len(values):
        raise ValueError(
            f"each key has a score and a value, got {len(scores)} scores and {len(values)} values"
        )
    exact = sum(isinstance(score, Ln) for score in scores)
    if 0 < exact < len(scores):
        raise ValueError(
            f"scores are all exact or all floats, got {exact} exact ones among {len(scores)}"
        )


def _map(function: Callable[[Number], Number], value: Value) -> Value:
    return tuple(map(function, value)) if isinstance(value, tuple) else function(value)


def _times(factor: Number, value: Value) -> Value:
    return _map(lambda part: factor * part, value)


def _plus(one: Value, other: Value) -> Value:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return one + other  # type: ignore[operator]  # numbers both


def _sum(values: Iterable[Value]) -> Value:
    return reduce(_plus, values)
