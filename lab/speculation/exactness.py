"""Whether draws come from a distribution: Pearson's chi-square test, and how much it can see.

The test is for outcomes that were drawn independently of one another, such as the first three
tokens of many answers with seeds of their own; not for the tokens of one answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias, TypeVar

Number: TypeAlias = int | float | Fraction
Outcome = TypeVar("Outcome", bound=Hashable)

ALPHA = 1e-6
"""The level at which this project tests: a right sampler fails one time in a million."""
ROUNDING = 1e-9
"""How far floats that should sum to 1 may be off."""


class ChiSquare(NamedTuple):
    """What the test found."""

    statistic: float
    """The sum over bins of (seen − expected)² / expected; infinite where something was seen that
    cannot be."""
    degrees: int
    """Bins less 1."""
    p_value: float
    """How often a right sampler gives a statistic at least as large."""


def chi_square(
    counts: Mapping[Outcome, int], expected_probs: Mapping[Outcome, Number], *, least: Number = 5
) -> ChiSquare:
    """Compares how often each outcome was seen with how probable it should be.

    Outcomes of which fewer than `least` are expected share one bin. What the probabilities leave
    of 1 belongs to all outcomes that they do not name. The bins do not depend on what was seen.

    60 and 40 of 100 where 50 and 50 are expected: statistic 4, 1 degree, p 0.0455.

    ValueError for no draws or a negative count, for probabilities that are negative or sum to more
    than 1, and where fewer than 2 bins are left: that takes more draws.
    """
    draws = sum(counts.values())
    if draws < 1 or min(counts.values()) < 0:
        raise ValueError(f"counts must be at least 0, and of at least 1 draw: {draws} in all")
    bins = _Bins.of(expected_probs, draws, least)
    seen, impossible = bins.sums(counts)
    statistic = math.inf if impossible else draws * _distance(bins.probs, seen, draws)
    return ChiSquare(statistic, bins.degrees, upper_tail(statistic, bins.degrees))


def power(
    expected_probs: Mapping[Outcome, Number],
    true_probs: Mapping[Outcome, Number],
    draws: int,
    *,
    alpha: float = ALPHA,
    least: Number = 5,
) -> float:
    """How often `chi_square` has a p-value below `alpha` when draws come from `true_probs`.

    The statistic of many draws then has a noncentral chi-square distribution:

        noncentrality = draws · sum over bins of (true − expected)² / expected

    A coin that falls 60 : 40, tossed 1,000 times against 50 : 50, alpha 1e-6: noncentrality 40,
    power 0.92. What cannot be is found as soon as it is seen once. ValueError as `chi_square`.
    """
    bins = _Bins.of(expected_probs, draws, least)
    true, impossible = bins.sums(true_probs)
    beyond = noncentral_upper_tail(
        critical_value(alpha, bins.degrees), bins.degrees, draws * _distance(bins.probs, true, 1)
    )
    return 1 - (1 - beyond) * (1 - min(impossible, 1.0)) ** draws


def upper_tail(statistic: float, degrees: int) -> float:
    """The probability that a chi-square variable with `degrees` is at least `statistic`: the upper
    incomplete gamma function Γ(degrees / 2, statistic / 2), over Γ(degrees / 2).

    3.841 with 1 degree: 0.05. ValueError for less than 1 degree or a negative statistic.
    """
    if degrees < 1 or not statistic >= 0:
        raise ValueError(
            f"degrees must be at least 1 and a statistic at least 0, got {degrees} and {statistic}"
        )
    if math.isinf(statistic):
        return 0.0
    shape, x = degrees / 2, statistic / 2
    return 1 - _lower_by_series(shape, x) if x < shape + 1 else _upper_by_fraction(shape, x)


def critical_value(alpha: float, degrees: int) -> float:
    """The statistic whose upper tail is `alpha`: 3.841 for 0.05 and 1 degree, 23.93 for 1e-6."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    low, high = 0.0, 1.0
    while upper_tail(high, degrees) > alpha:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if upper_tail(middle, degrees) > alpha else (low, middle)
    return high


def noncentral_upper_tail(statistic: float, degrees: int, noncentrality: float) -> float:
    """The upper tail of a noncentral chi-square variable.

    It is a mixture of central ones with degrees + 2 j, where j has a Poisson distribution with
    mean noncentrality / 2.
    """
    shape, x, mean = degrees / 2, statistic / 2, noncentrality / 2
    tail, total, weights, j = upper_tail(statistic, degrees), 0.0, 0.0, 0
    while weights < 1 - 1e-12 and j < mean + 40 * math.sqrt(mean) + 40:
        weight = _poisson(mean, j)
        weights, total = weights + weight, total + weight * tail
        tail, j = min(1.0, tail + _poisson(x, shape + j)), j + 1
    return min(1.0, total + max(0.0, 1 - weights))


@dataclass(frozen=True, slots=True)
class _Bins:
    """Outcomes put together, so that enough of each bin are expected."""

    probs: list[float]
    place: dict[Hashable, int]
    """The bin of each outcome that can be."""
    named: Collection[Hashable]
    """All outcomes that were given a probability, 0 included."""

    @classmethod
    def of(cls, expected: Mapping[Outcome, Number], draws: int, least: Number) -> _Bins:
        """The bins for so many draws."""
        if expected and min(expected.values()) < 0:
            raise ValueError(f"probabilities must be at least 0, got {min(expected.values())}")
        left = float(1 - sum(expected.values()))
        if left < -ROUNDING:
            raise ValueError(f"probabilities must sum to at most 1, got {1 - left}")
        shares: dict[Hashable, float] = {who: float(p) for who, p in expected.items() if p > 0}
        if left > ROUNDING:
            shares[_OTHERS] = left
        groups = _groups(shares, draws, float(least))
        if len(groups) < 2:
            raise ValueError(
                f"a test needs at least 2 bins of {least} expected draws or more, and {draws} "
                f"draws make {len(groups)}"
            )
        return cls(
            [sum(shares[outcome] for outcome in group) for group in groups],
            {outcome: number for number, group in enumerate(groups) for outcome in group},
            expected.keys(),
        )

    @property
    def degrees(self) -> int:
        """Bins less 1."""
        return len(self.probs) - 1

    def sums(self, amounts: Mapping[Outcome, Number]) -> tuple[list[float], float]:
        """What lies in each bin, and what lies on outcomes that cannot be."""
        sums, impossible = [0.0] * len(self.probs), 0.0
        for outcome, amount in amounts.items():
            bin = self.place.get(outcome if outcome in self.named else _OTHERS)
            if bin is None:
                impossible += float(amount)
            else:
                sums[bin] += float(amount)
        return sums, impossible


_OTHERS = object()
"""Stands for every outcome that has no name."""


def _groups(shares: Mapping[Hashable, float], draws: int, least: float) -> list[list[Hashable]]:
    """The outcomes of each bin; those that are too rare for one of their own share one, or go to
    the rarest of the others if even together they are too rare."""
    groups = [[outcome] for outcome, share in shares.items() if draws * share >= least]
    rare = [outcome for outcome, share in shares.items() if draws * share < least]
    if groups and draws * sum(shares[outcome] for outcome in rare) < least:
        min(groups, key=lambda group: shares[group[0]]).extend(rare)
    elif rare:
        groups.append(rare)
    return groups


def _distance(expected: list[float], other: list[float], scale: float) -> float:
    """The sum over bins of (other / scale − expected)² / expected."""
    return sum((o / scale - e) ** 2 / e for o, e in zip(other, expected, strict=True))


def _lower_by_series(shape: float, x: float) -> float:
    """γ(shape, x) / Γ(shape) = x^shape e^−x / Γ(shape + 1) · (1 + x / (shape + 1) + …)."""
    term = total = 1.0
    n = 0
    while term > 1e-17 * total:
        n += 1
        term *= x / (shape + n)
        total += term
    return total * _poisson(x, shape)


def _upper_by_fraction(shape: float, x: float) -> float:
    """Γ(shape, x) / Γ(shape) by its continued fraction, evaluated from the front (Lentz)."""
    b = x + 1 - shape
    c, d = math.inf, 1 / b
    value, step, n = d, 0.0, 0
    while abs(step - 1) > 1e-15:
        n += 1
        a = n * (shape - n)
        b += 2
        d, c = 1 / (a * d + b), b + a / c
        step = c * d
        value *= step
    return value * shape * _poisson(x, shape)


def _poisson(mean: float, count: float) -> float:
    """mean^count e^−mean / Γ(count + 1)."""
    if mean == 0:
        return float(count == 0)
    return math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
