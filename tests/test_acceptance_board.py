"""The acceptance board: bars are the rule's own numbers, and captions say where mass goes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.figures.acceptance import GAP, acceptance_board
from lab.speculation.acceptance import Check

BOARD = """\
Which tokens are delivered, and how often?
1 guess; draft 4/5, 1/5; target 3/5, 2/5, for Paris and Lyon (derived)

token  draft  target  accept  stands  falls  residual  instead  delivered
-----  -----  ------  ------  ------  -----  --------  -------  ---------
Paris    4/5     3/5     3/4     3/5    1/5         0        0        3/5
Lyon     1/5     2/5       1     1/5      0         1      1/5        2/5
all        1       1       –     4/5    1/5         1      1/5          1

Paris  Paris: guessed with 4/5, and the target says 3/5; 3/5 of it stands, and 1/5 falls
 Lyon  Lyon: guessed with 1/5, and the target says 2/5; it always stands, and 1/5 is lacking
  all  1/5 falls in all, and as much is lacking in all; what comes instead is drawn from what is \
lacking: always Lyon; delivered: Paris 3/5 and Lyon 2/5, the target's own

4/5 stands, 1/5 falls; delivered: Paris 3/5; Lyon 2/5."""

AGAIN = """\
token  draft  target  accept  stands  falls  drawn again from  instead  delivered
-----  -----  ------  ------  ------  -----  ----------------  -------  ---------
Paris    4/5     3/5     3/4     3/5    1/5               3/5     3/25      18/25
Lyon     1/5     2/5       1     1/5      0               2/5     2/25       7/25
all        1       1       –     4/5    1/5                 1      1/5          1"""


def probs(words):
    return tuple(map(Fraction, words.split()))


PARIS = Check(probs("0.8 0.2"), probs("0.6 0.4"))


def test_the_board_in_words():
    assert acceptance_board(PARIS, ["Paris", "Lyon"]).text() == BOARD


def test_drawing_again_from_the_target_misses_it():
    board = acceptance_board(PARIS, ["Paris", "Lyon"], again=True)
    assert AGAIN in board.text()
    assert board.finding == "Paris is delivered with 18/25, and the target says 3/5."


@st.composite
def checks(draw):
    size = draw(st.integers(1, 6))
    counts = st.lists(st.integers(0, 5), min_size=size, max_size=size).filter(any)
    rows = [draw(counts) for _ in range(2)]
    return Check(*(tuple(Fraction(n, sum(row)) for n in row) for row in rows))


@given(checks(), st.booleans())
def test_bars_are_as_long_as_probabilities(check, again):
    tokens = "uvwxyz"[: len(check.draft)]
    board = acceptance_board(check, tokens, again=again)
    frames = {frame.label: frame.at for frame in board.frames}
    long = {mark.id: mark.stop - mark.start for mark in board.marks}
    for place, (token, who) in enumerate(zip(tokens, "ABCDEF", strict=False)):
        mine = {mark.lane: 0 for mark in board.marks}
        for mark in board.marks:
            if mark.who == who:
                mine[mark.lane] += mark.stop - mark.start
                if mark.id.split(".")[0] in ("falls", "instead"):  # where the part that stands ends
                    stands = float(check.accepted_mass[place])
                    assert float(mark.start - frames[token]) == pytest.approx(stands)
                assert mark.start >= frames[token]
        assert mine["draft"] == pytest.approx(float(check.draft[place]))
        assert mine["target"] == pytest.approx(float(check.target[place]))
        assert mine.get("falls", 0) == pytest.approx(float(check.rejected_mass[place]))
        if not again:
            assert mine.get("delivered", 0) == pytest.approx(float(check.target[place]))
    assert {"draft", "target"} <= long.keys()
    assert sorted(frames.values()) == list(frames.values())
    assert frames["all"] >= max(mark.stop for mark in board.marks)


def test_columns_do_not_touch():
    board = acceptance_board(PARIS, ["Paris", "Lyon"])
    paris = max(mark.stop for mark in board.marks if mark.who == "A")
    assert float(board.frames[1].at - paris) == pytest.approx(GAP)


@pytest.mark.parametrize(
    ("draft", "target", "told"),
    [
        ("1 0", "0 1", "u: guessed with 1, and the target says 0; it never stands, and 1 falls"),
        ("1 0", "0 1", "v: guessed with 0, and the target says 1; it cannot be guessed, and 1 is"),
        ("0.5 0.5", "0.5 0.5", "u: guessed with 1/2, and the target says 1/2; it always stands"),
        ("0.5 0.5", "0.5 0.5", "nothing falls and nothing is lacking; delivered: u 1/2 and v 1/2"),
        ("1 0 0", "0 0.5 0.5", "drawn from what is lacking: v and w; delivered"),
        ("1 0 0", "1 0 0", "w: guessed with 0, and the target says 0"),
    ],
)
def test_captions_of_every_case(draft, target, told):
    check = Check(probs(draft), probs(target))
    captions = [f.caption for f in acceptance_board(check, "uvw"[: len(check.draft)]).frames]
    assert any(caption.startswith(told) or told in caption for caption in captions)


def test_drawing_again_is_right_where_nothing_falls():
    half = probs("0.5 0.5")
    board = acceptance_board(Check(half, half), "uv", again=True)
    assert board.finding == "Everything stands, nothing falls; delivered: u 1/2; v 1/2."


def test_a_city_that_never_comes_is_named_in_words():
    board = acceptance_board(Check((0, 1), (1, 0)), ["Paris", "Lyon"])
    assert board.finding == "Nothing stands, everything falls; delivered: Paris always; Lyon never."


def test_more_tokens_than_colours_are_refused():
    seventh = (Fraction(1, 7),) * 7
    with pytest.raises(ValueError, match="room for 6 tokens, got 7"):
        acceptance_board(Check(seventh, seventh), "abcdefg")
    with pytest.raises(ValueError, match="2 tokens, and 1 names"):
        acceptance_board(PARIS, ["Paris"])
