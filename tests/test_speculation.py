"""Guesses of a run, counted by hand; the formulas against the rule that they describe."""

from fractions import Fraction
from functools import partial

import pytest
from drawn_runs import Scripted, ask, served
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.ledgers.speculation import (
    Position,
    acceptance,
    best_drafts,
    break_even,
    origins,
    speed_up,
    tokens_per_call,
    where_mass_goes,
    work,
)
from lab.policy import Continuous
from lab.request import Request
from lab.run import given as deliveries
from lab.speculation.acceptance import Check
from lab.speculation.enumeration import mean_tokens
from lab.speculation.gallery import Pair, exact, table
from lab.workload import Workload

HALF = Fraction(1, 2)
alphas = st.fractions(0, 1, max_denominator=12)


def run(accepts, drafts=3, tokens=9, **more):
    """A run in which so many guesses stand at each position behind a prompt of 2 tokens."""
    executor = Scripted(accepts=lambda who, start: accepts[start % len(accepts)])
    asked = Request(id="A", prompt=range(2), max_tokens=tokens, **more)
    return served([asked], Continuous(draft_tokens=drafts), executor, repeats=False)


def test_a_run_by_hand():
    # The prompt brings 1 token. At position 2 one of 3 guesses stands, at 4 none, at 5 all, and
    # then one token is left, for which nothing is guessed.
    found = acceptance(run([9, 9, 1, 9, 0, 3, 9, 9, 9, 9]))
    assert (found.checks, found.tokens, found.plain) == (3, 7, 1)
    assert (found.drafted, found.accepted, found.thrown_away, found.unjudged) == (9, 4, 5, 0)
    assert found.positions == (Position(3, 2), Position(2, 1), Position(1, 1))
    assert found.rate == Fraction(4, 6)
    assert found.tokens_per_call == Fraction(7, 3)
    assert [position.rate for position in found.positions] == [Fraction(2, 3), HALF, 1]
    assert repr(found).endswith(
        "3 checks brought 7 tokens; "
        "of 9 guesses 4 stood, 2 fell, and 3 behind them were thrown away"
    )


def test_where_the_tokens_of_a_run_come_from():
    trace = run([9, 9, 1, 9, 0, 3, 9, 9, 9, 9])
    assert origins(trace, 3) == {"guess 1": 1, "instead of guess 2": 1, "no check": 1}
    assert origins(trace, 9) == {
        "bonus": 1,
        "guess 1": 2,
        "guess 2": 1,
        "guess 3": 1,
        "instead of guess 1": 1,
        "instead of guess 2": 1,
        "no check": 2,
    }


def test_of_the_last_token_before_a_limit_nobody_knows_whether_it_was_guessed():
    assert origins(run([3], stop_ids=(4,)), 9) == {"end": 1, "guess 1": 1, "no check": 1}


def test_a_place_that_was_not_guessed_is_not_reached():
    # 3 guesses of which none stands, then 2 are left to be guessed, and both stand.
    found = acceptance(run([9, 9, 0, 9], tokens=5))
    assert (found.checks, found.drafted, found.accepted) == (2, 5, 2)
    assert found.positions == (Position(2, 1), Position(1, 1), Position(0, 0))


def test_a_guess_behind_a_stop_is_not_judged():
    # Tokens are named by their positions; with all guesses right, 4 comes as the third.
    found = acceptance(run([3], stop_ids=(4,)))
    assert (found.checks, found.drafted, found.accepted, found.unjudged) == (1, 3, 1, 2)
    assert found.positions == (Position(1, 1), Position(0, 0), Position(0, 0))
    assert found.positions[1].rate is None


def test_without_guesses_there_is_nothing_to_count():
    found = acceptance(served([ask("A", 2, 4)], Continuous(), Scripted(), repeats=False))
    assert (found.checks, found.positions, found.plain) == (0, (), 3)
    assert (found.rate, found.tokens_per_call) == (None, None)


def test_a_failed_check_brings_nothing_and_is_not_counted():
    executor = Scripted(fails=lambda who, start: "broken" if start == 3 else "")
    trace = served([ask("A", 2, 9)], Continuous(draft_tokens=2), executor, repeats=False)
    assert acceptance(trace).checks == 1


def test_deliveries_alone_say_nothing_of_guesses():
    with pytest.raises(ValueError, match="only deliveries"):
        acceptance(deliveries({"A": [1, 2]}, Workload.given({"A": (0, 2, 2)})))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 20))
def test_parts_add_up(accepts, drafts, tokens):
    found = acceptance(run(accepts, drafts, tokens))
    assert found.tokens == found.checks + found.accepted
    assert 1 + found.tokens + found.plain == tokens  # the first one came from the prompt
    for before, after in zip(found.positions, found.positions[1:], strict=False):
        assert after.reached <= before.stood <= before.reached


# The formulas


@given(alphas, st.integers(0, 8))
def test_the_sum_is_the_closed_form(alpha, drafts):
    if alpha < 1:
        closed = (1 - alpha ** (drafts + 1)) / (1 - alpha)
        assert tokens_per_call(alpha, drafts) == closed
    assert tokens_per_call(1, drafts) == drafts + 1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 6), st.integers(1, 3))
def test_the_rule_itself_brings_as_many_tokens_as_the_formula_says(tenths, drafts):
    draft, target = ("0.4 0.6", f"{tenths / 10} {1 - tenths / 10}")
    pair = Pair.of(table(draft, draft, draft), table(target, target, target))
    alpha = Check(pair.draft(()), pair.target(())).accepted
    assert mean_tokens(partial(_rounds, pair, drafts)) == tokens_per_call(alpha, drafts)


def _rounds(pair, drafts, text, choose):
    return exact(pair, text, drafts, choose)


def test_numbers_that_the_words_name():
    assert float(tokens_per_call(Fraction(4, 5), 5)) == pytest.approx(3.689, abs=1e-3)
    assert speed_up(Fraction(4, 5), 4, Fraction(1, 10)) == Fraction(33616, 14000)
    assert float(work(0.8, 5)) == pytest.approx(1.63, abs=5e-3)
    assert best_drafts(0.8, 0.1) == 6
    assert break_even(1, 0.1) == pytest.approx(0.1)
    assert break_even(1, 0) == break_even(4, Fraction(1, 10), HALF) == 0
    assert break_even(1, 1.1) is None


@given(st.floats(0, 0.99), st.floats(0, 1.2), st.integers(1, 12))
def test_the_best_number_of_guesses_is_the_best(alpha, cost, other):
    best = best_drafts(alpha, cost)
    reached = speed_up(alpha, best, cost) if best else 1
    assert reached >= speed_up(alpha, other, cost)
    assert (best > 0) == (alpha > cost) or abs(alpha - cost) < 1e-9


@given(st.integers(1, 8), st.floats(0, 1.5), st.floats(0.5, 3))
def test_at_the_break_even_rounds_are_as_fast_as_none(drafts, cost, verification):
    alpha = break_even(drafts, cost, verification)
    if alpha is None:
        assert speed_up(1, drafts, cost, verification) < 1
    else:
        assert speed_up(alpha, drafts, cost, verification) >= 1
        assert alpha < 1e-12 or speed_up(alpha * 0.999, drafts, cost, verification) < 1


@given(alphas, st.integers(0, 8), st.floats(0, 1))
def test_work_is_never_saved(alpha, drafts, cost):
    assert work(alpha, drafts, cost) >= 1


def test_a_dearer_check_makes_fewer_guesses_best():
    free, dear = (best_drafts(0.8, 0.05, verification=lambda n, k=k: 1 + k * n) for k in (0, 0.2))
    assert 0 < dear < free
    assert best_drafts(0.8, 0.05, verification=lambda drafts: 1 + drafts) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tokens_per_call(1.1, 2), "alpha must be from 0 to 1, got 1.1"),
        (lambda: tokens_per_call(0.5, -1), "drafts must be at least 0, got -1"),
        (lambda: speed_up(0.5, 1, -0.1), "got -0.1 and 1"),
        (lambda: speed_up(0.5, 1, 0, 0), "got 0 and 0"),
        (lambda: best_drafts(0.5, 0.1, -1), "most must be at least 0, got -1"),
        (lambda: break_even(0, 0.1), "drafts must be at least 1, got 0"),
        (lambda: where_mass_goes(Check((1, 0), (0, 1)), ["a"]), "2 tokens, and 1 names"),
    ],
)
def test_what_has_no_answer(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_where_mass_goes():
    check = Check((Fraction(4, 5), Fraction(1, 5)), (Fraction(3, 5), Fraction(2, 5)))
    assert repr(where_mass_goes(check, ["Paris", "Lyon"])).splitlines() == [
        "what becomes of one guess",
        "token  draft  target  accept  stands  falls  residual  instead  delivered",
        "-----  -----  ------  ------  ------  -----  --------  -------  ---------",
        "Paris    4/5     3/5     3/4     3/5    1/5         0        0        3/5",
        "Lyon     1/5     2/5       1     1/5      0         1      1/5        2/5",
        "all        1       1       –     4/5    1/5         1      1/5          1",
        "instead = all that falls · residual; delivered = stands + instead",
    ]


def test_where_nothing_falls_there_is_no_residual():
    rows = list(where_mass_goes(Check((HALF, HALF), (HALF, HALF))))
    assert [row["residual"] for row in rows] == [None, None, None]
    assert [row["token"] for row in rows] == ["1", "2", "all"]
