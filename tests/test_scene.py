"""Scenes: figures as values, and their text form."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from lab.figures.scene import ROLES, Dots, Frame, Mark, Scene, duration, moment, plain

MARKS = (
    Mark("A.1", "prefill", "seat 1", 0, 2, "A", "A"),
    Mark("A.2", "decode", "seat 1", 2, 3, "A", "A"),
    Mark("idle", "idle", "seat 2", 2, 3),
)
SCENE = Scene(
    title="Who sits where?",
    finding="A sits.",
    conditions="1 request",
    tag="given",
    unit="ms",
    lanes=("seat 1", "seat 2"),
    marks=MARKS,
    frames=(Frame(0, "0", "A comes"), Frame(2, "2", "A goes on")),
)


# What is no scene


def test_a_mark_has_a_role_that_somebody_draws() -> None:
    with pytest.raises(ValueError, match=r"role must be one of prefill, decode, .*, got 'prefil'"):
        Mark("x", "prefil", "seat 1", 0, 1)


def test_a_mark_does_not_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="mark 'x' ends before it starts: 1 < 2"):
        Mark("x", "idle", "seat 1", 2, 1)


def test_a_mark_may_stand_at_one_moment() -> None:
    assert Mark("x", "token", "A", 2, 2, "1").sign == "1"


def test_two_marks_of_one_id_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"must be unique, and 'A\.1' stands twice"):
        replace(SCENE, marks=(*MARKS, MARKS[0]))


def test_a_mark_in_a_lane_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"does not have: \['seat 9'\]"):
        replace(SCENE, marks=(Mark("x", "idle", "seat 9", 0, 1),))


def test_dots_in_a_lane_that_does_not_exist_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"does not have: \['seat 9'\]"):
        replace(SCENE, dots=(Dots("seat 9", "token", "A", 1, (1, 2)),))


def test_two_lanes_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="lanes must be unique, and 'seat 1' stands twice"):
        replace(SCENE, lanes=("seat 1", "seat 2", "seat 1"))


def test_a_scene_without_frames_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1 frame, got 0"):
        replace(SCENE, frames=())


# What stands where


def test_a_mark_holds_from_its_start_to_just_before_its_stop() -> None:
    ids = [mark and mark.id for mark in (SCENE.at("seat 1", t) for t in (0, 1, 2, 3))]
    assert ids == ["A.1", "A.1", "A.2", None]
    assert SCENE.at("seat 2", 0) is None


def test_of_several_marks_the_one_that_began_last_is_seen() -> None:
    later = Mark("later", "idle", "seat 1", 1, 5)
    for marks in ((*MARKS, later), (later, *MARKS)):
        scene = replace(SCENE, marks=marks)
        assert scene.at("seat 1", 1) == later
        assert scene.at("seat 1", 2) == MARKS[1]


def test_a_moment_is_seen_before_what_lasts_and_a_later_one_before_an_earlier() -> None:
    lasts = Mark("wait", "waiting", "seat 2", 1, 5)
    first, second = (Mark(f"t{n}", "token", "seat 2", 1, 1, str(n)) for n in (1, 2))
    for marks in ((first, lasts), (lasts, first)):
        assert replace(SCENE, marks=marks).at("seat 2", 1) == first
    assert replace(SCENE, marks=(first, lasts, second)).at("seat 2", 1) == second


# The text form


def test_the_text_has_title_conditions_chart_signs_captions_and_finding() -> None:
    assert SCENE.text().splitlines() == [
        "Who sits where?",
        "1 request (given)",
        "",
        "ms      0   2",
        "seat 1  A*  A",
        "seat 2      .",
        "",
        "* prefill, . idle seat (and whose it still is)",
        "",
        "0  A comes",
        "2  A goes on",
        "",
        "A sits.",
    ]
    assert repr(SCENE) == SCENE.text()


def test_signs_are_explained_only_where_they_stand() -> None:
    plain = replace(SCENE, marks=(Mark("A", "decode", "seat 1", 0, 3, "A"),))
    assert "prefill" not in plain.text()
    recompute = replace(SCENE, marks=(Mark("A", "recompute", "seat 1", 0, 3, "A"),))
    assert "~ recompute" in recompute.text()


def test_every_sign_that_is_not_a_bare_label_is_explained() -> None:
    for role, form in ROLES.items():
        scene = replace(SCENE, marks=(Mark("x", role, "seat 1", 0, 3, "A"),))
        if sign := " ".join(form.replace("{}", " ").split()):
            assert f"\n{sign} " in scene.text() or f", {sign} " in scene.text()


def test_a_span_is_written_once_and_goes_on_as_a_dash() -> None:
    marks = (
        Mark("s1", "span", "seat 2", 0, 3, "TTFT 3", "A"),
        Mark("s2", "span", "seat 2", 3, 4, "gap 1", "A"),
    )
    frames = tuple(Frame(at, str(at), "") for at in range(5))
    lines = replace(SCENE, marks=marks, frames=frames).text().splitlines()
    assert lines[5] == "seat 2  [TTFT 3]  -  -  [gap 1]"
    assert marks[0].sign == "[TTFT 3]"


def test_words_stand_for_chart_and_captions() -> None:
    scene = replace(SCENE, words="many, and busy")
    want = ["Who sits where?", "1 request (given)", "", "many, and busy", "", "A sits."]
    assert scene.text().splitlines() == want


def numbered(count: int) -> Scene:
    frames = tuple(Frame(i, str(100 + i), f"frame {i}") for i in range(count))
    return replace(SCENE, marks=(Mark("A", "decode", "seat 1", 0, count, "A"),), frames=frames)


def test_a_chart_is_broken_to_the_width() -> None:
    lines = numbered(5).text(width=21).splitlines()
    assert lines[3:14] == [
        "ms      100  101  102",
        "seat 1  A    A    A",
        "seat 2",
        "",
        "ms      103  104",
        "seat 1  A    A",
        "seat 2",
        "",
        "100  frame 0",
        "101  frame 1",
        "102  frame 2",
    ]
    assert "ms      100  101  102  103  104" in numbered(5).text(width=31)


@pytest.mark.parametrize("width", [1, 12, 13, 20, 40, 96])
def test_no_column_is_lost_or_split_at_any_width(width: int) -> None:
    lines = numbered(30).text(width=width).splitlines()
    heads = [line for line in lines if line.startswith("ms")]
    assert " ".join(heads).replace("ms", "").split() == [str(100 + i) for i in range(30)]
    narrowest = len("seat 1  100")
    assert max(map(len, heads)) <= max(width, narrowest)


def test_the_plain_form_is_json_with_decimals_for_exact_times() -> None:
    thirds = Mark("x", "decode", "seat 1", Fraction(1, 2), Fraction(3, 2))
    scene = replace(SCENE, marks=(thirds,), frames=(Frame(Fraction(1, 2), "1/2", ""),))
    values: dict[str, Any] = json.loads(json.dumps(scene.to_json()))
    assert values["marks"][0] == {
        "id": "x",
        "role": "decode",
        "lane": "seat 1",
        "start": 0.5,
        "stop": 1.5,
        "label": "",
        "who": None,
    }
    assert values["kind"] == "lanes"
    assert values["frames"] == [{"at": 0.5, "label": "1/2", "caption": ""}]
    assert values["lanes"] == ["seat 1", "seat 2"]
    assert values["tag"] == "given"


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (Fraction(1, 4), 0.25),
        ((1, (2.5, "x")), [1, [2.5, "x"]]),
        ({"a": [Fraction(1, 2)], "b": {"c": True}}, {"a": [0.5], "b": {"c": True}}),
        (Point((1, 2)), {"x": [1, 2], "y": None}),
        ([SCENE], [SCENE.to_json()]),
        ({"both": {"left": SCENE}}, {"both": {"left": SCENE.to_json()}}),
        (Dots("A", "token", "A", 0.1, (3, 0)), None),
    ],
)
def test_what_json_knows_and_what_it_can_be_told(value: Any, want: Any) -> None:
    if want is not None:
        assert plain(value) == want
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == plain(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, r"JSON does not know set: \{1, 2\}"),
        ([Point(b"x")], "JSON does not know bytes"),
        (Point, "JSON does not know type"),
        ((1, float("nan")), "JSON does not know the number nan"),
        ({"a": {1: 2}}, "a key in JSON must be a string, got int: 1"),
    ],
)
def test_what_json_does_not_know_is_a_type_error(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plain(value)


def test_dots_are_unpacked_without_adding_up_errors() -> None:
    assert Dots("A", "token", "A", 0.5, (4, 0, 3)).times == [2, 2, 3.5]


@pytest.mark.parametrize(("time", "words"), [(1, "1 step"), (3, "3 steps"), (0, "0 steps")])
def test_a_duration_in_steps_in_words(time: Any, words: str) -> None:
    assert duration(time, "step") == words
    assert duration(time, "ms") == f"{time} ms"


@pytest.mark.parametrize(
    ("time", "unit", "words"),
    [(180, "ms", "180 ms"), (3, "step", "step 3"), (Fraction(1, 3), "s", "1/3 s")],
)
def test_a_moment_in_words(time: Any, unit: str, words: str) -> None:
    assert moment(time, unit) == words
