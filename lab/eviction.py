"""Which cached block is given up first, when a pool needs room.

A block that nobody holds is cached while its content may be used again. An order keeps the cached
blocks of one pool and picks the next to go. None gives up a block before those that follow it in a
sequence: what follows could not be found any more, and would only take room.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal, Protocol, TypeAlias

Eviction: TypeAlias = Literal[
    "least-recently-used", "least-frequently-used", "first-in-first-out", "random"
]


class Order(Protocol):
    """The cached blocks of a pool, and which of them goes first."""

    def __len__(self) -> int: ...

    def __contains__(self, block: int) -> bool: ...

    def keep(self, blocks: Iterable[int]) -> None:
        """The content of these used blocks is worth keeping from now on."""
        ...

    def add(self, blocks: Iterable[int]) -> None:
        """Nobody holds these blocks any more. Those behind come before those in front of them."""
        ...

    def use(self, blocks: Iterable[int]) -> None:
        """One more table holds each of these blocks, cached or not."""
        ...

    def pop(self) -> int:
        """The block that goes first: it is given up."""
        ...


class ByRelease:
    """The block that was released first goes first: the least recently used one.

    Whoever holds a block holds all before it, and tables are released from their ends; so those
    that follow a block always go before it.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()  # its first item is found at once

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

    def __iter__(self) -> Iterator[int]:
        """The blocks in the order in which they go."""
        return iter(self._blocks)

    def keep(self, blocks: Iterable[int]) -> None:
        pass

    def add(self, blocks: Iterable[int]) -> None:
        self._blocks.update(dict.fromkeys(blocks))

    def use(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._blocks.pop(block, None)

    def pop(self) -> int:
        return self._blocks.popitem(last=False)[0]


@dataclass(slots=True)
class History:
    """What is known of a block since its content is worth keeping."""

    kept: int
    """How many were kept before it."""
    parent: int | None
    """The block in front of it."""
    luck: float
    uses: int = 1
    released: int = 0
    """Its place in the order of all releases."""
    following: int = 0
    """Kept blocks that stand directly behind it."""


RANKS: dict[Eviction, Callable[[History], tuple[float, ...]]] = {
    "least-recently-used": lambda block: (block.released,),
    "least-frequently-used": lambda block: (block.uses, block.released),
    "first-in-first-out": lambda block: (block.kept,),
    "random": lambda block: (block.luck,),
}
"""Sort keys; of the blocks that nothing follows the smallest goes first. Uses count from the moment
a block is kept, and among equals the least recently used goes first."""


class ByRank:
    """The blocks by one of `RANKS`; only those that no kept block follows can go.

    `parent` names the kept block in front of a block. With "random" each block draws once, from a
    generator with `seed`.
    """

    def __init__(
        self, eviction: Eviction, parent: Callable[[int], int | None], seed: int = 0
    ) -> None:
        if eviction not in RANKS:
            raise ValueError(f"eviction must be one of {', '.join(RANKS)}, got {eviction!r}")
        self._rank, self._parent = RANKS[eviction], parent
        self._dice = random.Random(seed)
        self._known: dict[int, History] = {}
        self._cached: set[int] = set()
        self._leaves: list[
            tuple[tuple[float, ...], int, int]
        ] = []  # a heap; the used drop out late
        self._kept = self._released = 0

    def __len__(self) -> int:
        return len(self._cached)

    def __contains__(self, block: int) -> bool:
        return block in self._cached

    def keep(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            parent = self._parent(block)
            self._known[block] = History(self._kept, parent, self._dice.random())
            self._kept += 1
            if parent is not None:
                self._known[parent].following += 1

    def add(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._released += 1
            self._known[block].released = self._released
            self._cached.add(block)
            self._offer(block)
        if len(self._leaves) > 2 * len(self._cached) + 100:
            self._leaves = [entry for entry in self._leaves if self._holds(*entry)]
            heapify(self._leaves)

    def use(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self._cached.discard(block)
            if block in self._known:
                self._known[block].uses += 1

    def pop(self) -> int:
        while not self._holds(*(entry := heappop(self._leaves))):
            pass
        block = entry[-1]
        self._cached.remove(block)
        parent = self._known.pop(block).parent
        if parent is not None:
            self._known[parent].following -= 1
            self._offer(parent)
        return block

    def _offer(self, block: int) -> None:
        known = self._known[block]
        if block in self._cached and not known.following:
            heappush(self._leaves, (self._rank(known), known.released, block))

    def _holds(self, rank: tuple[float, ...], released: int, block: int) -> bool:
        """Whether an entry of the heap is still true: nobody took the block since."""
        return block in self._cached and self._known[block].released == released
