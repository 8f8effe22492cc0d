"""Which block of KV memory belongs to whom. Bookkeeping only: no tensors, no torch."""

from __future__ import annotations

from collections.abc import Iterable


class OutOfBlocks(Exception):
    """The pool cannot serve the request now. The scheduler answers by waiting or preempting."""


class BlockPool:
    """A fixed number of equal blocks, handed out and taken back; a block may have many holders.

    Invariant: every block is free or used, never both, and `free + used == num_blocks`. A block's
    count of holders is the number of block tables that hold it.

    Free blocks lie on a stack, so taking blocks and giving them back in reverse order restores
    the pool exactly.
    """

    def __init__(self, num_blocks: int, block_tokens: int) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_tokens", block_tokens)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._free = list(range(num_blocks - 1, -1, -1))
        self._used: set[int] = set()
        self._further: dict[int, int] = {}  # holders beyond the first, where there are any

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks with at least one holder."""
        return len(self._used)

    def holders(self, block: int) -> int:
        """How many tables hold this block."""
        return (block in self._used) + self._further.get(block, 0)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` positions take: ceil(num_tokens / block_tokens)."""
        return -(-num_tokens // self.block_tokens)

    def allocate(self, count: int) -> list[int]:
        """Take `count` free blocks; all or none. Raises `OutOfBlocks`."""
        if count < 0:
            raise ValueError(f"the number of blocks must not be negative, got {count}")
        if count > len(self._free):
            raise OutOfBlocks(f"need {count} blocks, {self.free} of {self.num_blocks} are free")
        if count == 0:
            return []
        blocks = self._free[: -count - 1 : -1]
        del self._free[-count:]
        self._used.update(blocks)
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Add one holder to each block, as when a sequence forks or reuses a prefix."""
        blocks = list(blocks)
        for block in blocks:
            if block not in self._used:
                raise ValueError(f"block {block} is free and cannot be shared")
        for block in blocks:
            self._further[block] = self._further.get(block, 0) + 1

    def release(self, blocks: Iterable[int]) -> None:
        """Take one holder off each block of a table. A block with no holder left is free again.

        Raises ValueError, and releases nothing, if a block has no holder or is named twice.
        """
        blocks = list(blocks)
        if self._further:
            self._check_held(blocks)
            blocks = [block for block in blocks if not self._drop_further(block)]
        used = len(self._used)
        self._used.difference_update(blocks)
        if used - len(self._used) < len(blocks):
            self._used = set(range(self.num_blocks)).difference(self._free)
            self._check_held(blocks)
        self._free.extend(blocks)

    def _check_held(self, blocks: list[int]) -> None:
        for block in blocks:
            if block not in self._used or blocks.count(block) > 1:
                raise ValueError(f"block {block} was released more often than it was held")

    def _drop_further(self, block: int) -> bool:
        """Take off a holder beyond the first, if the block has one."""
        count = self._further.get(block, 0)
        if count > 1:
            self._further[block] = count - 1
        elif count == 1:
            del self._further[block]
        return count > 0

    def own(self, table: list[int], index: int) -> tuple[int, int] | None:
        """Make `table[index]` safe to write: a block with other holders is replaced by a copy.

        Returns (source, copy) for the executor to copy, or None if the block was the table's own.
        """
        block = table[index]
        if block not in self._further:
            return None
        (copy,) = self.allocate(1)
        self.release([block])
        table[index] = copy
        return block, copy
