"""Which block of KV memory belongs to whom. Bookkeeping only: no tensors, no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lab.eviction import ByRelease, Order


class OutOfBlocks(Exception):
    """The pool cannot serve the request now. The scheduler answers by waiting or preempting."""


class BlockPool:
    """A fixed number of equal blocks, handed out and taken back; a block may have many holders.

    Invariant: every block is free, used or cached, and `free + used + cached == num_blocks`. A
    block's count of holders is the number of block tables that hold it; a cached block has none,
    and its content is worth keeping. It is given up, and `forget` is told, when no free block is
    left. `order` says which goes first, without one the least recently used. Tables are released
    from their ends, so no block is given up before those that follow it in a table.

    Free blocks lie on a stack, so taking blocks and giving them back in reverse order restores
    the pool exactly.
    """

    def __init__(
        self,
        num_blocks: int,
        block_tokens: int,
        forget: Callable[[int], object] | None = None,
        order: Order | None = None,
    ) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_tokens", block_tokens)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._free = list(range(num_blocks - 1, -1, -1))
        self._holders = [0] * num_blocks
        self._kept: set[int] = set()  # used or cached, with content that is worth keeping
        self._cached: Order = ByRelease() if order is None else order
        self._forget = forget

    @property
    def free(self) -> int:
        """Blocks that nobody holds, and whose content is worth nothing."""
        return len(self._free)

    @property
    def cached(self) -> int:
        """Blocks that nobody holds, and whose content may be used again."""
        return len(self._cached)

    @property
    def available(self) -> int:
        """Blocks that can be allocated: the free ones and the cached ones."""
        return len(self._free) + len(self._cached)

    @property
    def used(self) -> int:
        """Blocks with at least one holder."""
        return self.num_blocks - len(self._free) - len(self._cached)

    def holders(self, block: int) -> int:
        """How many tables hold this block."""
        return self._holders[block]

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` positions take: ceil(num_tokens / block_tokens)."""
        return -(-num_tokens // self.block_tokens)

    def allocate(self, count: int) -> list[int]:
        """Take `count` blocks, cached ones only where no free one is left; all or none. Raises
        `OutOfBlocks`."""
        if count < 0:
            raise ValueError(f"the number of blocks must not be negative, got {count}")
        if count > len(self._free):
            return self._allocate_cached(count)
        if count == 0:
            return []
        blocks = self._free[: -count - 1 : -1]
        del self._free[-count:]
        holders = self._holders
        for block in blocks:
            holders[block] = 1
        return blocks

    def _allocate_cached(self, count: int) -> list[int]:
        """All free blocks, and cached ones beside them."""
        if count > self.available:
            also = " or cached" if self._kept else ""
            raise OutOfBlocks(
                f"need {count} blocks, {self.available} of {self.num_blocks} are free{also}"
            )
        blocks = self.allocate(self.free)
        for _ in range(count - len(blocks)):
            blocks.append(self._evict())
            self._holders[blocks[-1]] = 1
        return blocks

    def _evict(self) -> int:
        """Give up the cached block that goes first."""
        block = self._cached.pop()
        self._kept.remove(block)
        if self._forget:
            self._forget(block)
        return block

    def keep(self, blocks: Iterable[int]) -> None:
        """From now on these used blocks are cached when their last holder releases them."""
        blocks = list(blocks)
        for block in blocks:
            if not self._holders[block]:
                raise ValueError(f"block {block} is not in use and has nothing to keep")
        self._kept.update(blocks)
        self._cached.keep(blocks)

    def share(self, blocks: Iterable[int]) -> None:
        """Add one holder to each block, as when a sequence forks or reuses a prefix."""
        blocks = list(blocks)
        for block in blocks:
            if not self._holders[block] and block not in self._cached:
                raise ValueError(f"block {block} is free and cannot be shared")
        for block in blocks:
            self._holders[block] += 1
        self._cached.use(blocks)

    def release(self, blocks: Iterable[int]) -> None:
        """Take one holder off each block. A block with no holder left is free or cached again.

        Raises ValueError, and releases nothing, if a block is named more often than it is held.
        """
        blocks = list(blocks)
        holders, kept = self._holders, self._kept
        for place, block in enumerate(blocks):
            if holders[block] != 1:
                left = self._release_shared(blocks, place)
                break
            holders[block] = 0
        else:
            left = blocks
        if kept:
            self._cached.add([block for block in left if block in kept])
            left = [block for block in left if block not in kept]
        self._free += left

    def _release_shared(self, blocks: list[int], place: int) -> list[int]:
        """The rest of a release, from the first block on that has not one holder. Returns those
        of all that nobody holds any more."""
        holders, left = self._holders, blocks[:place]
        for number, block in enumerate(blocks[place:], place):
            count = holders[block]
            if not count:
                for taken_off in blocks[:number]:
                    holders[taken_off] += 1
                raise ValueError(f"block {block} was released more often than it was held")
            holders[block] = count - 1
            if count == 1:
                left.append(block)
        return left

    def own(self, table: list[int], index: int) -> tuple[int, int] | None:
        """Make `table[index]` safe to write: a block with other holders is replaced by a copy.

        Returns (source, copy) for the executor to copy, or None if the block was the table's own.
        """
        block = table[index]
        if self._holders[block] == 1:
            return None
        (copy,) = self.allocate(1)
        self.release([block])
        table[index] = copy
        return block, copy
