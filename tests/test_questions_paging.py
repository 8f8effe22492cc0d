"""The questions on blocks, computed again from their words."""

from __future__ import annotations

from asked import knows, numbers, variants_of, wrong_numbers

from lab.questions.paging import branched, shared_blocks
from lab.worked_numbers import entry, worked


@variants_of("paged-last-blocks")
def test_blocks_and_what_stays_empty_in_the_last(asked):
    (size,) = numbers(r"blocks of (\d+) slots", asked.question.text)
    for _, told, blocks, empty in asked.question.answer.rows:
        tokens = int(told.replace(",", ""))
        held, left = 0, 0
        for _ in range(tokens):
            if left == 0:
                held, left = held + 1, size
            left -= 1
        assert (blocks.value, empty.value) == (held, left)
        assert set(wrong_numbers(blocks).values()) == {tokens // size, tokens // size + 1} - {held}
        assert set(wrong_numbers(empty).values()) == {tokens % size, size} - {left}


@variants_of("paged-with-pages")
def test_requests_that_have_room_in_blocks(asked):
    text = asked.question.text
    slots, tokens, most, size = numbers(
        r"has ([\d,]+) slots, .* ends with ([\d,]+) tokens, .* grown to ([\d,]+)\."
        r"(?s:.*) blocks of (\d+) slots",
        text,
    )
    free, fit = slots // size, 0
    while (need := -(-tokens // size)) <= free:
        free, fit = free - need, fit + 1
    answer = asked.question.answer
    assert answer.value == fit
    assert numbers(r"each, (\d+) requests would", text) == [slots // most]
    assert knows(
        answer,
        {
            "reserving the most": slots // most,
            "filling every slot": slots // tokens,
            "giving one block to each": slots // size,
            "taking the difference": fit - slots // most,
        },
    )


@variants_of("paged-shared-blocks")
def test_answers_share_what_none_of_them_writes_to(asked):
    branches, prefix, size = map(
        int,
        numbers(
            r"(\d+) answers grow from one prompt of (\d+) .* blocks of (\d+)", asked.question.text
        ),
    )
    contents = {
        (tuple(range(at, min(at + size, prefix))), who if at + size > prefix else None)
        for at in range(0, prefix + 1, size)
        for who in range(branches)
    }
    answer = asked.question.answer
    assert answer.value == len(contents)
    assert wrong_numbers(answer)["sharing everything"] == -(-prefix // size)


def test_the_first_variant_is_the_ledgers():
    inputs = entry("paged-shared-prefix-block-count").inputs
    block, prefix, branches = (int(inputs[name]) for name in ("block", "prefix", "branches"))
    answer = shared_blocks(block, prefix, branches).answer
    worked(
        "paged-shared-prefix-block-count",
        {"shared": answer.value, "unshared": wrong_numbers(answer)["sharing nothing"]},
    )


def test_the_tables_behind_the_question_are_those_of_the_pool():
    pool, tables = branched(16, 40, 3)
    assert pool.used == len(set().union(*tables)) == 5
    assert [pool.holders(block) for block in tables[0]] == [3, 3, 1]
    whole, full = branched(8, 16, 2)
    assert whole.used == 4
    assert [whole.holders(block) for block in full[0]] == [2, 2, 1]
