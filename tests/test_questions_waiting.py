"""The questions on what users wait for, computed again from their words."""

from __future__ import annotations

import re
from fractions import Fraction
from random import Random

from asked import knows, numbers, right_options, variants_of, wrong_numbers

from lab.exercises import bake
from lab.questions import exercises
from lab.questions.waiting import Answer, Groups, diagnosis, whole_task
from lab.worked_numbers import entry, worked


def stretches(asked, when):
    """The first token, the gap, and what comes after the last token, before or now."""
    told = re.search(rf"\*{when}\*: (.*)", asked.question.text)[1]
    begin, gap = numbers(r"after (\d+) ms, then one every (\d+) ms", told)
    if "with the last one" in told:
        return begin, gap, Fraction(0)
    return begin, gap, *numbers(r"ends (\d+) ms after the last one", told)


@variants_of("request-diagnosis")
def test_one_looks_where_the_time_has_grown(asked):
    before, after = stretches(asked, "Before"), stretches(asked, "Now")
    (tokens,) = numbers(r"answers of (\d+) tokens", asked.question.text)
    (grown,) = [at for at in range(3) if before[at] != after[at]]
    places = (
        "at the queue and at prefill, each by itself",
        "at the steps that make one token after the other",
        "at what the task does after the last token",
    )
    assert right_options(asked.question.answer) == {places[grown]}
    ratios = [(begin + (tokens - 1) * gap + end) / tokens for begin, gap, end in (before, after)]
    assert numbers(r"went from ([\d.]+) to ([\d.]+) ms a token", asked.question.text) == ratios
    for option in asked.question.answer.options:
        at = places.index(option.text)
        said = (
            f"from {before[at]} to {after[at]} ms" if at == grown else f"stays at {before[at]} ms"
        )
        assert said in option.says


def test_time_grows_in_each_of_the_three_places():
    right = [right_options(one.question.answer) for one in bake(*exercises("request-diagnosis"))]
    assert len({text for options in right for text in options}) == 3


def test_the_sources_diagnosis_is_asked_with_the_sources_numbers():
    text = diagnosis(Answer(120, 20, 0), Answer(500, 20, 0), 4, Random(0)).text
    found = entry("latency-timeline-row-5-diagnosis")
    assert numbers(r"went from (\d+) to (\d+) ms a token", text) == [
        found.wrong["total_over_outputs_before"].value,
        found.wrong["total_over_outputs_after"].value,
    ]
    assert numbers(
        r"comes after (\d+) ms[^*]*\*Now\*: the first token comes after (\d+)", text
    ) == [
        found.inputs["ttft_before"],
        found.inputs["ttft_after"],
    ]


@variants_of("request-whole-task")
def test_the_task_takes_as_long_as_all_its_groups(asked):
    text = asked.question.text
    groups = [
        list(map(int, re.findall(r"(\d+) ms", one))) for one in re.findall(r"\((.*?)\)", text)
    ]
    context, tools, way, prefill, decode, checks = groups
    assert int(*numbers(r"(\d+) decode steps", text)) == len(decode)
    answer = asked.question.answer
    total = sum(map(sum, groups))
    assert answer.value == total
    model = prefill[0] + sum(decode)
    assert knows(
        answer,
        {
            "counting one decode step": total - sum(decode[1:]),
            "stopping at the request": way[0] + model,
            "counting the model alone": model,
            "stopping at the last token": total - checks[0],
            "leaving out network and queue": context[0] + tools[0] + model + checks[0],
            "taking the longest part": max(map(max, groups)),
        },
    )
    assert "counting one decode step" in wrong_numbers(answer)


def test_of_the_sources_groups_the_task_takes_as_long_as_the_source_says():
    asked = whole_task(Groups(5, 7, 11, 13, (17, 19), 23))
    groups = re.findall(r"\((.*?)\)", asked.text)
    worked("latency-task-time-equation", {"task_time": asked.answer.value, "groups": len(groups)})


def row(asked, name):
    told = re.search(rf"\*{name}\*[^:]*: ([\d, ]+)\.", asked.question.text)[1]
    return list(map(int, told.split(", ")))


def smallest_that_nine_in_ten_do_not_exceed(times):
    return min(t for t in times if 10 * sum(other <= t for other in times) >= 9 * len(times))


@variants_of("request-mean-and-tail")
def test_the_mean_falls_and_the_tail_rises(asked):
    before, after = row(asked, "Before"), row(asked, "After")
    assert len(before) == len(after) == 10
    means = [Fraction(sum(times), 10) for times in (before, after)]
    assert numbers(r"falls from ([\d.]+) to ([\d.]+) ms", asked.question.text) == means
    old, new = map(smallest_that_nine_in_ten_do_not_exceed, (before, after))
    answer = asked.question.answer
    assert means[1] < means[0]
    assert answer.value == new - old > 0
    between = [
        Fraction(9, 10) * sorted(times)[8] + Fraction(1, 10) * sorted(times)[9]
        for times in (before, after)
    ]
    assert knows(
        answer,
        {
            "comparing the means": means[1] - means[0],
            "comparing the longest times": max(after) - max(before),
            "interpolating between neighbours": between[1] - between[0],
            "leaving the values unsorted": after[8] - before[8],
            "taking the new value from the old": old - new,
        },
    )
    assert {"comparing the means", "taking the new value from the old"} & set(wrong_numbers(answer))


@variants_of("request-work-moved")
def test_the_work_rises_by_as_much_as_is_thrown_away(asked):
    guesses, prefill, all_of, less = numbers(
        r"shows (\d+) questions.*takes (\d+) ms.*prompts of all (\d+) are.*waits (\d+) ms less",
        asked.question.text,
    )
    assert (all_of, less) == (guesses, prefill)
    answer = asked.question.answer
    thrown_away = sum(prefill for _ in range(1, int(guesses)))
    assert answer.value == thrown_away + prefill
    assert wrong_numbers(answer) == {
        "counting the prompt that is used": prefill,
        "counting what the user waits for": 0,
        "counting what is thrown away": thrown_away,
        "sharing the prefill among the guesses": prefill / guesses,
    }
