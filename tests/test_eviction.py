"""Which cached block goes first: each order on a small tree, and what holds for all of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.eviction import RANKS, ByRank, ByRelease
from lab.kv_blocks import BlockPool
from lab.prefix import Chain, Identity, PrefixIndex

prompts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=30)
every_eviction = pytest.mark.parametrize("eviction", RANKS)


class Cache:
    """A pool and an index of blocks of one token, and what was given up, as beginnings."""

    def __init__(self, blocks, eviction=None, seed=0):
        self.index = PrefixIndex()
        self.gone, self.hits, self.holds = [], [], {}
        order = ByRank(eviction, self.index.parent, seed) if eviction else ByRelease()
        self.pool = BlockPool(blocks, 1, self.forget, order)

    def forget(self, block):
        self.index.forget(block)
        self.gone.append(self.holds.pop(block))

    def ask(self, ids):
        keys = Chain(Identity(), 1, ids)
        table = self.index.match(keys, len(ids))
        self.hits.append(len(table))
        self.pool.share(table)
        start = len(table)
        table += self.pool.allocate(len(ids) - start)
        new = self.index.publish(keys, table, range(start, len(ids)))
        self.pool.keep(new)
        for place in range(start, len(ids)):
            self.holds[table[place]] = "".join(map(str, ids[: place + 1]))
        self.pool.release(reversed(table))


def played(asked, blocks, eviction=None, seed=0):
    cache = Cache(blocks, eviction, seed)
    for ids in asked:
        cache.ask(ids)
    return cache


def drained(cache):
    """All that is cached, in the order in which it goes."""
    before = len(cache.gone)
    cache.pool.release(cache.pool.allocate(cache.pool.num_blocks))
    return cache.gone[before:]


TREE = ["ab", "ac", "ad", "ac", "ad", "ad", "ab"]
"""Used last: ad, then ab. Used most: a, then ad; came first: ab."""


@pytest.mark.parametrize(
    ("eviction", "order"),
    [
        ("least-recently-used", ["ac", "ad", "ab", "a"]),
        ("least-frequently-used", ["ac", "ab", "ad", "a"]),
        ("first-in-first-out", ["ab", "ac", "ad", "a"]),
    ],
)
def test_each_order_on_a_small_tree(eviction, order):
    assert drained(played(TREE, 9, eviction)) == order


def test_a_seed_gives_the_same_order_and_another_one_another():
    orders = [drained(played(TREE, 9, "random", seed)) for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1
    assert {order[-1] for order in orders} == {"a"}


@given(asked=prompts, blocks=st.integers(6, 12))
def test_the_quick_order_is_the_one_of_the_ranks(asked, blocks):
    quick, ranked = played(asked, blocks), played(asked, blocks, "least-recently-used")
    assert quick.gone == ranked.gone
    assert drained(quick) == drained(ranked)


@every_eviction
@settings(deadline=None)
@given(asked=prompts, blocks=st.integers(6, 12), seed=st.integers(0, 3))
def test_nothing_goes_before_what_follows_it(eviction, asked, blocks, seed):
    cache = Cache(blocks, eviction, seed)
    for ids in asked:
        cache.ask(ids)
        held = set(cache.holds.values())
        assert all(name[:-1] in held for name in held if len(name) > 1)
        assert cache.pool.cached == len(cache.index) == len(held)
    order = drained(cache)
    place = {name: at for at, name in enumerate(order)}
    assert all(place[name] < place[name[:-1]] for name in order if len(name) > 1)


@every_eviction
@given(asked=prompts)
def test_where_all_has_room_nothing_goes_and_all_orders_hit_alike(eviction, asked):
    cache = played(asked, 200, eviction)
    assert (cache.gone, cache.hits) == ([], played(asked, 200).hits)


@given(asked=prompts)
def test_with_the_least_recently_used_a_larger_cache_never_hits_less(asked):
    sums = [sum(played(asked, blocks).hits) for blocks in range(6, 20)]
    assert all(a <= b for a, b in pairwise(sums))


@every_eviction
def test_a_used_block_is_never_given_up(eviction):
    cache = Cache(4, eviction)
    cache.ask("ab")
    held = cache.index.match(Chain(Identity(), 1, "ab"), 2)
    cache.pool.share(held)
    cache.ask("xy")
    cache.ask("uv")
    assert "a" not in cache.gone
    assert "ab" not in cache.gone
    cache.pool.release(reversed(held))
    assert set(drained(cache)) == {"a", "ab", "u", "uv"}


@every_eviction
def test_the_heap_does_not_outgrow_the_cache(eviction):
    cache = Cache(300, eviction)
    for _ in range(400):
        cache.ask("abc")
    assert len(cache.pool._cached._leaves) <= 2 * cache.pool.cached + 101


def test_an_unknown_order_is_an_error():
    with pytest.raises(ValueError, match="eviction must be one of least-recently-used"):
        ByRank("youngest", lambda block: None)
