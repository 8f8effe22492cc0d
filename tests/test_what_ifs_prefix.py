"""What a reader may change in chapter 6: any key, any second request, any arrival."""

from __future__ import annotations

from itertools import product

import pytest

from lab.ledgers.reuse import shared_prefix
from lab.what_ifs.prefix import (
    BLOCK_TOKENS,
    CHOICES,
    IDS,
    ORDER,
    RULE,
    SEAT,
    STEPS,
    left_out,
    second_request,
)
from lab.worked_numbers import entry

PLACES = range(len(CHOICES))


def roles(scene):
    return [mark.role for mark in scene.marks if mark.lane == "B gets"]


def test_with_the_whole_key_b_takes_only_its_own():
    for differs in PLACES:
        (scene,) = left_out(differs, 0)
        assert "partly" not in roles(scene)
        assert roles(scene)[-1] == "prefill"


@pytest.mark.parametrize(("differs", "without"), [*product(PLACES[1:], PLACES[1:])])
def test_a_missing_field_gives_blocks_away_only_where_it_differs(differs, without):
    (scene,) = left_out(differs, without)
    no_ids = CHOICES[without] == IDS and CHOICES[differs] == ORDER
    assert ("partly" in roles(scene)) == (differs == without or no_ids)
    assert ("not its own" in scene.finding) == ("partly" in roles(scene))


def test_one_number_changes_and_three_blocks_are_computed():
    (scene,) = left_out(CHOICES.index(IDS), 0)
    assert roles(scene) == ["read", "prefill", "prefill", "prefill"]
    words = " ".join(RULE).split()
    changed = ["750" if word == "600" else word for word in words]
    shared = shared_prefix(words, changed, block_tokens=BLOCK_TOKENS)
    assert (shared.positions, shared.computed_tokens) == (7, 12)


def test_ids_of_marks_stay_whatever_is_chosen():
    kept = {tuple(mark.id for mark in left_out(a, b)[0].marks) for a in PLACES for b in PLACES}
    assert len(kept) == 1


@pytest.mark.parametrize(
    ("arrival", "pieces", "found", "ttft"),
    [
        (0, 0, "nothing", 180),
        (20, 0, "28 of 32 tokens, all that it may", 110),
        (20, 1, "24 of 32 tokens, what A has computed by then", 160),
        (0, 1, "24 of 32 tokens, what A has computed by then", 180),
        (160, 0, "28 of 32 tokens, all that it may", 30),
    ],
)
def test_b_takes_what_is_computed_when_it_gets_its_seat(arrival, pieces, found, ttft):
    (scene,) = second_request(arrival, pieces)
    assert f"finds {found}; its first token takes {ttft} ms" in scene.finding


def test_without_order_the_beginning_is_lost_and_the_caption_says_so():
    (scene,) = left_out(CHOICES.index(IDS), CHOICES.index(ORDER))
    assert "partly" not in roles(scene)
    assert scene.frames[0].caption.endswith(
        "a bag of words has no beginning, and one word in it is another: computed"
    )
    (whole,) = left_out(CHOICES.index(IDS), 0)
    assert "bag" not in whole.text()


def test_the_steps_are_drawn_and_b_looks_where_it_sits_down():
    (scene,) = second_request(20, 1)
    steps = [(mark.start, mark.label) for mark in scene.marks if mark.lane == STEPS]
    assert steps[:4] == [
        (0, "A 12"),
        (50, "A 12"),
        (100, "A 8, B 4"),
        (150, "A 1, B 4"),
    ]
    assert {start for start, _ in steps} <= {frame.at for frame in scene.frames}
    for arrival in range(0, 161, 20):
        for pieces in range(2):
            (scene,) = second_request(arrival, pieces)
            (seat,) = [mark for mark in scene.marks if mark.lane == SEAT]
            assert seat.start >= arrival
            assert "B has its seat" in next(f for f in scene.frames if f.at == seat.start).caption
            assert f"finds {'nothing' if seat.label == 'finds 0' else seat.label[6:]}" in (
                scene.finding
            )


def test_the_first_request_has_its_first_token_when_the_ledger_says():
    told = entry("prefix-availability-in-time").inputs
    (scene,) = second_request(told["B_arrival"], 0)
    (first,) = [mark.start for mark in scene.marks if mark.lane == "A" and mark.label == "1"]
    assert first == told["A_first_output"]
