"""The question bank as nodes: every exercise, every known wrong answer, and the little markup."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docutils import nodes

from lab.answers import Choice, Number, Option, WrongNumber
from lab.exercises import Exercise, variant
from lab.questions import BANK, number_in_book

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))

from question_bank import inline, key, turns_list

EVERY = [exercise for chapter in BANK.values() for exercise in chapter]
every_exercise = pytest.mark.parametrize("exercise", EVERY, ids=[one.id for one in EVERY])


def read(shown: list[nodes.Node]) -> str:
    """The words of nodes, without the signs of the markup."""
    return "\n".join(node.astext() for node in shown)


def plain(text: str) -> str:
    return "".join(node.astext() for node in inline(text))


def wrong_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every wrong answer in what a page gets of an exercise, however deep, and wrong options."""
    if isinstance(value, list):
        for item in value:
            yield from wrong_in(item)
    elif isinstance(value, dict):
        says, right = value.get("says"), value.get("right")
        if isinstance(says, list):  # one sentence a line
            yield from ({"says": one} for k, one in enumerate(says) if k != value["wrong"])
        elif says and not right:
            yield value
        for name in ("wrong", "options", "rows"):
            if not isinstance(value.get(name), int):
                yield from wrong_in(value.get(name))


@every_exercise
def test_every_wrong_answer_stands_with_its_method_and_its_sentence(exercise: Exercise) -> None:
    answer = variant(exercise, 0).question.answer
    shown = turns_list(key(answer).wrong).astext()
    known = list(wrong_in(answer.to_json()))
    assert known or answer.to_json().get("by") == "drawing"
    for wrong in known:
        assert plain(wrong["says"]) in shown
        assert wrong.get("method", "") in shown


@every_exercise
def test_what_is_asked_says_nothing_of_the_answer(exercise: Exercise) -> None:
    question = variant(exercise, 0).question
    asked = read(key(question.answer).asked)
    assert asked
    assert [line for line in question.worked if line in asked] == []


@every_exercise
def test_the_answer_is_there(exercise: Exercise) -> None:
    assert read(key(variant(exercise, 0).question.answer).right)


def test_a_number_has_its_unit_and_how_exact_it_must_be() -> None:
    wrong = (WrongNumber(9, "guessing", "Count."),)
    assert read(key(Number(value=3, unit="steps", wrong=wrong)).right) == "3 steps"
    near = Number(value=200, unit="ms", wrong=wrong, tolerance=1)
    assert read(key(near).right) == "200 ms, right within 0.5 %"


def test_right_and_wrong_options_keep_their_letters() -> None:
    options = (Option("no", False, "Not so."), Option("yes", True, "So."))
    asked, right, wrong = key(Choice(options))
    assert read(right) == "b. yes\n\nSo."
    assert [turn.answer for turn in wrong] == ["a. no"]
    assert asked[0]["enumtype"] == "loweralpha"


def test_answers_that_are_told_the_same_stand_together() -> None:
    (answer,) = [e for e in EVERY if e.id == "batching-who-sits-where"]
    turns = key(variant(answer, 0).question.answer).wrong
    says = [item[-1].astext() for item in turns_list(turns)]
    assert len(says) == len(set(says)) < len(turns)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a `b*c*` and *d e*.", ["Text", "literal", "Text", "emphasis", "Text"]),
        ("2 * 3 * 4", ["Text"]),
        ("a ` b", ["Text"]),
        ("`all`", ["literal"]),
        ("**", ["Text"]),
    ],
)
def test_the_markup_is_that_of_the_page(text: str, kinds: list[str]) -> None:
    assert [type(node).__name__ for node in inline(text)] == kinds


def test_numbers_count_within_the_chapter() -> None:
    for chapter, asked in BANK.items():
        numbers = [f"{chapter}.{place}" for place, _ in enumerate(asked, 1)]
        assert [number_in_book(one) for one in asked] == numbers
    stranger = Exercise("own", "Own", EVERY[0].chapter, EVERY[0].make)
    assert number_in_book(stranger) == ""


def test_an_answer_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot show an answer of type str"):
        key("yes")
