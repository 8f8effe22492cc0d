"""What a request refuses, and what a sequence knows about its tokens."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import pytest

from lab.request import Request, Sequence

WHOLE: dict[str, Any] = {"id": "A", "prompt": range(4), "max_tokens": 3}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prompt": ()}, "request 'A': the prompt must hold at least 1 token, got 0"),
        ({"max_tokens": 0}, "request 'A': max_tokens must be at least 1, got 0"),
        ({"max_tokens": -3}, "request 'A': max_tokens must be at least 1, got -3"),
        ({"n": 0}, "request 'A': n must be at least 1 answer, got 0"),
        ({"draft_tokens": -1}, "request 'A': draft_tokens must be at least 0, got -1"),
        ({"arrival": -1}, "request 'A': the arrival must not be before 0, got -1"),
        (
            {"arrival": float("inf")},
            "request 'A': arrival must be a finite number, got inf",
        ),
        (
            {"arrival": float("nan")},
            "request 'A': arrival must be a finite number, got nan",
        ),
        (
            {"arrival": 5, "deadline": 4},
            "request 'A': deadline must not be before its arrival, got 4 < 5",
        ),
        (
            {"arrival": Fraction(1, 3), "cancel_at": Fraction(1, 4)},
            "request 'A': cancel_at must not be before its arrival, got 1/4 < 1/3",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_request_that_makes_no_sense_is_refused_with_rule_and_numbers(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Request(**(WHOLE | wrong))


def test_the_smallest_request_is_one_token_for_one_token() -> None:
    request = Request(id="A", prompt=(7,), max_tokens=1, deadline=0, cancel_at=0)
    assert (request.prompt_tokens, request.max_computed) == (1, 1)


def test_the_last_token_of_an_answer_is_only_read() -> None:
    assert Request(**WHOLE).max_computed == 4 + 3 - 1


def test_a_request_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        Request(**WHOLE).max_tokens = 4  # type: ignore[misc]


def test_a_sequence_begins_with_its_prompt_and_nothing_computed() -> None:
    sequence = Sequence(Request(**WHOLE), number=0, rank=(0,))
    assert (sequence.tokens, sequence.computed, sequence.missing, sequence.limit) == (4, 0, 4, 7)


def test_a_decode_misses_one_token_and_a_restart_misses_all() -> None:
    sequence = Sequence(Request(**WHOLE), number=0, rank=(0,))
    sequence.computed, sequence.tokens = 4, 5
    assert sequence.missing == 1
    sequence.computed = 0
    assert sequence.missing == 5


def test_two_sequences_of_equal_requests_are_not_the_same() -> None:
    one, other = (Sequence(Request(**WHOLE), number=0, rank=(0,)) for _ in range(2))
    assert one != other


def test_a_request_with_one_answer_is_its_answer() -> None:
    request = Request(**WHOLE)
    assert request.answers == (request,)


def test_several_answers_are_requests_of_their_own_and_the_first_keeps_the_id() -> None:
    request = Request(**WHOLE, n=3, tenant="x", stop_ids=(7,))
    assert [(answer.id, answer.n) for answer in request.answers] == [
        ("A", 1),
        ("A#2", 1),
        ("A#3", 1),
    ]
    assert {(answer.tenant, answer.stop_ids) for answer in request.answers} == {("x", (7,))}


def test_an_answer_ends_with_a_token_that_stops_it_and_says_why() -> None:
    request = Request(**WHOLE, stop_ids={7}, end_ids=(2, 7))
    assert [request.ends_with(token) for token in (7, 2, 3)] == ["stop", "end of text", ""]
    assert Request(**WHOLE).ends_with(0) == ""
