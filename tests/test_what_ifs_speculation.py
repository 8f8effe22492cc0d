"""What a reader may change in chapter 10: any values, and what they make."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from lab.what_ifs.speculation import (
    BATCHES,
    COSTS,
    RULES,
    broken_rule,
    one_guess,
    one_round,
    round_in_a_batch,
)

tenths = st.integers(0, 10)


@given(tenths, tenths, st.booleans())
def test_one_guess_delivers_the_target_unless_it_is_drawn_from_again(draft, target, again):
    (board,) = one_guess(draft, target, again)
    bars = {mark.id: mark.stop - mark.start for mark in board.marks if mark.who == "A"}
    assert (bars["draft"], bars["target"]) == (Fraction(draft, 10), Fraction(target, 10))
    delivered = bars.get("stands.Paris", 0) + bars.get("instead.Paris", 0)
    falls = Fraction(max(draft - target, target - draft), 10)
    wrong = min(draft, target) / Fraction(10) + falls * Fraction(target, 10)
    assert abs(delivered - (wrong if again else Fraction(target, 10))) < 1e-9


def test_the_bars_of_paris_can_be_dragged_to_where_they_were_nothing():
    for draft, target in ((0, 10), (10, 0), (0, 0)):
        (board,) = one_guess(draft, target, 0)
        assert {"draft", "target"} <= {mark.id for mark in board.marks}


def test_a_round_turns_from_gain_to_loss():
    assert "2.4 times as fast" in one_round(8, 4, COSTS.index(Fraction(1, 10)))[0].finding
    assert "guessing loses" in one_round(2, 8, COSTS.index(Fraction(1, 2)))[0].finding
    alone, crowded = (round_in_a_batch(6, 4, BATCHES.index(n))[0] for n in (1, 512))
    assert "1.39 times as fast" in alone.finding
    assert "waits for bandwidth" in alone.conditions
    assert "guessing loses" in crowded.finding
    assert "512 requests, a plain step of at least 14.8 ms; the check waits for compute" in (
        crowded.conditions
    )


def test_the_right_rule_and_a_broken_one_on_the_bench():
    assert broken_rule(0)[0].finding == "A rule that is exact: not caught."
    place = RULES.index("has no bonus token")
    assert (
        broken_rule(place)[0].finding
        == "A rule that has no bonus token: caught by tokens per call."
    )
