"""What need not be computed again: beginnings that two prompts share, prompt tokens from the cache,
blocks that moved instead, and what a stranger learns from a hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.ledgers.latency import exact_ratio
from lab.ledgers.memory import kv_bytes_per_token
from lab.ledgers.sizes import ModelSize, Number
from lab.ledgers.table import Shown, Table
from lab.request import Time
from lab.trace import Trace

HIT_RATE = "hit rate (%)"
"""The column in which a table has it."""


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
        columns = ("prompt tokens", "from the cache", HIT_RATE, "evicted", "copied", "out", "in")
        row = (
            *(self.prompt_tokens, self.cached_tokens, in_percent(self.hit_rate), self.evictions),
            *(self.copies, self.blocks_out, self.blocks_in),
        )
        return Table(columns, (row,), "tokens, then blocks")


def in_percent(rate: Time | None) -> float | None:
    """A rate for a table: 2/3 is 66.7 %; None stays None."""
    return None if rate is None else round(100 * float(rate), 1)


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SharedPrefix(Shown):
    """How far a prompt begins like another one, and what of it need not be computed."""

    prompt_tokens: int
    """Of the prompt that comes second."""
    positions: int
    """From position 0 on, as long as the ids agree."""
    block_tokens: int

    @property
    def blocks(self) -> int:
        """Blocks that can be taken: full ones only, and never the last token of the prompt, whose
        logits are needed. min(positions, prompt − 1) ÷ block size, rounded down."""
        return min(self.positions, self.prompt_tokens - 1) // self.block_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens in these blocks."""
        return self.blocks * self.block_tokens

    @property
    def computed_tokens(self) -> int:
        """Tokens of the prompt that must be computed all the same."""
        return self.prompt_tokens - self.cached_tokens

    def table(self) -> Table:
        columns = ("shared", "taken", "computed")
        row = (self.positions, self.cached_tokens, self.computed_tokens)
        return Table(columns, (row,), "tokens of the second prompt; only full blocks are taken")


def shared_prefix(
    first: Sequence[object], second: Sequence[object], *, block_tokens: int = 1
) -> SharedPrefix:
    """The longest common prefix of two prompts' token ids, and what the second need not compute if
    K and V of the first are there.

    [10, 11, 12, 13] and [10, 11, 12, 14] share 3 positions: 1 is left to compute, or with blocks of
    2 tokens 2 are. Two equal prompts of 4 tokens share all 4 positions, and 1 is computed.
    ValueError if block_tokens < 1 or a prompt is empty.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens must be at least 1, got {block_tokens}")
    if not (first and second):
        raise ValueError(
            f"a prompt must hold at least 1 token, got {len(first)} and {len(second)} tokens"
        )
    positions = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        positions += 1
    return SharedPrefix(prompt_tokens=len(second), positions=positions, block_tokens=block_tokens)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Probing(Shown):
    """How many guesses find out a text of `blocks` blocks, of each of which `candidates` are
    thinkable and equally likely."""

    blocks: int
    candidates: int

    @property
    def worst(self) -> int:
        """Where each hit tells one block: blocks x candidates."""
        return self.blocks * self.candidates

    @property
    def mean(self) -> Fraction:
        """Of a block, (candidates + 1) / 2 on average: the right one is anywhere in the list."""
        return self.blocks * Fraction(self.candidates + 1, 2)

    @property
    def whole(self) -> int:
        """If only the whole text could be guessed at once: candidates ^ blocks."""
        return int(self.candidates**self.blocks)

    def table(self) -> Table:
        columns = ("blocks", "candidates", "worst", "mean", "all at once")
        row = (self.blocks, self.candidates, self.worst, float(self.mean), self.whole)
        return Table(columns, (row,), "guesses")


def probing(blocks: int, candidates: int) -> Probing:
    """Guesses for a text whose blocks are guessed one after the other, since each hit tells that
    everything up to there is right.

    Three blocks with 10 candidates each: 30 at worst, 16.5 on average, and 1,000 if the text had to
    be guessed as a whole. ValueError if one of the two is below 1.
    """
    for name, count in (("blocks", blocks), ("candidates", candidates)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    return Probing(blocks=blocks, candidates=candidates)
