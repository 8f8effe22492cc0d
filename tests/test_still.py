"""The still picture is drawn from a scene, and the one in the README is the one drawn today."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import lab
from book.draw_pictures import PICTURE, two_seats
from lab.figures.still import still

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def scene():
    work = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 3)})
    return lab.timeline(lab.simulate(work, lab.Continuous(seats=1), lab.CostModel.equal_steps()))


def test_the_picture_of_the_readme_is_what_the_scheduler_does_today():
    assert PICTURE.read_text(encoding="utf-8") == two_seats()


def test_every_mark_is_drawn_with_its_words(scene):
    root = ElementTree.fromstring(still([scene], "two requests"))
    assert root.get("aria-label") == "two requests"
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert words.count("A") == 2
    assert words.count("B") == 3 + 2  # three steps in the seat, two in the queue
    assert scene.finding in words


def test_a_queue_is_named_again_only_where_there_is_room():
    rows = {"A": (0, 1, 8), "somebody": (0, 1, 1)}
    times = lab.CostModel.table({1: 1, 9: 60}, unit="ms")
    work = lab.Workload.given({**rows, "B": (0, 9, 1)}, unit="ms")
    narrow = lab.timeline(lab.simulate(work, lab.Continuous(seats=1), times))
    words = [t.text for t in ElementTree.fromstring(still([narrow], "steps")).iter(f"{SVG}text")]
    queued = [mark.label for mark in narrow.marks if mark.role == "queued"]
    assert queued.count("somebody B") == 8
    assert 1 <= words.count("somebody B") < 8


def test_who_waits_for_a_shared_prompt_has_a_double_outline():
    work = lab.Workload.given({"A": {"prompt": 9, "output": 2, "n": 2}})
    policy = lab.Continuous(seats=2, token_budget=4)
    scene = lab.timeline(lab.simulate(work, policy, lab.CostModel.equal_steps()))
    root = ElementTree.fromstring(still([scene], "two answers"))
    assert [r.get("class") for r in root.iter(f"{SVG}rect")].count("shared") == 2 * 2


def test_a_step_is_as_long_in_one_scene_as_in_the_other(scene):
    root = ElementTree.fromstring(still([scene, scene], "twice"))
    boxes = [(r.get("x"), r.get("width")) for r in root.iter(f"{SVG}rect") if r.get("y")]
    assert boxes[: len(boxes) // 2] == boxes[len(boxes) // 2 :]


def test_a_label_cannot_break_the_picture(scene):
    ElementTree.fromstring(still([scene], 'quotes " and <tags> & more'))


def test_scenes_of_different_units_share_no_axis(scene):
    work = lab.Workload.given({"A": (0, 1, 1)})
    other = lab.timeline(lab.given({"A": [5]}, work, unit="ms"))
    with pytest.raises(ValueError, match="one unit"):
        still([scene, other], "mixed")
