"""The questions on the weight of the cache, computed again from their words."""

from __future__ import annotations

import re
from fractions import Fraction
from random import Random

import pytest
from asked import knows, numbers, right_options, variants_of

from lab.exercises import bake
from lab.ledgers.sizes import model_size
from lab.questions import exercises
from lab.questions.memory import GROUPED, GUESS, SLIPS, Mixed, calculator, heaviest, wrong_line
from lab.worked_numbers import entry


@variants_of("kv-warm-up")
def test_bytes_of_a_table(asked):
    rows, columns, width = numbers(
        r"([\d,]+) rows of ([\d,]+) numbers, and a number takes (\d)", asked.question.text
    )
    answer = asked.question.answer
    assert answer.value * 1024 * 1024 == rows * columns * width
    assert knows(
        answer,
        {
            "counting the numbers": rows * columns / 2**20,
            "counting bits": rows * columns * width * 8 / 2**20,
            "dividing by a million": rows * columns * width / 1_000_000,
            "leaving out the columns": rows * width / 1024,
        },
    )


def requests(text):
    """count, tokens and KV heads of each option."""
    found = re.findall(r"(\d+) requests? of ([\d,]+) tokens, (\d+) KV heads", text)
    return [(int(n), int(tokens.replace(",", "")), int(heads)) for n, tokens, heads in found]


@variants_of("kv-heaviest")
def test_the_heaviest_of_three_or_a_tie(asked):
    choice = asked.question.answer.by
    weight = {
        option.text: n * tokens * heads
        for option in choice.options[:3]
        for n, tokens, heads in requests(option.text)
    }
    heavy = {text for text, product in weight.items() if product == max(weight.values())}
    tie = "none of them: all weigh the same"
    assert right_options(choice) == (heavy if len(heavy) == 1 else {tie})
    assert len(heavy) in (1, 3)
    for option in choice.options[:3]:
        gib = Fraction(weight[option.text] * 2 * 32 * 128 * 2, 2**30)
        assert option.says.endswith(f"= {float(gib):g} GiB.")


def test_the_chapters_guess_is_a_tie_of_4_gib_and_holds_the_ledgers_numbers():
    asked = heaviest(GUESS, Random(0))
    assert [one.gib() for one in GUESS] == [4, 4, 4]
    assert right_options(asked.answer.by) == {"none of them: all weigh the same"}
    mha = entry("kv-worked-mha-4gib").inputs
    assert (GUESS[1].tokens, GUESS[1].kv_heads) == (mha["T"], mha["H_kv"])


@variants_of("kv-bytes-a-token")
def test_what_one_token_leaves(asked):
    layers, heads, kv, width = numbers(
        r"(\d+) layers, (\d+) query heads and (\d+) KV heads of (\d+)", asked.question.text
    )
    key = kv * width * 2
    answer = asked.question.answer
    assert answer.value == layers * (key + key) / 1024
    assert knows(
        answer,
        {
            "counting the query heads": layers * heads * width * 4 / 1024,
            "leaving out the values": layers * key / 1024,
            "counting one layer": 2 * key / 1024,
            "counting one head": layers * width * 4 / 1024,
        },
    )


@variants_of("kv-calculator")
def test_a_calculator_that_ignores_grouped_heads_is_off_by_heads_over_kv_heads(asked):
    text = asked.question.text
    tokens, said = numbers(r"request of ([\d,]+) tokens .* takes ([\d,]+) bytes", text)
    layers, hidden, heads, kv, width = numbers(
        r"says: (\d+) layers, hidden size ([\d,]+), (\d+) query heads, (\d+) KV heads?, (\d+)", text
    )
    assert said == 2 * layers * tokens * hidden * 2
    truth = 2 * layers * tokens * kv * width * 2
    answer = asked.question.answer
    assert answer.value == said / truth > 1
    assert knows(
        answer,
        {
            "believing it": 1,
            "dividing by the KV heads": kv,
            "turning it over": truth / said,
            "taking the 2 for a mistake as well": 2 * said / truth,
            "taking the 2 for the mistake": 2,
            "dividing by the query heads": heads,
        },
    )


def test_the_models_of_the_calculator_have_grouped_heads_as_wide_as_the_hidden_size():
    for name in GROUPED:
        size = model_size(name)
        assert size.heads * size.head_dim == size.hidden
        assert size.kv_heads < size.heads
        assert size.window is None
    assert calculator(model_size("llama-3-8b"), 8192).answer.value == 4


@variants_of("kv-sequences-fit")
def test_requests_that_have_room(asked):
    memory, reserve, weights, kib, tokens = numbers(
        r"has (\d+) GiB of memory\. (\d+) GiB are reserved .* take (\d+) GiB\. A token leaves (\d+)"
        r" KiB in the cache, and each request holds ([\d,]+)",
        asked.question.text,
    )
    request = kib * tokens * 1024
    fit = 0
    while (fit + 1) * request <= (memory - reserve - weights) * 2**30:
        fit += 1
    answer = asked.question.answer
    assert answer.value == fit
    assert knows(
        answer,
        {
            "forgetting the weights": (memory - reserve) * 2**30 // request,
            "forgetting the reserve": (memory - weights) * 2**30 // request,
            "dividing the whole memory": memory * 2**30 // request,
            "rounding up": fit + 1,
        },
    )


@variants_of("kv-lightest-first")
def test_the_order_of_caches_is_that_of_the_products(asked):
    pattern = r"([\w.-]+): (\d+) layers, (\d+) query heads, (\d+) KV heads? of (\d+)"
    shape = {name: list(map(int, rest)) for name, *rest in re.findall(pattern, asked.question.text)}
    order = asked.question.answer
    split = [item.removesuffix(" tokens").split(", ") for item in order.items]
    tokens = {name: int(count.replace(",", "")) for name, count in split}

    def cache(name):
        layers, _, kv, width = shape[name]
        return tokens[name] * layers * kv * width

    names = [name for name, _ in split]
    assert names == sorted(names, key=cache)
    assert len(set(map(cache, names))) == len(names)
    known = {
        tuple(names.index(name) for name in sorted(names, key=key))
        for key in (
            tokens.__getitem__,
            lambda name: model_size(name).parameters,
            lambda name: tokens[name] * shape[name][0] * shape[name][1],
        )
    }
    assert {wrong.order for wrong in order.wrong} == known - {tuple(range(len(names)))}
    assert order.wrong


@variants_of("kv-with-scales")
def test_short_numbers_with_what_their_group_shares(asked):
    text = asked.question.text
    gib, bits, group, scale = numbers(
        r"takes (\d+) GiB .* kept in (\d) bits .* group of (\d+) numbers has a scale of (\d)", text
    )
    zero = numbers(r"zero point of (\d)", text)[0] if "zero point" in text else 0
    elements = gib * 2**30 / 2
    codes, groups = elements * bits / 8, elements / group
    answer = asked.question.answer
    assert answer.value == (codes + groups * (scale + zero)) / 2**30
    turns = {
        "leaving out the scales": codes,
        "taking a scale for each number": codes + elements * (scale + zero),
        "counting the scales of the keys only": codes + groups * (scale + zero) / 2,
        "changing nothing": elements * 2,
    }
    if zero:
        turns["leaving out the zero points"] = codes + groups * scale
    known = {wrong.method: wrong.value * 2**30 for wrong in answer.wrong}
    assert known.items() <= turns.items()
    assert "leaving out the scales" in known or group == 128


@variants_of("kv-wrong-line")
def test_the_first_line_that_does_not_follow_is_the_wrong_one(asked):
    text, line = asked.question.text, asked.question.answer
    layers, windowed, window, kv, tokens = numbers(
        r"has (\d+) layers; (\d+) of them look at the last ([\d,]+) tokens only\. All have (\d+) KV"
        r" heads of 128 numbers, 2 bytes each\. The cache of a request of ([\d,]+)",
        text,
    )
    (row,) = numbers(r"leaves ([\d,]+) bytes", line.lines[0])
    full, all_tokens, wide = numbers(r"(\d+) layers hold all ([\d,]+) .*: ([\d.]+)", line.lines[1])
    some, held, narrow = numbers(r"(\d+) layers hold ([\d,]+) tokens: ([\d.]+)", line.lines[2])
    (total,) = numbers(r"together: ([\d.]+)", line.lines[3])
    holds = [
        row == 2 * kv * 128 * 2,
        (full, all_tokens) == (layers - windowed, tokens) and wide * 2**20 == full * tokens * row,
        (some, held) == (windowed, window) and narrow * 2**20 == windowed * window * row,
        total == wide + narrow,
    ]
    assert holds.count(False) == 1
    assert holds.index(False) == line.wrong
    assert "It should read" in line.says[line.wrong]


def test_each_slip_is_in_a_line_of_its_own_and_all_are_drawn():
    mixed = Mixed(layers=32, windowed=16, window=1024, kv_heads=8, tokens=8192)
    assert sorted(wrong_line(mixed, slip).answer.wrong for slip in SLIPS) == [0, 1, 2, 3]
    (one,) = exercises("kv-wrong-line")
    assert {asked.question.answer.wrong for asked in bake(one)} == {0, 1, 2, 3}


@pytest.mark.parametrize("number", range(12, 60))
def test_further_draws_can_be_asked(number):
    for one in exercises("5"):
        one.make(Random(f"{one.id}/{number}"))
