"""The self-check's Python side: which exercises travel, in which variants, and the text form."""

from __future__ import annotations

import json

import pytest

import lab
from lab.exercises import VARIANTS, Exercise, bake, variant
from lab.questions import BANK, exercises, more

WORK = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 3), "C": (0, 1, 1)})
PREDICTION = "batching-whose-answer-is-later"


@pytest.fixture
def scene():
    return lab.timeline(lab.simulate(WORK, lab.Static(seats=2), lab.CostModel.equal_steps()))


def test_all_variants_of_every_exercise_travel_as_plain_json():
    asked = BANK[2]
    travelled = json.loads(json.dumps(lab.self_check(*asked).exercises))
    assert [one["id"] for one in travelled] == [exercise.id for exercise in asked]
    assert [one["number"] for one in travelled] == [f"2.{i + 1}" for i in range(len(asked))]
    for one, exercise in zip(travelled, asked, strict=True):
        assert one["variants"] == json.loads(json.dumps([v.to_json() for v in bake(exercise)]))
        assert len(one["variants"]) == VARIANTS


def test_exercises_are_found_by_id_and_by_chapter():
    one, all_of = lab.self_check("batching-idle-seats"), lab.self_check("2")
    assert [e["id"] for e in one.exercises] == ["batching-idle-seats"]
    assert [e["id"] for e in all_of.exercises] == [e.id for e in BANK[2]]


def test_the_text_form_asks_and_does_not_answer():
    widget = lab.self_check(*BANK[2])
    text = repr(widget)
    for number, exercise in enumerate(BANK[2], 1):
        first = bake(exercise, 1)[0]
        assert f"Exercise 2.{number}: {first.text()}" in text
        said = [*first.question.hints, *first.question.worked, *_says(first.to_json()["answer"])]
        assert [line for line in said if line in text] == []


def _says(value):
    """Every sentence that an answer holds for the reader who tried."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from [item] if name in ("says", "why") and isinstance(item, str) else _says(item)
    elif isinstance(value, list):
        for item in value:
            yield from _says(item)


def test_the_sentences_of_an_answer_are_found():
    answer = bake(exercises("batching-idle-seats")[0], 1)[0].to_json()["answer"]
    assert list(_says(answer)) == [wrong["says"] for wrong in answer["wrong"]]


def test_a_guess_has_one_variant_and_keeps_its_figure_out_of_the_text(scene):
    widget = lab.guess(PREDICTION, scene)
    assert [one["id"] for one in widget.exercises] == [PREDICTION]
    assert len(widget.exercises[0]["variants"]) == 1
    assert [s["title"] for s in json.loads(json.dumps(widget.scenes))] == [scene.title]
    assert scene.finding not in repr(widget)
    assert scene.frames[0].caption not in repr(widget)


def test_a_guess_may_do_without_a_figure():
    assert lab.guess(PREDICTION).scenes == []


def test_an_exercise_that_is_not_in_the_bank_has_no_number():
    known = exercises("batching-idle-seats")[0]
    own = Exercise("own", "Own", 2, known.make)
    widget = lab.self_check(own)
    assert widget.exercises[0]["number"] == ""
    assert repr(widget).startswith("Own  (own, variant 0)")


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match="at least 1 exercise, got 0"):
        lab.self_check()
    with pytest.raises(ValueError, match="kind predict, got number: batching-idle-seats"):
        lab.guess("batching-idle-seats")
    with pytest.raises(ValueError, match="nearest: batching-idle-seats"):
        lab.self_check("batching-idle-seat")


def test_the_kernel_makes_further_variants():
    widget, sent = lab.self_check("batching-idle-seats"), []
    widget.send = sent.append
    widget._hear(None, {"id": "1", "parameters": {"id": "batching-idle-seats", "number": 40}}, [])
    assert sent == [{"id": "1", "result": more("batching-idle-seats", 40)}]
    assert sent[0]["result"] == variant(*exercises("batching-idle-seats"), 40).to_json()
    widget._hear(None, {"id": "2", "parameters": {"id": "batching-idle", "number": 40}}, [])
    assert "unknown exercise 'batching-idle'" in sent[1]["error"]
