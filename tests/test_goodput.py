"""Goodput: the requests that keep a contract, against the numbers of the latency ledger."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.throughput import Window

WORK = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
SERIAL = lab.given({"A": [100, 140, 180], "B": [260, 300], "C": [360]}, WORK)
CONTINUOUS = lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, WORK)


def cancelled_and_finished() -> lab.Trace:
    rows: dict[str, Any] = {"A": {"prompt": 1, "output": 9, "cancel_at": 3}, "B": (0, 1, 5)}
    cost = lab.CostModel.equal_steps()
    return lab.simulate(lab.Workload.given(rows), lab.Continuous(), cost)


def test_goodput_counts_requests_within_the_contract() -> None:
    found = lab.goodput(SERIAL, lab.Contract(ttft=150), window=(0, 400))
    assert found.good == ("A",)
    assert found.broken == {"ttft": ("B", "C")}
    assert (found.requests, found.requests_per_second) == (3, Fraction(5, 2))


@pytest.mark.parametrize(
    ("contract", "good"),
    [
        (lab.Contract(ttft=240), ("A", "B")),
        (lab.Contract(ttft=239), ("A",)),
        (lab.Contract(tpot=40), ("A", "B", "C")),
        (lab.Contract(tpot=39), ("C",)),
        (lab.Contract(itl=40), ("A", "B", "C")),
        (lab.Contract(itl=39), ("C",)),
        (lab.Contract(e2e=280), ("A", "B")),
        (lab.Contract(e2e=279), ("A",)),
        (lab.Contract(e2e=0), ()),
        (lab.Contract(ttft=100, e2e=179), ()),
    ],
)
def test_a_limit_that_is_just_met_is_kept(contract: lab.Contract, good: tuple[str, ...]) -> None:
    assert lab.goodput(SERIAL, contract).good == good


def test_the_gap_limit_is_about_the_longest_gap_and_tpot_about_the_mean() -> None:
    trace = lab.given({"A": [10, 40, 90]}, lab.Workload.given({"A": (0, 1, 3)}))
    assert lab.goodput(trace, lab.Contract(tpot=40)).good == ("A",)
    assert lab.goodput(trace, lab.Contract(itl=49)).good == ()
    assert lab.goodput(trace, lab.Contract(itl=50)).good == ("A",)


def test_a_tpot_that_does_not_exist_breaks_no_promise() -> None:
    assert lab.goodput(SERIAL, lab.Contract(tpot=0, itl=0)).good == ("C",)


def test_a_request_may_break_several_promises() -> None:
    found = lab.goodput(SERIAL, lab.Contract(ttft=100, tpot=39, e2e=300))
    assert found.broken == {"ttft": ("B", "C"), "tpot": ("A", "B"), "e2e": ("C",)}
    assert found.good == ()


def test_a_request_that_does_not_finish_breaks_every_promise() -> None:
    found = lab.goodput(cancelled_and_finished(), lab.Contract(ttft=100, e2e=100))
    assert found.good == ("B",)
    assert found.broken == {"ttft": ("A",), "e2e": ("A",)}
    assert found.requests == 2


def test_goodput_is_in_requests_and_not_in_tokens() -> None:
    found = lab.goodput(cancelled_and_finished(), lab.Contract(ttft=100))
    assert found.requests_per_second == Fraction(1, 5)
    assert "good/step" in repr(found)


def test_goodput_looks_at_those_who_ended_in_the_window() -> None:
    contract = lab.Contract(ttft=1000)
    found = [lab.goodput(SERIAL, contract, window=ends).good for ends in ((0, 180), (180, 400))]
    assert found == [("A",), ("B", "C")]


def test_goodput_and_throughput_speak_of_the_same_requests() -> None:
    windows: tuple[Window, ...] = ("drain", (0, 180), (180, 300), (100, 360))
    for window in windows:
        counted = lab.throughput(SERIAL, window)
        found = lab.goodput(SERIAL, lab.Contract(ttft=1000), window)
        assert len(found.good) == found.requests == counted.finished
        assert found.requests_per_second == counted.requests_per_second


@given(st.integers(0, 400), st.integers(0, 60), st.integers(0, 400))
def test_goodput_agrees_with_the_numbers_of_the_latency_ledger(
    ttft: int, tpot: int, e2e: int
) -> None:
    for trace in (SERIAL, CONTINUOUS):
        want = [
            row.id
            for row in lab.latency(trace)
            if row.ttft is not None
            and row.e2e is not None
            and row.ttft <= ttft
            and (row.tpot is None or row.tpot <= tpot)
            and row.e2e <= e2e
        ]
        found = lab.goodput(trace, lab.Contract(ttft=ttft, tpot=tpot, e2e=e2e))
        assert list(found.good) == want
        late = {who for names in found.broken.values() for who in names}
        assert late | set(found.good) == {"A", "B", "C"}
        assert not late & set(found.good)


def test_a_contract_without_a_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one limit of ttft, tpot, itl, e2e, got 0"):
        lab.Contract()


def test_a_negative_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="itl must not be negative, got -1"):
        lab.Contract(itl=-1)


def test_the_account_names_its_contract_and_its_unit() -> None:
    found = lab.goodput(SERIAL, lab.Contract(ttft=150, e2e=Fraction(500, 3)), window=(0, 400))
    assert repr(found).splitlines() == [
        "contract in ms: TTFT ≤ 150, E2E ≤ 500/3",
        "requests  good  good/s  late ttft  late e2e",
        "--------  ----  ------  ---------  --------",
        "       3     0       0          2         3",
    ]
    assert "TTFT ≤ 150" in found._repr_html_()


def test_the_worked_goodput_is_met() -> None:
    contract = lab.Contract(ttft=150)
    serial, continuous = (
        lab.goodput(trace, contract, window=(0, 400)) for trace in (SERIAL, CONTINUOUS)
    )
    lab.worked(
        "throughput-goodput-002",
        {
            "good_serial": len(serial.good),
            "good_continuous": len(continuous.good),
            "goodput_serial": serial.requests_per_second,
            "goodput_continuous": continuous.requests_per_second,
        },
    )
