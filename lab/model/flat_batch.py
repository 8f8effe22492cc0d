"""One step's tokens of all sequences in one row, and how their queries read the cache.

Everything that the layers of a step share is made here once: positions, slots, block tables as
tensors. Decodes read the cache by one kernel, chunks by another, so a batch is fastest when its
spans are sorted; its answers do not depend on the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

from torch import Tensor

from kernels import Context
from lab.model.kv_tensors import KVTensors

# T token of the step, R row whose logits are asked for


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


class Read(NamedTuple):
    """Neighbours that read the cache by one call of attention: all decodes, or all chunks."""

    rows: slice
    """Where their queries lie."""
    context: Context


@dataclass(frozen=True, slots=True)
class FlatBatch:
    """The tokens of a step, span by span."""

    positions_T: Tensor
    slots_T: Tensor
    reads: tuple[Read, ...]
    asked_R: Tensor
    """The rows whose logits are wanted, in order."""
    asked_reads: tuple[Read, ...]
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
            reads=tuple(_reads(spans, kv)),
            asked_R=kv.index(asked),
            asked_reads=tuple(_reads(tails, kv)),
        )


def _slots(span: Span, block_tokens: int) -> Iterator[int]:
    """Where the keys and values of the new tokens go."""
    for position in range(span.start, span.stop):
        block, place = divmod(position, block_tokens)
        yield span.table[block] * block_tokens + place


def _reads(spans: Sequence[Span], kv: KVTensors) -> Iterator[Read]:
    row = 0
    for _, alike in groupby(spans, key=lambda span: span.tokens == 1):
        tables, queries, lengths = zip(
            *((span.table, span.tokens, span.stop) for span in alike), strict=True
        )
        rows = slice(row, row + sum(queries))
        row = rows.stop
        yield Read(rows, Context.of(tables, queries, lengths, kv.layers[0]))
