"""What it costs to come back after a preemption: to move K and V out and in, or compute again."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from lab.ledgers.compute import attention_pairs
from lab.ledgers.latency import exact_ratio
from lab.ledgers.reuse import block_bytes
from lab.ledgers.roofline import Bounds, step_bounds
from lab.ledgers.sizes import GB, MILLISECONDS, Device, MiB, ModelSize, Number
from lab.ledgers.table import Shown, Table, show
from lab.ledgers.words import grouped


@dataclass(frozen=True, slots=True, repr=False)
class ComingBack(Shown):
    """The two prices of one preemption. Nothing overlaps with a swap, and nobody else is served
    meanwhile: that makes both prices the whole delay of everybody in the batch."""

    tokens: int
    """Positions that were computed when the request had to leave."""
    moved_bytes: Number
    """K and V in its blocks. They cross the link twice."""
    recompute_s: Number
    """How much longer a step takes that computes those positions again, if its arithmetic and its
    reading overlap perfectly."""
    recompute_high_s: Number
    """The same if nothing in a step overlaps; a measured price is both."""
    link_bytes_per_s: Number

    @property
    def swap_s(self) -> Number:
        """Out and in again: 2 x moved bytes / bandwidth of the link."""
        return exact_ratio(2 * self.moved_bytes, self.link_bytes_per_s)

    @property
    def break_even_bytes_per_s(self) -> Number:
        """The bandwidth at which both take equally long: 2 x moved bytes / time to recompute."""
        return exact_ratio(2 * self.moved_bytes, self.recompute_s)

    @property
    def break_even_high_bytes_per_s(self) -> Number:
        """The same for the high price: with a slower link it is always cheaper to recompute."""
        return exact_ratio(2 * self.moved_bytes, self.recompute_high_s)

    @property
    def cheaper(self) -> Literal["swap", "recompute", "both", "depends"]:
        """Which way costs less time: "both" where they tie, "depends" where a swap costs more than
        one price of computing again and not more than the other."""
        low, high = sorted((self.recompute_s, self.recompute_high_s))
        if low == self.swap_s == high:
            return "both"
        if low <= self.swap_s <= high:
            return "depends"
        return "swap" if self.swap_s < low else "recompute"

    def table(self) -> Table:
        """The account as one row, in MiB, milliseconds and GB/s. A price is told from low to high;
        a low one of less than a thousandth of the high one is about 0 and has no break-even."""
        columns = ("positions", "MiB", "swap ms", "recompute ms", "break-even GB/s", "cheaper")
        low, high = (
            float(price * MILLISECONDS) for price in (self.recompute_s, self.recompute_high_s)
        )
        slow, fast = (
            float(rate / GB)
            for rate in (self.break_even_high_bytes_per_s, self.break_even_bytes_per_s)
        )
        nothing = low < high / 1000
        row = (
            grouped(self.tokens),
            exact_ratio(self.moved_bytes, MiB),
            float(self.swap_s * MILLISECONDS),
            f"about 0 to {show(high)}" if nothing else _range(low, high),
            f"{show(slow)} or more" if nothing else _range(slow, fast),
            self.cheaper,
        )
        link = f"over a link of {float(self.link_bytes_per_s / GB):.4g} GB/s, one way at a time"
        return Table(columns, (row,), link)


def _range(low: float, high: float) -> str:
    """Two bounds, or the one value where they are told alike."""
    one, other = show(low), show(high)
    return one if one == other else f"{one} to {other}"


def coming_back(
    tokens: int,
    moved_bytes: Number,
    *,
    recompute_s: Number,
    recompute_high_s: Number | None = None,
    link_bytes_per_s: Number,
) -> ComingBack:
    """The account of a preemption whose sizes and times are known, for example measured; then
    `recompute_s` is the only price of computing again.

    400 positions in 1 MB of blocks, 20 ms to compute again: a link of 100 MB/s takes as long, since
    10^6 bytes cross it twice. ValueError for a count, a size or a rate that is not above 0.
    """
    high = recompute_s if recompute_high_s is None else recompute_high_s
    given = {"tokens": tokens, "moved_bytes": moved_bytes, "recompute_s": recompute_s}
    given |= {"recompute_high_s": high, "link_bytes_per_s": link_bytes_per_s}
    for name, value in given.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    return ComingBack(tokens, moved_bytes, recompute_s, high, link_bytes_per_s)


def swap_or_recompute(
    model: ModelSize,
    device: Device,
    tokens: int,
    *,
    link_bytes_per_s: Number,
    block_tokens: int = 16,
    decodes: int = 0,
    context_tokens: int = 0,
    dtype: str = "bf16",
) -> ComingBack:
    """Move the blocks of `tokens` positions out and in, or compute the positions again.

        swap       2 x ceil(tokens / block_tokens) x bytes of a block / bandwidth of the link
        recompute  step that computes tokens + 1 positions - step that decodes 1 behind them

    Both steps are the roofline bounds of `device` and hold `decodes` sequences of others with
    `context_tokens` in their caches. In the low bound arithmetic and reading overlap perfectly: a
    step reads the weights anyway, and the first positions computed meanwhile cost nothing. In the
    high bound nothing overlaps, and each position has its price. A device lies between.

    Llama-3-8B on an H100, 4,096 positions, nobody beside: 57.6 to 62.2 ms to compute again; 512 MiB
    in blocks, which a link of 64 GB/s moves out and in within 16.8 ms, and one of 10 GB/s within
    107. Of 256 positions the swap takes 1.05 ms, and computing again from nothing to 3.63.
    ValueError for less than 1 token, and for what `step_bounds` refuses.
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}")
    blocks = -(-tokens // block_tokens)

    def step(prefill: int, decoding: int, context: int, pairs: int) -> Bounds:
        return step_bounds(
            model,
            device,
            prefill_tokens=prefill,
            decode_sequences=decodes + decoding,
            context_tokens=context_tokens + context,
            attention_pairs=context_tokens + decodes + pairs,
            sampled_tokens=decodes + 1,
            dtype=dtype,
        )

    again = step(tokens + 1, 0, 0, attention_pairs(tokens + 1))
    going_on = step(0, 1, tokens, tokens + 1)
    return coming_back(
        tokens,
        Fraction(blocks * block_bytes(model, block_tokens=block_tokens)),
        recompute_s=again.low_s - going_on.low_s,
        recompute_high_s=again.high_s - going_on.high_s,
        link_bytes_per_s=link_bytes_per_s,
    )
