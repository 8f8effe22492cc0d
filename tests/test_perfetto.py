"""The document that the public viewer opens: required fields, tracks that do not overlap, sums."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from drawn_runs import Scripted, ask, cost_models, engine_of, policies, scripted, served, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.executors.cost_model import CostModel
from lab.perfetto import perfetto, save_perfetto
from lab.policy import Continuous, Policy
from lab.request import Request
from lab.run import given as given_times
from lab.run import simulate
from lab.trace import Trace, Unit
from lab.workload import Workload

REQUIRED = {
    "X": {"name", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "M": {"name", "pid", "args"},
}
ENGINE, REQUESTS = 1, 2


def events(trace: Trace, kind: str, process: int | None = None) -> list[dict[str, Any]]:
    found = perfetto(trace)["traceEvents"]
    return [e for e in found if e["ph"] == kind and process in (None, e["pid"])]


def small(unit: Unit = "ms") -> Trace:
    work = Workload.given({"A": (0, 4, 3), "B": (1, 4, 3)})
    policy = Continuous(seats=2, token_budget=8, blocks=3, block_tokens=4)
    return simulate(work, policy, CostModel.equal_steps(unit=unit))


@settings(max_examples=60)
@given(
    asked=workloads(),
    policy=st.one_of(policies(), policies(drafts=True)),
    executor=st.one_of(cost_models, scripted(failing=True)),
)
def test_every_trace_becomes_a_sound_document(
    asked: list[Request], policy: Policy, executor: CostModel | Scripted
) -> None:
    trace = served(asked, policy, executor, repeats=False)
    document = perfetto(trace)
    assert json.loads(json.dumps(document)) == document
    tracks: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in document["traceEvents"]:
        assert REQUIRED[event["ph"]] <= event.keys()
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
        if event["ph"] == "X" and event["pid"] == ENGINE:
            assert event["dur"] > 0
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        slices.sort()
        for (_, end), (start, _) in pairwise(slices):
            assert start >= end - 1e-6, "two requests in one seat at one time"
    steps = sum(event["args"]["steps"] for event in events(trace, "X", ENGINE))
    assert steps == sum(len(step.chunks) for step in trace.steps())
    delivered = sum(event["args"]["output tokens"] for event in events(trace, "X", REQUESTS))
    assert delivered == len(trace.rows("tokens"))


def test_a_seat_is_a_track_of_runs() -> None:
    trace = small()
    slices = [(e["tid"], e["name"], e["ts"], e["dur"]) for e in events(trace, "X", ENGINE)]
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5) B[0:4)",
        "2-3  A[5:6)",
        "3-4  B[0:5)",
        "4-5  B[5:6)",
    ]
    assert slices == [
        (0, "A prefill", 0, 1000),
        (0, "A decode", 1000, 2000),
        (1, "B prefill", 1000, 1000),
        (0, "B recompute", 3000, 1000),
        (0, "B decode", 4000, 1000),
    ]


def test_a_request_is_a_track_from_arrival_to_end_with_a_dot_for_its_first_token() -> None:
    trace = small()
    slices = [(e["tid"], e["name"], e["ts"], e["dur"]) for e in events(trace, "X", REQUESTS)]
    assert slices == [(0, "A", 0, 3000), (1, "B", 1000, 4000)]
    assert [(e["tid"], e["ts"]) for e in events(trace, "i")] == [(0, 1000), (1, 2000)]
    assert events(trace, "X", REQUESTS)[1]["args"] == {
        "prompt tokens": 4,
        "output tokens": 3,
        "status": "finished",
        "reason": "length",
    }


@pytest.mark.parametrize(
    ("unit", "microseconds"), [("us", 1), ("ms", 1000), ("s", 1_000_000), ("step", 1000)]
)
def test_the_viewer_is_given_microseconds(unit: Unit, microseconds: int) -> None:
    trace = small(unit)
    assert events(trace, "X", ENGINE)[0]["dur"] == microseconds
    assert perfetto(trace)["otherData"] == {"unit": unit}


def test_the_counters_follow_blocks_and_requests_and_end_at_0() -> None:
    trace = small()
    levels: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for event in events(trace, "C"):
        levels[event["name"]].append((event["ts"], event["args"][event["name"]]))
    assert levels["in the service"] == [(0, 1), (1000, 2), (3000, 1), (5000, 0)]
    assert levels["KV blocks"][0] == (0, 1)
    assert levels["KV blocks"][-1] == (5000, 0), "the last block is given back at the end"


def test_given_times_are_requests_without_seats() -> None:
    work = Workload.given({"A": (0, 4, 2)})
    trace = given_times({"A": [Fraction(1, 2), 1]}, work, unit="s")
    assert events(trace, "X", ENGINE) == []
    assert [e["dur"] for e in events(trace, "X", REQUESTS)] == [1e6]
    assert [e["ts"] for e in events(trace, "i")] == [5e5]


def test_a_request_that_has_not_ended_reaches_to_the_last_moment() -> None:
    engine = engine_of(Continuous())
    for request in (ask("A", 1, 9), ask("B", 1, 2)):
        engine.add(request)
    engine.step(1)
    assert [e["dur"] for e in events(engine.trace, "X", REQUESTS)] == [1000, 1000]


def test_the_file_is_the_document(tmp_path: Path) -> None:
    path = tmp_path / "perfetto.json"
    save_perfetto(small(), path)
    assert json.loads(path.read_text(encoding="utf-8")) == perfetto(small())
