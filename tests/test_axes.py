"""Axes of charts: round numbers at them, where a value lies, and labels that keep apart."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.figures.axes import MOST_TICKS, Axis, across, spread, upward

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-9)
ABOVE_0 = st.floats(1e-6, 1e9)


def test_an_upward_axis_begins_at_0_and_ends_at_a_round_number():
    axis = upward("hit rate (%)", [39.5, Fraction(71)])
    assert (axis.low, axis.high, axis.ticks) == (0, 80, (0, 20, 40, 60, 80))
    assert upward("shares (–)", [0.31]).ticks == (0, 0.1, 0.2, 0.3, 0.4)
    assert upward("gain (ms)", [-3, 4]).ticks == (-4, -2, 0, 2, 4)
    assert upward("waste (%)", [0, 0]).ticks == (0, 0.2, 0.4, 0.6, 0.8, 1)


def test_bounds_are_kept_and_must_hold_all_values():
    axis = upward("utilisation (%)", [20.4, 96.3], bounds=(0, 100))
    assert (axis.low, axis.high, axis.ticks) == (0, 100, (0, 20, 40, 60, 80, 100))
    message = r"the axis 'utilisation \(%\)' goes from 0 to 90, and its values from 20.4 to 96.3"
    with pytest.raises(ValueError, match=message):
        upward("utilisation (%)", [20.4, 96.3], bounds=(0, 90))


def test_an_axis_across_is_as_wide_as_the_values_and_names_few_of_them_all():
    axis = across("cache (blocks)", [256, 64, 1024, 64], log=True)
    assert (axis.low, axis.high, axis.ticks) == (64, 1024, (64, 256, 1024))
    assert across("time (ms)", range(100)).ticks == (0, 20, 40, 60, 80)
    assert across("cache (blocks)", range(1, 2000), log=True).ticks == (1, 10, 100, 1000)
    assert across("cache (blocks)", range(8, 99), log=True).ticks == (10, 20, 50)


def test_one_value_has_room_on_both_sides():
    assert (across("n (–)", [3]).low, across("n (–)", [3]).high) == (2, 4)
    assert (across("n (–)", [3], log=True).low, across("n (–)", [3], log=True).high) == (1.5, 6)


def test_where_a_value_lies():
    linear, log = Axis("x (–)", 0, 100, ()), Axis("x (–)", 1, 100, (), log=True)
    assert (linear.share(0), linear.share(40), linear.share(100)) == (0, 0.4, 1)
    assert (log.share(1), log.share(10), log.share(100)) == (0, 0.5, 1)
    assert (linear.title, log.title) == ("x (–)", "x (–), log scale")


@pytest.mark.parametrize(
    ("column", "values", "log", "message"),
    [
        ("hit rate", [1], False, "must end with its unit, as in 'hit rate (%)', got 'hit rate'"),
        ("(%)", [1], False, "must end with its unit, as in 'hit rate (%)', got '(%)'"),
        ("n (–)", [], False, "an axis needs at least 1 value, and 'n (–)' has 0"),
        ("n (–)", [1, float("nan")], False, "an axis needs finite values, got nan in 'n (–)'"),
        ("n (–)", [1, 0], True, "a log axis needs values above 0, got 0 in 'n (–)'"),
    ],
)
@pytest.mark.parametrize("make", [across, upward])
def test_what_an_axis_cannot_show_is_an_error(make, column, values, log, message):
    with pytest.raises(ValueError) as error:
        make(column, values, log)
    assert str(error.value).endswith(message)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_every_value_and_0_lie_on_an_upward_axis(values):
    axis = upward("n (–)", values)
    slack = 1e-9 * max(abs(axis.low), abs(axis.high))
    assert axis.low - slack <= min(0, *values) <= max(0, *values) <= axis.high + slack
    assert 0 in axis.ticks
    assert 2 <= len(axis.ticks) <= MOST_TICKS + 2
    steps = [after - before for before, after in pairwise(axis.ticks)]
    assert max(steps) == pytest.approx(min(steps))


@given(st.lists(ABOVE_0, min_size=1, max_size=20), st.booleans())
def test_every_value_and_number_lies_on_an_axis_across(values, log):
    axis = across("n (–)", values, log)
    shares = [axis.share(value) for value in (*values, *axis.ticks)]
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)


def test_labels_that_want_one_place_stand_below_each_other():
    assert spread([40, 40], [16, 16], 260) == [40, 56]
    assert spread([40, 30, 200], [16, 16, 32], 260) == [46, 30, 200]


def test_labels_at_an_end_are_pushed_in():
    assert spread([0, 258, 259], [16, 16, 16], 260) == [8, 236, 252]


@given(
    st.lists(st.tuples(st.floats(0, 260), st.sampled_from([16.0, 32.0])), min_size=1, max_size=6)
)
def test_labels_keep_apart_keep_their_order_and_stay_inside(labels):
    wanted, gaps = [at for at, _ in labels], [gap for _, gap in labels]
    places = spread(wanted, gaps, 260)
    order = sorted(range(len(labels)), key=lambda i: (places[i], i))
    assert [wanted[i] for i in order] == sorted(wanted)
    for one, other in pairwise(order):
        assert places[other] - places[one] >= (gaps[one] + gaps[other]) / 2 - 1e-9
    assert all(
        gap / 2 - 1e-9 <= at <= 260 - gap / 2 + 1e-9 for at, gap in zip(places, gaps, strict=True)
    )
