"""What attention moves between device memory and chip. Pure functions of sizes, exact integers.

Counted are elements of one head that are read from device memory or written to it; `bytes_moved`
multiplies by heads and bytes. Left out everywhere: what the chip's caches save when several
programs read the same tile, heads that share keys, masks that are read, dropout, the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from lab.attention.tiling import tile_grid
from lab.ledgers.table import Shown, Table
from lab.ledgers.words import grouped

Outer = Literal["queries", "keys"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Moved(Shown):
    """Elements of one head that cross between device memory and chip, by what they are."""

    queries: int
    keys_values: int
    matrix: int
    """Scores and probabilities: one row a query, one column a key."""
    output: int
    statistics: int

    @property
    def total(self) -> int:
        """All parts."""
        return sum(getattr(self, field.name) for field in fields(self))

    def table(self) -> Table:
        names = {"queries": "Q", "keys_values": "K, V", "matrix": "S, P", "output": "O"}
        columns = [names.get(field.name, field.name) for field in fields(self)]
        cells = [grouped(getattr(self, field.name)) for field in fields(self)]
        return Table((*columns, "total"), ((*cells, grouped(self.total)),), "elements of one head")


def written_out(queries: int, keys: int, head_dim: int) -> Moved:
    """Attention in three operations that leave the matrix in device memory.

        scores    reads Q, K     writes S
        softmax   reads S        writes P
        mixing    reads P, V     writes O

    So Q and O once, K and V once, and the matrix four times: 2 q d + 2 k d + 4 q k. Of 4 queries
    and 4 keys with heads of 2: 16 + 16 + 64 = 96. The mask is made on the fly and halves nothing:
    what it hides is written all the same.
    """
    _check(queries, keys, head_dim)
    return Moved(
        queries=queries * head_dim,
        keys_values=2 * keys * head_dim,
        matrix=4 * queries * keys,
        output=queries * head_dim,
        statistics=0,
    )


def in_tiles(
    queries: int,
    keys: int,
    head_dim: int,
    *,
    query_tile: int,
    key_tile: int,
    causal: bool = False,
    outer: Outer = "queries",
) -> Moved:
    """Attention in tiles that never leave the chip.

    With `outer="queries"` (FlashAttention-2, and the kernels of today) a tile of queries stays,
    the tiles of K and V come by, and the output is written once, with one statistic a query (its
    maximum plus the logarithm of its denominator). So K and V are read once for each tile of
    queries: 2 q d + 2 k d ⌈q / tile⌉ + q, without a mask.

    With `outer="keys"` (FlashAttention, 2022) a tile of K and V stays, and the queries come by
    with what they have so far: Q is read, and O and two statistics are written, for each tile of
    keys; O and the statistics are read again for each but the first.

    Tiles in which the causal mask hides everything are neither read nor written.
    """
    _check(queries, keys, head_dim)
    grid = tile_grid(queries, keys, query_tile, key_tile, causal=causal)
    seen = [[tile for tile in row if tile.sees != "none"] for row in grid]
    tiles = [tile for row in seen for tile in row]
    if outer == "queries":
        return Moved(
            queries=queries * head_dim,
            keys_values=2 * head_dim * sum(len(tile.keys) for tile in tiles),
            matrix=0,
            output=queries * head_dim,
            statistics=queries,
        )
    visits = sum(len(tile.queries) for tile in tiles)
    crossings = 2 * visits - queries  # written on each visit, read on each but the first
    return Moved(
        queries=visits * head_dim,
        keys_values=2 * keys * head_dim,
        matrix=0,
        output=crossings * head_dim,
        statistics=2 * crossings,
    )


def largest_tile(elements: int, head_dim: int) -> int:
    """The largest tile, of as many queries as keys, for which a chip's memory has room.

    Q, K, V and O tiles, the scores between them, and maximum and denominator of each query:

        4 t d + t² + 2 t ≤ elements

    98,304 elements (192 KiB of 2 bytes) and heads of 64: 210. ValueError if not even a tile of 1
    has room.
    """
    _check(1, 1, head_dim)
    tile = 0
    while 4 * (tile + 1) * head_dim + (tile + 1) ** 2 + 2 * (tile + 1) <= elements:
        tile += 1
    if tile == 0:
        raise ValueError(
            f"a tile of 1 with heads of {head_dim} takes {4 * head_dim + 3} elements, and the chip "
            f"has room for {elements}"
        )
    return tile


def bytes_moved(moved: Moved, *, heads: int, bytes_each: int = 2) -> int:
    """Bytes for `heads` heads (times sequences) with `bytes_each` bytes an element."""
    return moved.total * heads * bytes_each


def computed_pairs(
    queries: int, keys: int, *, query_tile: int, key_tile: int, causal: bool = True
) -> int:
    """Query-key pairs that tiles compute: of a tile that the mask cuts, all of them.

    4,096 tokens, tiles of 128, causal: 8,650,752, of which 8,390,656 are needed.
    """
    grid = tile_grid(queries, keys, query_tile, key_tile, causal=causal)
    return sum(
        len(tile.queries) * len(tile.keys) for row in grid for tile in row if tile.sees != "none"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A number that somebody printed, and where."""

    what: str
    values: Mapping[str, float]
    source: str


_LEFT = "Dao et al. 2022, Figure 2 left; forward and backward together, passes not itemised"
BOTH_WAYS = Cited(
    what="1,024 tokens, 16 heads of 64, 64 sequences, A100: GB read and written",
    values={"standard": 40.3, "FlashAttention": 4.4},
    source=_LEFT,
)
BOTH_WAYS_WORK = Cited(
    what="the same: GFLOP; of use as a ratio only, since 64 sequences need more than that",
    values={"standard": 66.6, "FlashAttention": 75.2},
    source=_LEFT,
)
FORWARD_BY_BLOCK = Cited(
    what="the same, forward only, by keys in a block: GB read and written",
    values={"64": 6.6, "128": 3.4, "256": 1.7, "512": 0.9},
    source="Dao et al. 2022, Figure 2 middle; read off the plot, so within about 0.1",
)


def _check(queries: int, keys: int, head_dim: int) -> None:
    for name, count in (("queries", queries), ("keys", keys), ("head_dim", head_dim)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
