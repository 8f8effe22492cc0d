"""Axes of charts: from where to where they go, which numbers stand at them, where a value lies."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.request import Time

MOST_VALUES = 8
"""So many values or fewer stand at their axis themselves."""
MOST_TICKS = 6
_UNIT = re.compile(r".*\S \([^()]+\)$")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`, linear or with `log` logarithmic, and the numbers at it.

    `column` is the name of what is drawn with its unit, such as "hit rate (%)".
    """

    column: str
    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    @property
    def title(self) -> str:
        """What stands beside the axis: the column, and whether it is logarithmic."""
        return f"{self.column}, log scale" if self.log else self.column

    def share(self, value: float) -> float:
        """Where a value lies, from 0 at the low end to 1 at the high one: 40 of 0 to 100 at 0.4,
        and on a log axis 10 of 1 to 100 at 0.5."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def across(column: str, values: Sequence[Time], log: bool = False) -> Axis:
    """The axis that a chart runs along: exactly as wide as the values. Up to 8 different values
    stand at it themselves, else round numbers.

    Raises ValueError for a column without a unit, and for values that a log axis cannot show.
    """
    check_values(column, values, log)
    numbers = sorted({float(value) for value in values})
    low, high = numbers[0], numbers[-1]
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    ticks = tuple(numbers) if len(numbers) <= MOST_VALUES else _inside(low, high, log)
    return Axis(column, low, high, ticks, log)


def upward(
    column: str,
    values: Sequence[Time],
    log: bool = False,
    bounds: tuple[Time, Time] | None = None,
) -> Axis:
    """The axis on which values are read off: from 0, or from the lowest value below it, up to a
    round number; with `log` from the lowest to the highest; or from and to the `bounds`.

    39.5 and 71 make an axis from 0 to 80 with a number at each 20. Raises ValueError as `across`
    does, and for bounds that do not hold all values.
    """
    check_values(column, values, log)
    numbers = [float(value) for value in values]
    low, high = min(numbers), max(numbers)
    if bounds is not None:
        first, last = map(float, bounds)
        if not (first <= low and high <= last and first < last):
            raise ValueError(
                f"the axis {column!r} goes from {first:g} to {last:g}, and its values from {low:g} "
                f"to {high:g}"
            )
        check_values(column, [first], log)
        return Axis(column, first, last, _inside(first, last, log), log)
    if log:
        low, high = (low, high) if low < high else (low / 2, high * 2)
        return Axis(column, low, high, _inside(low, high, log), log)
    low, high = min(low, 0), max(high, 0)
    ticks = _round_numbers(low, high if high > low else 1)
    return Axis(column, ticks[0], ticks[-1], ticks)


def spread(wanted: Sequence[float], gap: Sequence[float], end: float) -> list[float]:
    """Places for labels between 0 and `end`, in the order of `wanted` and near to it, so that label
    i has `gap[i]` for itself.

    Two labels of 16 pixels that both want 40 stand at 40 and 56. Where there is too little room
    for all, the last ones stand beyond the end.
    """
    places: list[float] = []
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    apart = [(gap[one] + gap[other]) / 2 for one, other in pairwise(order)]
    for index, which in enumerate(order):
        least = places[-1] + apart[index - 1] if places else gap[which] / 2
        places.append(max(wanted[which], least))
    most = end - gap[order[-1]] / 2
    for index in range(len(order) - 1, -1, -1):
        places[index] = min(places[index], most)
        most = places[index] - apart[index - 1] if index else most
    if places[0] < (first := gap[order[0]] / 2):
        places = [place + first - places[0] for place in places]
    return [places[order.index(which)] for which in range(len(wanted))]


def check_values(column: str, values: Sequence[Time], log: bool = False) -> None:
    """Raise ValueError unless the column names its unit and an axis can show all its values."""
    if not _UNIT.match(column):
        raise ValueError(
            f"a column on an axis must end with its unit, as in 'hit rate (%)', got {column!r}"
        )
    if not values:
        raise ValueError(f"an axis needs at least 1 value, and {column!r} has 0")
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"an axis needs finite values, got {value} in {column!r}")
        if log and value <= 0:
            raise ValueError(f"a log axis needs values above 0, got {value} in {column!r}")


def _round_numbers(low: float, high: float) -> tuple[float, ...]:
    """Multiples of 1, 2 or 5 times a power of ten, about six of them, that enclose both ends."""
    least = (high - low) / (MOST_TICKS - 1)
    power: float = 10.0 ** math.floor(math.log10(least) + 1e-9)
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= least * (1 - 1e-9))
    numbers = range(math.floor(low / step), math.ceil(high / step) + 1)
    return tuple(float(f"{number * step:.12g}") for number in numbers)


def _inside(low: float, high: float, log: bool) -> tuple[float, ...]:
    """Round numbers between the two ends: on a log axis powers of ten, and where these would be
    few, 2 and 5 times them."""
    numbers: Sequence[float]
    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        firsts = (1, 2, 5) if high / low < 100 else (1,)
        numbers = [float(f"{first}e{decade}") for decade in decades for first in firsts]
    else:
        numbers = _round_numbers(low, high)
    return tuple(number for number in numbers if low <= number <= high)
