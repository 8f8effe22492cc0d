"""The crowd: what is counted, what is packed, and how large it becomes."""

import json
from fractions import Fraction
from time import process_time
from typing import Any

import pytest
from drawn_runs import cost_models, policies, served, workloads
from hypothesis import given

import lab
from lab.figures.crowd import MOST_FRAMES
from lab.figures.load_chart import load_chart
from lab.figures.scene import Scene
from lab.figures.words import readable
from lab.ledgers.latency import percentile
from lab.policy import Policy
from lab.trace import Trace

STEPS = lab.CostModel.equal_steps()


def run(rows: dict[str, Any], policy: Policy, cost: lab.CostModel = STEPS) -> Trace:
    return lab.simulate(lab.Workload.given(rows), policy, cost)


def captions(scene: Scene) -> list[str]:
    return [frame.caption for frame in scene.frames]


TWO_SEATS = {"A": (0, 2, 2), "B": (0, 2, 4), "C": (0, 2, 2)}


def test_the_text_is_the_load_chart() -> None:
    trace = run(TWO_SEATS, lab.Continuous(seats=2))
    lines = lab.crowd(trace).text().splitlines()
    assert lines[:3] == [
        "Who runs, who waits, and how fast do tokens come?",
        "3 requests, continuous batching, 2 seats, equal steps (derived)",
        "",
    ]
    assert "\n".join(lines[3:-2]) == load_chart(trace)
    assert lines[-1] == lab.crowd(trace).finding


def test_frames_count_who_runs_and_waits_and_what_came() -> None:
    policy = lab.Continuous(seats=2, blocks=9, block_tokens=4)
    scene = lab.crowd(run(TWO_SEATS, policy), frames=5)
    assert [frame.at for frame in scene.frames] == [0, 1, 2, 3, 4]
    assert captions(scene) == [
        "2 running, 1 waiting, 0 of 3 ended, 2 of 9 blocks",
        "2 running, 1 waiting, 0 of 3 ended, 2 of 9 blocks, 2 tokens/step",
        "2 running, 0 waiting, 1 of 3 ended, 2 of 9 blocks, 2 tokens/step",
        "2 running, 0 waiting, 1 of 3 ended, 3 of 9 blocks, 2 tokens/step",
        "0 running, 0 waiting, 3 of 3 ended, 0 of 9 blocks, 2 tokens/step",
    ]


def test_of_given_times_only_ends_and_tokens_are_counted() -> None:
    work = lab.Workload.given({"A": (0, 4, 2), "B": (0, 4, 1)})
    scene = lab.crowd(lab.given({"A": [100, 200], "B": [200]}, work), frames=3)
    assert captions(scene) == [
        "0 of 2 ended",
        "0 of 2 ended, 10 tokens/s",
        "2 of 2 ended, 20 tokens/s",
    ]


def test_a_phase_is_one_mark_however_many_tokens_it_brings() -> None:
    rows = {"A": (0, 4, 90), "B": (0, 4, 2)}
    marks = lab.crowd(run(rows, lab.Static(seats=2))).marks
    found = [(mark.id, mark.role, mark.start, mark.stop) for mark in marks]
    assert found == [
        ("A.0", "prefill", 0, 1),
        ("A.1", "decode", 1, 90),
        ("B.0", "prefill", 0, 1),
        ("B.1", "decode", 1, 2),
        ("B.2", "idle", 2, 90),
    ]


def test_who_ends_without_an_answer_has_a_mark() -> None:
    rows: dict[str, Any] = {"A": {"prompt": 2, "output": 9, "cancel_at": 4}, "B": (0, 1, 9)}
    marks = lab.crowd(run(rows, lab.Continuous())).marks
    assert [(mark.who, mark.start, mark.stop) for mark in marks if mark.role == "end"] == [
        ("A", 4, 4)
    ]


def test_dots_are_packed_in_ticks() -> None:
    cost = lab.CostModel.equal_steps(Fraction(1, 3), "s")
    dots = lab.crowd(run({"A": (0, 1, 3)}, lab.Continuous(), cost)).dots
    assert [(d.lane, d.role, d.who, d.tick) for d in dots] == [("A", "token", "A", 0.00001)]
    assert dots[0].deltas == (33333, 33334, 33333)
    assert dots[0].times == pytest.approx([0.33333, 0.66667, 1])


def test_a_long_clock_has_ticks_of_many_units() -> None:
    work = lab.Workload.given({"A": (0, 4, 2)})
    trace = lab.given({"A": [123_456_789, 987_654_321]}, work, unit="us")
    scene = lab.crowd(trace)
    assert (scene.dots[0].tick, scene.dots[0].deltas) == (10_000, (12346, 86419))


def test_a_run_without_time_has_one_frame() -> None:
    scene = lab.crowd(run({"A": (5, 99, 1)}, lab.Continuous(blocks=1)))
    assert captions(scene) == ["0 running, 0 waiting, 1 of 1 ended, 0 of 1 blocks"]
    assert scene.dots == ()
    assert scene.finding == "0 of 1 request finished"


# What came of it


def given_ms(times: dict[str, list[int]], rows: dict[str, Any]) -> Scene:
    return lab.crowd(lab.given(times, lab.Workload.given(rows)))


def test_the_finding_says_who_waited_and_how_long_and_tells_no_rate() -> None:
    times = {"A": [100, 900], "B": [1500, 1506], "C": [2000, 2006], "D": [2500]}
    scene = given_ms(times, {"A": (0, 4, 2), "B": (0, 4, 2), "C": (0, 4, 2), "D": (0, 4, 1)})
    assert scene.finding == (
        "at least half of the 4 requests waited 1.75 s or longer for the first token; "
        "the longest gap between two tokens was 800 ms"
    )


def test_one_request_is_no_half_and_one_token_has_no_gap() -> None:
    scene = given_ms({"A": [70]}, {"A": (0, 4, 1)})
    assert scene.finding == "1 request waited 70 ms for the first token"


def test_who_did_not_finish_is_counted_and_not_forgotten() -> None:
    rows: dict[str, Any] = {"A": (0, 1, 3), "B": (0, 1, 2), "C": (0, 99, 1)}
    rows["D"] = {"prompt": 1, "output": 9, "cancel_at": 2}
    scene = lab.crowd(run(rows, lab.Continuous(blocks=2)))
    assert scene.finding == (
        "at least half of the 2 finished requests waited 1 step or longer for the first token; "
        "the longest gap between two tokens was 1 step; 2 of 4 requests did not finish"
    )


@given(workloads(), policies(), cost_models)
def test_the_finding_is_true_of_the_ledger(asked: Any, policy: Any, cost: Any) -> None:
    trace = served(asked, policy, cost)
    first = [row.ttft for row in lab.latency(trace) if row.status == "finished"]
    finding = lab.crowd(trace, frames=2).finding
    if len(first) > 1:
        wait = percentile(first, 50)
        assert f"waited {readable(wait, trace.unit)} or longer" in finding
        assert sum(time >= wait for time in first) >= len(first) / 2
    assert "tokens/" not in finding


def test_thousands_are_told_apart() -> None:
    work = lab.Workload.given({f"r{i}": (0, 1, 2) for i in range(1200)})
    trace = lab.simulate(work, lab.Continuous(seats=1100), STEPS)
    scene = lab.crowd(trace, frames=3)
    assert scene.conditions.startswith("1,200 requests, continuous batching, 1,100 seats")
    assert captions(scene)[1:] == [
        "100 running, 0 waiting, 1,100 of 1,200 ended, 1,100 tokens/step",
        "0 running, 0 waiting, 1,200 of 1,200 ended, 100 tokens/step",
    ]
    assert "1,100" in scene.text()
    assert "1100" not in scene.text()


@pytest.mark.parametrize("frames", [1, MOST_FRAMES + 1])
def test_too_few_and_too_many_frames_are_refused(frames: int) -> None:
    with pytest.raises(ValueError, match=f"frames must be between 2 and 400, got {frames}"):
        lab.crowd(run(TWO_SEATS, lab.Continuous()), frames=frames)


def test_title_and_finding_may_be_given() -> None:
    scene = lab.crowd(run(TWO_SEATS, lab.Continuous()), "Why?", "So.")
    assert (scene.title, scene.finding) == ("Why?", "So.")


@given(workloads(), policies(), cost_models)
def test_what_a_crowd_counts_is_what_a_trace_holds(asked: Any, policy: Any, cost: Any) -> None:
    trace = served(asked, policy, cost)
    scene = lab.crowd(trace, frames=7)
    for dots in scene.dots:
        times = [float(time) for time in trace.token_times(dots.lane)]
        assert dots.times == pytest.approx(times, rel=0, abs=dots.tick * 0.51)
    assert len(scene.dots) == sum(record.output_tokens > 0 for record in trace.requests)
    for frame in scene.frames:
        seated = sum(
            trace.starts[stay.first] <= frame.at
            and (stay.stop is None or trace.ends[stay.stop - 1] > frame.at)
            for record in trace.requests
            for stay in record.stays
        )
        ended = sum(record.end <= frame.at for record in trace.requests)
        assert frame.caption.startswith(f"{seated} running, ")
        assert f"{ended} of {len(trace)} ended" in frame.caption


def test_a_thousand_requests_are_packed_quickly_and_small() -> None:
    work = lab.Workload.drawn(
        1000,
        lab.Poisson(20),
        prompt=lab.LogNormal(500, 1200),
        output=lab.LogNormal(200, 300),
        seed=1,
    )
    policy = lab.Continuous(seats=256, token_budget=2048, blocks=1500)
    trace = lab.simulate(work, policy, lab.CostModel.affine(0.0045, 0.0000146, 0.000039))
    assert sum(record.output_tokens for record in trace.requests) > 200_000
    begin = process_time()
    text = json.dumps(lab.crowd(trace).to_json(), separators=(",", ":"))
    assert process_time() - begin < 4
    assert len(text) < 1_500_000
