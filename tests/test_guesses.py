"""The simulated engine that really checks guesses: its tokens follow the target."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

import lab
from lab.executors.guesses import Guesses
from lab.speculation.enumeration import one_by_one, texts
from lab.speculation.exactness import ALPHA, chi_square
from lab.speculation.gallery import table

DRAFT = table("0.4 0.3 0.3", "0.5 0.3 0.2", "0.2 0.6 0.2", "0.3 0.3 0.4")
TARGET = table("0.5 0.3 0.2", "0.1 0.7 0.2", "0.2 0.2 0.6", "0.8 0.1 0.1")


def simulated(asked, policy, target=TARGET, draft=DRAFT, seed=0, **more):
    executor = Guesses(draft, target, lab.CostModel.equal_steps(), seed)
    trace = lab.simulate(lab.Workload.given(asked), policy, executor, **more)
    trace.check()
    return trace


@pytest.mark.parametrize("drafts", [0, 3])
def test_answers_of_a_batch_are_distributed_as_the_targets(drafts):
    asked = {f"r{number}": (0, 1, 3) for number in range(1500)}
    trace = simulated(asked, lab.Continuous(seats=1500, draft_tokens=drafts))
    seen = Counter(tuple(record.output) for record in trace.requests)
    expected = texts(one_by_one(TARGET), 3)
    assert chi_square(seen, expected).p_value > ALPHA
    assert chi_square(seen, texts(one_by_one(DRAFT), 3)).p_value < ALPHA


def test_tokens_do_not_depend_on_who_is_beside():
    policy = lab.Continuous(seats=3, draft_tokens=3)
    alone = simulated({"B": (0, 2, 30)}, policy)
    together = simulated({"A": (0, 7, 9), "B": (0, 2, 30), "C": (1, 1, 4)}, policy)
    assert together["B"].output == alone["B"].output


def test_a_preempted_answer_goes_on_where_it_was():
    policy = lab.Continuous(seats=2, draft_tokens=3, blocks=7, block_tokens=2, token_budget=64)
    asked = {"A": (0, 3, 9), "B": (0, 3, 9)}
    trace = simulated(asked, policy)
    assert any(stay.preempted for record in trace.requests for stay in record.stays)
    roomy = simulated(asked, lab.Continuous(seats=2, draft_tokens=3))
    assert [len(record.output) for record in trace.requests] == [9, 9]
    assert trace["A"].output == roomy["A"].output


def test_a_draft_that_is_the_target_brings_four_tokens_a_call():
    # One call for the prompt and its first token, three checks of 3 guesses for the other 12.
    trace = simulated({"A": (0, 5, 13)}, lab.Continuous(draft_tokens=3), draft=TARGET)
    assert trace.timeline() == ["0-1  A[0:5)", "1-2  A[5:9)", "2-3  A[9:13)", "3-4  A[13:17)"]


def test_further_answers_to_a_prompt_have_draws_of_their_own():
    asked = lab.Request(id="A", prompt=range(4), max_tokens=40, n=2)
    executor = Guesses(DRAFT, TARGET, lab.CostModel.equal_steps())
    trace = lab.simulate(lab.Workload([asked]), lab.Continuous(seats=2, draft_tokens=2), executor)
    trace.check()
    assert trace["A"].output != trace["A#2"].output
    assert len(trace["A#2"].output) == 40


def test_repeats_are_for_executors_that_name_no_tokens():
    for repeats in (True, False):
        trace = simulated({"A": (0, 2, 9)}, lab.Continuous(), repeats=repeats)
        assert len(trace["A"].output) == 9


def test_ended_answers_are_forgotten_and_settings_name_the_seed():
    executor = Guesses(DRAFT, TARGET, lab.CostModel.equal_steps(), seed=4)
    work = lab.Workload.given({"A": (0, 1, 3), "B": (20, 1, 3)})
    trace = lab.simulate(work, lab.Continuous(draft_tokens=1), executor)
    assert list(executor._answers) == ["B"]
    assert trace.settings["seed"] == 4
    assert executor.unit == "step"


def test_acceptance_of_a_long_run_is_what_the_rule_says():
    same = "0.5 0.5"
    draft, target = table(same, same, same), table(*["0.9 0.1"] * 3)
    asked = {f"r{number}": (0, 1, 41) for number in range(100)}
    trace = simulated(asked, lab.Continuous(seats=100, draft_tokens=2), target, draft)
    found = lab.acceptance(trace)
    alpha = Fraction(3, 5)
    for position in found.positions:
        assert abs(float(position.rate - alpha)) < 0.05
    assert abs(float(found.tokens_per_call - (1 + alpha + alpha**2))) < 0.07
