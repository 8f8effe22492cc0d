"""The questions that open the book, computed again from their words."""

from __future__ import annotations

from asked import knows, numbers, right_options, variants_of, worked_end, wrong_numbers

from lab.exercises import bake
from lab.questions import exercises
from lab.questions.reading import SOURCE, break_even
from lab.worked_numbers import worked


def job(asked):
    """The parts of the job and its coordination, and the time that the text states for all."""
    text = asked.question.text
    *parts, serial = numbers(r"take (\d+), (\d+), (\d+) and (\d+) .*?that is (\d+) ms", text)
    assert sum(parts) == serial
    (coordination,) = numbers(r"takes (\d+) ms more", text)
    return parts, coordination


def on_two_clocks(parts):
    """When the job ends if two workers walk through it, each with a clock, ms by ms."""
    first, one, other, last = parts
    clocks = [first + one, first + other]
    while clocks[0] != clocks[1]:
        clocks[clocks.index(min(clocks))] += 1
    return clocks[0] + last


@variants_of("reading-side-by-side")
def test_side_by_side_pays_where_coordination_costs_less_than_it_saves(asked):
    parts, coordination = job(asked)
    serial, together = sum(parts), on_two_clocks(parts) + coordination
    outcome = "sooner" if together < serial else "later" if together > serial else None
    assert right_options(asked.question.answer.by) == {outcome or "at the same time"}
    for said in (*(option.says for option in asked.question.answer.by.options), worked_end(asked)):
        assert f"{on_two_clocks(parts)} + {coordination} = {together}" in said


def test_side_by_side_is_not_always_the_same_way_round():
    answers = [
        right_options(v.question.answer.by) for v in bake(*exercises("reading-side-by-side"))
    ]
    assert {text for right in answers for text in right} == {"sooner", "later", "at the same time"}


@variants_of("reading-break-even")
def test_with_the_coordination_of_the_answer_it_is_a_tie(asked):
    parts, coordination = job(asked)
    answer = asked.question.answer
    free, serial = on_two_clocks(parts), sum(parts)
    assert free + answer.value == serial
    wrong = wrong_numbers(answer)
    assert knows(
        answer,
        {
            "taking the longer part": max(parts[1:3]),
            "keeping the coordination as it is": coordination,
            "taking the difference that there is now": abs(free + coordination - serial),
            "halving the two parts": sum(parts[1:3]) / 2,
            "taking the job without coordination": free,
            "taking the whole job": serial,
        },
    )
    assert coordination != answer.value
    assert "taking the longer part" in wrong


def test_the_first_job_is_that_of_the_source():
    (guess,) = bake(*exercises("reading-side-by-side"), 1)
    assert job(guess) == (list(SOURCE.parts), SOURCE.coordination)
    worked("intro-parallel-minicheck", {
        "serial": SOURCE.serial,
        "parallel": SOURCE.parallel,
        "parallel_with_overhead": SOURCE.wait,
        "slower_than_serial": right_options(guess.question.answer.by) == {"later"},
    })  # fmt: skip


def test_the_tie_is_not_asked_with_the_numbers_that_the_chapter_tells_it_with():
    (asked,) = bake(*exercises("reading-break-even"), 1)
    assert job(asked) != (list(SOURCE.parts), SOURCE.coordination)
    worked("intro-parallel-minicheck-breakeven", break_even(SOURCE).answer.value)
