"""The questions on attention in tiles, computed again from their words."""

from __future__ import annotations

import re
from fractions import Fraction
from random import Random

import pytest
from asked import knows, numbers, right_options, variants_of

from lab.answers import Number
from lab.exercises import bake
from lab.questions import exercises
from lab.questions.attention import SLIPS, SOURCE, what_to_keep, wrong_line
from lab.worked_numbers import entry


def row(pattern, text):
    """A list of numbers in words, such as "7, 12 and 10"."""
    return [int(part) for part in re.findall(r"\d+", re.search(pattern, text)[1])]


def mean(weights, values):
    return Fraction(sum(w * v for w, v in zip(weights, values, strict=True)), sum(weights))


def tiles(text):
    """The weights and values of both tiles; scores are written as ln weight."""
    return [
        ([int(w) for w in re.findall(r"ln (\d+)", scores)], list(map(int, values.split(" and "))))
        for scores, values in re.findall(
            r"scores ([ln \d]+ and [ln \d]+) and values (\d+ and \d+)", text
        )
    ]


@variants_of("attention-warm-up")
def test_a_weighted_mean(asked):
    text = asked.question.text
    values, weights = row(r"values are ([\d, and]+),", text), row(r"weights ([\d, and]+), in", text)
    answer = asked.question.answer
    assert answer.value == mean(weights, values)
    sums = sum(w * v for w, v in zip(weights, values, strict=True))
    assert knows(
        answer,
        {
            "leaving out the weights": Fraction(sum(values), 3),
            "not dividing": sums,
            "dividing by the number of values": Fraction(sums, 3),
            "taking the heaviest": max(zip(weights, values, strict=True))[1],
        },
    )


@variants_of("attention-what-to-keep")
def test_the_least_that_is_kept_is_output_and_weight(asked):
    text = asked.question.text
    halves = re.findall(r"\(weights (\d) and (\d) and values (\d) and (\d)\)", text)
    halves = [tuple(map(int, half)) for half in halves]
    outputs = [mean(half[:2], half[2:]) for half in halves]
    assert [Fraction(o) for o in re.findall(r"output ([\d/]+) for|finds ([\d/]+)\.", text)[0][:1]]
    whole = mean(sum((h[:2] for h in halves), ()), sum((h[2:] for h in halves), ()))
    assert right_options(asked.question.answer.by) == {"its output, and the sum of its weights"}
    why = asked.question.answer.why
    assert f"= {whole}." in why
    assert f"The mean of the outputs is {sum(outputs) / 2}." in why
    assert whole != sum(outputs) / 2


def test_the_chapters_guess_has_the_ledgers_numbers():
    asked = what_to_keep(SOURCE, Random(0))
    found = entry("flash-wrong-average-of-blocks")
    assert found.inputs["w"] == [w for tile in SOURCE.weights for w in tile]
    assert found.inputs["v"] == [v for tile in SOURCE.values for v in tile]
    assert f"The mean of the outputs is {found.wrong['equal_average'].value}." in asked.answer.why


@variants_of("attention-merge-two")
def test_two_tiles_are_merged_by_their_weights(asked):
    told = numbers(
        r"tile of (\d) keys? has the output ([\d/]+) by itself, and its weights sum to (\d+)\. The "
        r"tile of (\d) keys? has the output ([\d/]+), and its weights sum to (\d+)",
        asked.question.text,
    )
    (a, x, m), (b, y, n) = told[:3], told[3:]
    answer = asked.question.answer
    assert answer.value == (x * m + y * n) / (m + n)
    assert knows(
        answer,
        {
            "taking the mean of the outputs": (x + y) / 2,
            "weighing by the number of keys": (x * a + y * b) / (a + b),
            "exchanging the two sums": (x * n + y * m) / (m + n),
            "adding the outputs": x + y,
        },
    )


@variants_of("attention-rescale-kept")
def test_the_old_sum_shrinks(asked):
    before, kept, after, added = numbers(
        r"is ln (\d+), and the denominator kept is (\d+)\..*score ln (\d+);.* sum to ([\d/]+)\.",
        asked.question.text,
    )
    answer = asked.question.answer
    factor = before / after
    assert factor < 1
    assert answer.value == kept * factor + added
    assert knows(
        answer,
        {
            "adding without rescaling": kept + added,
            "rescaling the wrong way round": kept / factor + added,
            "rescaling both sums": (kept + added) * factor,
            "rescaling the new tile": kept + added * factor,
        },
    )


@variants_of("attention-step-table")
def test_the_table_is_the_pass(asked):
    (w1, v1), (w2, v2) = tiles(asked.question.text)
    first, second = asked.question.answer.rows
    assert [first[1], second[1]] == [f"ln {max(w1)}", f"ln {max(w1 + w2)}"]
    assert first[2] == "–"
    assert second[2].value == Fraction(max(w1), max(w1 + w2))
    for cells, weights, values in ((first, w1, v1), (second, w1 + w2, v1 + v2)):
        top = max(weights)
        numerator = Fraction(sum(w * v for w, v in zip(weights, values, strict=True)), top)
        assert [cell.value for cell in cells[3:]] == [numerator, Fraction(sum(weights), top)]
    cells = [cell for line in (first, second) for cell in line if isinstance(cell, Number)]
    assert len(cells) == 5
    assert all(cell.wrong for cell in cells)


@variants_of("attention-wrong-line")
def test_one_line_does_not_follow_and_the_output_tells(asked):
    answer = asked.question.answer
    (w1, v1), (w2, v2) = tiles(asked.question.text)
    whole = mean(w1 + w2, v1 + v2)
    after = [re.search(r"= ([\d/]+)$", line) for line in answer.lines[2:4]]
    sums = [Fraction(found[1]) for found in after]
    factor = Fraction(re.search(r"multiply by ([\d/]+)", answer.lines[1])[1])
    output = Fraction(re.search(r"= ([\d/]+)$", answer.lines[4])[1])
    top = Fraction(max(w1 + w2))
    right = [
        True,
        factor == Fraction(max(w1)) / top,
        sums[0] == sum(w * v for w, v in zip(w1 + w2, v1 + v2, strict=True)) / top,
        sums[1] == sum(w1 + w2) / top,
        output == whole,
    ]
    assert right.index(False) == answer.wrong
    assert right.count(False) == 1


def test_every_slip_is_drawn_and_each_makes_its_line_wrong():
    places = {one.question.answer.wrong for one in bake(*exercises("attention-wrong-line"))}
    assert places == {1, 2, 3, 4}
    rising = type(SOURCE)(((1, 2), (4, 2)), ((1, 3), (5, 2)))
    assert [wrong_line(rising, slip).answer.wrong for slip in SLIPS] == [1, 2, 3, 4]


@variants_of("attention-tiles-read")
def test_tiles_on_and_below_the_diagonal_are_read(asked):
    tokens, tile = map(
        int, numbers(r"prompt of ([\d,]+) tokens .* tiles of (\d+)", asked.question.text)
    )
    rows = [range(at, at + tile) for at in range(0, tokens, tile)]
    read = [(q, k) for q in rows for k in rows if k[0] <= q[-1]]
    whole = [(q, k) for q, k in read if k[-1] <= q[0]]
    answer = asked.question.answer
    assert answer.value == len(read)
    assert knows(
        answer,
        {
            "counting all tiles": len(rows) ** 2,
            "leaving out the tiles that the mask cuts": len(whole),
            "taking half of them": Fraction(len(rows) ** 2, 2),
            "counting the rows": len(rows),
        },
    )


@variants_of("attention-matrix-bytes")
def test_the_matrix_crosses_four_times(asked):
    heads, tokens = numbers(r"has (\d+) heads and reads a prompt of ([\d,]+)", asked.question.text)
    size = 2 * tokens**2 * heads / 10**9
    answer = asked.question.answer
    assert answer.value == 4 * size
    assert knows(
        answer,
        {
            "moving the matrix once": size,
            "leaving out the probabilities": 2 * size,
            "counting one head": 4 * size / heads,
            "taking 4 bytes each": 8 * size,
            "counting one query": 4 * size / tokens,
        },
    )


@variants_of("attention-longer")
def test_pairs_and_keys_grow_with_the_square(asked):
    text = asked.question.text
    tokens, longer = numbers(r"Instead of ([\d,]+) tokens the prompt has ([\d,]+)", text)
    times = longer / tokens
    assert f"What grows {times**2} times?" in text
    assert right_options(asked.question.answer) == {
        "the pairs of query and key that are computed",
        "the elements of K and V that are read",
    }
    for option in asked.question.answer.options:
        if "→" in option.says:
            old, new, said = numbers(r"([\d,]+) → ([\d,]+): (\d+) times", option.says)
            assert new / old == said == (times**2 if option.right else times)


@variants_of("attention-memory-down")
def test_most_time_lies_where_the_measured_times_say(asked):
    before, now, rest, queue, steps = numbers(
        r"took (\d+) ms a step and now takes (\d+);.* takes (\d+) ms, as before;.* waits ([\d,]+) "
        r"ms in the queue and then needs (\d+) steps",
        asked.question.text,
    )
    assert now < before
    times = {
        "in attention": steps * now,
        "in the rest of the steps, where weights are read": steps * rest,
        "in the queue": queue,
    }
    assert right_options(asked.question.answer) == {max(times, key=times.get)}
    assert max(times, key=times.get) != "in attention"


def test_both_explanations_of_the_source_occur():
    right = [
        right_options(one.question.answer) for one in bake(*exercises("attention-memory-down"))
    ]
    assert {text for options in right for text in options} == {
        "in the rest of the steps, where weights are read",
        "in the queue",
    }


@pytest.mark.parametrize("one", exercises("8"), ids=lambda one: one.id)
def test_a_number_without_a_unit_is_asked_for_as_such(one):
    for asked in bake(one):
        if isinstance(asked.question.answer, Number) and not asked.question.answer.unit:
            assert "Answer with a number." in asked.text()
            assert ", in ," not in asked.answer_text()
