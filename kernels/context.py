"""Where the K and V lie that the queries of a step look at: blocks of a cache, through tables.

Made once a step and read by every layer. The Triton kernels follow the tables themselves. torch
gathers blocks first, so it takes neighbours together that look at about equally many: `groups`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional as F

# T query, S sequence, Z sequence and one more, N block of a table, B slot of a block, L position
# that is read, H query head, K KV head, G query head of a KV head, E element of a head

PADDED = 1.25  # a group reads at most so many times the blocks that its sequences have
WIDEST_HEAD = 256


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours with equally many queries, padded to the longest, for one call of torch."""

    rows: slice
    """Where their queries lie, sequence by sequence."""
    tables_SN: Tensor
    mask_SQL: Tensor
    """0 where a query may look, minus infinity where it may not."""


@dataclass(frozen=True, eq=False)
class Context:
    """S sequences whose queries stand in one row, and what each may look at.

    Sequence s has `queries[s]` of them and sees its first `lengths[s]` positions; when causal, its
    last query sees them all, the one before sees one less. A chunk of a prefill, a decode and a
    draft check differ in these numbers.
    """

    queries: tuple[int, ...]
    lengths: tuple[int, ...]
    tables_SN: Tensor
    """The blocks of each sequence in the order of its positions."""
    lengths_S: Tensor
    starts_Z: Tensor
    """The first query of each sequence, and behind the last one their number."""
    causal: bool
    block_tokens: int
    dtype: torch.dtype

    @classmethod
    def of(
        cls,
        tables: Sequence[Sequence[int]],
        queries: Sequence[int],
        lengths: Sequence[int],
        cache_NB2KE: Tensor,
        *,
        causal: bool = True,
    ) -> Context:
        """For a cache of one layer; its format and device are those of the queries as well.

        ValueError, with the numbers, if a sequence has more queries than positions or a table
        that ends before its length.
        """
        block_tokens, device = cache_NB2KE.shape[1], cache_NB2KE.device
        counts = [-(-length // block_tokens) for length in lengths]
        for table, asked, length, count in zip(tables, queries, lengths, counts, strict=True):
            if not 0 <= asked <= length:
                raise ValueError(f"a sequence of {length} positions cannot have {asked} queries")
            if len(table) < count:
                raise ValueError(
                    f"{length} positions need {count} blocks, and the table has {len(table)}"
                )
        most = max(counts, default=0)
        padded = [
            [*table[:count], *[0] * (most - count)]
            for table, count in zip(tables, counts, strict=True)
        ]

        def tensor(numbers: object) -> Tensor:
            return torch.tensor(numbers, dtype=torch.int32, device=device)

        return cls(
            queries=tuple(queries),
            lengths=tuple(lengths),
            tables_SN=tensor(padded).view(len(padded), most),
            lengths_S=tensor(lengths),
            starts_Z=tensor([0, *accumulate(queries)]),
            causal=causal,
            block_tokens=block_tokens,
            dtype=cache_NB2KE.dtype,
        )

    @cached_property
    def is_decode(self) -> bool:
        """Whether every sequence has exactly one query."""
        return all(queries == 1 for queries in self.queries)

    @cached_property
    def num_queries(self) -> int:
        """Of all sequences."""
        return sum(self.queries)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Neighbours that torch computes together."""
        return tuple(self._groups())

    def _groups(self) -> Iterator[Group]:
        starts = [0, *accumulate(self.queries)]
        for first, stop in self._runs():
            blocks = -(-max(self.lengths[first:stop]) // self.block_tokens)
            tables_SN = self.tables_SN[first:stop, :blocks].contiguous()
            rows, lengths_S = slice(starts[first], starts[stop]), self.lengths_S[first:stop]
            yield Group(rows, tables_SN, self._mask(self.queries[first], lengths_S, blocks))

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Neighbours [first, stop) with equal numbers of queries, while padding costs little."""
        first = held = longest = 0
        for place, (queries, length) in enumerate(zip(self.queries, self.lengths, strict=True)):
            blocks = -(-length // self.block_tokens)
            held, longest = held + blocks, max(longest, blocks)
            alike = queries == self.queries[first]
            if not (alike and longest * (place - first + 1) <= PADDED * held):
                yield first, place
                first, held, longest = place, blocks, blocks
        if self.queries:
            yield first, len(self.queries)

    def _mask(self, queries: int, lengths_S: Tensor, blocks: int) -> Tensor:
        device = lengths_S.device
        sees_SQ1 = lengths_S[:, None, None].expand(-1, queries, 1)
        if self.causal:
            later_Q = torch.arange(queries - 1, -1, -1, dtype=torch.int32, device=device)
            sees_SQ1 = sees_SQ1 - later_Q[:, None]
        positions_L = torch.arange(blocks * self.block_tokens, dtype=torch.int32, device=device)
        hidden_SQL = positions_L >= sees_SQ1
        mask_SQL = torch.zeros(hidden_SQL.shape, dtype=self.dtype, device=device)
        return mask_SQL.masked_fill_(hidden_SQL, float("-inf"))


def check_attention(
    name: str, q_THE: Tensor, cache_NB2KE: Tensor, context: Context, out_THE: Tensor | None
) -> None:
    """ValueError, with the shapes, if queries, cache and context do not fit each other."""
    q, cache = q_THE.shape, cache_NB2KE.shape
    if len(q) != 3 or len(cache) != 5 or cache[2] != 2 or q[2] != cache[4] or q[1] % cache[3]:
        raise ValueError(
            f"{name} needs q [T, H, E] and a cache [N, B, 2, K, E], H a multiple of K, "
            f"got {list(q)} and {list(cache)}"
        )
    if q[0] != context.num_queries or cache[1] != context.block_tokens:
        raise ValueError(
            f"{name} got {q[0]} queries and blocks of {cache[1]} tokens, and a context of "
            f"{context.num_queries} queries and blocks of {context.block_tokens}"
        )
    if q[2] > WIDEST_HEAD:
        raise ValueError(f"{name} takes heads of up to {WIDEST_HEAD} elements, got {q[2]}")
    if q_THE.dtype != cache_NB2KE.dtype:
        raise ValueError(f"{name} got queries in {q_THE.dtype}, a cache in {cache_NB2KE.dtype}")
    if q_THE.stride()[1:] != (q[2], 1) or not cache_NB2KE.is_contiguous():
        raise ValueError(
            f"{name} needs the heads of a token in one piece and a contiguous cache, "
            f"got strides {q_THE.stride()} and {cache_NB2KE.stride()}"
        )

    if out_THE is not None and (out_THE.shape != q_THE.shape or not out_THE.is_contiguous()):
        raise ValueError(
            f"{name} needs a contiguous out of the shape of q, {list(q)}, got {list(out_THE.shape)}"
        )


def in_powers_of_2(scale: float | None, width: int) -> float:
    """e^(scale x s) = 2^(result x s): the chip has powers of 2. `scale` is 1 / sqrt(width) if not
    given."""
    return (1 / math.sqrt(width) if scale is None else scale) * math.log2(math.e)


def attention_in_torch(
    out_THE: Tensor, q_THE: Tensor, cache_NB2KE: Tensor, context: Context, scale: float | None
) -> None:
    """The torch body of both attentions: for each group, K and V gathered, then torch's own.

    The G query heads of a KV head stand beside each other as if they were G queries, so K and V
    are not repeated.
    """
    blocks_NX, (K, E) = cache_NB2KE.flatten(1), cache_NB2KE.shape[3:]
    G = q_THE.shape[1] // K
    for group in context.groups:
        S, Q, L = group.mask_SQL.shape
        if not Q:
            continue
        gathered = blocks_NX.index_select(0, group.tables_SN.flatten())
        k_SLKE, v_SLKE = gathered.view(S, L, 2, K, E).unbind(2)
        q_SKGQE = q_THE[group.rows].view(S, Q, K, G, E).permute(0, 2, 3, 1, 4)
        mask_S1GQL = group.mask_SQL[:, None, None].expand(S, 1, G if Q > 1 else 1, Q, L)
        a = F.scaled_dot_product_attention(
            q_SKGQE.flatten(2, 3),
            k_SLKE.transpose(1, 2),
            v_SLKE.transpose(1, 2),
            mask_S1GQL.flatten(2, 3),
            scale=scale,
        )
        out_SQKGE = out_THE[group.rows].view(S, Q, K, G, E)
        out_SQKGE.copy_(a.unflatten(2, (G, Q)).permute(0, 3, 1, 2, 4))
