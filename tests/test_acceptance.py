"""The rule of speculative sampling, exact and in floats: the target's distribution comes out."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.speculation.acceptance import (
    Check,
    accept_probability,
    greedy_matches,
    propose,
    quotient,
    verify,
)
from lab.speculation.enumeration import (
    dice,
    distribution,
    mean_tokens,
    one_by_one,
    texts,
    total_variation,
)
from lab.speculation.gallery import Pair, exact, table


def probs(words):
    return tuple(map(Fraction, words.split()))


SOURCES = [
    ("0.6 0.3 0.1", "0.4 0.4 0.2", "1 3/4 1/2", "1 0 0"),
    ("0.6 0.3 0.1", "0.2 0.5 0.3", "1 3/5 1/3", "1 0 0"),
    ("0.6 0.4", "0.8 0.2", "3/4 1", "0 1"),
    ("0.3 0.7", "0.6 0.4", "1/2 1", "0 1"),
]


@pytest.mark.parametrize(("target", "draft", "accept", "residual"), SOURCES)
def test_the_pairs_of_the_sources(target, draft, accept, residual):
    check = Check(probs(draft), probs(target))
    assert check.accept == probs(accept)
    assert check.residual == probs(residual)
    assert check.output == check.target
    assert check.accepted + check.rejected == 1


@st.composite
def checks(draw, number=Fraction):
    size = draw(st.integers(1, 6))
    rows = [
        draw(st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any)) for _ in "qp"
    ]
    return Check(*(tuple(number(w) / number(sum(row)) for w in row) for row in rows))


@given(checks())
def test_mass_is_moved_and_none_is_lost(check):
    assert check.output == check.target
    assert check.rejected == sum(check.missing) == 1 - check.accepted
    for draft, accept, mass, fallen in zip(
        check.draft, check.accept, check.accepted_mass, check.rejected_mass, strict=True
    ):
        assert (accept is None) == (draft == 0)
        assert mass == draft * (accept or 0)
        assert mass + fallen == draft
    if check.residual is None:
        assert check.draft == check.target
    else:
        assert sum(check.residual) == 1
        assert check.refill == check.missing


@given(checks(float))
def test_floats_are_as_right_as_floats_can_be(check):
    assert check.output == pytest.approx(check.target, abs=1e-12)
    assert all(isinstance(part, float) for part in check.residual or ())


def test_equal_distributions_never_reject_and_have_no_residual():
    check = Check(probs("0.6 0.4"), probs("0.6 0.4"))
    assert (check.accept, check.rejected, check.residual) == ((1, 1), 0, None)
    assert (check.refill, check.output) == ((0, 0), check.target)


def test_disjoint_supports_reject_always_and_the_residual_is_the_target():
    check = Check(probs("1 0 0"), probs("0 1/4 3/4"))
    assert (check.accept, check.rejected) == ((0, None, None), 1)
    assert check.residual == check.output == check.target


def test_what_the_draft_never_guesses_comes_from_the_residual_alone():
    check = Check(probs("0.7 0.3 0"), probs("0.5 0.3 0.2"))
    assert check.accept == (Fraction(5, 7), 1, None)
    assert check.residual == (0, 0, 1)


@pytest.mark.parametrize(
    ("draft", "target", "message"),
    [
        ((0.5, 0.5), (0.2, 0.3), "the target must be .* got .0.2, 0.3. with sum 0.5"),
        ((Fraction(1, 2),) * 3, (1, 0, 0), "the draft must be .* with sum 3/2"),
        ((1.5, -0.5), (1, 0), "at least 0 that sum to 1, got .1.5, -0.5."),
        ((), (), "the draft must be"),
        ((1,), (0.5, 0.5), "the same tokens, got 1 and 2"),
        ((float("nan"), 1.0), (0.5, 0.5), "the draft must be"),
    ],
)
def test_what_is_no_pair_of_distributions(draft, target, message):
    with pytest.raises(ValueError, match=message):
        Check(draft, target)


def test_exact_numbers_must_sum_to_exactly_1_and_floats_need_not():
    Check((0.1,) * 10, (0.1,) * 10)
    almost = Fraction(1) - Fraction(1, 10**12)
    with pytest.raises(ValueError, match="sum 999999999999/1000000000000"):
        Check((almost,), (1,))


def test_the_ratio_of_a_guess_that_cannot_be_is_an_error_and_not_a_division():
    with pytest.raises(ValueError, match="above 0, got 0"):
        accept_probability(0, Fraction(1, 2))
    assert accept_probability(Fraction(1, 2), 0) == 0
    assert accept_probability(0.5, 0.3) == 0.6


def test_a_quotient_of_exact_numbers_is_exact():
    assert quotient(1, 3) == Fraction(1, 3)
    assert isinstance(quotient(1, 2.0), float)


# Several guesses


@st.composite
def models(draw, tokens):
    """A model that looks at the last token, with zeros here and there."""
    rows = [
        draw(st.lists(st.integers(0, 4), min_size=tokens, max_size=tokens).filter(any))
        for _ in range(tokens + 1)
    ]
    return table(*(" ".join(f"{w}/{sum(row)}" for w in row) for row in rows))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 3).flatmap(lambda n: st.tuples(models(n), models(n))), st.integers(0, 3))
def test_the_joint_distribution_is_the_targets_for_any_number_of_guesses(pair, drafts):
    draft, target = pair

    def round(text, choose):
        return verify(draft, target, text, propose(draft, text, drafts, choose), choose)

    assert total_variation(texts(round, 3), texts(one_by_one(target), 3)) == 0
    assert sum(texts(round, 3).values()) == 1


@settings(max_examples=40, deadline=None)
@given(models(3), models(3), st.integers(0, 3))
def test_a_round_brings_one_token_to_one_more_than_its_guesses(draft, target, drafts):
    ways = distribution(
        lambda choose: verify(draft, target, (), propose(draft, (), drafts, choose), choose)
    )
    assert {len(tokens) for tokens in ways} <= set(range(1, drafts + 2))


def test_a_draft_that_is_the_target_is_always_right():
    model = table("0.6 0.3 0.1", "0 1 0", "1/3 1/3 1/3", "0.5 0 0.5")
    for drafts in range(4):

        def round(text, choose, n=drafts):
            return verify(model, model, text, propose(model, text, n, choose), choose)

        assert mean_tokens(round) == drafts + 1


def test_what_is_thrown_away_was_guessed_behind_a_token_that_is_not_there():
    draft, target = table("1 0", "1 0", "1 0"), table("0 1", "0 1", "0 1")
    asked = []

    def watched(text):
        asked.append(text)
        return target(text)

    tokens = verify(draft, watched, (), (0, 0, 0), lambda probs: probs.index(1))
    assert (tokens, asked) == ((1,), [()])


def test_the_bonus_is_drawn_behind_all_guesses():
    model = table("1 0 0", "0 1 0", "0 0 1", "1 0 0")
    assert verify(model, model, (), (0, 1), dice(0)) == (0, 1, 2)


def test_a_guess_that_falls_by_rounding_alone_is_replaced_by_the_target():
    check = Check((0.5, 0.5), (0.5, 0.5))
    assert check.residual is None

    def never(probs):
        return 0  # the coin says no, however improbable that is

    def draft(text):
        return (0.5, 0.5)

    assert verify(draft, draft, (), (1,), never) == (0,)


@given(st.lists(st.integers(0, 2), max_size=4), st.lists(st.integers(0, 2), min_size=5, max_size=5))
def test_greedy_matching_delivers_what_the_target_alone_would(guesses, choices):
    choices = choices[: len(guesses) + 1]
    stood = greedy_matches(guesses, choices)
    assert guesses[:stood] == choices[:stood]
    assert stood == len(guesses) or guesses[stood] != choices[stood]


def test_greedy_matching_is_the_rule_with_all_mass_on_one_token():
    target, choices = table("0 1", "1 0", "1 0"), (1, 0, 0, 0)
    for guesses in product(range(2), repeat=3):
        sure = [[int(token == guess) for token in range(2)] for guess in guesses]

        def draft(text, sure=sure):
            return sure[len(text)]

        tokens = verify(draft, target, (), guesses, lambda probs: list(probs).index(1))
        stood = greedy_matches(guesses, choices)
        assert tokens == (*guesses[:stood], choices[stood])


def test_greedy_matching_needs_a_choice_behind_the_last_guess():
    with pytest.raises(ValueError, match="3 guesses take 4 choices, got 3"):
        greedy_matches((1, 2, 3), (1, 2, 3))


# Enumeration itself


def test_two_tosses():
    two = distribution(lambda choose: sum(choose(probs("1/2 1/2")) for _ in range(2)))
    assert two == {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}


def test_a_program_without_chance_has_one_result():
    assert distribution(lambda choose: "always") == {"always": 1}


def test_total_variation_of_what_has_nothing_in_common_is_1():
    assert total_variation({"a": 1}, {"b": 1}) == 1
    assert total_variation({"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.75}) == 0.25


def test_a_text_is_over_with_its_stop():
    model = table("1/2 1/2", "0 1", "1 0")
    assert texts(one_by_one(model), 3, stop=1) == {(1,): Fraction(1, 2), (0, 1): Fraction(1, 2)}


def test_dice_never_draw_what_cannot_be_and_repeat_themselves():
    choose, again = dice(7), dice(7)
    drawn = [choose((0, 0.5, 0, 0.5, 0)) for _ in range(200)]
    assert set(drawn) == {1, 3}
    assert drawn == [again((0, 0.5, 0, 0.5, 0)) for _ in range(200)]


def test_the_exact_rule_of_the_gallery_is_this_one():
    pair = Pair.of(table("0.2 0.5 0.3", *["1 0 0"] * 3), table("0.6 0.3 0.1", *["0 1 0"] * 3))
    assert texts(lambda text, choose: exact(pair, text, 1, choose), 1) == {
        (0,): Fraction(3, 5),
        (1,): Fraction(3, 10),
        (2,): Fraction(1, 10),
    }
