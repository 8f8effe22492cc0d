"""Who computes what: tiles of queries against tiles of keys, and the cache of a decode in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Sight = Literal["all", "some", "none"]


class Tile(NamedTuple):
    """A tile of queries against a tile of keys, by their positions in the sequence."""

    queries: range
    keys: range
    pairs: int
    """Pairs of a query and a key that the mask lets through."""

    @property
    def sees(self) -> Sight:
        """How much of it the mask lets through: a tile that sees none is neither read nor
        computed, and one that sees some is computed whole."""
        if self.pairs == 0:
            return "none"
        return "all" if self.pairs == len(self.queries) * len(self.keys) else "some"


def tile_grid(
    queries: int, keys: int, query_tile: int, key_tile: int, *, causal: bool = True
) -> tuple[tuple[Tile, ...], ...]:
    """A row for each tile of queries, with its tiles of keys from first to last.

    The queries are the last `queries` of the `keys` positions: all of a prompt, a chunk of one, or
    the one token of a decode. With `causal` a query sees itself and what came before.

    Six tokens in tiles of two, causal: 9 tiles, of which 3 see all, 3 some and 3 none. ValueError
    for fewer than 1 query or key in a tile or at all, and for more queries than keys.
    """
    for name, count in (
        ("queries", queries),
        ("keys", keys),
        ("query_tile", query_tile),
        ("key_tile", key_tile),
    ):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    if queries > keys:
        raise ValueError(f"each query is a key too: got {queries} queries and {keys} keys")
    rows = _cut(range(keys - queries, keys), query_tile)
    columns = _cut(range(keys), key_tile)
    return tuple(
        tuple(Tile(row, column, _pairs(row, column, causal)) for column in columns) for row in rows
    )


def _cut(positions: range, size: int) -> list[range]:
    starts = range(positions.start, positions.stop, size)
    return [range(start, min(start + size, positions.stop)) for start in starts]


def _pairs(queries: range, keys: range, causal: bool) -> int:
    if not causal:
        return len(queries) * len(keys)
    return sum(min(max(query + 1 - keys.start, 0), len(keys)) for query in queries)


@dataclass(frozen=True, slots=True)
class Program:
    """One program of a paged decode: the part of one request's context that it reads."""

    request_id: str
    part: int
    """From 0; the parts of a request are merged when all are done."""
    reads: tuple[tuple[int, int, int], ...]
    """(place in the block table, block, tokens read of it), in order of positions."""

    @property
    def tokens(self) -> int:
        """Positions of the context that it reads."""
        return sum(tokens for _, _, tokens in self.reads)


def decode_programs(
    request_id: str,
    table: Sequence[int],
    context_tokens: int,
    block_tokens: int,
    blocks_a_program: int,
) -> tuple[Program, ...]:
    """The programs that compute one decode step of a request: its block table is cut into parts of
    `blocks_a_program` blocks, the last one shorter.

    A context of 9 tokens in blocks of 4 with 2 blocks a program: two programs, of 8 tokens and 1.
    ValueError for numbers below 1, and for a table that ends before the context does.
    """
    for name, count in (
        ("context_tokens", context_tokens),
        ("block_tokens", block_tokens),
        ("blocks_a_program", blocks_a_program),
    ):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    needed = -(-context_tokens // block_tokens)
    if len(table) < needed:
        raise ValueError(
            f"{context_tokens} tokens need {needed} blocks of {block_tokens}, and the table of "
            f"{request_id!r} has {len(table)}"
        )
    reads = [
        (place, table[place], min(block_tokens, context_tokens - place * block_tokens))
        for place in range(needed)
    ]
    return tuple(
        Program(request_id, part, tuple(reads[at : at + blocks_a_program]))
        for part, at in enumerate(range(0, needed, blocks_a_program))
    )
