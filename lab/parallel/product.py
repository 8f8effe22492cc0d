"""Y = X W with W cut by columns or by rows: what each rank computes, and how it becomes Y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from lab.ledgers.sizes import Number
from lab.parallel.mesh import share

Vector = tuple[Number, ...]


class SplitProduct(NamedTuple):
    """The result of each rank, and what the ranks make of it together."""

    parts: tuple[Vector, ...]
    whole: Vector

    @property
    def concatenated(self) -> Vector:
        """The results of all ranks one behind the other: Y for columns, and wrong for rows."""
        return tuple(number for part in self.parts for number in part)


def split_product(
    x: Sequence[Number],
    w: Sequence[Sequence[Number]],
    ranks: int,
    by: Literal["columns", "rows"],
) -> SplitProduct:
    """One row X times W, cut among ranks; W is a list of rows, one for each number of X.

        columns   every rank has all of X and some columns; an all-gather puts the results together
        rows      every rank has some of X and their rows; an all-reduce adds the results up

    X = (1, 2), W = (1 2 3 4 / 5 6 7 8), 2 ranks: by columns (11, 14) and (17, 20), by rows
    (1, 2, 3, 4) and (10, 12, 14, 16); both make (11, 14, 17, 20). The order of the additions is
    that of one rank for columns and another for rows, so floats may differ in their last digits.
    ValueError for an uneven W, for one that X does not fit, for another cut, and for less than 1
    rank.
    """
    if by not in ("columns", "rows"):
        raise ValueError(f"W is cut by columns or by rows, got {by!r}")
    widths = {len(row) for row in w}
    if len(widths) != 1 or len(w) != len(x):
        raise ValueError(
            f"W must have a row for each of {len(x)} numbers of X, all equally long, got "
            f"{len(w)} rows of {sorted(widths)}"
        )
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, got {ranks}")
    (width,) = widths
    every = range(len(x))
    if by == "columns":
        parts = tuple(_product(x, w, every, share(width, ranks, rank)) for rank in range(ranks))
        return SplitProduct(parts, tuple(number for part in parts for number in part))
    cut = (share(len(x), ranks, rank) for rank in range(ranks))
    parts = tuple(_product(x, w, rows, range(width)) for rows in cut)
    return SplitProduct(parts, tuple(sum(column) for column in zip(*parts, strict=True)))


def _product(
    x: Sequence[Number], w: Sequence[Sequence[Number]], rows: range, columns: range
) -> Vector:
    return tuple(sum(x[row] * w[row][column] for row in rows) for column in columns)
