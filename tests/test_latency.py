"""The latency ledger: definitions on tables, spans on timetables, both on random runs."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.latency import SPANS, exact_ratio, is_small, percentile
from lab.policy import Policy
from lab.record import Record, Run, Stay
from lab.request import Request, Time
from lab.trace import Trace

STEPS = lab.CostModel.equal_steps()
WORK = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
SERIAL = lab.given({"A": [100, 140, 180], "B": [260, 300], "C": [360]}, WORK)
CONTINUOUS = lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, WORK)


def run(rows: dict[str, Any], policy: Policy, cost: lab.CostModel = STEPS) -> Trace:
    trace = lab.simulate(lab.Workload.given(rows), policy, cost)
    trace.check()
    return trace


def spans(trace: Trace, request_id: str) -> dict[str, Time]:
    """The spans that are not 0."""
    found = lab.latency(trace)[request_id].spans
    assert found is not None
    return {name: time for name, time in found.items() if time}


# Definitions


def test_ttft_counts_from_the_arrival_to_the_first_token() -> None:
    assert [row.ttft for row in lab.latency(SERIAL)] == [100, 240, 320]
    assert [row.ttft for row in lab.latency(CONTINUOUS)] == [100, 130, 140]


def test_tpot_divides_by_the_gaps_and_not_by_the_tokens() -> None:
    assert [lab.latency(SERIAL)[who].tpot for who in "AB"] == [40, 40]
    assert [lab.latency(CONTINUOUS)[who].tpot for who in "AB"] == [50, 50]


def test_one_token_has_no_tpot_and_no_gap() -> None:
    row = lab.latency(SERIAL)["C"]
    assert row.tpot is None
    assert row.itl == ()
    assert row.ttft == row.e2e == 320


def test_itl_is_the_list_of_gaps_between_deliveries() -> None:
    trace = lab.given({"A": [10, 40, 90]}, lab.Workload.given({"A": (0, 1, 3)}))
    assert lab.latency(trace)["A"].itl == (30, 50)
    assert lab.latency(trace)["A"].tpot == 40


def test_e2e_counts_from_the_arrival_to_the_end() -> None:
    assert [row.e2e for row in lab.latency(SERIAL)] == [180, 280, 320]
    assert [row.e2e for row in lab.latency(CONTINUOUS)] == [200, 180, 140]


def test_times_keep_their_type() -> None:
    thirds = [Fraction(1, 3), Fraction(2, 3), Fraction(5, 3)]
    trace = lab.given({"A": thirds}, lab.Workload.given({"A": (0, 1, 3)}), unit="s")
    row = lab.latency(trace)["A"]
    assert (row.ttft, row.tpot, row.e2e) == (Fraction(1, 3), Fraction(2, 3), Fraction(5, 3))
    assert type(lab.latency(SERIAL)["A"].tpot) is int


def test_a_cancelled_request_has_a_ttft_and_neither_tpot_nor_e2e() -> None:
    row = lab.latency(run({"A": {"prompt": 2, "output": 9, "cancel_at": 4}}, lab.Continuous()))["A"]
    assert (row.status, row.output_tokens, row.ttft) == ("cancelled", 4, 1)
    assert row.tpot is None
    assert row.e2e is None
    assert row.itl == (1, 1, 1)


def test_a_refused_request_has_no_times_at_all() -> None:
    row = lab.latency(run({"A": (3, 99, 1), "B": (3, 1, 1)}, lab.Continuous(blocks=1)))["A"]
    assert (row.status, row.output_tokens, row.itl) == ("refused", 0, ())
    assert (row.ttft, row.tpot, row.e2e) == (None, None, None)
    assert row.spans == dict.fromkeys(SPANS, 0)


def test_a_request_that_still_runs_has_no_spans_yet() -> None:
    record = Record("A", 0, 1, 5, runs=[Run("prefill", 0, 0, 1, 0, 1, 1)], stays=[Stay(0, 0, None)])
    row = lab.latency(Trace("step", {}, [record], [0], [1]))["A"]
    assert (row.status, row.ttft, row.tpot, row.e2e, row.spans) == (None, 1, None, None, None)
    assert "running" in repr(lab.latency(Trace("step", {}, [record], [0], [1])))


def test_a_given_trace_has_no_spans() -> None:
    assert [row.spans for row in lab.latency(SERIAL)] == [None, None, None]


def test_the_ledger_is_read_by_id_in_order_and_by_number() -> None:
    ledger = lab.latency(SERIAL)
    assert [row.id for row in ledger] == ["A", "B", "C"]
    assert len(ledger) == 3
    with pytest.raises(KeyError, match="there is no request 'D' in this ledger"):
        ledger["D"]


# What a request was doing


def test_waiting_for_a_seat_is_queue() -> None:
    trace = run({"A": (0, 2, 3), "B": (1, 2, 2)}, lab.Continuous(seats=1))
    assert trace.timeline() == [
        "0-1  A[0:2)",
        "1-2  A[2:3)",
        "2-3  A[3:4)",
        "3-4  B[0:2)",
        "4-5  B[2:3)",
    ]
    assert spans(trace, "A") == {"prefill": 1, "decode": 2}
    assert spans(trace, "B") == {"queue": 2, "prefill": 1, "decode": 1}


def test_each_chunk_of_a_prompt_is_prefill() -> None:
    trace = run({"A": (0, 7, 2)}, lab.Continuous(seats=1, token_budget=3))
    assert trace.timeline() == ["0-1  A[0:3)", "1-2  A[3:6)", "2-3  A[6:7)", "3-4  A[7:8)"]
    assert spans(trace, "A") == {"prefill": 3, "decode": 1}


def test_a_static_batch_queues_who_comes_late() -> None:
    rows: dict[str, Any] = {"A": (0, 2, 2), "B": (0, 2, 4), "C": (0, 2, 2)}
    trace = run(rows, lab.Static(seats=2))
    assert spans(trace, "A") == {"prefill": 1, "decode": 1}
    assert spans(trace, "C") == {"queue": 4, "prefill": 1, "decode": 1}


def test_a_seat_without_a_share_of_the_step_is_stalled() -> None:
    """B's prompt needs a block that A's answer has taken; after A it moves on in its seat."""
    record = Record("B", 0, 4, 1, status="finished", reason="length", end=6)
    record.runs = [Run("prefill", 1, 0, 1, 0, 2, 0), Run("prefill", 1, 5, 1, 2, 2, 1)]
    record.stays = [Stay(1, 0, 6)]
    assert spans(made_by_hand(record, 6), "B") == {"prefill": 2, "stalled": 4}


PREEMPTED = {"A": (0, 4, 6), "B": (0, 4, 6)}
FOUR_BLOCKS = lab.Continuous(seats=2, blocks=4, block_tokens=4)


def test_a_lost_seat_is_preempted_and_what_was_lost_is_recompute() -> None:
    trace = run(PREEMPTED, FOUR_BLOCKS)
    assert trace.timeline()[4:] == ["4-5  A[7:8) B[7:8)", "5-6  A[8:9)", "6-7  B[0:9)"]
    assert spans(trace, "A") == {"prefill": 1, "decode": 5}
    assert spans(trace, "B") == {"prefill": 1, "decode": 4, "preempted": 1, "recompute": 1}


def test_the_first_token_of_a_preempted_request_keeps_its_time() -> None:
    assert lab.latency(run(PREEMPTED, FOUR_BLOCKS))["B"].ttft == 1
    assert lab.latency(run(PREEMPTED, FOUR_BLOCKS))["B"].tpot == Fraction(6, 5)


def test_stalled_ends_and_preempted_begins_when_the_seat_is_lost() -> None:
    policy = lab.Continuous(seats=2, token_budget=4, blocks=3, block_tokens=2)
    trace = run({"A": (0, 2, 4), "B": (0, 4, 1)}, policy)
    assert trace.timeline() == [
        "0-1  A[0:2) B[0:2)",
        "1-2  A[2:3)",  # B sits: no block is free for the rest of its prompt
        "2-3  A[3:4)",
        "3-4  A[4:5)",  # A takes B's block
        "4-5  B[0:4)",
    ]
    assert trace["B"].stays == [Stay(1, 0, 3, preempted=True), Stay(0, 4, 5)]
    assert spans(trace, "B") == {"prefill": 1, "stalled": 2, "preempted": 1, "recompute": 1}


def test_whoever_hangs_up_after_losing_the_seat_was_preempted_until_then() -> None:
    rows: dict[str, Any] = {
        "A": (0, 2, 4),
        "B": {"prompt": 4, "output": 1, "cancel_at": 4},
        "C": (0, 1, 1),
    }
    trace = run(rows, lab.Continuous(seats=2, token_budget=4, blocks=3, block_tokens=2))
    assert (trace["B"].status, trace["B"].end) == ("cancelled", 4)
    assert spans(trace, "B") == {"prefill": 1, "stalled": 2, "preempted": 1}


def test_whoever_hangs_up_in_the_queue_was_only_ever_queued() -> None:
    rows: dict[str, Any] = {
        "A": (0, 2, 9),
        "B": {"arrival": 1, "prompt": 4, "output": 1, "cancel_at": 4},
    }
    assert spans(run(rows, lab.Continuous(seats=1)), "B") == {"queue": 3}


def test_recompute_in_chunks_counts_every_chunk() -> None:
    policy = lab.Continuous(seats=2, token_budget=4, blocks=4, block_tokens=4)
    trace = run({"A": (0, 4, 6), "B": (0, 4, 6)}, policy)
    again = [r.tokens for r in trace["B"].runs if r.kind == "recompute"]
    assert len(again) > 1
    assert spans(trace, "B")["recompute"] == len(again)


def made_by_hand(record: Record, steps: int) -> Trace:
    """A trace of equal steps in which only `record` is looked at."""
    return Trace("step", {}, [record], list(range(steps)), list(range(1, steps + 1)))


# Sums, over random runs


def times() -> st.SearchStrategy[Time]:
    return st.integers(0, 30) | st.fractions(0, 20, max_denominator=6)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    seats = draw(st.integers(1, 4))
    blocks = draw(st.none() | st.integers(6, 20))
    if draw(st.booleans()):
        return lab.Static(seats=seats, timeout=draw(times()), blocks=blocks, block_tokens=2)
    return lab.Continuous(
        seats=seats,
        token_budget=draw(st.none() | st.integers(seats, seats + 5)),
        blocks=blocks,
        block_tokens=2,
        chunked_prefill=draw(st.booleans()),
        order=draw(st.sampled_from(["first-come", "priority", "shortest-first"])),
        preemption=draw(st.sampled_from(["recompute", "recompute", "never"])),
    )


@st.composite
def random_runs(draw: st.DrawFn) -> Trace:
    """A simulated run of a few requests, some of which hang up, time out or are refused."""
    rows = {}
    for number in range(draw(st.integers(1, 6))):
        arrival = draw(times())
        row: dict[str, Any] = {
            "arrival": arrival,
            "prompt": draw(st.integers(1, 12)),
            "output": draw(st.integers(1, 8)),
            "priority": draw(st.integers(0, 2)),
        }
        for name in ("cancel_at", "deadline"):
            if draw(st.integers(0, 4)) == 0:
                row[name] = arrival + draw(times())
        rows[f"r{number}"] = row
    durations: list[Time] = [1, 3, Fraction(1, 3)]
    prices: list[Time] = [0, Fraction(1, 7)]
    fixed, per_token = draw(st.sampled_from(durations)), draw(st.sampled_from(prices))
    cost = lab.CostModel.affine(fixed, per_token, 0, unit="ms")
    return lab.simulate(lab.Workload.given(rows), draw(policies()), cost)


@given(random_runs())
def test_the_spans_of_a_request_sum_exactly_to_its_stay(trace: Trace) -> None:
    trace.check()
    for row, record in zip(lab.latency(trace), trace.requests, strict=True):
        assert row.spans is not None
        assert record.end is not None
        assert list(row.spans) == list(SPANS)
        assert sum(row.spans.values()) == record.end - record.arrival
        assert all(time >= 0 for time in row.spans.values())
        if row.e2e is not None:
            assert sum(row.spans.values()) == row.e2e


@given(random_runs())
def test_every_span_is_what_a_walk_through_the_steps_counts(trace: Trace) -> None:
    """The same accounts kept the slow way: step by step, from the seats and chunks of the trace."""
    steps = list(trace.steps())
    for row, record in zip(lab.latency(trace), trace.requests, strict=True):
        want: dict[str, Time] = dict.fromkeys(SPANS, 0)
        for step in steps:
            doing = what_it_does(record, step.number)
            if record.end is not None and record.arrival < step.end and step.start < record.end:
                want[doing] += min(step.end, record.end) - max(step.start, record.arrival)
        idle = (record.end or 0) - record.arrival - sum(want.values())
        want["queue"] += idle  # nothing ran: whoever was there waited for a batch to form
        assert row.spans == want


def what_it_does(record: Record, step: int) -> str:
    if kinds := [run.kind for run in record.runs if run.first <= step < run.stop]:
        return kinds[0]
    if any(s.first <= step and (s.stop is None or step < s.stop) for s in record.stays):
        return "stalled"
    return "preempted" if any(s.first < step for s in record.stays) else "queue"


@given(random_runs())
def test_ttft_gaps_and_tpot_agree_with_the_deliveries(trace: Trace) -> None:
    for row, record in zip(lab.latency(trace), trace.requests, strict=True):
        moments = trace.token_times(row.id)
        assert row.output_tokens == len(moments) == record.output_tokens
        assert row.ttft == (moments[0] - record.arrival if moments else None)
        assert list(row.itl) == [later - earlier for earlier, later in pairwise(moments)]
        assert (row.e2e is None) == (row.status != "finished")
        assert (row.tpot is None) == (row.status != "finished" or len(moments) == 1)
        if row.e2e is not None and row.ttft is not None:
            assert row.e2e == row.ttft + sum(row.itl)
        if row.tpot is not None:
            assert row.tpot * (len(moments) - 1) == sum(row.itl)


# Percentiles and summaries


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40), st.integers(0, 100))
def test_a_percentile_is_the_one_of_numpy(values: list[int], percent: int) -> None:
    assert float(percentile(values, percent)) == pytest.approx(
        float(numpy.percentile(values, percent)), rel=1e-12, abs=1e-9
    )


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.floats(0, 100) | st.integers(0, 100),
)
def test_a_percentile_of_floats_is_the_one_of_numpy(values: list[float], percent: float) -> None:
    assert percentile(values, percent) == pytest.approx(
        float(numpy.percentile(values, percent)), rel=1e-9, abs=1e-6
    )


@given(st.lists(st.fractions(0, 9, max_denominator=9), min_size=2, max_size=9), st.integers(0, 100))
def test_a_percentile_of_fractions_is_exact(values: list[Fraction], percent: int) -> None:
    ordered = sorted(values)
    position = Fraction((len(values) - 1) * percent, 100)
    below = min(int(position), len(values) - 2)
    share = position - below
    found = percentile(values, percent)
    assert found == (1 - share) * ordered[below] + share * ordered[below + 1]
    assert isinstance(found, int | Fraction)


def test_a_percentile_that_is_whole_is_an_int() -> None:
    found = percentile([80, 10, 40, 20], 50)
    assert (found, type(found)) == (30, int)


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([7], percent) for percent in (0, 50, 99, 100)] == [7, 7, 7, 7]


@pytest.mark.parametrize(("percent", "words"), [(-1, "got -1"), (101, "got 101")])
def test_a_percentile_lies_between_0_and_100(percent: int, words: str) -> None:
    with pytest.raises(ValueError, match=f"between 0 and 100, {words}"):
        percentile([1], percent)


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1 value, got 0"):
        percentile([], 50)


@pytest.mark.parametrize(
    ("count", "percent", "small"),
    [
        (1, 50, True),
        (2, 50, False),
        (9, 90, True),
        (10, 90, False),
        (99, 99, True),
        (100, 99, False),
    ],
)
def test_too_few_values_for_a_percentile_are_marked(count: int, percent: int, small: bool) -> None:
    assert is_small(count, percent) is small


def test_the_summary_of_the_serial_schedule() -> None:
    assert repr(lab.latency(SERIAL).summary()).splitlines() == [
        "finished requests, times in ms",
        "metric  n  mean  p50  p90     p99  max",
        "------  -  ----  ---  ---  ------  ---",
        "TTFT    3   220  240  304  1592/5  320",
        "TPOT    2    40   40   40      40   40",
        "ITL     3    40   40   40      40   40",
        "E2E     3   260  280  312  1596/5  320",
        "percentiles interpolate linearly between neighbours; ITL is the gap per token",
        "too few values for p90, p99 of some rows: at so small an n they only restate the "
        "largest value",
    ]


def test_a_missing_tpot_is_left_out_of_the_mean_and_its_n_shows_it() -> None:
    metrics = {row["metric"]: row for row in lab.latency(CONTINUOUS).summary()}
    assert metrics["TTFT"]["n"] == 3
    assert (metrics["TPOT"]["n"], metrics["TPOT"]["mean"]) == (2, 50)


def test_a_summary_counts_finished_requests_only() -> None:
    rows: dict[str, Any] = {"A": (0, 1, 2), "B": {"prompt": 1, "output": 50, "cancel_at": 20}}
    metrics = {row["metric"]: row for row in lab.latency(run(rows, lab.Continuous())).summary()}
    assert {name: row["n"] for name, row in metrics.items()} == {
        "TTFT": 1,
        "TPOT": 1,
        "ITL": 1,
        "E2E": 1,
        "queue": 1,
    }


def test_a_summary_with_enough_values_has_no_warning() -> None:
    rows = {f"r{i}": (i, 1, 2) for i in range(100)}
    summary = lab.latency(run(rows, lab.Continuous())).summary()
    assert summary.notes == (
        "percentiles interpolate linearly between neighbours; ITL is the gap per token",
    )


def test_a_summary_of_nothing_finished_is_an_empty_table() -> None:
    rows = {"A": {"prompt": 1, "output": 50, "cancel_at": 2}}
    assert len(lab.latency(run(rows, lab.Continuous())).summary()) == 0


def test_a_table_shows_the_spans_that_occur() -> None:
    assert repr(lab.latency(run(PREEMPTED, FOUR_BLOCKS))).splitlines()[1].split() == [
        *("request", "prompt", "output", "TTFT", "TPOT", "E2E"),
        *("prefill", "decode", "preempted", "recompute", "status"),
    ]


def test_a_long_table_says_how_many_rows_it_leaves_out() -> None:
    rows = {f"r{i}": (i, 1, 1) for i in range(30)}
    ledger = lab.latency(run(rows, lab.Continuous()))
    assert len(ledger.table()) == 24
    assert repr(ledger).endswith("... and 6 more requests")
    assert len(ledger.table(most=30)) == 30
    assert "more requests" in ledger._repr_html_()


def test_a_ratio_is_exact_where_its_parts_are() -> None:
    assert exact_ratio(100, 4) == 25
    assert type(exact_ratio(100, 4)) is int
    assert exact_ratio(1, 3) == Fraction(1, 3)
    assert type(exact_ratio(1.0, 4)) is float
    assert exact_ratio(1, 0.5) == 2.0


# The worked numbers of the three-request schedule


def of(request_id: str, name: str) -> list[Any]:
    """A metric of a request in the serial and in the continuous schedule."""
    return [getattr(lab.latency(trace)[request_id], name) for trace in (SERIAL, CONTINUOUS)]


def mean(metric: str, trace: Trace) -> Any:
    return next(row["mean"] for row in lab.latency(trace).summary() if row["metric"] == metric)


@pytest.mark.parametrize("who", ["A", "B", "C"])
def test_the_worked_table_of_ttft_and_tpot_is_met(who: str) -> None:
    ttft, tpot = of(who, "ttft"), of(who, "tpot")
    lab.worked(
        f"latency-t312-row-{who.lower()}",
        {
            "serial_ttft": ttft[0],
            "continuous_ttft": ttft[1],
            "serial_tpot": tpot[0],
            "continuous_tpot": tpot[1],
        },
    )


def test_the_worked_gaps_and_first_tokens_are_met() -> None:
    serial, continuous = of("A", "itl")
    lab.worked("latency-a-later-gaps", {"serial": serial, "continuous": continuous})
    serial, continuous = of("B", "ttft")
    lab.worked("latency-b-ttft-computation", {"serial": serial, "continuous": continuous})


def test_the_worked_trap_of_forgetting_the_arrival_is_met() -> None:
    first = {
        who: [trace.token_times(who)[0] for trace in (SERIAL, CONTINUOUS)] for who in ("B", "C")
    }
    lab.worked(
        "latency-ttft-forgetting-arrival",
        {"B": of("B", "ttft"), "C": of("C", "ttft")},
        wrong={"B_no_arrival": first["B"], "C_no_arrival": first["C"]},
    )


def test_the_worked_means_are_met_and_a_made_up_zero_lowers_them() -> None:
    def with_zero(trace: Trace) -> Time:
        return exact_ratio(sum(row.tpot or 0 for row in lab.latency(trace)), len(trace))

    lab.worked(
        "latency-c-zero-tpot-is-fiction",
        {"mean_serial": mean("TPOT", SERIAL), "mean_continuous": mean("TPOT", CONTINUOUS)},
        wrong={
            "mean_serial_with_zero": with_zero(SERIAL),
            "mean_continuous_with_zero": with_zero(CONTINUOUS),
        },
    )
    lab.worked(
        "latency-keep-the-distribution",
        {
            "mean_serial": mean("TTFT", SERIAL),
            "mean_continuous": mean("TTFT", CONTINUOUS),
            "max_serial": max(row.ttft or 0 for row in lab.latency(SERIAL)),
        },
    )


def test_the_undefined_tpot_is_worked() -> None:
    tpot = lab.latency(SERIAL)["C"].tpot
    lab.worked("latency-tpot-undefined-for-one-token", tpot is not None, wrong=0)


def test_the_worked_request_times_are_met() -> None:
    serial, continuous = (
        {row.id: row.e2e for row in lab.latency(trace) if row.e2e is not None}
        for trace in (SERIAL, CONTINUOUS)
    )
    lab.worked(
        "exercise-1-request-times",
        {
            "serial": {who: serial[who] for who in "AB"},
            "continuous": {who: continuous[who] for who in "AB"},
            "change_A": continuous["A"] - serial["A"],
            "change_B": continuous["B"] - serial["B"],
        },
    )
    change = continuous["C"] - serial["C"]
    of_c = {"serial": serial["C"], "continuous": continuous["C"], "change": change}
    lab.worked("exercise-1-extension-c", of_c)


# The worked timeline: queue 40, prefill 60, a step of 20 ms for each of 4 tokens


def timeline_of(moments: Sequence[Time]) -> Any:
    row = Request(id="A", prompt=range(4), max_tokens=len(moments))
    return lab.latency(lab.given({"A": moments}, lab.Workload((row,))))["A"]


def test_the_worked_timeline_is_met() -> None:
    row = timeline_of([120, 140, 160, 180])
    lab.worked("latency-timeline-row-1-ttft", row.ttft)
    lab.worked("latency-ttft-formula-002", row.ttft)
    lab.worked("latency-e2e-formula-002", row.e2e)
    lab.worked("latency-tpot-formula-002", row.tpot)
    lab.worked(
        "latency-timeline-row-3-tpot",
        {"tpot": row.tpot, "intervals": len(row.itl)},
        wrong=exact_ratio(row.e2e, row.output_tokens),
    )
    by_tokens = exact_ratio(sum(row.itl), row.output_tokens)
    lab.worked("latency-tpot-other-denominator", row.tpot, wrong=by_tokens)


def test_the_worked_first_token_from_prefill_is_met() -> None:
    apart, from_prefill = timeline_of([120, 140, 160, 180]), timeline_of([100, 120, 140, 160])
    lab.worked(
        "latency-first-token-variant-numbers",
        {
            "ttft_if_from_prefill": from_prefill.ttft,
            "total_if_from_prefill": from_prefill.e2e,
            "double_count": apart.ttft - from_prefill.ttft,
        },
        wrong={"ttft_double_counted": apart.ttft, "total_double_counted": apart.e2e},
    )


def test_the_worked_diagnosis_is_met() -> None:
    before, after = timeline_of([120, 140, 160, 180]), timeline_of([500, 520, 540, 560])
    lab.worked(
        "latency-timeline-row-5-diagnosis",
        {
            "rise_before_first_token": after.ttft - before.ttft,
            "total_after": after.e2e,
            "tpot_after": after.tpot,
        },
        wrong={
            "total_over_outputs_before": exact_ratio(before.e2e, before.output_tokens),
            "total_over_outputs_after": exact_ratio(after.e2e, after.output_tokens),
        },
    )


def test_a_percentile_by_nearest_rank_is_one_of_the_values() -> None:
    values = [80, 10, 40, 20]
    ranks = [percentile(values, p, "nearest-rank") for p in (0, 25, 26, 50, 75, 76, 100)]
    assert ranks == [10, 10, 20, 20, 40, 80, 80]
    assert percentile([100, 240, 320], 95, "nearest-rank") == 320


def test_values_and_mean_leave_out_what_is_not_defined() -> None:
    work = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
    ledger = lab.latency(
        lab.given({"A": [100, 140, 180], "B": [260, 300], "C": [360]}, work, unit="ms")
    )
    assert ledger.values("TPOT") == [40, 40]
    assert ledger.mean("TPOT") == 40
    assert ledger.values("ITL") == [40, 40, 40]
    assert ledger.mean("TTFT") == 220
    assert ledger.values("queue") == []
    assert ledger.mean("queue") is None
    with pytest.raises(ValueError, match="one of TTFT, TPOT, ITL, E2E, queue, got 'ttft'"):
        ledger.values("ttft")


def test_a_summary_can_be_told_in_another_unit() -> None:
    work = lab.Workload.given({"A": (0, 1, 2), "B": (0.5, 1, 2)}, unit="s")
    ledger = lab.latency(lab.given({"A": [1, 1.25], "B": [1.5, 2]}, work, unit="s"))
    rows = {row["metric"]: row["mean"] for row in ledger.summary(unit="ms")}
    assert (rows["TTFT"], rows["TPOT"], rows["E2E"]) == (1000, 375, 1375)
    assert ledger.summary(unit="ms").caption == "finished requests, times in ms"
    assert ledger.summary(unit="s").rows == ledger.summary().rows
    with pytest.raises(ValueError, match="one of us, ms, s, got 'step'"):
        ledger.summary(unit="step")
