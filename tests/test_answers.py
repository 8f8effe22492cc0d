"""Each kind of answer: what it refuses, what it shows, and what a page gets."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from lab.answers import (
    Choice,
    Drawing,
    Filling,
    Line,
    Number,
    Option,
    Order,
    Place,
    Prediction,
    Scale,
    Unit,
    Word,
    WrongNumber,
    WrongOrder,
    WrongWord,
    exact,
    exact_text,
    in_words,
)

LATE = WrongNumber(150, "forgetting the arrival", "That is a moment on the clock.")
TTFT = Number(value=130, unit="ms", wrong=(LATE,), units=(Unit("s", 1000),))
YES, NO = Option("yes", True, "It is."), Option("no", False, "It is not.")
STEPS = Order(("leave", "enter", "read"), (2, 0, 1), (WrongOrder((1, 0, 2), "Too early."),))
SEATS = Filling(
    ("step", "seat", "tokens"),
    (("1", "A", TTFT), ("2", Word("C", (WrongWord("A", "A has left."),)), "2")),
)
LEDGER = Line(("TTFT 130 ms", "TPOT 0 ms"), 1, ("Right.", "One token has no gap."))
WAIT = Scale(
    low=0, high=300, step=10, unit="ms", truth=200,
    wrong=(WrongNumber(50, "the bound of the pieces", "Nothing bounds it."),),
)  # fmt: skip
BOARD = Drawing(("seat 1", "seat 2"), 6, {"A": Place("seat 1", 0, 2), "C": Place("seat 1", 2, 4)})


def number(value=4, wrong=3, tolerance=0):
    return Number(
        value=value, unit="s", wrong=(WrongNumber(wrong, "m", "s."),), tolerance=tolerance
    )


def scale(**other):
    usual = {"low": 0, "high": 10, "step": 1, "unit": "ms", "truth": 5, "wrong": ()}
    return Scale(**(usual | other))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: number(wrong=4), "wrong number 4 (m) cannot be told from 4 within 0"),
        (lambda: number(100, 101, 1), "wrong number 101 (m) cannot be told from 100 within 1"),
        (lambda: number(tolerance=-1), "tolerance must not be negative, got -1"),
        (lambda: number(4.0), "must be an int or a Fraction, got 4.0"),
        (lambda: number(True), "must be an int or a Fraction, got True"),
        (lambda: Number(value=4, unit="s", wrong=()), "4 must know at least 1 wrong number, got 0"),
        (
            lambda: Number(value=4, unit="s", wrong=(LATE, LATE)),
            "150 (forgetting the arrival) cannot be told from 150",
        ),
        (lambda: WrongNumber(3, " ", "That."), "wrong number 3 needs words for method, got ' '"),
        (lambda: WrongNumber(3, "a turn", ""), "wrong number 3 needs words for says"),
        (lambda: Option("A", True, ""), "an option needs words for says"),
        (lambda: Choice((YES,)), "at least 2 options, got 1"),
        (lambda: Choice((NO, Option("maybe", False, "No."))), "needs a right option, got 0 among"),
        (lambda: Choice((YES, Option("sure", True, "Yes."))), "must have 1 right option, got 2"),
        (lambda: Choice((YES, Option("yes", False, "No."))), "'yes' stands 2 times"),
        (lambda: Order(("a",), (0,), ()), "at least 2 items, got 1"),
        (lambda: Order(("a", "b"), (0, 0), ()), "shown must hold each of 2 places once, got (0, 0"),
        (lambda: Order(("a", "b"), (1,), ()), "shown must hold each of 2 places once, got (1,)"),
        (lambda: Order(("a", "b"), (0, 1), ()), "shown must not be the right order"),
        (
            lambda: Order(("a", "b"), (1, 0), (WrongOrder((0, 1), "No."),)),
            "a wrong order must not be the right order",
        ),
        (lambda: Order(("a", "b"), (1, 0), (WrongOrder((1, 0), ""),)), "needs words for says"),
        (lambda: Word(""), "a word needs words for text"),
        (lambda: Word("C", (WrongWord("c", "No."),)), "words must differ, and 'c' stands 2 times"),
        (lambda: Filling(("a", "b"), (("1",),)), "row 1 of the table must have 2 cells, got 1"),
        (lambda: Filling(("a",), (("1",),)), "at least 1 cell to fill, got 0"),
        (lambda: Line(("a",), 0, ("b",)), "among at least 2, got 1"),
        (lambda: Line(("a", "b"), 0, ("c",)), "each of 2 lines needs a sentence of its own, got 1"),
        (lambda: Line(("a", "b"), 2, ("c", "d")), "must be one of 0 to 1, got 2"),
        (lambda: Line(("a", "b"), 0, ("c", "")), "the line 'b' needs words for says"),
        (lambda: scale(high=0), "must rise in steps above 0, got 0 to 0 by 1"),
        (lambda: scale(truth=11), "truth must stand on the scale 0 to 10 by 1, got 11"),
        (lambda: scale(step=2), "truth must stand on the scale 0 to 10 by 2, got 5"),
        (
            lambda: scale(wrong=(WrongNumber(20, "a turn", "No."),)),
            "a turn must stand on the scale 0 to 10 by 1, got 20",
        ),
        (lambda: scale(wrong=(WrongNumber(5, "a turn", "No."),)), "'5' stands 2 times"),
        (lambda: Drawing(("seat 1",), 4, {}), "at least 1 request to draw, got 0"),
        (
            lambda: Drawing(("seat 1",), 4, {"A": Place("seat 2", 0, 1)}),
            "A must sit in one of seat 1, got 'seat 2'",
        ),
        (
            lambda: Drawing(("seat 1",), 4, {"A": Place("seat 1", 2, 5)}),
            "A must sit somewhere between 0 and 4, got 2 to 5",
        ),
        (
            lambda: Drawing(
                ("seat 1",), 4, {"A": Place("seat 1", 0, 2), "B": Place("seat 1", 1, 3)}
            ),
            "B and A cannot both sit in seat 1 in step 1",
        ),
        (lambda: Prediction(Choice((YES, NO)), ""), "a prediction needs words for why"),
        (lambda: Prediction(Choice((YES, NO), True), "So."), "1 right option, got several"),
    ],
)
def test_an_answer_that_would_mislead_is_refused(make, message):
    with pytest.raises(ValueError) as refused:
        make()
    assert message in str(refused.value)


def test_a_wrong_number_that_happens_to_be_right_is_dropped():
    e2e = WrongNumber(130, "waiting for the last token", "That is the whole answer.")
    again = WrongNumber(150, "adding the arrival twice", "Once.")
    assert Number.told_apart(130, "ms", [e2e, LATE, again]).wrong == (LATE,)
    with pytest.raises(ValueError, match="at least 1 wrong number"):
        Number.told_apart(130, "ms", [e2e, LATE], tolerance=20)


@pytest.mark.parametrize(
    ("value", "text", "words"),
    [
        (4, "4", "4"),
        (-20, "-20", "-20"),
        (Fraction(25, 2), "12.5", "12.5"),
        (Fraction(1, 5000), "0.0002", "0.0002"),
        (Fraction(50, 3), "50/3", "50/3 (about 16.67)"),
        (Fraction(1, 80000), "1/80000", "1/80000 (about 1.25e-05)"),
        (1200, "1200", "1200"),
    ],
)
def test_numbers_are_written_without_rounding(value, text, words):
    assert exact_text(value) == text
    assert in_words(value) == words
    assert exact(value) is value


def test_a_float_is_no_exact_answer():
    with pytest.raises(ValueError, match=r"an int or a Fraction, got 0\.1"):
        exact(0.1)
    with pytest.raises(ValueError, match="an int or a Fraction, got None"):
        exact(None)


def test_a_page_gets_plain_values_under_the_agreed_names():
    wrong = {"value": 150.0, "exact": "150", "method": LATE.method, "says": LATE.says}
    cell = {"value": 130.0, "exact": "130", "tolerance": 0.0, "wrong": [wrong]}
    units = [{"name": "ms", "factor": 1.0}, {"name": "s", "factor": 1000.0}]
    assert TTFT.to_json() == {"unit": "ms", "units": units, **cell}
    assert Choice((YES, NO)).to_json() == {
        "several": False,
        "options": [
            {"text": "yes", "right": True, "says": "It is."},
            {"text": "no", "right": False, "says": "It is not."},
        ],
    }
    assert STEPS.to_json() == {
        "items": ["leave", "enter", "read"],
        "shown": [2, 0, 1],
        "wrong": [{"order": [1, 0, 2], "says": "Too early."}],
    }
    word = {"text": "C", "wrong": [{"text": "A", "says": "A has left."}]}
    assert SEATS.to_json() == {
        "columns": ["step", "seat", "tokens"],
        "rows": [["1", "A", cell], ["2", word, "2"]],
    }
    assert LEDGER.to_json() == {
        "lines": ["TTFT 130 ms", "TPOT 0 ms"],
        "wrong": 1,
        "says": ["Right.", "One token has no gap."],
    }
    assert Prediction(WAIT, "One step.").to_json() == {
        "by": "scale", "why": "One step.", "low": 0.0, "high": 300.0, "step": 10.0, "unit": "ms",
        "truth": 200.0, "wrong": [{"value": 50.0, "says": "Nothing bounds it."}],
    }  # fmt: skip
    assert Prediction(BOARD, "At once.").to_json() == {
        "by": "drawing", "why": "At once.", "lanes": ["seat 1", "seat 2"], "steps": 6,
        "who": ["A", "C"], "truth": {"A": ["seat 1", 0, 2], "C": ["seat 1", 2, 4]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (TTFT, "number"),
        (Choice((YES, NO)), "choice"),
        (STEPS, "order"),
        (SEATS, "table"),
        (LEDGER, "line"),
        (Prediction(STEPS, "So."), "predict"),
    ],
)
def test_every_kind_has_its_name_and_survives_json(answer, kind):
    assert answer.kind == kind
    assert json.loads(json.dumps(answer.to_json())) == answer.to_json()


def test_what_is_asked_holds_the_choices_and_no_answer():
    assert TTFT.asked() == ["Answer in ms or s."]
    assert Choice((YES, NO), True).asked() == ["More than one may be right.", "a) yes", "b) no"]
    assert STEPS.asked() == ["a) read", "b) leave", "c) enter"]
    assert SEATS.asked() == [
        "step  seat  tokens",
        "----  ----  ------",
        "1     A     ____",
        "2     ____  2",
    ]
    assert LEDGER.asked() == ["1) TTFT 130 ms", "2) TPOT 0 ms"]
    assert WAIT.asked() == ["Guess a number from 0 to 300 ms, in steps of 10."]
    assert BOARD.asked() == ["Draw A, C on seat 1, seat 2, from 0 to 6 steps."]


def test_the_key_names_the_answer_and_every_wrong_turn():
    assert TTFT.key() == [
        "130, in ms",
        "not 150, from forgetting the arrival: That is a moment on the clock.",
    ]
    assert Choice((YES, NO)).key() == ["a", "a) It is.", "b) It is not."]
    assert STEPS.key() == ["b c a", "not c b a: Too early."]
    assert SEATS.key()[2:] == [
        "1     A     130",
        "2     C     2",
        "1, tokens, not 150: That is a moment on the clock.",
        "2, seat, not A: A has left.",
    ]
    assert LEDGER.key() == ["line 2", "1) Right.", "2) One token has no gap."]
    assert Prediction(WAIT, "One step.").key() == [
        "200 ms",
        "not 50, from the bound of the pieces: Nothing bounds it.",
        "One step.",
    ]
    assert BOARD.key() == ["A: seat 1, 0 to 2", "C: seat 1, 2 to 4"]
