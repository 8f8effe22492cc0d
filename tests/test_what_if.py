"""What-ifs: the kernel's answer, the baked answers and the text form say the same."""

from __future__ import annotations

import json
from itertools import product

import pytest

import lab
from lab.figures.scene import Frame, Mark, Scene, plain
from lab.what_ifs.batching import long_prompt, two_rules
from lab.widgets.what_if import pack

LENGTHS = {"A": lab.Knob(2, 1, 3), "B": lab.Knob(4, 1, 4), "C": lab.Knob(2, 1, 3)}


def unpack(baked, place):
    """As the page does it, written anew."""
    pool = baked["pool"]
    return [
        {
            name: [pool[at] for at in value] if isinstance(value, list) else pool[value]
            for name, value in zip(baked["fields"], scene, strict=True)
        }
        for scene in baked["results"][place]
    ]


def as_json(scenes):
    return json.loads(json.dumps(plain(scenes)))


@pytest.fixture
def widget():
    return lab.what_if(two_rules, **LENGTHS)


def test_every_baked_result_is_what_the_function_says(widget):
    spaces = product(range(1, 4), range(1, 5), range(1, 4))
    for place, (a, b, c) in enumerate(spaces):
        assert unpack(widget.baked, place) == as_json(two_rules(a, b, c)), (a, b, c)
    assert len(widget.baked["results"]) == place + 1


def test_the_first_scenes_are_those_of_the_first_values(widget):
    assert as_json(widget.scenes) == as_json(two_rules(2, 4, 2))


def test_the_kernel_answers_a_question_with_its_number(widget):
    sent = []
    widget.send = sent.append
    widget._hear(None, {"id": "7", "parameters": {"A": 1, "B": 2, "C": 3}}, [])
    assert sent == [{"id": "7", "result": plain(two_rules(1, 2, 3))}]


def test_a_question_that_has_no_answer_is_told_why(widget):
    sent = []
    widget.send = sent.append
    widget._hear(None, {"id": "8", "parameters": {"A": 0, "B": 2, "C": 3}}, [])
    assert list(sent[0]) == ["id", "error"]
    assert "0" in sent[0]["error"]


def test_the_page_knows_which_function_to_call(widget):
    assert widget.function == "lab.what_ifs.batching:two_rules"


def test_a_space_with_a_slider_is_not_baked():
    slider = {"kind": "slider", "step": 100}
    widget = lab.what_if(
        long_prompt,
        prompt=lab.Knob(1900, 100, 2000, **slider),
        budget=lab.Knob(400, 100, 2000, **slider),
    )
    assert widget.baked == {}
    assert "C's first token takes" in repr(widget)


def test_a_large_space_is_not_baked():
    widget = lab.what_if(two_rules, **{who: lab.Knob(2, 1, 11) for who in "ABC"})
    assert widget.baked == {}


def test_the_text_form_holds_the_figure_and_says_what_may_be_changed(widget):
    text = repr(widget)
    for scene in two_rules(2, 4, 2):
        assert scene.text() in text
    assert text.endswith("What may be changed: A (1 to 3), B (1 to 4), C (1 to 3)")


ORDER = lab.Knob.choice("Who goes first", "first come", "shortest", "longest", value=1)


def ordered(order, A):
    """A figure that says which place of the options it was given."""
    last = {0: "A", 1: "B", 2: "C"}[order]
    mark = Mark("A", "decode", "seat 1", 0, A, "A", "A")
    frames = (Frame(0, "0", f"{last} is last"),)
    return (Scene("Who?", f"{last} is last.", "3", "given", "ms", ("seat 1",), (mark,), frames),)


def test_a_choice_is_the_place_of_an_option():
    assert (ORDER.value, ORDER.low, ORDER.high, ORDER.step) == (1, 0, 2, 1)
    assert ORDER.values == [0, 1, 2]
    assert ORDER.options == ("first come", "shortest", "longest")


def test_a_choice_is_baked_and_listed_in_the_text_form():
    widget = lab.what_if(ordered, order=ORDER, A=lab.Knob(20, 10, 40, 10, unit="ms"))
    assert len(widget.baked["results"]) == 3 * 4
    for place, (order, a) in enumerate(product(range(3), (10, 20, 30, 40))):
        assert unpack(widget.baked, place) == as_json(ordered(order, a))
    assert widget.scenes[0]["finding"] == "B is last."
    told = "Who goes first (first come or shortest or longest), A (10 to 40 ms)"
    assert repr(widget).endswith(f"What may be changed: {told}")
    assert json.loads(json.dumps(widget.knobs))[0]["options"] == list(ORDER.options)


def test_equal_values_stand_in_the_pool_once():
    scene = {"title": "x", "marks": [1, 2, 1]}
    assert pack([[scene], [scene]]) == {
        "fields": ["title", "marks"],
        "pool": ["x", 1, 2],
        "results": [[[0, [1, 2, 1]]], [[0, [1, 2, 1]]]],
    }


def test_knobs_have_their_limits():
    with pytest.raises(ValueError, match=r"value must be from low to high, got 9 not in 1\.\.6"):
        lab.Knob(9, 1, 6)
    with pytest.raises(ValueError, match="step must be above 0, got 0"):
        lab.Knob(1, 1, 6, step=0)
    with pytest.raises(ValueError, match="at least 1 knob, got 0"):
        lab.what_if(two_rules)
    sliders = {name: lab.Knob(1, 0, 2, kind="slider") for name in "ABCD"}
    with pytest.raises(ValueError, match="at most 3 sliders, got 4"):
        lab.what_if(two_rules, **sliders)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lab.Knob.choice("Order", "only"), "at least 2 options, got 1"),
        (lambda: lab.Knob.choice("Order", "x", "x"), "options must be unique, and 'x' stands"),
        (lambda: lab.Knob.choice("Order", "x", "y", value=2), r"got 2 not in 0\.\.1"),
        (
            lambda: lab.Knob(0, 0, 2, kind="choice", options=("x", "y")),
            "a choice of 2 options must go from 0 to 1 in steps of 1, got 0 to 2 in steps of 1",
        ),
    ],
)
def test_a_choice_has_two_or_more_options_and_a_place_for_each(make, message):
    with pytest.raises(ValueError, match=message):
        make()
