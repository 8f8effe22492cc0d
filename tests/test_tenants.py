"""A stranger learns a text block by block where prefixes are shared, and nothing where not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.executors.cost_model import CostModel
from lab.ledgers.reuse import probing
from lab.tenants import search

PRICE = CostModel.affine(10, 1, 0, unit="ms")


def test_the_time_of_a_probe_tells_a_hit():
    found = search((2, 0), 3, PRICE)
    assert found.found == (2, 0)
    assert (found.miss, found.hit) == (10 + 17, 10), "one token left costs no more than a decode"
    assert found.probes == (1 + 3) + (1 + 1)


def test_rounding_is_no_hit():
    h100 = CostModel.roofline("llama-3-8b", "h100")
    found = search((6, 2, 8), 10, h100, block_tokens=512)
    assert found.found == (6, 2, 8)
    assert found.probes == 7 + 3 + 9 + 3


def test_a_block_that_hides_behind_the_weights_saves_next_to_nothing():
    h100 = CostModel.roofline("llama-3-8b", "h100")
    saved = {}
    for size in (256, 512):
        found = search((6, 2, 8), 10, h100, block_tokens=size)
        saved[size] = found.miss - found.hit
    assert 0 < saved[256] < 1e-6
    assert saved[512] > 1e-3


def test_with_keys_of_their_own_nothing_is_learned():
    found = search((2, 0), 3, PRICE, shared=False)
    assert (found.found, found.hit, found.probes) == ((), None, 4)


def test_where_time_does_not_depend_on_the_prompt_nothing_is_learned():
    assert search((1,), 2, CostModel.equal_steps()).found == ()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3))
def test_the_probes_are_those_of_the_account(secret):
    found = search(secret, 4, PRICE, block_tokens=4)
    assert found.found == tuple(secret)
    guesses = found.probes - len(secret)
    assert guesses == sum(right + 1 for right in secret) <= probing(len(secret), 4).worst


def test_a_secret_is_made_of_candidates():
    for secret in ((), (3,), (-1,)):
        with pytest.raises(ValueError, match="must be one of 3 candidates"):
            search(secret, 3, PRICE)
