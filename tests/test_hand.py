"""The game's Python side: it deals the hand, keeps the answer out of its words, and leads on."""

from __future__ import annotations

import json

import pytest
import traitlets

import lab
from lab.figures.hands import hands

WORK = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 4), "C": (0, 1, 2)})
ONWARD = ("Who sits in the batch?", "../chapters/02-batching.html")


@pytest.fixture(scope="module")
def runs():
    policies = (lab.Static(seats=2), lab.Continuous(seats=2))
    return [lab.simulate(WORK, policy, lab.CostModel.equal_steps()) for policy in policies]


def test_the_hand_travels_as_the_figure_has_it(runs):
    arrived = json.loads(json.dumps(lab.hand(*runs).hand))
    assert arrived == json.loads(json.dumps(hands(*runs).to_json()))


def test_the_text_form_says_how_to_play_and_where_to_go_on(runs):
    text = repr(lab.hand(*runs, onward=ONWARD))
    assert text.startswith("You are the scheduler\n2 seats")
    assert text.endswith(": ".join(ONWARD))


def test_the_text_form_keeps_the_answer_out(runs):
    text = repr(lab.hand(*runs, onward=ONWARD))
    for rule in hands(*runs).rules:
        assert rule.scene.finding not in text
        assert all(frame.caption not in text for frame in rule.scene.frames)


def test_without_a_next_question_there_is_no_link(runs):
    game = lab.hand(*runs)
    assert game.onward == []
    assert "html" not in repr(game)


def test_the_hand_of_a_game_does_not_change(runs):
    with pytest.raises(traitlets.TraitError):
        lab.hand(*runs).hand = {}


def test_runs_that_are_no_hand_are_refused(runs):
    with pytest.raises(ValueError, match="at least 1 rule, got 0"):
        lab.hand()
