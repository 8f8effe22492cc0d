"""The player's Python side: it owns the scenes, the step and the text form."""

from __future__ import annotations

import json

import pytest
import traitlets

import lab

WORK = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 3), "C": (0, 1, 1)})
EQUAL = lab.CostModel.equal_steps()


@pytest.fixture
def scenes():
    policies = (lab.Static(seats=2), lab.Continuous(seats=2))
    return [lab.timeline(lab.simulate(WORK, policy, EQUAL)) for policy in policies]


def test_the_text_form_holds_every_scene_whole(scenes):
    text = repr(lab.play(*scenes))
    for scene in scenes:
        assert scene.text() in text


def test_the_scenes_travel_as_plain_json(scenes):
    travelled = json.loads(json.dumps(lab.play(*scenes).scenes))
    for scene, arrived in zip(scenes, travelled, strict=True):
        assert arrived["title"] == scene.title
        assert [frame["caption"] for frame in arrived["frames"]] == [
            f.caption for f in scene.frames
        ]
        assert [mark["id"] for mark in arrived["marks"]] == [mark.id for mark in scene.marks]


def test_two_scenes_share_the_moments_of_both(scenes):
    static, continuous = scenes
    assert len(static.frames) > len(continuous.frames)
    assert lab.play(*scenes).num_steps == len(static.frames)


def test_the_step_stays_among_the_steps(scenes):
    player = lab.play(scenes[0])
    player.step = 99
    assert player.step == player.num_steps - 1
    player.step = -4
    assert player.step == 0


def test_the_scenes_of_a_player_do_not_change(scenes):
    with pytest.raises(traitlets.TraitError):
        lab.play(scenes[0]).scenes = []


def test_a_player_without_scenes_or_with_two_units_is_refused(scenes):
    with pytest.raises(ValueError, match="at least 1 scene, got 0"):
        lab.play()
    table = lab.timeline(lab.given({"A": [5, 6], "B": [1, 2, 3], "C": [4]}, WORK, unit="ms"))
    with pytest.raises(ValueError, match="one unit, got ms, step"):
        lab.play(scenes[0], table)
