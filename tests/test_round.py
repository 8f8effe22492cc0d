"""A round and a rule on the bench, as figures."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.figures.examined import examined
from lab.figures.round import round_board
from lab.ledgers.speculation import speed_up, tokens_per_call
from lab.speculation.gallery import EXAMPLE, GALLERY, exact, examine

ROUND = """\
Does a round save more than it takes?
a guess stands with 4/5; a draft step takes 1/10 plain steps (derived)

part     takes, plain steps  brings, tokens
-------  ------------------  --------------
guess 1  0.1                 0.8
guess 2  0.1                 0.64
check    1                   1
all      1.2                 2.44

guesses  the draft guesses 2 times, 0.1 of a plain step each; a guess is delivered if it and all \
before it stand: in 0.8 and 0.64 of all rounds
  check  the target checks in 1 of a plain step and adds one token of its own, whatever stands

2 guesses and a check bring 2.44 tokens in 1.2 plain steps: 2.03 times as fast."""


def test_a_round_in_words():
    assert round_board(Fraction(4, 5), 2, Fraction(1, 10)).text() == ROUND


@given(st.fractions(0, 1), st.integers(0, 8), st.fractions(0, 1), st.fractions("1/2", 3))
def test_the_two_bars_are_the_two_sides_of_the_formula(alpha, drafts, cost, verification):
    scene = round_board(alpha, drafts, cost, verification)
    long = {
        lane: sum(m.stop - m.start for m in scene.marks if m.lane == lane) for lane in scene.lanes
    }
    assert long["takes"] == drafts * cost + verification
    assert long["brings"] == tokens_per_call(alpha, drafts)
    assert long["brings"] / long["takes"] == speed_up(alpha, drafts, cost, verification)
    assert scene.frames[-1].at >= max(mark.start for mark in scene.marks)


@pytest.mark.parametrize(
    ("alpha", "drafts", "cost", "found"),
    [
        (0.3, 4, 0.2, "1.43 tokens in 1.8 plain steps: 0.792 times as fast, so guessing loses."),
        (0.5, 0, 0.2, "Without guesses a step brings 1 token in 1 plain step: as fast as plain"),
        (0.5, 1, 0.5, "1 guess and a check bring 1.5 tokens in 1.5 plain steps: as fast as plain"),
    ],
)
def test_what_was_found(alpha, drafts, cost, found):
    assert found in round_board(alpha, drafts, cost).finding


def test_a_rule_on_the_bench():
    figure = examined("is exact", examine(exact, EXAMPLE, draws=300), ["a", "b", "c", "stop"])
    assert figure.finding == "A rule that is exact: not caught."
    assert figure.at("rule, token 1", 0).label == "a 0.56"
    for place in (1, 2, 3):
        target, rule = (
            [(m.start, m.stop) for m in figure.marks if m.lane == f"{who}, token {place}"]
            for who in ("target", "rule")
        )
        assert target == rule
    assert "4 of 4, passes" in figure.text()


def test_a_broken_rule_on_the_bench():
    broken = next(rule for rule in GALLERY if rule.caught_by == "end and usage")
    figure = examined(broken.name, examine(broken.rule, EXAMPLE, draws=300), "abcd")
    assert (
        figure.finding == "A rule that does not see a stop inside a round: caught by end and usage."
    )
    assert "counted behind a stop, caught" in figure.frames[-1].caption
    assert [frame.label for frame in figure.frames] == ["token 1", "token 2", "token 3", "tests"]
    assert figure.frames[0].caption.startswith("target a 0.56, b 0.33, c 0.11, d 0.00; rule a 0.")
