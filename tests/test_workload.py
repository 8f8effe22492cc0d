"""Workloads: tables, drawn requests, and the rules they share."""

import json
import math
import random
from fractions import Fraction
from typing import Any

import pytest
from golden_runs import GOLDEN, PROCESSES, drawn_rows

from lab.draws import (
    Arrivals,
    EvenlySpaced,
    Fixed,
    Geometric,
    Poisson,
    PrefixedTokens,
    Uniform,
)
from lab.request import Request
from lab.workload import GivenRow, Workload


def request(request_id: str, arrival: float | Fraction = 0) -> Request:
    return Request(id=request_id, prompt=range(2), max_tokens=1, arrival=arrival)


def drawn(count: int = 50, seed: int = 1, **changes: Any) -> Workload:
    settings: dict[str, Any] = {
        "arrivals": Poisson(4),
        "prompt": Uniform(10, 90),
        "output": Geometric(20),
    }
    return Workload.drawn(count, seed=seed, **(settings | changes))


def test_a_table_becomes_requests() -> None:
    work = Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": [40, 2, 1]}, unit="ms", name="x")
    assert work.requests == (
        Request(id="A", prompt=range(4), max_tokens=3, arrival=0),
        Request(id="B", prompt=range(4, 8), max_tokens=2, arrival=20),
        Request(id="C", prompt=range(8, 10), max_tokens=1, arrival=40),
    )
    assert (work.unit, work.name, len(work), list(work)) == ("ms", "x", 3, [*work.requests])


def test_a_row_may_name_its_cells() -> None:
    work = Workload.given(
        {
            "A": {"prompt": (7, 7, 30), "output": 1},
            "B": {
                "arrival": 5,
                "prompt": 2,
                "output": 3,
                "priority": -1,
                "deadline": 9,
                "cancel_at": Fraction(17, 2),
            },
        }
    )
    assert work.requests == (
        Request(id="A", prompt=(7, 7, 30), max_tokens=1),
        Request(
            id="B",
            prompt=range(31, 33),
            max_tokens=3,
            arrival=5,
            priority=-1,
            deadline=9,
            cancel_at=Fraction(17, 2),
        ),
    )


def test_ids_given_as_a_tuple_meet_no_counted_prompt() -> None:
    rows: dict[str, GivenRow] = {"A": (0, 3, 1), "B": {"prompt": [0, 4], "output": 1}}
    prompts = [set(r.prompt) for r in Workload.given(rows)]
    assert prompts == [{5, 6, 7}, {0, 4}]


def test_times_keep_their_type() -> None:
    work = Workload.given({"A": (0, 1, 1), "B": (Fraction(1, 3), 1, 1), "C": (0.5, 1, 1)})
    assert [type(r.arrival) for r in work] == [int, Fraction, float]
    assert work.span == 0.5


def test_requests_are_ordered_by_arrival_and_then_by_place() -> None:
    work = Workload.given({"A": (9, 1, 1), "B": (0, 1, 1), "C": (9.0, 1, 1), "D": (0, 1, 1)})
    assert [r.id for r in work] == ["B", "D", "A", "C"]
    assert [r.id for r in Workload((request("A", 3), request("B", Fraction(5, 2))))] == ["B", "A"]


def test_a_short_text_gives_the_sums() -> None:
    work = Workload.given({"A": (Fraction(1, 3), 4000, 3), "B": (20, 4, 2)}, unit="ms", name="two")
    assert repr(work) == (
        "Workload('two': 2 requests, 4,004 prompt tokens, 5 output tokens, arrivals 1/3 to 20 ms)"
    )
    assert repr(Workload((request("A"),))) == (
        "Workload(1 request, 2 prompt tokens, 1 output token, arrivals 0 to 0)"
    )


@pytest.mark.parametrize("unit", [None, "us", "ms", "s", "step"])
def test_every_unit_of_the_house_is_taken(unit: str | None) -> None:
    assert Workload((request("A"),), unit=unit).unit == unit


def test_another_unit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unit must be one of .*'step'.*, got 'min'"):
        Workload((request("A"),), unit="min")


def test_an_empty_workload_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 1 request, got 0$"):
        Workload(())
    with pytest.raises(ValueError, match=r"at least 1 request, got 0$"):
        Workload.given({})


def test_two_requests_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two requests have the id 'A'"):
        Workload((request("A"), request("B"), request("A")))


def test_a_moment_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="request 'A': arrival must be a finite number, got nan"):
        Workload((request("A", math.nan),))
    endless = Request(id="B", prompt=range(1), max_tokens=1, deadline=math.inf)
    with pytest.raises(ValueError, match="request 'B': deadline must be a finite number, got inf"):
        Workload((endless,))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((0, 4), r"row 'A': a row is \(arrival, prompt .* got \(0, 4\)"),
        ("abc", r"row 'A': a row is .* got 'abc'"),
        (7, r"row 'A': a row is .* got 7"),
        ((0, 0, 1), r"row 'A': prompt must be .* at least 1 token.* got 0"),
        ((0, -2, 1), r"row 'A': prompt must be .* got -2"),
        ((0, 2.0, 1), r"row 'A': prompt must be .* got 2\.0"),
        ((0, True, 1), r"row 'A': prompt must be .* got True"),
        ((0, 2, 0), r"row 'A': output must be a whole number of at least 1 token, got 0"),
        ((0, 2, 1.5), r"row 'A': output must be .* got 1\.5"),
        (("0", 2, 1), r"row 'A': arrival must be a finite number, got '0'"),
        ((None, 2, 1), r"row 'A': arrival must be a finite number, got None"),
        ((math.inf, 2, 1), r"row 'A': arrival must be a finite number, got inf"),
        ((True, 2, 1), r"row 'A': arrival must be a finite number, got True"),
        ((-1, 2, 1), r"'A': the arrival must not be before 0, got -1"),
        ({"prompt": 2}, r"row 'A': output must be given"),
        ({}, r"row 'A': prompt and output must be given"),
        (
            {"prompt": 2, "output": 1, "promt": 2},
            r"row 'A': the keys are arrival, prompt, .*; got \['promt'\]",
        ),
        ({"prompt": "hello", "output": 1}, r"row 'A': prompt must be .* got 'hello'"),
        ({"prompt": (), "output": 1}, r"row 'A': prompt must be .* got \(\)"),
        ({"prompt": (1, -1), "output": 1}, r"row 'A': prompt must be .* got \(1, -1\)"),
        ({"prompt": 2, "output": 1, "priority": 0.5}, r"row 'A': priority must be .* got 0\.5"),
        ({"prompt": 2, "output": 1, "n": 1.5}, r"row 'A': n must be a whole number, got 1\.5"),
        ({"prompt": 2, "output": 1, "n": 0}, r"'A': n must be at least 1 answer, got 0"),
        ({"prompt": 2, "output": 1, "deadline": "x"}, r"row 'A': deadline must be .* got 'x'"),
        (
            {"arrival": 4, "prompt": 2, "output": 1, "cancel_at": 3},
            r"'A': cancel_at must not be before its arrival, got 3 < 4",
        ),
    ],
)
def test_a_bad_row_is_an_error_that_names_it(row: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Workload.given({"good": (0, 1, 1), "A": row})


def test_a_row_may_ask_for_several_answers_and_name_tenant_and_adapter() -> None:
    work = Workload.given({"A": {"prompt": 2, "output": 3, "n": 2, "tenant": "x", "adapter": "y"}})
    (request,) = work
    assert (request.n, request.tenant, request.adapter, work.output_tokens) == (2, "x", "y", 6)


def test_drawn_workloads_equal_the_recorded_ones_bit_for_bit() -> None:
    assert drawn_rows() == json.loads((GOLDEN / "workload.json").read_text(encoding="utf-8"))


def test_a_seed_makes_the_same_workload_and_another_seed_another() -> None:
    assert drawn(seed=1) == drawn(seed=1)
    first, second = drawn(seed=1), drawn(seed=2)
    assert [r.arrival for r in first] != [r.arrival for r in second]
    assert [r.prompt_tokens for r in first] != [r.prompt_tokens for r in second]
    assert [r.max_tokens for r in first] != [r.max_tokens for r in second]
    assert (first.seed, first.unit) == (1, "s")


def test_the_generator_of_the_caller_is_left_alone() -> None:
    random.seed(3)
    state = random.getstate()
    drawn()
    assert random.getstate() == state


def test_another_process_of_arrivals_leaves_the_lengths_as_they_are() -> None:
    one, other = drawn(), drawn(arrivals=EvenlySpaced(9))
    assert [(r.prompt, r.max_tokens) for r in one] == [(r.prompt, r.max_tokens) for r in other]
    longer = drawn(prompt=Fixed(7))
    assert [(r.arrival, r.max_tokens) for r in one] == [(r.arrival, r.max_tokens) for r in longer]


@pytest.mark.parametrize("arrivals", PROCESSES.values(), ids=repr)
def test_a_longer_workload_begins_with_the_shorter_one(arrivals: Arrivals) -> None:
    short, long = drawn(20, arrivals=arrivals), drawn(50, arrivals=arrivals)
    assert long.requests[:20] == short.requests


def test_prompt_and_output_lengths_are_drawn_apart() -> None:
    work = drawn(prompt=Uniform(1, 100), output=Uniform(1, 100))
    assert [r.prompt_tokens for r in work] != [r.max_tokens for r in work]


def test_arrivals_are_microseconds_written_in_seconds() -> None:
    for r in drawn():
        assert type(r.arrival) is float
        assert r.arrival == round(r.arrival * 10**6) / 10**6


def test_drawn_prompts_share_no_id() -> None:
    work = drawn()
    ids = [token for r in work for token in r.prompt]
    assert len(ids) == len(set(ids)) == work.prompt_tokens
    assert all(isinstance(r.prompt, range) for r in work)


def test_a_shared_prefix_stands_before_every_prompt_and_nothing_else_is_shared() -> None:
    alone, work = drawn(), drawn(shared_prefix=12)
    assert {r.prompt[:12] for r in work} == {tuple(range(12))}
    own = [token for r in work for token in r.prompt[12:]]
    assert len(own) == len(set(own))
    assert not set(own) & set(range(12))
    assert [r.prompt_tokens for r in work] == [12 + r.prompt_tokens for r in alone]
    assert all(isinstance(r.prompt, PrefixedTokens) for r in work)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 0}, "count must be at least 1 request and .* got 0 and 0"),
        ({"shared_prefix": -1}, "shared_prefix at least 0 tokens, got 50 and -1"),
        ({"arrivals": "poisson"}, r"arrivals must be a process such as Poisson.* got 'poisson'"),
        ({"prompt": 512}, r"prompt must be lengths such as Fixed\(512\), got 512"),
        ({"output": None}, r"output must be lengths such as Fixed\(512\), got None"),
    ],
)
def test_draws_that_make_no_sense_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        drawn(**changes)
