"""The game of the landing page as data: every state can be reached, and the rules play fair."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lab
from lab.figures.hands import Hands, hands
from lab.trace import Trace

EQUAL = lab.CostModel.equal_steps()
WORK = {"A": (0, 1, 2), "B": (0, 1, 4), "C": (0, 1, 2)}


def runs(rows: dict[str, Any] = WORK, seats: int = 2) -> list[Trace]:
    work = lab.Workload.given(rows)
    return [
        lab.simulate(work, policy, EQUAL)
        for policy in (lab.Static(seats=seats), lab.Continuous(seats=seats))
    ]


@pytest.fixture(scope="module")
def game() -> Hands:
    return hands(*runs())


def test_every_state_is_reached_from_the_start_and_leads_to_the_end(game: Hands) -> None:
    reached, todo = set(), [(2, 4, 2)]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached.add(state)
            todo += game.states[state].values()
    assert reached == set(game.states)
    assert [state for state, choices in game.states.items() if not choices] == [(0, 0, 0)]


def test_a_step_brings_those_who_sit_and_nobody_else_one_step_further(game: Hands) -> None:
    assert game.states[2, 4, 2]["A", "C"] == (1, 4, 1)
    for state, choices in game.states.items():
        for seated, after in choices.items():
            moved = [who for who, a, b in zip("ABC", state, after, strict=True) if a - b == 1]
            assert moved == list(seated)
            assert sum(state) - sum(after) == len(seated)


def test_a_choice_is_one_or_two_requests_that_are_not_done(game: Hands) -> None:
    assert set(game.states[0, 3, 1]) == {("B",), ("C",), ("B", "C")}
    assert {len(seated) for choices in game.states.values() for seated in choices} == {1, 2}


def test_no_hand_is_shorter_than_its_work_over_its_seats(game: Hands) -> None:
    assert game.fewest == 4
    assert hands(*runs({"A": (0, 1, 5), "B": (0, 1, 1)})).fewest == 5
    assert hands(*runs({"A": (0, 1, 1), "B": (0, 1, 1), "C": (0, 1, 1)})).fewest == 2


def test_the_rules_accounts_are_those_of_their_traces(game: Hands) -> None:
    for rule, trace in zip(game.rules, runs(), strict=True):
        assert rule.ends == {record.id: record.end for record in trace.requests}
        assert (rule.steps, rule.idle) == (trace.num_steps, lab.occupancy(trace).idle)
        assert rule.scene.marks == lab.timeline(trace).marks
    assert [rule.name for rule in game.rules] == ["Static batching", "Continuous batching"]
    assert "ends A step 2, B step 4, C step 6; idle seat-steps: 4" in game.rules[0].scene.finding


def test_each_rule_plays_a_way_that_the_game_allows(game: Hands) -> None:
    for trace in runs():
        state = (2, 4, 2)
        for step in trace.steps():
            state = game.states[state][tuple(sorted(c.request_id for c in step.chunks))]
        assert state == (0, 0, 0)


def test_a_prompt_in_chunks_takes_its_steps() -> None:
    work = lab.Workload.given({"A": (0, 6, 2)})
    trace = lab.simulate(work, lab.Continuous(seats=2, token_budget=2), EQUAL)
    assert hands(trace).work == {"A": 4}


def test_the_text_says_how_to_play_and_not_what_comes_of_it(game: Hands) -> None:
    text = game.text()
    assert "2 seats, steps of equal length; A needs 2 steps, B 4, C 2 (given)" in text
    assert "static batching and continuous batching" in text
    assert not any(word in text for word in ("idle", "sooner", "step 6", "ends"))


def test_the_game_travels_as_plain_values(game: Hands) -> None:
    arrived = json.loads(json.dumps(game.to_json()))
    assert arrived["states"]["2 4 2"]["A B"] == "1 3 2"
    assert arrived["requests"][1] == {"id": "B", "steps": 4}
    assert arrived["rules"][0]["ends"] == {"A": 2, "B": 4, "C": 6}
    assert len(json.dumps(game.to_json())) < 10_000


# What is no hand


def test_a_hand_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 rule, got 0"):
        hands()


def test_rules_of_two_different_hands_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one hand, got .* on 2 seats and .* on 3"):
        hands(runs()[0], runs(seats=3)[0])
    with pytest.raises(ValueError, match=r"'C': 2\} on 2 seats and .*'C': 3\} on 2"):
        hands(runs()[0], runs({**WORK, "C": (0, 1, 3)})[0])


def test_somebody_who_comes_late_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'B' must be there at step 0 .* arrived at 1"):
        hands(*runs({"A": (0, 1, 2), "B": (1, 1, 2)}))


def test_a_clock_that_does_not_count_steps_is_refused() -> None:
    trace = lab.simulate(
        lab.Workload.given({"A": (0, 1, 2)}), lab.Static(seats=2), lab.CostModel.affine(1, 0, 0)
    )
    with pytest.raises(ValueError, match="played in steps, and this trace counts in 's'"):
        hands(trace)


def test_a_game_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 500 states, and this one has 512"):
        hands(*runs(dict.fromkeys("ABC", (0, 1, 7))))
