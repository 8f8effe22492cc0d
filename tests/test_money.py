"""Cost under a stated price: price · devices · hours, and what comes of it."""

from fractions import Fraction
from typing import Any

import pytest

import lab
from lab.ledgers.latency import exact_ratio
from lab.trace import Unit

WORK = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
SERIAL = lab.given({"A": [100, 140, 180], "B": [260, 300], "C": [360]}, WORK)
CONTINUOUS = lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, WORK)


def in_unit(unit: Unit, end: int) -> lab.Trace:
    return lab.given({"A": [end]}, lab.Workload.given({"A": (0, 1, 1)}), unit=unit)


def test_the_window_is_paid_and_shared_among_its_tokens_and_requests() -> None:
    found = lab.cost(SERIAL, 2)
    assert found.total == Fraction(1, 5000)
    assert found.per_thousand_tokens == Fraction(1, 30)
    assert found.per_finished_request == Fraction(1, 15000)
    assert (found.output_tokens, found.finished, found.paid) == (6, 3, "drain window")


def test_devices_and_price_multiply() -> None:
    assert lab.cost(SERIAL, 1, devices=4).total == 2 * lab.cost(SERIAL, 2).total
    assert lab.cost(SERIAL, 0).total == 0


def test_a_fixed_window_costs_the_same_for_both_schedules() -> None:
    costs = [lab.cost(trace, 9, window=(0, 400)) for trace in (SERIAL, CONTINUOUS)]
    assert costs[0] == costs[1]
    assert costs[0].total == Fraction(1, 1000)
    assert costs[0].paid == "fixed window"


@pytest.mark.parametrize(("unit", "hour"), [("us", 3_600_000_000), ("ms", 3_600_000), ("s", 3600)])
def test_an_hour_is_an_hour_in_every_unit(unit: Unit, hour: int) -> None:
    found = lab.cost(in_unit(unit, hour), 7)
    assert (found.total, type(found.total)) == (7, int)


def test_reserved_hours_are_paid_however_soon_the_work_is_done() -> None:
    for trace in (SERIAL, CONTINUOUS):
        found = lab.cost(trace, 2, reserved_hours=1)
        assert (found.total, found.per_thousand_tokens) == (2, Fraction(1000, 3))
        assert found.paid == "reserved hours"
    assert lab.cost(SERIAL, 2, devices=3, reserved_hours=Fraction(1, 2)).total == 3


def test_what_brought_nothing_has_no_cost_per_token_or_request() -> None:
    found = lab.cost(SERIAL, 2, window=(0, 50))
    assert found.total > 0
    assert found.per_thousand_tokens is None
    assert found.per_finished_request is None
    assert repr(found).splitlines()[-1].split() == ["fixed", "window", "2.778e-05", "–", "–"]


def test_a_float_price_gives_floats() -> None:
    found = lab.cost(SERIAL, 2.5)
    assert found.total == pytest.approx(0.00025)
    assert type(found.total) is float


def test_a_step_has_no_price_but_an_hour_has() -> None:
    trace = in_unit("step", 4)
    with pytest.raises(ValueError, match="a trace in 'step' has no hours to pay for: reserve some"):
        lab.cost(trace, 2)
    assert lab.cost(trace, 2, reserved_hours=1).per_thousand_tokens == 2000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"price_per_hour": -1}, "the price must not be negative, got -1"),
        ({"price_per_hour": 1, "devices": 0}, "devices must be at least 1, got 0"),
        ({"price_per_hour": 1, "reserved_hours": 0}, "reserved_hours must be above 0, got 0"),
        ({"price_per_hour": 1, "reserved_hours": -2}, "reserved_hours must be above 0, got -2"),
        ({"price_per_hour": 1, "window": (5, 5)}, "must end after it starts"),
    ],
)
def test_what_makes_no_sense_is_an_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lab.cost(SERIAL, **options)


def test_the_account_as_a_table() -> None:
    assert repr(lab.cost(SERIAL, 2)).splitlines() == [
        "paid           total  per 1,000 output tokens  per finished request",
        "------------  ------  -----------------------  --------------------",
        "drain window  0.0002                     1/30             6.667e-05",
    ]
    assert "<td>1/30</td>" in lab.cost(SERIAL, 2)._repr_html_()


def test_the_worked_costs_are_met() -> None:
    serial, continuous = lab.cost(SERIAL, 2), lab.cost(CONTINUOUS, 2)
    lab.worked("cost-drain-serial", serial.total)
    lab.worked("cost-drain-continuous", continuous.total)
    lab.worked(
        "cost-per-thousand-output-tokens",
        {"serial": serial.per_thousand_tokens, "continuous": continuous.per_thousand_tokens},
    )


def test_the_worked_reserved_hour_is_met_and_the_drain_saving_is_no_saving_there() -> None:
    reserved = [lab.cost(trace, 2, reserved_hours=1) for trace in (SERIAL, CONTINUOUS)]
    drained = [lab.cost(trace, 2).total for trace in (SERIAL, CONTINUOUS)]
    lab.worked(
        "cost-reserved-hour",
        {
            "serial": reserved[0].total,
            "continuous": reserved[1].total,
            "per_thousand": reserved[0].per_thousand_tokens,
        },
        wrong=exact_ratio(drained[0] - drained[1], drained[0]),
    )
