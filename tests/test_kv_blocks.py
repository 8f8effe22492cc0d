"""Any order of allocate, share, release and own keeps the pool's books in order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lab.kv_blocks import BlockPool, OutOfBlocks


class AnyUseOfThePool(RuleBasedStateMachine):
    """The model is a list of block tables."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(num_blocks=6, block_tokens=16)
        self.tables: list[list[int]] = []

    @rule(count=st.integers(0, 7))
    def allocate(self, count: int) -> None:
        free = self.pool.free
        if count > free:
            with pytest.raises(OutOfBlocks, match=f"need {count} blocks, {free} of 6 are free"):
                self.pool.allocate(count)
            assert self.pool.free == free, "a refusal must take nothing"
            return
        blocks = self.pool.allocate(count)
        assert len(set(blocks)) == count
        self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(self.tables))
        self.pool.share(iter(table))
        self.tables.append(list(table))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.tables) - 1))
        self.pool.release(iter(self.tables.pop(index)))

    @precondition(lambda self: any(self.tables))
    @rule(data=st.data())
    def own_before_a_write(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from([table for table in self.tables if table]))
        index = data.draw(st.integers(0, len(table) - 1))
        before, free, holders = list(table), self.pool.free, self.pool.holders(table[index])
        try:
            copied = self.pool.own(table, index)
        except OutOfBlocks:
            assert holders > 1
            assert (free, table) == (0, before), "a refusal must take nothing"
            return
        assert self.pool.holders(table[index]) == 1
        if holders == 1:
            assert copied is None
            assert table == before
        else:
            assert copied == (before[index], table[index])
            assert copied[0] != copied[1]
            assert [*table[:index], *table[index + 1 :]] == [*before[:index], *before[index + 1 :]]

    @precondition(lambda self: self.pool.free)
    @rule(data=st.data())
    def release_a_free_block(self, data: st.DataObject) -> None:
        held = {block for table in self.tables for block in table}
        block = data.draw(st.sampled_from(sorted(set(range(6)) - held)))
        with pytest.raises(ValueError, match=f"block {block} was released more often than it was"):
            self.pool.release([block])
        with pytest.raises(ValueError, match=f"block {block} is free and cannot be shared"):
            self.pool.share([block])

    @invariant()
    def every_block_is_free_or_used(self) -> None:
        held = {block for table in self.tables for block in table}
        assert self.pool.used == len(held)
        assert self.pool.free + self.pool.used == self.pool.num_blocks

    @invariant()
    def holders_are_the_tables_that_hold_a_block(self) -> None:
        for block in range(6):
            count = sum(block in table for table in self.tables)
            assert self.pool.holders(block) == count

    def teardown(self) -> None:
        for table in self.tables:
            self.pool.release(table)
        assert (self.pool.free, self.pool.used) == (6, 0)
        assert sorted(self.pool.allocate(6)) == [*range(6)], "a block was lost or doubled"


TestAnyUseOfThePool = AnyUseOfThePool.TestCase
TestAnyUseOfThePool.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (33, 3)])
def test_tokens_take_whole_blocks(tokens: int, blocks: int) -> None:
    assert BlockPool(4, 16).blocks_for(tokens) == blocks


def test_giving_back_in_reverse_order_restores_the_pool_exactly() -> None:
    pool = BlockPool(8, 16)
    first = pool.allocate(3)
    again = pool.allocate(4)
    pool.release(reversed(again))
    assert pool.allocate(4) == again
    pool.release(reversed(again))
    pool.release(reversed(first))
    assert pool.allocate(8) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_share_of_a_free_block_shares_nothing() -> None:
    pool = BlockPool(2, 16)
    (held,) = pool.allocate(1)
    with pytest.raises(ValueError, match="is free and cannot be shared"):
        pool.share([held, 1 - held])
    assert pool.holders(held) == 1


def test_a_release_that_names_a_block_too_often_releases_nothing() -> None:
    pool = BlockPool(2, 16)
    blocks = pool.allocate(2)
    with pytest.raises(ValueError, match=f"block {blocks[1]} was released more often than it was"):
        pool.release([*blocks, blocks[1]])
    assert pool.used == 2


def test_releasing_twice_is_an_error() -> None:
    pool = BlockPool(2, 16)
    blocks = pool.allocate(1)
    pool.release(blocks)
    with pytest.raises(ValueError, match="block 0 was released more often than it was held"):
        pool.release(blocks)
    assert pool.free == 2


def test_an_own_block_is_written_in_place_and_a_shared_one_is_copied_first() -> None:
    pool = BlockPool(4, 16)
    table = pool.allocate(2)
    assert pool.own(table, 1) is None
    fork = list(table)
    pool.share(fork)
    assert pool.own(fork, 1) == (1, 2)
    assert (table, fork) == ([0, 1], [0, 2])
    assert [pool.holders(block) for block in range(4)] == [2, 1, 1, 0]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 16), "num_blocks must be at least 1, got 0"),
        ((4, -1), "block_tokens must be at least 1, got -1"),
    ],
)
def test_a_pool_without_room_is_refused(sizes: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BlockPool(*sizes)


# Cached blocks


def test_what_is_kept_is_cached_when_nobody_holds_it_and_given_up_in_the_order_of_release() -> None:
    forgotten: list[int] = []
    pool = BlockPool(4, 16, forgotten.append)
    table = pool.allocate(3)
    pool.keep(table[:2])
    pool.release(reversed(table))
    assert (pool.free, pool.used, pool.cached, pool.available) == (2, 0, 2, 4)
    assert pool.allocate(3) == [2, 3, 1], "free ones first, then the end of the table"
    assert forgotten == [1]
    assert (pool.free, pool.used, pool.cached) == (0, 3, 1)


def test_a_cached_block_that_is_shared_is_used_again_and_released_as_the_youngest() -> None:
    pool = BlockPool(2, 16)
    one, other = pool.allocate(2)
    pool.keep([one, other])
    pool.release([one])
    pool.release([other])
    pool.share([one])
    assert (pool.used, pool.cached, pool.holders(one)) == (1, 1, 1)
    pool.release([one])
    assert pool.allocate(1) == [other]
    assert pool.allocate(1) == [one]


def test_more_than_free_and_cached_blocks_are_refused_and_nothing_is_given_up() -> None:
    forgotten: list[int] = []
    pool = BlockPool(3, 16, forgotten.append)
    pool.keep(pool.allocate(1))
    pool.release([0])
    pool.allocate(1)
    with pytest.raises(OutOfBlocks, match="need 3 blocks, 2 of 3 are free or cached"):
        pool.allocate(3)
    assert (forgotten, pool.cached) == ([], 1)


def test_a_block_that_was_given_up_is_not_kept_any_longer() -> None:
    pool = BlockPool(1, 16)
    pool.keep(pool.allocate(1))
    pool.release([0])
    pool.allocate(1)
    pool.release([0])
    assert (pool.free, pool.cached) == (1, 0)


def test_only_what_is_in_use_can_be_kept_and_a_cached_block_cannot_be_released() -> None:
    pool = BlockPool(2, 16)
    with pytest.raises(ValueError, match="block 1 is not in use and has nothing to keep"):
        pool.keep([1])
    pool.keep(pool.allocate(1))
    pool.release([0])
    with pytest.raises(ValueError, match="block 0 was released more often than it was held"):
        pool.release([0])
    assert pool.cached == 1


def test_a_negative_number_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="the number of blocks must not be negative, got -1"):
        BlockPool(4, 16).allocate(-1)
