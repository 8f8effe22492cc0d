"""One step's tokens of all sequences in one row, and how their queries read the cache.

Everything that the layers of a step share is made here once: positions, slots, block tables as
tensors, masks. Neighbours with as many new tokens and about as long a past are read together, as a
group: padded to the longest of them, in one call of attention. So a batch is fastest when its spans
are sorted, which `sorted` does by itself; its answers do not depend on the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from lab.model.kv_tensors import KVTensors

# T token of the step, S sequence of a group, N block of a table, Q new token of a sequence,
# G query heads of a KV head, L position that a group reads, R row whose logits are asked for

PADDED = 1.25  # a group reads at most so many times the blocks that its sequences have


class Span(NamedTuple):
    """The new tokens of one sequence: `tokens` of them, the last at position stop - 1.

    A whole prompt, a chunk of one, a decode (1 token) and a draft check differ in these numbers.
    """

    tokens: int
    stop: int
    table: Sequence[int]
    """The blocks of the sequence in the order of its positions, at least up to the last one."""
    asked: int = 1
    """For how many of the last tokens logits are wanted: 0 for a chunk that does not reach the
    end of its prompt, 1, the drafts and 1 more, or all."""

    @property
    def start(self) -> int:
        """The position of the first new token: so many tokens were computed before."""
        return self.stop - self.tokens

    def check(self, block_tokens: int) -> None:
        """ValueError, with both numbers, if the span cannot be computed."""
        if not 1 <= self.tokens <= self.stop:
            raise ValueError(f"a span has 1 to stop = {self.stop} tokens, got {self.tokens}")
        if not 0 <= self.asked <= self.tokens:
            raise ValueError(f"asked must be in [0, {self.tokens}], got {self.asked}")
        if len(self.table) * block_tokens < self.stop:
            raise ValueError(
                f"a span up to position {self.stop} needs {-(-self.stop // block_tokens)} blocks, "
                f"and its table has {len(self.table)}"
            )


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that read the cache together, each with as many queries."""

    rows: slice
    """Where their queries lie, sequence by sequence."""
    tables_SN: Tensor
    mask_SQL: Tensor
    """0 where a query may look, minus infinity where it may not."""


@dataclass(frozen=True, slots=True)
class FlatBatch:
    """The tokens of a step, span by span."""

    positions_T: Tensor
    slots_T: Tensor
    groups: tuple[Group, ...]
    asked_R: Tensor
    """The rows whose logits are wanted, in order."""
    asked_groups: tuple[Group, ...]
    """How those rows alone read the cache: the last layer goes on with no others."""

    @classmethod
    def of(cls, spans: Sequence[Span], kv: KVTensors) -> FlatBatch:
        """The batch of these spans over the blocks of `kv`.

        ValueError, with the numbers, for a step without tokens, and for a span without tokens,
        with more asked logits than tokens, or with a table that ends before its last token.
        """
        if not spans:
            raise ValueError("a step computes at least 1 token, got no spans")
        for span in spans:
            span.check(kv.block_tokens)
        ends = accumulate(span.tokens for span in spans)
        tails = [span._replace(tokens=span.asked) for span in spans if span.asked]
        positions = [p for span in spans for p in range(span.start, span.stop)]
        slots = [slot for span in spans for slot in _slots(span, kv.block_tokens)]
        asked = [
            row
            for span, end in zip(spans, ends, strict=True)
            for row in range(end - span.asked, end)
        ]
        return cls(
            positions_T=kv.index(positions),
            slots_T=kv.index(slots),
            groups=tuple(_groups(spans, kv)),
            asked_R=kv.index(asked),
            asked_groups=tuple(_groups(tails, kv)),
        )


def _slots(span: Span, block_tokens: int) -> Iterator[int]:
    """Where the keys and values of the new tokens go."""
    for position in range(span.start, span.stop):
        block, place = divmod(position, block_tokens)
        yield span.table[block] * block_tokens + place


def _groups(spans: Sequence[Span], kv: KVTensors) -> Iterator[Group]:
    row = 0
    for alike in _runs(spans, kv.block_tokens):
        rows = slice(row, row + sum(span.tokens for span in alike))
        row = rows.stop
        yield _group(rows, alike, kv)


def _runs(spans: Sequence[Span], block_tokens: int) -> Iterator[list[Span]]:
    """Neighbours with equal numbers of tokens, as long as padding them costs little."""
    run: list[Span] = []
    held = longest = 0
    for span in spans:
        blocks = -(-span.stop // block_tokens)
        widest = max(longest, blocks)
        fits = widest * (len(run) + 1) <= PADDED * (held + blocks)
        if run and not (fits and span.tokens == run[0].tokens):
            yield run
            run, held, widest = [], 0, blocks
        run.append(span)
        held, longest = held + blocks, widest
    if run:
        yield run


def _group(rows: slice, spans: list[Span], kv: KVTensors) -> Group:
    blocks = max(-(-span.stop // kv.block_tokens) for span in spans)
    tables = [[*span.table[:blocks], *[0] * (blocks - len(span.table))] for span in spans]
    starts_S, queries_Q = kv.index(span.start for span in spans), kv.index(range(spans[0].tokens))
    sees_SQ1 = (starts_S[:, None] + queries_Q)[:, :, None]
    hidden_SQL = kv.index(range(blocks * kv.block_tokens)) > sees_SQ1
    mask_SQL = torch.zeros(hidden_SQL.shape, dtype=kv.dtype, device=hidden_SQL.device)
    return Group(rows, kv.index(tables), mask_SQL.masked_fill_(hidden_SQL, float("-inf")))
