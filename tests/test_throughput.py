"""Throughput: a count in a named window, and nothing without the window."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.latency import exact_ratio
from lab.ledgers.throughput import Window, ended_in, per_second, window_of
from lab.trace import Trace, Unit

WORK = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
SERIAL = lab.given({"A": [100, 140, 180], "B": [260, 300], "C": [360]}, WORK)
CONTINUOUS = lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, WORK)


def one(arrival: Any, moments: list[Any], unit: Unit = "ms") -> Trace:
    work = lab.Workload.given({"A": (arrival, 1, len(moments))})
    return lab.given({"A": moments}, work, unit=unit)


def three_endings() -> Trace:
    """A is refused at 5, B hangs up at 8, C finishes at 11."""
    rows: dict[str, Any] = {
        "A": (5, 99, 1),
        "B": {"arrival": 5, "prompt": 1, "output": 20, "cancel_at": 8},
        "C": (5, 1, 6),
    }
    policy = lab.Continuous(blocks=8, block_tokens=4)
    return lab.simulate(lab.Workload.given(rows), policy, lab.CostModel.equal_steps())


# Windows


def test_the_drain_window_lasts_from_the_first_arrival_to_the_last_completion() -> None:
    assert window_of(SERIAL, "drain") == (0, 360)
    assert window_of(CONTINUOUS, "drain") == (0, 200)
    assert window_of(one(30, [50, 90]), "drain") == (30, 90)


def test_the_drain_window_ends_with_a_completion_and_not_with_a_cancellation() -> None:
    rows: dict[str, Any] = {"A": (0, 1, 2), "B": {"prompt": 1, "output": 99, "cancel_at": 50}}
    cost = lab.CostModel.equal_steps()
    trace = lab.simulate(lab.Workload.given(rows), lab.Continuous(), cost)
    assert window_of(trace, "drain") == (0, 2)


def test_a_fixed_window_is_the_same_for_every_schedule() -> None:
    for trace in (SERIAL, CONTINUOUS):
        found = lab.throughput(trace, window=(0, 400))
        assert (found.window, found.start, found.end) == ("fixed", 0, 400)
        assert (found.output_tokens, found.finished, found.tokens_per_second) == (6, 3, 15)


def test_a_window_is_open_at_its_start_and_closed_at_its_end() -> None:
    assert lab.throughput(SERIAL, window=(100, 180)).output_tokens == 2
    assert lab.throughput(SERIAL, window=(99, 179)).output_tokens == 2
    assert lab.throughput(SERIAL, window=(180, 300)).output_tokens == 2
    assert lab.throughput(SERIAL, window=(100, 180)).finished == 1
    assert lab.throughput(SERIAL, window=(180, 300)).finished == 1


def test_windows_end_to_end_count_every_token_and_every_ending_once() -> None:
    parts = [lab.throughput(SERIAL, window=ends) for ends in ((0, 100), (100, 300), (300, 400))]
    assert [part.output_tokens for part in parts] == [1, 4, 1]
    assert [part.finished for part in parts] == [0, 2, 1]


def test_what_happens_at_the_first_arrival_is_in_the_window_that_begins_with_it() -> None:
    trace = three_endings()
    assert lab.throughput(trace).others == {"cancelled": 1, "refused": 1}
    assert lab.throughput(trace, window=(4, 5)).others == {"refused": 1}
    assert lab.throughput(trace, window=(5, 11)).others == {"cancelled": 1, "refused": 1}
    at_once = one(5, [5, 9])
    assert lab.throughput(at_once).output_tokens == 2
    assert lab.throughput(at_once, window=(0, 5)).output_tokens == 1


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ((5, 5), "must end after it starts, got 5 to 5"),
        ((9, 5), "must end after it starts, got 9 to 5"),
        ("all", "a window is 'drain' or a pair of moments, got 'all'"),
    ],
)
def test_a_window_that_is_none_is_an_error(window: Window, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lab.throughput(SERIAL, window=window)


def test_a_drain_window_without_a_completion_is_an_error() -> None:
    rows = {"A": {"prompt": 1, "output": 9, "cancel_at": 2}}
    cost = lab.CostModel.equal_steps()
    trace = lab.simulate(lab.Workload.given(rows), lab.Continuous(), cost)
    with pytest.raises(ValueError, match="ends with the last completion, and nothing finished"):
        lab.throughput(trace)
    assert lab.throughput(trace, window=(0, 10)).output_tokens == 2


def test_a_drain_window_of_no_length_is_an_error_and_no_division_by_zero() -> None:
    with pytest.raises(ValueError, match="must end after it starts, got 3 to 3"):
        lab.throughput(one(3, [3]))


# Counts


def test_failures_and_cancellations_are_counted_apart_and_their_tokens_are_delivered() -> None:
    found = lab.throughput(three_endings())
    assert (found.start, found.end) == (5, 11)
    assert found.finished == 1
    assert found.others == {"cancelled": 1, "refused": 1}
    assert found.output_tokens == 3 + 6
    assert found.requests_per_second == Fraction(1, 6)
    assert list(found.others) == sorted(found.others)


def test_several_tokens_of_one_moment_all_count() -> None:
    assert lab.throughput(one(0, [10, 10, 10, 20]), window=(0, 10)).output_tokens == 3
    assert lab.throughput(one(0, [10, 10, 10, 20]), window=(10, 20)).output_tokens == 1


@pytest.mark.parametrize(("unit", "rate"), [("us", 2_000_000), ("ms", 2000), ("s", 2), ("step", 2)])
def test_a_rate_is_per_second_and_in_steps_per_step(unit: Unit, rate: int) -> None:
    found = lab.throughput(one(0, [1, 2, 3, 3, 3, 3], unit))
    assert found.tokens_per_second == rate
    assert per_second(6, 3, unit) == rate


def test_a_table_in_steps_says_per_step() -> None:
    assert "tokens/step" in repr(lab.throughput(one(0, [1, 2], "step")))
    assert "tokens/s " in repr(lab.throughput(one(0, [1, 2], "s")))


def test_rates_stay_exact() -> None:
    found = lab.throughput(one(0, [Fraction(1, 3), Fraction(2, 3)], "s"))
    assert (found.tokens_per_second, type(found.tokens_per_second)) == (3, int)
    assert lab.throughput(SERIAL).tokens_per_second == Fraction(50, 3)


def test_the_account_as_a_table_names_its_window_and_every_ending() -> None:
    assert repr(lab.throughput(three_endings())).splitlines() == [
        "window in step",
        "window  from  to  output tokens  tokens/step  finished  requests/step  cancelled  refused",
        "------  ----  --  -------------  -----------  --------  -------------  ---------  -------",
        "drain      5  11              9          3/2         1            1/6          1        1",
    ]
    assert "<td>50/3</td>" in lab.throughput(SERIAL)._repr_html_()


@given(
    st.lists(
        st.lists(st.integers(0, 40), min_size=1, max_size=5).map(sorted), min_size=1, max_size=5
    ),
    st.integers(-5, 45),
    st.integers(1, 30),
)
def test_a_window_counts_what_a_walk_through_the_deliveries_counts(
    rows: list[list[int]], start: int, length: int
) -> None:
    work = lab.Workload.given({f"r{i}": (0, 1, len(m)) for i, m in enumerate(rows)})
    trace = lab.given({f"r{i}": moments for i, moments in enumerate(rows)}, work)
    end = start + length

    def inside(moment: int) -> bool:
        return start < moment <= end or moment == start == 0

    found = lab.throughput(trace, window=(start, end))
    assert found.output_tokens == sum(inside(moment) for moments in rows for moment in moments)
    assert found.finished == sum(inside(moments[-1]) for moments in rows)
    assert found.finished == len(ended_in(trace, start, end))
    assert found.tokens_per_second == Fraction(1000 * found.output_tokens, length)


# The worked numbers of the three-request schedule


def test_the_worked_drain_windows_are_met() -> None:
    serial, continuous = lab.throughput(SERIAL), lab.throughput(CONTINUOUS)
    lab.worked("throughput-drain-window-serial", serial.tokens_per_second)
    lab.worked("throughput-drain-window-continuous", continuous.tokens_per_second)
    ratio = exact_ratio(continuous.tokens_per_second, serial.tokens_per_second)
    lab.worked("throughput-drain-meaning", ratio)


def test_the_worked_fixed_windows_are_met() -> None:
    for name, end in (("throughput-fixed-window-400", 400), ("exercise-2-window-500", 500)):
        rates = [
            lab.throughput(trace, window=(0, end)).tokens_per_second
            for trace in (SERIAL, CONTINUOUS)
        ]
        lab.worked(name, dict(zip(("serial", "continuous"), rates, strict=True)))
    lab.worked(
        "throughput-definition-002", lab.throughput(SERIAL, window=(0, 400)).tokens_per_second
    )


def test_the_worked_idle_times_are_met_and_mixed_windows_mislead() -> None:
    drains = [lab.throughput(trace) for trace in (SERIAL, CONTINUOUS)]
    fixed = [lab.throughput(trace, window=(0, 400)) for trace in (SERIAL, CONTINUOUS)]
    lab.worked(
        "throughput-no-contradiction",
        [one.end - drain.end for one, drain in zip(fixed, drains, strict=True)],
        wrong={
            "mixed_windows_continuous_over_serial": exact_ratio(
                drains[1].tokens_per_second, fixed[0].tokens_per_second
            ),
            "mixed_windows_serial_over_continuous": exact_ratio(
                drains[0].tokens_per_second, fixed[1].tokens_per_second
            ),
        },
    )
    lab.worked("exercise-2-idle", [500 - drain.end for drain in drains])
