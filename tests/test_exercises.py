"""An exercise and its variants: the same for everybody who has the same seed."""

from __future__ import annotations

import json
import random

import pytest

from lab.answers import Number, WrongNumber
from lab.exercises import VARIANTS, Exercise, Question, bake, drawn, variant


def doubled(number):
    wrong = WrongNumber(number, "not doubling", "Twice that.")
    return Question(
        text=f"What is twice {number}?",
        answer=Number(value=2 * number, unit="apples", wrong=(wrong,)),
        hints=("Add it to itself.",),
        worked=(f"{number} + {number} = {2 * number}",),
    )


DOUBLE = Exercise("double", "Twice", 0, lambda dice: doubled(dice.randrange(1, 1000)))
FROM_ONE = Exercise("one", "Twice", 0, DOUBLE.make, lambda: doubled(1))


def asked(**other):
    usual = {"text": "Why?", "answer": doubled(2).answer, "hints": ("Look.",), "worked": ("So.",)}
    return Question(**(usual | other))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: asked(text="\n"), "a question needs a text, got '\\n'"),
        (lambda: asked(hints=()), "at least 1 hint, got 0"),
        (lambda: asked(hints=("Look.", "")), "a hint must have words, got ('Look.', '')"),
        (lambda: asked(worked=()), "at least 1 line of worked answer, got 0"),
        (lambda: Exercise("", "Twice", 0, DOUBLE.make), "an exercise needs words for id"),
        (lambda: Exercise("double", " ", 0, DOUBLE.make), "an exercise needs words for title"),
        (lambda: variant(DOUBLE, -1), "number of a variant must be at least 0, got -1"),
    ],
)
def test_a_question_that_leaves_a_student_alone_is_refused(make, message):
    with pytest.raises(ValueError) as refused:
        make()
    assert message in str(refused.value)


def test_a_variant_is_drawn_from_its_id_and_number_and_nothing_else():
    number = random.Random("double/3").randrange(1, 1000)
    assert variant(DOUBLE, 3).question == doubled(number)
    random.seed(1)
    assert variant(DOUBLE, 3).to_json() == variant(DOUBLE, 3).to_json()
    assert len({variant(DOUBLE, k).text() for k in range(VARIANTS)}) > 6


def test_variant_0_has_the_given_numbers_where_there_are_some():
    assert variant(FROM_ONE, 0).question == doubled(1)
    assert variant(FROM_ONE, 1).question == doubled(random.Random("one/1").randrange(1, 1000))


def test_a_page_carries_twelve():
    baked = bake(DOUBLE)
    assert [one.number for one in baked] == list(range(12))
    assert baked == [variant(DOUBLE, number) for number in range(12)]


def test_a_variant_is_plain_values_for_a_page():
    json_of = variant(FROM_ONE, 0).to_json()
    assert json.loads(json.dumps(json_of)) == json_of
    assert json_of | {"answer": None} == {
        "id": "one",
        "kind": "number",
        "title": "Twice",
        "question": "What is twice 1?",
        "variant": 0,
        "hints": ["Add it to itself."],
        "worked": ["1 + 1 = 2"],
        "answer": None,
    }


def test_the_text_asks_and_the_key_answers():
    one = variant(FROM_ONE, 0)
    assert one.text() == "Twice  (one, variant 0)\n\nWhat is twice 1?\n\nAnswer in apples."
    assert one.answer_text() == (
        "Answer: 2, in apples\nnot 1, from not doubling: Twice that.\nWorked:\n  1 + 1 = 2"
    )


def test_a_dull_draw_is_drawn_again():
    rolls = random.Random("a")
    same = random.Random("a")
    found = drawn(rolls, lambda dice: dice.randrange(6), lambda roll: roll == 5)
    before = [same.randrange(6)]
    while before[-1] != 5:
        before.append(same.randrange(6))
    assert found == 5
    assert rolls.random() == same.random()  # exactly as many draws as it took


def test_a_rule_that_nothing_meets_is_an_error_and_no_endless_loop():
    with pytest.raises(ValueError, match="none of 1,000 draws was good"):
        drawn(random.Random(0), lambda dice: dice.random(), lambda roll: roll > 1)
