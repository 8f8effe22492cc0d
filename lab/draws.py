"""Random arrivals and lengths: what a drawn workload is made of, the same on every machine.

Only `random()` and `randrange()` are asked of a generator; lengths and gaps are rounded to whole
tokens and microseconds, so the last bit of a logarithm does not matter.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Protocol, overload, runtime_checkable

MICROS_PER_S = 10**6
HIGHEST_RATE = 10**5
"""Arrivals are whole microseconds: above this many a second, rounding would bend the rate."""


@runtime_checkable
class Lengths(Protocol):
    """A distribution of lengths in tokens."""

    def at(self, share: float) -> int:
        """The length that stands at `share` of the distribution, `0 < share < 1`."""


@runtime_checkable
class Arrivals(Protocol):
    """A random process of arrivals."""

    def micros(self, dice: random.Random) -> Iterator[int]:
        """Moments of arrival in microseconds from 0 on, in order, without end."""


def draw_length(lengths: Lengths, dice: random.Random) -> int:
    """The length at a share that is drawn evenly. Always one draw, whatever `lengths` is."""
    return lengths.at((dice.randrange(2**52) + 0.5) / 2**52)  # the middle of a cell: never 0 or 1


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every length is `tokens`."""

    tokens: int

    def __post_init__(self) -> None:
        _check_whole("Fixed: tokens", self.tokens)

    def at(self, share: float) -> int:
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length from `low` to `high`, both included, is equally likely."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_bounds("Uniform", self.low, self.high)

    def at(self, share: float) -> int:
        return self.low + int(share * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Many short lengths and a long tail: half are up to `median`, 99 of 100 up to `p99`.

    Lengths beyond `low` and `high` are moved to the bound (not drawn again).
    """

    median: float
    p99: float
    low: int = 1
    high: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.median <= self.p99 < math.inf:
            raise ValueError(
                "LogNormal: median must be above 0 and at most a finite p99, "
                f"got {self.median} and {self.p99}"
            )
        _check_bounds("LogNormal", self.low, self.high)

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm of a length."""
        return math.log(self.p99 / self.median) / NormalDist().inv_cdf(0.99)

    def at(self, share: float) -> int:
        length = round(self.median * math.exp(self.sigma * NormalDist().inv_cdf(share)))
        length = max(length, self.low)
        return length if self.high is None else min(length, self.high)


@dataclass(frozen=True, slots=True)
class Geometric:
    """Lengths 1, 2, 3, ... of answers that end after each token with chance `1 / mean`."""

    mean: float

    def __post_init__(self) -> None:
        if not 1 < self.mean < math.inf:
            raise ValueError(
                f"Geometric: mean must be a finite number above 1 token, got {self.mean}"
            )

    def at(self, share: float) -> int:
        return 1 + int(math.log1p(-share) / math.log1p(-1 / self.mean))


@dataclass(frozen=True, slots=True)
class Empirical:
    """One of the given lengths, each equally likely: a measured distribution."""

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths:
            raise ValueError("Empirical: at least 1 length is needed, got 0")
        for length in self.lengths:
            _check_whole("Empirical: a length", length)

    def at(self, share: float) -> int:
        return self.lengths[int(share * len(self.lengths))]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Lengths on straight lines between quantiles `(share, length)`: `((0, 2), (0.5, 20), (1, 90))`
    is half of the time from 2 to 20. The first share is 0, the last 1, and both columns rise."""

    points: tuple[tuple[float, int], ...]

    def __post_init__(self) -> None:
        shares = [share for share, _ in self.points]
        lengths = [length for _, length in self.points]
        if len(shares) < 2 or shares[0] != 0 or shares[-1] != 1:
            raise ValueError(f"Quantiles: the shares must go from 0 to 1, got {shares}")
        for rising, name in ((shares, "shares"), (lengths, "lengths")):
            if rising != sorted(rising):
                raise ValueError(f"Quantiles: the {name} must rise, got {rising}")
        for length in lengths:
            _check_whole("Quantiles: a length", length)

    def at(self, share: float) -> int:
        for (low, least), (high, most) in pairwise(self.points):
            if share < high:
                return least + int((share - low) / (high - low) * (most - least))
        return self.points[-1][1]


@dataclass(frozen=True, slots=True)
class EvenlySpaced:
    """`rate` requests a second like clockwork, the first at 0."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate("EvenlySpaced", self.rate)

    def micros(self, dice: random.Random) -> Iterator[int]:
        number = 0
        while True:
            yield round(number * MICROS_PER_S / self.rate)
            number += 1


@dataclass(frozen=True, slots=True)
class Poisson:
    """`rate` requests a second on average, from many users who know nothing of one another."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate("Poisson", self.rate)

    def micros(self, dice: random.Random) -> Iterator[int]:
        now = 0
        while True:
            now += _exponential_micros(1 / self.rate, dice)
            yield now


@dataclass(frozen=True, slots=True)
class Bursts:
    """Groups of `size` requests at one moment, `rate` requests a second on average.

    The moments of the groups are a Poisson process of `rate / size` groups a second.
    """

    rate: float
    size: int

    def __post_init__(self) -> None:
        _check_rate("Bursts", self.rate)
        _check_whole("Bursts: size", self.size)

    def micros(self, dice: random.Random) -> Iterator[int]:
        for moment in Poisson(self.rate / self.size).micros(dice):
            for _ in range(self.size):
                yield moment


@dataclass(frozen=True, slots=True)
class OnOff:
    """Busy and silent times in turn, `rate` requests a second on average over both.

    A busy time lasts `on_s` seconds on average, a silent one `off_s`, both exponential. Within
    busy times the requests are a Poisson process of `busy_rate` requests a second. The first busy
    time begins at 0.
    """

    rate: float
    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        if not (0 < self.on_s < math.inf and 0 < self.off_s < math.inf):
            raise ValueError(
                "OnOff: on_s and off_s must be finite and above 0, "
                f"got {self.on_s} and {self.off_s}"
            )
        _check_rate("OnOff", self.rate)
        _check_rate("OnOff in busy times", self.busy_rate)

    @property
    def busy_rate(self) -> float:
        """Requests a second within busy times."""
        return self.rate * (self.on_s + self.off_s) / self.on_s

    def micros(self, dice: random.Random) -> Iterator[int]:
        now = 0
        busy_left = _exponential_micros(self.on_s, dice)
        while True:
            gap = _exponential_micros(1 / self.busy_rate, dice)
            while gap > busy_left:
                gap -= busy_left
                now += busy_left + _exponential_micros(self.off_s, dice)
                busy_left = _exponential_micros(self.on_s, dice)
            now += gap
            busy_left -= gap
            yield now


@dataclass(frozen=True, slots=True)
class PrefixedTokens(Sequence[int]):
    """A prompt of `shared` ids, counted from 0, and then its `own` ids. It holds no ids.

    It behaves like the tuple of its ids; a slice is a real tuple.
    """

    shared: int
    own: range

    def __len__(self) -> int:
        return self.shared + len(self.own)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, slice):
            return tuple(self._token(place) for place in range(len(self))[index])
        return self._token(range(len(self))[index])

    def _token(self, place: int) -> int:
        return place if place < self.shared else self.own[place - self.shared]


def _exponential_micros(mean_s: float, dice: random.Random) -> int:
    return round(-math.log(1 - dice.random()) * mean_s * MICROS_PER_S)


def _check_rate(name: str, rate: float) -> None:
    if not 0 < rate <= HIGHEST_RATE:
        raise ValueError(
            f"{name}: rate must be above 0 and at most {HIGHEST_RATE} requests a second "
            f"(arrivals are whole microseconds), got {rate}"
        )


def _check_whole(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def _check_bounds(name: str, low: int, high: int | None) -> None:
    _check_whole(f"{name}: low", low)
    if high is not None:
        _check_whole(f"{name}: high", high)
        if high < low:
            raise ValueError(f"{name}: high must be at least low, got {high} < {low}")
