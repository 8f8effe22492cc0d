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
        self._holders = [0] * num_blocks

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks with at least one holder."""
        return self.num_blocks - len(self._free)

    def holders(self, block: int) -> int:
        """How many tables hold this block."""
        return self._holders[block]

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
        holders = self._holders
        for block in blocks:
            holders[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Add one holder to each block, as when a sequence forks or reuses a prefix."""
        blocks = list(blocks)
        for block in blocks:
            if not self._holders[block]:
                raise ValueError(f"block {block} is free and cannot be shared")
        for block in blocks:
            self._holders[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Take one holder off each block. A block with no holder left is free again.

        Raises ValueError, and releases nothing, if a block is named more often than it is held.
        """
        blocks = list(blocks)
        holders, freed = self._holders, []
        for place, block in enumerate(blocks):
            count = holders[block]
            if not count:
                for taken_off in blocks[:place]:
                    holders[taken_off] += 1
                raise ValueError(f"block {block} was released more often than it was held")
            holders[block] = count - 1
            if count == 1:
                freed.append(block)
        self._free += freed

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
