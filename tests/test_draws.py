"""The arithmetic of drawn arrivals and lengths, checked by hand values and by long-run means."""

import math
import random
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.draws import (
    Arrivals,
    Bursts,
    Empirical,
    EvenlySpaced,
    Fixed,
    Geometric,
    Lengths,
    LogNormal,
    OnOff,
    Poisson,
    PrefixedTokens,
    Uniform,
    draw_length,
)

ALL_LENGTHS = (
    Fixed(7),
    Uniform(10, 19),
    LogNormal(median=300, p99=4000, low=2, high=8000),
    Geometric(mean=50),
    Empirical((3, 3, 90)),
)
ALL_ARRIVALS = (EvenlySpaced(4), Poisson(4), Bursts(4, size=3), OnOff(4, on_s=2, off_s=6))


def test_quantiles_are_the_ones_a_table_would_give() -> None:
    assert [Uniform(10, 12).at(share) for share in (0.01, 0.34, 0.67, 0.99)] == [10, 11, 12, 12]
    assert [LogNormal(300, p99=4000).at(share) for share in (0.5, 0.99)] == [300, 4000]
    assert [Geometric(mean=2).at(share) for share in (0.49, 0.51, 0.76, 0.88)] == [1, 2, 3, 4]
    assert [Empirical((5, 9)).at(share) for share in (0.1, 0.49, 0.51, 0.9)] == [5, 5, 9, 9]
    assert Fixed(7).at(0.3) == 7


def test_bounds_of_a_lognormal_move_what_lies_beyond_them() -> None:
    bounded = LogNormal(300, p99=4000, low=200, high=500)
    assert (bounded.at(0.01), bounded.at(0.5), bounded.at(0.99)) == (200, 300, 500)


def test_a_lognormal_never_gives_an_empty_prompt() -> None:
    assert LogNormal(median=0.1, p99=0.2).at(0.5) == 1


@pytest.mark.parametrize("lengths", ALL_LENGTHS, ids=repr)
@given(share=st.floats(2**-53, 1 - 2**-53))
def test_every_share_gives_a_length_of_at_least_one(lengths: Lengths, share: float) -> None:
    length = lengths.at(share)
    assert type(length) is int
    assert length >= 1
    if isinstance(lengths, Uniform):
        assert lengths.low <= length <= lengths.high


@pytest.mark.parametrize(
    ("lengths", "mean"),
    [(Uniform(10, 19), 14.5), (Geometric(50), 50), (Empirical((3, 3, 90)), 32)],
    ids=repr,
)
def test_mean_length_is_within_four_standard_errors(lengths: Lengths, mean: float) -> None:
    dice = random.Random(11)
    drawn = [draw_length(lengths, dice) for _ in range(20_000)]
    average = sum(drawn) / len(drawn)
    spread = math.sqrt(sum((length - average) ** 2 for length in drawn) / len(drawn))
    assert abs(average - mean) < 4 * spread / math.sqrt(len(drawn))


def test_half_of_lognormal_lengths_are_up_to_the_median_and_one_in_a_hundred_beyond_p99() -> None:
    dice = random.Random(11)
    lengths = LogNormal(median=300, p99=4000)
    drawn = [draw_length(lengths, dice) for _ in range(20_000)]
    for bound, share in ((300, 0.5), (4000, 0.99)):
        standard_error = math.sqrt(share * (1 - share) / len(drawn))
        assert abs(sum(d <= bound for d in drawn) / len(drawn) - share) < 4 * standard_error


def test_evenly_spaced_arrivals_begin_at_zero_and_do_not_drift() -> None:
    moments = list(islice(EvenlySpaced(3).micros(random.Random(0)), 3001))
    assert moments[:4] == [0, 333_333, 666_667, 1_000_000]
    assert moments[-1] == 1_000_000_000


@pytest.mark.parametrize("arrivals", ALL_ARRIVALS, ids=repr)
def test_arrivals_are_whole_microseconds_in_order(arrivals: Arrivals) -> None:
    moments = list(islice(arrivals.micros(random.Random(5)), 2000))
    assert {type(moment) for moment in moments} == {int}
    assert moments == sorted(moments)
    assert moments[0] >= 0


@pytest.mark.parametrize(
    ("arrivals", "relative_variance"),
    [(Poisson(4), 1.0), (Bursts(4, size=3), 3.0), (OnOff(4, on_s=2, off_s=6), 37.0)],
    ids=repr,
)
def test_mean_rate_is_within_four_standard_errors(
    arrivals: Arrivals, relative_variance: float
) -> None:
    """Variance of a count over its mean, in a long window: 1 for Poisson, the size for groups, and
    1 + 2 rate off^2 / (on + off) for exponential busy and silent times: 1 + 2 * 4 * 36 / 8 = 37."""
    count = 40_000
    moments = list(islice(arrivals.micros(random.Random(7)), count))
    expected = 4 * moments[-1] / 10**6
    assert abs(count - expected) < 4 * math.sqrt(relative_variance * count)


def test_bursts_come_in_groups_of_the_stated_size() -> None:
    moments = list(islice(Bursts(4, size=3).micros(random.Random(5)), 300))
    groups = [moments[start : start + 3] for start in range(0, 300, 3)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0] for group in groups}) == 100


def test_on_off_arrivals_are_more_clustered_than_poisson_ones() -> None:
    def squared_variation(arrivals: Arrivals) -> float:
        moments = list(islice(arrivals.micros(random.Random(5)), 20_000))
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        mean = sum(gaps) / len(gaps)
        return sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2

    assert squared_variation(Poisson(4)) == pytest.approx(1, abs=0.1)
    assert squared_variation(OnOff(4, on_s=2, off_s=6)) > 5


def test_busy_rate_makes_up_for_the_silent_time() -> None:
    assert OnOff(4, on_s=2, off_s=6).busy_rate == 16


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fixed(0), "Fixed: tokens must be a whole number of at least 1, got 0"),
        (lambda: Fixed(2.5), r"Fixed: tokens .* got 2\.5"),  # type: ignore[arg-type]
        (lambda: Uniform(0, 3), "Uniform: low must be .* got 0"),
        (lambda: Uniform(5, 4), "Uniform: high must be at least low, got 4 < 5"),
        (lambda: LogNormal(10, p99=5), "median must be above 0 and at most .* got 10 and 5"),
        (lambda: LogNormal(0, p99=5), "median must be above 0"),
        (lambda: LogNormal(10, p99=math.nan), "got 10 and nan"),
        (lambda: LogNormal(10, 50, low=9, high=8), "LogNormal: high must be at least low"),
        (lambda: Geometric(1), "Geometric: mean must be a finite number above 1 token, got 1"),
        (lambda: Geometric(math.inf), "got inf"),
        (lambda: Empirical(()), "Empirical: at least 1 length is needed, got 0"),
        (lambda: Empirical((4, 0)), "Empirical: a length must be .* got 0"),
        (lambda: Poisson(0), "Poisson: rate must be above 0 .* got 0"),
        (lambda: Poisson(math.nan), "Poisson: rate must be .* got nan"),
        (lambda: EvenlySpaced(-1), "EvenlySpaced: rate must be above 0 .* got -1"),
        (lambda: Poisson(100_001), "at most 100000 requests a second .* got 100001"),
        (lambda: Bursts(4, size=0), "Bursts: size must be .* got 0"),
        (lambda: OnOff(4, on_s=0, off_s=1), "on_s and off_s must be .* got 0 and 1"),
        (lambda: OnOff(0, on_s=1, off_s=1), "OnOff: rate must be above 0 .* got 0"),
        (lambda: OnOff(60_000, on_s=1, off_s=1), "OnOff in busy times: rate .* got 120000"),
    ],
)
def test_values_that_make_no_sense_are_refused(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=words):
        make()


@given(
    shared=st.integers(0, 20),
    own=st.integers(0, 20),
    index=st.integers(-45, 45),
    cut=st.slices(40),
)
def test_prefixed_tokens_behave_like_the_tuple_they_stand_for(
    shared: int, own: int, index: int, cut: slice
) -> None:
    tokens = PrefixedTokens(shared, range(100, 100 + own))
    meant = (*range(shared), *range(100, 100 + own))
    assert tuple(tokens) == meant
    assert len(tokens) == len(meant)
    assert tokens[cut] == meant[cut]
    if -len(meant) <= index < len(meant):
        assert tokens[index] == meant[index]
    else:
        with pytest.raises(IndexError):
            tokens[index]
