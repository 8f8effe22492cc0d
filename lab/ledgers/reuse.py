"""What was not computed again: prompt tokens from the cache, and blocks that moved instead."""

from __future__ import annotations

from dataclasses import dataclass

from lab.ledgers.latency import exact_ratio
from lab.ledgers.memory import kv_bytes_per_token
from lab.ledgers.sizes import ModelSize, Number
from lab.ledgers.table import Shown, Table
from lab.request import Time
from lab.trace import Trace


@dataclass(frozen=True, slots=True, repr=False)
class Reuse(Shown):
    """Tokens and blocks of a run that were shared, copied, moved or given up."""

    prompt_tokens: int
    """Of all requests that were ever computed, on their first admission. A prompt that several
    answers share counts once."""
    cached_tokens: int
    """Of these, how many were taken from the prefix cache."""
    evictions: int
    copies: int
    """Blocks copied because a sequence wrote into one that others held."""
    blocks_out: int
    """Blocks that moved to host memory."""
    blocks_in: int
    """Blocks that came back from there."""

    @property
    def hit_rate(self) -> Time | None:
        """Cached tokens over prompt tokens; None where nothing was computed.

        Only first admissions count: that a preempted request finds its own blocks again is no hit.
        """
        if not self.prompt_tokens:
            return None
        return exact_ratio(self.cached_tokens, self.prompt_tokens)

    def table(self) -> Table:
        """The account as one row."""
        columns = ("prompt tokens", "from the cache", "hit rate", "evicted", "copied", "out", "in")
        row = (
            *(self.prompt_tokens, self.cached_tokens, self.hit_rate, self.evictions),
            *(self.copies, self.blocks_out, self.blocks_in),
        )
        return Table(columns, (row,), "tokens, then blocks")


def reuse(trace: Trace) -> Reuse:
    """Hits, evictions, copies and moves between device and host memory in a trace.

    Four prompts of 9 tokens in blocks of 4, of which three find 8 tokens: 24 of 36 tokens, so the
    hit rate is 2/3. Raises ValueError for a trace without steps.
    """
    if trace.starts is None:
        raise ValueError("reuse needs steps, and this trace has only deliveries")
    first = [r for r in trace.requests if r.runs and r.runs[0].tokens]
    runs = [run for record in trace.requests for run in record.runs]
    return Reuse(
        prompt_tokens=sum(record.prompt_tokens for record in first),
        cached_tokens=sum(record.runs[0].cached for record in first),
        evictions=len(trace.evictions),
        copies=sum(run.copy is not None for run in runs),
        blocks_out=sum(stay.swapped_out for r in trace.requests for stay in r.stays),
        blocks_in=sum(run.restored for run in runs),
    )


def block_bytes(
    model: ModelSize, *, block_tokens: int = 16, bytes_per_element: Number = 2
) -> Number:
    """Bytes of keys and values in one block, over all layers: block_tokens x bytes of a token.

    A block of 16 tokens of Llama-3-8B in bf16: 16 x 131,072 = 2,097,152 bytes = 2 MiB.
    ValueError if block_tokens < 1.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens must be at least 1, got {block_tokens}")
    return block_tokens * kv_bytes_per_token(model, bytes_per_element=bytes_per_element)
