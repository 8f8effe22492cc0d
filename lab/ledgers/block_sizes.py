"""Small blocks or large ones: what is wasted, how long the tables get, and how much is shared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.ledgers.words import counted
from lab.request import Request, Time

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class BlockSize:
    """Requests whose answers are complete, in blocks of `block_tokens` slots."""

    block_tokens: int
    entries: int
    """Blocks of all requests, which are the entries of their tables. One that several share is an
    entry of each."""
    longest: int
    """Entries of the longest table."""
    tokens: int
    """Positions of all requests."""
    wasted: int
    """Slots behind the last token of each request, in its last block."""
    common: int
    """Tokens with which all prompts begin."""
    shared: int
    """Of these, how many one copy holds for all: those in full blocks, and not the last token of a
    prompt, which is always computed."""

    @property
    def waste(self) -> Time:
        """Wasted slots over all slots of the blocks."""
        return exact_ratio(self.wasted, self.tokens + self.wasted)

    @property
    def sharing(self) -> Time | None:
        """Shared tokens over those that all prompts begin with; None where they begin with none."""
        return exact_ratio(self.shared, self.common) if self.common else None


@dataclass(frozen=True, slots=True, repr=False)
class BlockSizes(Shown):
    """The same requests in blocks of several sizes."""

    rows: tuple[BlockSize, ...]

    def __getitem__(self, block_tokens: int) -> BlockSize:
        for row in self.rows:
            if row.block_tokens == block_tokens:
                return row
        raise KeyError(f"there is no block size {block_tokens} in this account")

    def table(self) -> Table:
        """One row a block size."""
        columns = ("block of", "entries", "longest table", "wasted slots", "wasted %", "shared")
        rows = tuple(
            (
                counted(row.block_tokens, "token"),
                *(row.entries, row.longest, row.wasted, round(float(100 * row.waste), 1)),
                f"{row.shared} of {row.common}",
            )
            for row in self.rows
        )
        return Table(columns, rows, "all requests at their full lengths")


def block_sizes(requests: Iterable[Request], sizes: Iterable[int] = SIZES) -> BlockSizes:
    """What blocks of each of `sizes` would mean for requests whose answers are complete.

    A request of n positions has ceil(n / s) blocks of s slots, and the last of them wastes
    ceil(n / s) x s - n. 100 positions in blocks of 16: 7 entries, 12 slots wasted. The common
    beginning is read from the token ids of the prompts. ValueError for no requests, or a size
    below 1.
    """
    asked, sizes = tuple(requests), tuple(sizes)
    if not asked:
        raise ValueError("block sizes are compared on at least 1 request, got 0")
    if smallest := [size for size in sizes if size < 1]:
        raise ValueError(f"a block must have at least 1 token, got {smallest[0]}")
    lengths = [answer.max_computed for request in asked for answer in request.answers]
    common = _common(asked)
    sharable = min(common, *(request.prompt_tokens - 1 for request in asked))
    return BlockSizes(
        tuple(_of_size(size, lengths, common, sharable // size * size) for size in sizes)
    )


def _of_size(size: int, lengths: list[int], common: int, shared: int) -> BlockSize:
    blocks = [-(-length // size) for length in lengths]
    wasted = sum(blocks) * size - sum(lengths)
    return BlockSize(size, sum(blocks), max(blocks), sum(lengths), wasted, common, shared)


def _common(requests: tuple[Request, ...]) -> int:
    """Tokens with which the prompts of all requests begin."""
    shortest = min(request.prompt_tokens for request in requests)
    if len(requests) == 1:
        return shortest
    found = shortest
    for one, other in pairwise(requests):
        same = range(found)
        found = next((i for i in same if one.prompt[i] != other.prompt[i]), found)
    return found
