"""The questions of chapter 6, answered again from their words, without the cache."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise
from random import Random

from asked import knows, numbers, right_options, variants_of

from lab.exercises import variant
from lab.questions import exercises
from lab.questions.prefix import word_order
from lab.worked_numbers import entry


def agree(one, other):
    """Positions from the first on at which two lists agree."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def lists(text):
    return [
        [int(number) for number in found.split(", ")]
        for found in re.findall(r"\[([\d, ]+)\]", text)
    ]


@variants_of("prefix-warm-up")
def test_full_blocks_are_the_whole_part(asked):
    tokens, size = numbers(r"prompt has (\d+) tokens; a block holds (\d+)", asked.question.text)
    answer = asked.question.answer
    assert answer.value == tokens // size
    turns = {
        "counting the block that is not full": tokens // size + 1,
        "taking the rest": tokens % size,
        "multiplying": tokens * size,
    }
    assert knows(answer, turns)


@variants_of("prefix-one-word-changes")
def test_from_the_block_of_the_changed_word_on_all_is_computed(asked):
    text = asked.question.text
    tokens, size = numbers(r"prompt of (\d+) tokens, .* in blocks of (\d+)", text)
    (nth,) = numbers(r"one token, the (\d+)(?:st|nd|rd|th)", text)
    computed = tokens - (nth - 1) // size * size
    choice = asked.question.answer.by
    assert right_options(choice) == {str(computed)}
    wrong = {option.text for option in choice.options if not option.right}
    assert wrong == {"1", str(size), str(tokens - nth + 1), str(tokens)}


def test_the_guess_has_the_prompt_of_the_chapter():
    text = variant(*exercises("prefix-one-word-changes"), 0).question.text
    assert "prompt of 16 tokens" in text
    assert "the 8th" in text


@variants_of("prefix-shared-positions")
def test_positions_are_shared_until_the_first_that_differs(asked):
    one, other = lists(asked.question.text)
    shared = agree(one, other)
    assert 0 < shared < len(one)
    turns = {
        "counting the ids that both have": len(set(one) & set(other)),
        "counting the places that agree": sum(a == b for a, b in zip(one, other, strict=False)),
        "counting the first difference": shared + 1,
        "taking the suffix": len(other) - shared,
        "taking the whole first prompt": len(one),
    }
    assert asked.question.answer.value == shared
    assert knows(asked.question.answer, turns)


@variants_of("prefix-blocks-reused")
def test_whole_blocks_are_taken_and_the_last_token_never(asked):
    text = asked.question.text
    prompt, size = numbers(r"B's prompt has (\d+) tokens, [\s\S]*in blocks of (\d+)", text)
    (same,) = numbers(r"of which (?:all|the first) (\d+) ", text)
    blocks = 0
    while (blocks + 1) * size <= same and (blocks + 1) * size < prompt:
        blocks += 1
    turns = {
        "taking parts of blocks": prompt - same,
        "taking the last token too": prompt - same // size * size,
        "taking what is cached": blocks * size,
        "taking nothing": prompt,
        "computing nothing": 0,
    }
    assert asked.question.answer.value == prompt - blocks * size
    assert knows(asked.question.answer, turns)


@variants_of("prefix-word-order")
def test_what_makes_the_numbers_must_match_and_who_may_see_them(asked):
    one, other = lists(asked.question.text)
    assert sorted(one) == sorted(other)
    assert agree(one, other) == 0
    assert "they share 0 positions" in asked.question.text
    assert right_options(asked.question.answer) == {
        "the model and its version",
        "the adapter and its version",
        "how positions are encoded",
        "the number format of the cache",
        "the boundary within which prompts may be shared",
    }


def test_the_first_one_is_the_ledgers():
    found = entry("exercise-4-word-order-and-keys").inputs
    assert lists(variant(*exercises("prefix-word-order"), 0).question.text) == [
        found["a"],
        found["b"],
    ]
    assert "share 1 position," in word_order([1, 2, 3], [1, 3, 2], Random(0)).text


MISSING = {
    "trained overnight": "the model and its version",
    "in 8 bits": "the number format of K and V",
    "rotary positions": "how positions are encoded",
    "a window": "which tokens a token sees",
    "with the adapter": "the adapter and its version",
    "Two firms": "whose request it is",
}


@variants_of("prefix-missing-field")
def test_what_differs_is_what_was_missing(asked):
    (right,) = [name for words, name in MISSING.items() if words in asked.question.text]
    assert right_options(asked.question.answer) == {right}
    assert len(asked.question.answer.options) == len(MISSING)
    (whose,) = [one for one in asked.question.answer.options if one.text == "whose request it is"]
    assert whose.right or whose.says.endswith("here they were wrong.")


@variants_of("prefix-available")
def test_what_the_ended_steps_have_filled_is_there(asked):
    text = asked.question.text
    prompt, chunk, step, at, size = numbers(
        r"prompt of (\d+) tokens is computed (\d+) tokens a step; a step takes (\d+) ms[\s\S]*"
        r"seat at (\d+) ms[\s\S]*hold (\d+) tokens",
        text,
    )
    done = at / step * chunk
    found = min(done, prompt - 1) // size * size
    turns = {
        "taking all that agrees": (prompt - 1) // size * size,
        "taking parts of blocks": done,
        "counting the step that begins now": min(done + chunk, prompt - 1) // size * size,
        "taking nothing before A's first token": 0,
    }
    assert asked.question.answer.value == found
    assert knows(asked.question.answer, turns)


@variants_of("prefix-eviction")
def test_the_last_used_prompt_stays_longest_and_tails_go_first(asked):
    text = asked.question.text
    blocks = sorted(set(re.findall(r"\b[A-C][1-3]\b", text)))
    (again,) = re.findall(r"after that ([A-C]) once more", text)
    who = [*sorted({name[0] for name in blocks} - {again}), again]
    right = [name for w in who for name in reversed(blocks) if name[0] == w] + ["S"]
    answer = asked.question.answer
    assert list(answer.items) == right
    place = {name: at for at, name in enumerate(answer.items)}
    for earlier, later in pairwise(blocks):
        if earlier[0] == later[0]:
            assert place[later] < place[earlier] < place["S"]


@variants_of("prefix-hit-rate")
def test_letters_hit_from_the_left(asked):
    text = asked.question.text
    (told,) = re.findall(r"one after the other: ([\w, ]+)\.", text)
    prompts = re.findall(r"S[XYZ]+", told)
    (size,) = numbers(r"a block of (\d+) tokens", text)
    found = [max([agree(one, b) for b in prompts[:n]], default=0) for n, one in enumerate(prompts)]
    letters = sum(map(len, prompts))
    tokens = letters * size + len(prompts)
    answer = asked.question.answer
    assert answer.value == Fraction(100 * sum(found) * size, tokens)
    anywhere = sum(
        letter in "".join(prompts[:n]) for n, one in enumerate(prompts) for letter in one
    )
    turns = {
        "counting a block wherever it stands": Fraction(100 * anywhere * size, tokens),
        "leaving out the first prompt": Fraction(
            100 * sum(found) * size, tokens - len(prompts[0]) * size - 1
        ),
        "counting full blocks": Fraction(100 * sum(found), letters),
        "taking the misses": 100 - answer.value,
    }
    known = {wrong.method: wrong.value for wrong in answer.wrong}
    assert known.items() <= turns.items()
    assert len(known) >= 2


@variants_of("prefix-isolation")
def test_every_tenant_but_one_pays_for_the_system_prompt(asked):
    text = asked.question.text
    tenants, each, system, own, size = numbers(
        r"(\d+) tenants use one service, and each sends (\d+) prompts[\s\S]*system prompt of "
        r"(\d+) tokens and go on with (\d+) tokens[\s\S]*in blocks of (\d+)",
        text,
    )
    full = system // size * size
    turns = {
        "taking parts of blocks": (tenants - 1) * system,
        "counting every tenant": tenants * full,
        "computing it for each request": (tenants * each - 1) * full,
        "taking all that is computed": tenants * each * (system + own)
        - tenants * (each - 1) * full,
    }
    assert asked.question.answer.value == (tenants - 1) * full
    assert knows(asked.question.answer, turns)
