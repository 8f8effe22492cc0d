"""The chi-square test against closed forms, tables and draws."""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.speculation.exactness import (
    chi_square,
    critical_value,
    noncentral_upper_tail,
    power,
    upper_tail,
)

COIN = {"heads": Fraction(1, 2), "tails": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("statistic", "degrees", "tail"),
    [  # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4, upper critical values
        (3.841, 1, 0.05),
        (6.635, 1, 0.01),
        (18.307, 10, 0.05),
        (29.588, 10, 0.001),
        (67.505, 50, 0.05),
        (124.342, 100, 0.05),
        (149.449, 100, 0.001),
    ],
)
def test_tails_are_those_of_the_tables(statistic: float, degrees: int, tail: float) -> None:
    assert upper_tail(statistic, degrees) == pytest.approx(tail, rel=1e-3)
    assert critical_value(tail, degrees) == pytest.approx(statistic, abs=6e-4)


@given(st.floats(0, 1200), st.integers(1, 150))
def test_with_an_even_number_of_degrees_the_tail_is_a_finite_sum(x: float, half: int) -> None:
    terms = (
        math.exp(j * math.log(x) - x - math.lgamma(j + 1)) if x else j == 0 for j in range(half)
    )
    assert upper_tail(2 * x, 2 * half) == pytest.approx(math.fsum(terms), rel=1e-10, abs=1e-15)


@given(st.floats(0, 700))
def test_with_one_degree_it_is_the_tail_of_a_normal_variable_on_both_sides(x: float) -> None:
    assert upper_tail(x, 1) == pytest.approx(math.erfc(math.sqrt(x / 2)), rel=1e-11, abs=1e-15)


@given(st.floats(0, 60), st.floats(0, 300))
def test_a_noncentral_tail_of_one_degree_is_that_of_a_shifted_normal(
    x: float, shift: float
) -> None:
    root, mean = math.sqrt(x), math.sqrt(shift)
    both = (math.erfc((root - mean) / 2**0.5) + math.erfc((root + mean) / 2**0.5)) / 2
    assert noncentral_upper_tail(x, 1, shift) == pytest.approx(both, abs=1e-10)


def test_without_noncentrality_it_is_the_central_tail() -> None:
    assert noncentral_upper_tail(20, 7, 0) == upper_tail(20, 7)


def test_far_tails_keep_their_digits_and_nothing_is_beyond_infinity() -> None:
    assert upper_tail(500, 2) == pytest.approx(math.exp(-250), rel=1e-12)
    assert upper_tail(math.inf, 3) == 0
    assert upper_tail(0, 3) == 1


def test_a_coin() -> None:
    found = chi_square({"heads": 60, "tails": 40}, COIN)
    assert (found.statistic, found.degrees) == (pytest.approx(4), 1)
    assert found.p_value == pytest.approx(0.0455, abs=1e-4)


def test_rare_outcomes_share_a_bin() -> None:
    probs = {"a": 0.5, "b": 0.44, "c": 0.03, "d": 0.03}
    together = chi_square({"a": 50, "b": 40, "c": 9, "d": 1}, probs)
    assert together == chi_square({"a": 50, "b": 40, "cd": 10}, {"a": 0.5, "b": 0.44, "cd": 0.06})
    assert together.degrees == 2


def test_what_is_too_rare_even_together_goes_to_the_rarest_bin() -> None:
    found = chi_square({"a": 50, "b": 46, "c": 4}, {"a": 0.5, "b": 0.46, "c": 0.04})
    assert found == chi_square({"a": 50, "bc": 50}, {"a": 0.5, "bc": 0.5})


def test_what_the_probabilities_leave_belongs_to_the_outcomes_without_a_name() -> None:
    probs = {("x",): 0.5, ("y",): 0.3}
    found = chi_square({("x",): 50, ("y",): 30, ("u",): 12, ("v",): 8}, probs)
    assert (found.statistic, found.degrees) == (pytest.approx(0, abs=1e-20), 2)


@pytest.mark.parametrize("probs", [{"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.3, "c": 0}])
def test_one_draw_of_what_cannot_be_is_enough(probs: dict[str, float]) -> None:
    found = chi_square({"a": 50, "b": 49, "c": 1}, probs)
    assert (found.statistic, found.p_value) == (math.inf, 0)


@pytest.mark.parametrize(
    ("counts", "probs", "message"),
    [
        ({}, COIN, "at least 1 draw: 0 in all"),
        ({"heads": 0}, COIN, "at least 1 draw: 0 in all"),
        ({"heads": -1, "tails": 9}, COIN, "counts must be at least 0"),
        ({"heads": 9}, {"heads": 1.5, "tails": -0.5}, "at least 0, got -0.5"),
        ({"heads": 9}, {"heads": 0.7, "tails": 0.7}, "sum to at most 1, got 1.4"),
        ({"heads": 9}, COIN, "2 bins of 5 expected draws or more, and 9 draws make 1"),
        ({"heads": 90}, {"heads": 1}, "90 draws make 1"),
        ({"heads": 9}, {}, "9 draws make 1"),
    ],
)
def test_what_cannot_be_tested(
    counts: dict[str, int], probs: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        chi_square(counts, probs)


def test_a_tail_needs_a_degree_and_a_level_lies_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="got 1 and -1"):
        upper_tail(-1, 1)
    with pytest.raises(ValueError, match="got 0 and 1"):
        upper_tail(1, 0)
    with pytest.raises(ValueError, match="got nan"):
        critical_value(math.nan, 1)


def drawn(probs: dict[str, float], draws: int, dice: random.Random) -> Counter[str]:
    return Counter(dice.choices(list(probs), list(probs.values()), k=draws))


RIGHT = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}
WRONG = {"a": 0.45, "b": 0.3, "c": 0.17, "d": 0.08}


def test_a_right_sampler_fails_as_often_as_the_level_says() -> None:
    dice = random.Random(1)
    failed = sum(chi_square(drawn(RIGHT, 400, dice), RIGHT).p_value < 0.1 for _ in range(2000))
    assert abs(failed - 200) < 4 * math.sqrt(2000 * 0.1 * 0.9)


def test_a_wrong_sampler_fails_as_often_as_the_power_says() -> None:
    dice = random.Random(2)
    stated = power(RIGHT, WRONG, 800, alpha=0.01)
    failed = sum(chi_square(drawn(WRONG, 800, dice), RIGHT).p_value < 0.01 for _ in range(1000))
    assert 0.3 < stated < 0.7
    assert abs(failed / 1000 - stated) < 0.06


def test_power_grows_with_draws_and_is_the_level_where_nothing_is_wrong() -> None:
    powers = [power(RIGHT, WRONG, draws) for draws in (100, 1000, 5000, 20000)]
    assert powers == sorted(powers)
    assert powers[-1] > 0.999
    assert power(RIGHT, RIGHT, 1000, alpha=0.01) == pytest.approx(0.01)


def test_a_biased_coin() -> None:
    assert power(COIN, {"heads": 0.6, "tails": 0.4}, 1000) == pytest.approx(0.924, abs=1e-3)


def test_what_cannot_be_is_found_when_it_is_drawn_once() -> None:
    leaky = {"heads": 0.499, "tails": 0.499, "edge": 0.002}
    assert power(COIN, leaky, 1000) == pytest.approx(1 - 0.998**1000, abs=1e-4)
    assert power({"heads": 0.5}, {"heads": 0.5, "edge": 0.5}, 1000) == pytest.approx(1e-6)
