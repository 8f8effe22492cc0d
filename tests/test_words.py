"""The words of captions: counts, lists and durations as somebody would read them aloud."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lab.figures.words import readable
from lab.ledgers.words import counted, grouped, listed


def test_thousands_stand_apart_and_small_numbers_stay_as_they_are() -> None:
    found = [grouped(number) for number in (0, 999, 28_929, 1.75, 1038.4, Fraction(5000, 3))]
    assert found == ["0", "999", "28,929", "1.75", "1,038", "1,667"]


def test_one_is_one_and_everything_else_is_many() -> None:
    assert [counted(n, "block") for n in (0, 1, 2, 1900)] == [
        "0 blocks",
        "1 block",
        "2 blocks",
        "1,900 blocks",
    ]


def test_names_in_a_row_end_with_and() -> None:
    assert [listed(names) for names in ("A", "AB", "ABC")] == ["A", "A and B", "A, B and C"]


@pytest.mark.parametrize(
    ("time", "unit", "words"),
    [
        (1.7543, "s", "1.75 s"),
        (0.0061, "s", "6.1 ms"),
        (0.99996, "s", "1 s"),
        (0, "s", "0 ms"),
        (1500, "ms", "1.5 s"),
        (Fraction(2, 3), "ms", "0.667 ms"),
        (6000, "us", "6 ms"),
        (7200, "s", "7,200 s"),
        (1, "step", "1 step"),
        (Fraction(3, 2), "step", "1.5 steps"),
    ],
)
def test_a_duration_has_three_digits_and_milliseconds_below_a_second(
    time: float, unit: str, words: str
) -> None:
    assert readable(time, unit) == words
