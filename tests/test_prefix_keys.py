"""A key without a field gives away what is not the second request's own, and says why."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.prefix import Chain, Identity
from lab.prefix_keys import FIELDS, IDS, ORDER, Prompted, Titled, chain_without, taken

FIRST = Prompted((1, 2, 3, 4, 5), Identity(model="m", tenant="t"))
NAMES = [field.name for field in fields(Identity)]
ids = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


def other(name):
    return replace(FIRST, identity=replace(FIRST.identity, **{name: "another"}))


def test_a_key_holds_seven_things_a_tenant_and_the_order():
    assert len(set(FIELDS) - {"tenant", ORDER}) == 7
    assert set(NAMES) | {IDS, ORDER} == set(FIELDS)


@pytest.mark.parametrize("name", NAMES)
def test_each_field_of_the_identity_keeps_a_wrong_hit_away(name):
    whole = taken(FIRST, other(name), block_tokens=2)
    assert (whole.blocks, whole.verdict) == (0, "none")
    short = taken(FIRST, other(name), left_out=[name], block_tokens=2)
    assert (short.blocks, short.right) == (2, 0)
    expected = {"tenant": "not allowed", "tokenizer": "other text"}.get(name, "wrong numbers")
    assert short.verdict == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left_out", NAMES)
def test_a_field_that_is_missing_does_harm_only_where_it_differs(name, left_out):
    found = taken(FIRST, other(name), left_out=[left_out])
    assert (found.blocks > 0) == (name == left_out)


def test_by_title_only_the_old_rule_is_taken_for_the_new_one():
    old, new = (Prompted(("the", "limit", "is", yuan, "yuan")) for yuan in ("600", "750"))
    assert taken(old, new).right == 3
    by_title = taken(old, new, left_out=[IDS])
    assert (by_title.blocks, by_title.verdict) == (4, "wrong numbers")


def test_a_bag_of_words_takes_another_order_for_the_same():
    one, turned = Prompted((10, 11, 12)), Prompted((12, 11, 10))
    assert taken(one, turned).blocks == 0
    assert taken(one, turned, left_out=[ORDER]).verdict == "wrong numbers"


def test_another_tenant_with_other_words_is_more_than_not_allowed():
    found = taken(FIRST, replace(other("tenant"), ids=(9, 2, 3, 4, 5)), left_out=["tenant", IDS])
    assert found.verdict == "wrong numbers"


@given(ids, ids, st.integers(1, 3))
def test_a_shorter_key_finds_no_less_and_the_whole_one_only_what_is_its_own(one, two, size):
    first, second = Prompted(one), Prompted(two)
    whole = taken(first, second, block_tokens=size)
    end = whole.blocks * size
    assert whole.verdict in ("none", "right")
    assert one[:end] == two[:end]
    assert taken(first, second, left_out=[IDS], block_tokens=size).blocks >= whole.blocks


def test_an_unknown_field_is_an_error():
    with pytest.raises(ValueError, match=r"a key holds model, tokenizer.*; got 'title'"):
        chain_without(["title"], Identity(), 4, (1, 2))


def test_a_title_is_the_same_for_two_texts_and_the_ids_are_not():
    old, new = (Titled("rule", (1, 2, 3, yuan, 5)) for yuan in (600, 750))
    keys = [Chain(Identity(), 2, prompt) for prompt in (old, new)]
    assert keys[0][1] == keys[1][1]
    assert old != new
    assert old[2:4] == (3, 600)
    assert Chain(Identity(), 2, tuple(old))[1] != Chain(Identity(), 2, tuple(new))[1]
    assert Chain(Identity(), 2, Titled("house", old))[1] != keys[0][1]
