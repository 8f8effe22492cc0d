"""Online softmax: exact in fractions for every partition and order, and stable in floats."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.attention.online_softmax import (
    MASKED,
    Ln,
    Statistics,
    equal_average,
    exp,
    ln,
    merge,
    of_block,
    online_softmax,
    rescale,
    softmax_average,
)
from lab.attention.rounding import bf16
from lab.worked_numbers import entry, worked

WEIGHTS, VALUES = (4, 2, 1, 1), (1, 3, 0, 2)
SCORES = [ln(weight) for weight in WEIGHTS]

fractions = st.fractions(0, 50, max_denominator=12)
numbers = st.fractions(-20, 20, max_denominator=12)
keys = st.lists(st.tuples(fractions, numbers), min_size=1, max_size=12).filter(
    lambda pairs: any(weight for weight, _ in pairs)
)


def by_hand(pairs):
    """The weighted mean, written anew."""
    return Fraction(sum(weight * value for weight, value in pairs)) / sum(w for w, _ in pairs)


def of(pairs):
    return of_block([ln(weight) for weight, _ in pairs], [value for _, value in pairs])


@st.composite
def partitions(draw):
    """Keys, and the same keys in blocks of any sizes in any order."""
    pairs = draw(keys)
    order = draw(st.permutations(pairs))
    cuts = sorted(draw(st.sets(st.integers(1, len(pairs) - 1)))) if len(pairs) > 1 else []
    edges = [0, *cuts, len(pairs)]
    return pairs, [order[a:b] for a, b in pairwise(edges)]


# Exact


@given(partitions())
def test_any_partition_in_any_order_gives_the_plain_softmax(drawn):
    pairs, blocks = drawn
    assert reduce(merge, map(of, blocks)).output == by_hand(pairs)


@given(partitions())
def test_who_is_merged_first_does_not_matter(drawn):
    _, blocks = drawn
    statistics = list(map(of, blocks))
    left = reduce(merge, statistics)
    right = reduce(lambda late, early: merge(early, late), reversed(statistics))
    assert left == right == reduce(merge, reversed(statistics))


@given(keys, st.integers(1, 13), st.booleans(), st.randoms(use_true_random=False))
def test_the_pass_ends_with_the_plain_softmax(pairs, tile, track_maximum, dice):
    order = list(range(-(-len(pairs) // tile)))
    dice.shuffle(order)
    scores, values = [ln(weight) for weight, _ in pairs], [value for _, value in pairs]
    steps = online_softmax(scores, values, tile, order=order, track_maximum=track_maximum)
    last = steps[-1].kept
    assert last.output == softmax_average(scores, values) == by_hand(pairs)
    assert sorted(key for step in steps for key in step.keys) == list(range(len(pairs)))
    if track_maximum:
        assert last.maximum == max(scores)
        assert max(weight for step in steps for weight in step.weights) == 1


@given(keys)
def test_a_vector_of_values_is_averaged_part_by_part(pairs):
    scores = [ln(weight) for weight, _ in pairs]
    vectors = [(value, 2 * value, Fraction(1)) for _, value in pairs]
    mean = by_hand(pairs)
    steps = online_softmax(scores, vectors, 2)
    assert steps[-1].kept.output == softmax_average(scores, vectors) == (mean, 2 * mean, 1)


def test_the_ledgers_example_has_its_sums_and_both_outputs():
    whole = online_softmax(SCORES, VALUES, 4, track_maximum=False)[0].kept
    worked(
        "flash-ex-full",
        {
            "numerator": whole.numerator,
            "denominator": whole.denominator,
            "output": whole.output,
        },
    )
    first, second = online_softmax(SCORES, VALUES, 2, track_maximum=False)
    worked(
        "flash-ex-blocks",
        {
            "block1": [first.added.numerator, first.added.denominator],
            "block2": [second.added.numerator, second.added.denominator],
            "merged": second.kept.output,
        },
    )


def test_the_mean_of_the_blocks_outputs_is_another_number():
    blocks = [of_block(SCORES[:2], VALUES[:2]), of_block(SCORES[2:], VALUES[2:])]
    wrong = equal_average([block.output for block in blocks])
    assert wrong == entry("flash-wrong-average-of-blocks").wrong["equal_average"].value
    assert wrong != merge(*blocks).output == Fraction(3, 2)


def test_it_is_right_where_both_blocks_have_the_same_mass():
    scores, values = [ln(1), ln(3), ln(2), ln(2)], [5, 1, 0, 3]
    blocks = [of_block(scores[:2], values[:2]), of_block(scores[2:], values[2:])]
    assert equal_average([b.output for b in blocks]) == merge(*blocks).output


def test_a_rising_maximum_rescales_what_was_kept_and_a_falling_one_does_not():
    forward, backward = (online_softmax(SCORES, VALUES, 2, order=o) for o in ((0, 1), (1, 0)))
    assert forward[1].rescale == 1
    assert backward[1].rescale == Fraction(1, 4)
    assert forward[-1].kept == backward[-1].kept == Statistics(ln(4), 3, 2)


def test_without_the_rescale_the_answer_would_be_wrong():
    second = online_softmax(SCORES, VALUES, 2, order=(1, 0))[1]
    before = online_softmax(SCORES, VALUES, 2, order=(1, 0))[0].kept
    forgotten = (before.numerator + second.added.numerator) / (
        before.denominator + second.added.denominator
    )
    assert forgotten == Fraction(9, 7) != second.kept.output


# Floats


def test_large_scores_overflow_without_a_maximum_and_are_nothing_special_with_one():
    scores, values = [1000.0, 999.0], [(1.0, 0.0), (0.0, 1.0)]
    with pytest.raises(OverflowError):
        softmax_average(scores, values)
    with pytest.raises(OverflowError):
        online_softmax(scores, values, 1, track_maximum=False)
    output = online_softmax(scores, values, 1)[-1].kept.output
    worked(
        "flash-online-softmax-stability",
        {"softmax": output, "naive_overflows": True},
        wrong="overflow",
    )


def test_very_low_scores_vanish_without_a_maximum():
    scores, values = [-1000.0, -1001.0], [1.0, 3.0]
    with pytest.raises(ValueError, match="at least 1 key with a weight above 0"):
        softmax_average(scores, values)
    assert online_softmax(scores, values, 1)[-1].kept.output == pytest.approx(
        (1 + 3 * math.exp(-1)) / (1 + math.exp(-1))
    )


@given(
    st.lists(st.tuples(st.floats(-600, 600), st.floats(-10, 10)), min_size=1, max_size=30),
    st.integers(1, 31),
)
def test_floats_agree_to_rounding_however_they_are_cut(pairs, tile):
    scores, values = zip(*pairs, strict=True)
    whole = online_softmax(scores, values, len(pairs))[-1].kept.output
    assert online_softmax(scores, values, tile)[-1].kept.output == pytest.approx(whole, abs=1e-12)


def test_another_order_of_sums_may_give_other_digits():
    scores, values = [0.1 * n for n in range(40)], [1 / (n + 1) for n in range(40)]
    outputs = {online_softmax(scores, values, tile)[-1].kept.output for tile in (1, 3, 8, 40)}
    assert len(outputs) > 1
    assert max(outputs) - min(outputs) < 1e-15


def test_sums_kept_in_bf16_stop_growing():
    scores, values = [0.0] * 1000, [0.0] * 500 + [1.0] * 500
    short = online_softmax(scores, values, 1, rounding=bf16)[-1].kept
    assert (short.numerator, short.denominator) == (256, 256)
    assert short.output == 1
    assert online_softmax(scores, values, 1)[-1].kept.output == 0.5


# Masks


@pytest.mark.parametrize("nothing", [MASKED, ln(0)])
def test_a_masked_tile_changes_nothing_wherever_it_comes(nothing):
    scores = [ln(2), ln(6)] if nothing == ln(0) else [math.log(2), math.log(6)]
    values = [1, 5, 100, 100]
    for order in ((0, 1), (1, 0)):
        steps = online_softmax([*scores, nothing, nothing], values, 2, order=order)
        assert steps[-1].kept.output == pytest.approx(4)
        assert steps[order.index(1)].added.denominator == 0
    masked = of_block([nothing], [7])
    assert merge(masked, of_block(scores[:1], values[:1])) == of_block(scores[:1], values[:1])
    assert merge(masked, masked) == masked


def test_a_query_that_sees_nothing_has_no_output():
    with pytest.raises(ValueError, match="must see at least 1 key"):
        _ = of_block([MASKED, MASKED], [1, 2]).output


# Numbers and errors


def test_exact_scores_have_exact_exponentials():
    assert exp(ln(4) - ln(2)) == 2
    assert rescale(ln(1), ln(4)) == Fraction(1, 4)
    assert rescale(0.0, 1.0) == math.exp(-1)
    assert repr(ln(Fraction(1, 2))) == "ln 1/2"
    assert ln(1) < ln(2)


@pytest.mark.parametrize(
    ("scores", "values", "message"),
    [
        ([], [], "a query needs at least 1 key, got 0"),
        ([0.0], [1, 2], "each key has a score and a value, got 1 scores and 2 values"),
        ([ln(1), 0.0], [1, 2], "all exact or all floats, got 1 exact ones among 2"),
    ],
)
def test_what_is_no_query_is_refused(scores, values, message):
    for refuse in (of_block, softmax_average, lambda *pair: online_softmax(*pair, 1)):
        with pytest.raises(ValueError, match=message):
            refuse(scores, values)


def test_tiles_and_orders_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="a tile must hold at least 1 key, got 0"):
        online_softmax(SCORES, VALUES, 0)
    with pytest.raises(ValueError, match=r"must name each of 2 tiles once, got \[0, 0\]"):
        online_softmax(SCORES, VALUES, 2, order=[0, 0])
    with pytest.raises(ValueError, match="a weight must be at least 0, got -1"):
        Ln(Fraction(-1))
