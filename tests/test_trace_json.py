"""A trace that is written and read again is the same trace; what is no trace says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from drawn_runs import (
    Scripted,
    cost_models,
    policies,
    scripted,
    served,
    workloads,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.executors.cost_model import CostModel
from lab.policy import Continuous, Policy, Static
from lab.request import Request
from lab.run import given as given_times
from lab.run import simulate
from lab.trace import Trace, TraceError
from lab.trace_json import FORMAT, VERSION, from_json, load, save, to_json
from lab.workload import Workload

WORK = Workload.given({"A": (0, 4, 3), "B": (Fraction(1, 3), 4, 2)})
POLICY = Continuous(seats=2, blocks=3, block_tokens=4)


def types(times: list[Any] | None) -> list[type]:
    return [type(time) for time in times or ()]


def assert_same(one: Trace, other: Trace) -> None:
    assert (one.unit, one.starts, one.ends) == (other.unit, other.starts, other.ends)
    assert types(one.ends) == types(other.ends)
    assert list(one.requests) == list(other.requests)
    for mine, yours in zip(one.requests, other.requests, strict=True):
        assert type(mine.arrival) is type(yours.arrival)
        assert types(mine.times) == types(yours.times)


@settings(max_examples=100)
@given(
    asked=workloads(),
    policy=st.one_of(policies(), policies(drafts=True)),
    executor=st.one_of(cost_models, scripted(failing=True)),
)
def test_every_trace_survives_the_round_trip(
    asked: list[Request], policy: Policy, executor: CostModel | Scripted
) -> None:
    trace = served(asked, policy, executor, repeats=False)
    assert_same(trace, from_json(json.loads(json.dumps(to_json(trace)))))


@pytest.mark.parametrize("duration", [5, 0.1, Fraction(1, 3)], ids=["int", "float", "Fraction"])
def test_times_keep_their_type_in_a_file(duration: Any, tmp_path: Path) -> None:
    trace = simulate(WORK, POLICY, CostModel.equal_steps(duration))
    save(trace, tmp_path / "trace.json")
    again = load(tmp_path / "trace.json")
    assert_same(trace, again)
    again.check()
    save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "trace.json").read_bytes()


def test_given_times_survive_without_steps(tmp_path: Path) -> None:
    trace = given_times({"A": [1, 2.5, Fraction(10, 3)], "B": [4, 5]}, WORK)
    save(trace, tmp_path / "trace.json")
    again = load(str(tmp_path / "trace.json"))
    assert (again.starts, again.ends) == (None, None)
    assert_same(trace, again)


def test_the_document_is_what_the_module_says() -> None:
    trace = simulate(WORK, POLICY, CostModel.equal_steps(Fraction(1, 2)))
    document = to_json(trace)
    assert (
        (document["format"], document["version"])
        == (FORMAT, VERSION)
        == (
            "tokens-in-flight trace",
            2,
        )
    )
    fields = ["format", "version", "unit", "settings", "steps", "evictions", "requests"]
    assert list(document) == fields
    assert document["steps"]["ends"][:2] == ["1/2", "1"]
    assert document["requests"][0]["runs"][0] == [
        *("prefill", 0, 0, 1, 0, 4, 1, [0], 0),
        *(0, 0, None),
    ]
    assert document["requests"][0]["stays"] == [[0, 0, 3, False, 0]]
    assert document["requests"][0]["fork_of"] is None
    assert document["settings"]["duration"] == "1/2"


@pytest.mark.parametrize(
    "cost",
    [
        CostModel.table({1: Fraction(1, 3), 100: Fraction(1, 2)}),
        CostModel.affine(Fraction(1, 3), 0, 0, unit="step"),
        CostModel.roofline("Llama-3-8B", "h100"),
    ],
    ids=["table", "affine", "roofline"],
)
def test_the_settings_of_every_cost_model_can_be_written(cost: CostModel, tmp_path: Path) -> None:
    trace = simulate(WORK, Static(timeout=Fraction(1, 2)), cost)
    save(trace, tmp_path / "trace.json")
    assert_same(trace, load(tmp_path / "trace.json"))


def whole() -> Any:
    return to_json(simulate(WORK, POLICY, CostModel.equal_steps()))


def without(path: list[Any]) -> Callable[[Any], None]:
    def cut(document: Any) -> None:
        for part in path[:-1]:
            document = document[part]
        del document[path[-1]]

    return cut


def setting(path: list[Any], value: Any) -> Callable[[Any], None]:
    def put(document: Any) -> None:
        for part in path[:-1]:
            document = document[part]
        document[path[-1]] = value

    return put


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            setting(["version"], 3),
            "reads versions 1 to 2 of the trace format, and the document has version 3",
        ),
        (without(["version"]), "and the document has version None"),
        (setting(["format"], "chrome"), f"begins with format '{FORMAT}', and this has 'chrome'"),
        (without(["format"]), f"begins with format '{FORMAT}', and this has None"),
        (without(["unit"]), "not a whole trace: KeyError('unit')"),
        (without(["settings"]), "not a whole trace: KeyError('settings')"),
        (without(["steps"]), "not a whole trace: KeyError('steps')"),
        (without(["steps", "ends"]), "not a whole trace: KeyError('ends')"),
        (without(["requests"]), "not a whole trace: KeyError('requests')"),
        (without(["requests", 0, "arrival"]), "not a whole trace: KeyError('arrival')"),
        (without(["requests", 1, "status"]), "not a whole trace: KeyError('status')"),
        (without(["requests", 1, "runs"]), "not a whole trace: KeyError('runs')"),
        (without(["requests", 1, "runs", 0, 1]), "12 values are needed, got ['prefill', "),
        (without(["requests", 1, "runs", 0, 8]), "12 values are needed, got ['prefill', "),
        (without(["requests", 1, "stays", 0, 3]), "5 values are needed, got ["),
        (setting(["requests", 1, "runs", 0, 2], "0"), "not a whole trace: TypeError"),
        (setting(["requests", 0, "stays", 0], [0]), "5 values are needed, got [0]"),
        (setting(["requests", 0, "arrival"], [1]), "a time must be a number or a fraction"),
        (setting(["requests", 0, "arrival"], True), "a time must be a number or a fraction"),
        (setting(["steps", "ends", 0], "soon"), "not a whole trace: ValueError"),
        (setting(["steps", "ends", 0], "1/0"), "not a whole trace: ZeroDivisionError"),
        (setting(["steps", "ends", 0], None), "4 steps start and 3 end"),
        (setting(["requests"], 7), "not a whole trace: TypeError"),
        (setting(["steps", "ends", 0], 99), "the trace contradicts itself"),
        (setting(["requests", 0, "runs", 0, 2], 77), "the trace contradicts itself"),
    ],
)
def test_a_document_that_is_no_whole_trace_says_why(
    spoil: Callable[[Any], None], message: str
) -> None:
    document = whole()
    spoil(document)
    with pytest.raises(TraceError) as caught:
        from_json(document)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("document", "found"), [([1, 2], "list"), ("text", "str"), (None, "NoneType")]
)
def test_a_document_that_is_no_object_is_refused(document: object, found: str) -> None:
    with pytest.raises(TraceError, match=f"and this has '{found}'"):
        from_json(document)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"format: trace"])
def test_a_file_that_is_not_json_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"trace\.json is not JSON: "):
        load(path)


def test_a_file_that_is_not_there_is_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")
