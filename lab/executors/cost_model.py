"""An executor that computes nothing and only says how long it took: tables and simulations."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from lab.ledgers.compute import attention_pairs
from lab.ledgers.reuse import block_bytes
from lab.ledgers.roofline import RooflineModel
from lab.ledgers.sizes import GB, Device, ModelSize, Number
from lab.ledgers.sizes import device as device_named
from lab.ledgers.sizes import model_size as model_named
from lab.plan import Chunk, StepOutcome, StepPlan
from lab.request import Time
from lab.trace import Unit

PCIE_5_BYTES_PER_S = 64 * GB
"""One way over a PCIe 5.0 link of 16 lanes, the half of the 128 GB/s in NVIDIA's H100 datasheet."""


class StepShape(NamedTuple):
    """What the duration of a step may depend on."""

    prefill_tokens: int = 0
    """Tokens in chunks of more than one token."""
    decode_sequences: int = 0
    """Chunks of one token; in a padded static batch, idle seats too."""
    context_tokens: int = 0
    """Positions read back from the cache, over all chunks: the tokens before each chunk."""
    attention_pairs: int = 0
    """Pairs of a query and a key that it may see, over all chunks."""
    samples: int = 0
    """Sequences that get a token."""

    @property
    def tokens(self) -> int:
        """Tokens that go through the linear layers."""
        return self.prefill_tokens + self.decode_sequences

    def after(self, decodes: int) -> StepShape:
        """The next of equal steps: every decode reads one position more."""
        prefill, sequences, context, pairs, samples = self
        return StepShape(prefill, sequences, context + decodes, pairs + decodes, samples)


NOTHING = StepShape()


def shape_of(plan: StepPlan, *, padded: bool = False) -> StepShape:
    """The shape of the plan's first step. With `padded`, idle seats are decodes too."""
    decodes = len(plan.decodes.members)
    context = plan.decodes.pace + decodes * plan.step
    shape = shape_of_chunks(
        plan.written, StepShape(0, decodes, context, context + decodes, decodes)
    )
    if padded and plan.idle_seats:
        return shape._replace(decode_sequences=shape.decode_sequences + len(plan.idle_seats))
    return shape


def shape_of_chunks(chunks: Iterable[Chunk], beside: StepShape = NOTHING) -> StepShape:
    """The shape of a step of these chunks, `beside` others. A chunk `[start, stop)` has
    stop − start queries, and the query at position p sees p + 1 keys."""
    prefill, decodes, context, pairs, samples = beside
    for chunk in chunks:
        tokens = chunk.num_tokens
        samples += chunk.samples
        if not tokens:  # a fork: only its first token is sampled
            continue
        context += chunk.start
        pairs += attention_pairs(tokens, chunk.start)
        if tokens == 1:
            decodes += 1
        else:
            prefill += tokens
    return StepShape(prefill, decodes, context, pairs, samples)


@dataclass(frozen=True, slots=True)
class CostModel:
    """Says how long a step takes, in `unit`. `duration` is the whole difference between a textbook
    table and a roofline. With `padded`, the idle seats of a static batch cost what decodes do.

    Without `reads_context`, `duration` looks at no context and no pairs: equal steps take equally
    long.

    A step that moves blocks between device and host memory takes longer by `swap_per_block` for
    each of them: nothing overlaps. It is 0 but for a roofline, and `swapping` sets it. A copy on
    the device costs nothing here.
    """

    duration: Callable[[StepShape], Time]
    unit: Unit
    settings: Mapping[str, Any] = field(default_factory=dict)
    padded: bool = False
    reads_context: bool = True
    swap_per_block: Time = 0

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        """Add up the durations of the plan's steps, in the order in which single steps would."""
        shape = shape_of(plan, padded=self.padded)
        duration, growth = self.duration, len(plan.decodes.members)
        took = duration(shape)
        if self.swap_per_block and (moved := plan.swapped_blocks):
            now = now + self.swap_per_block * moved
        last = math.inf if until is None else until
        reads_context = self.reads_context
        ends = []
        for _ in range(plan.repeat):
            now = now + took
            ends.append(now)
            if now >= last:
                break
            if reads_context:
                shape = shape.after(growth)
                took = duration(shape)
        return StepOutcome(tuple(ends))

    def swapping(self, per_block: Time) -> CostModel:
        """The same model, in which a block that moves to host memory or back takes `per_block`, in
        the model's unit."""
        _check_not_negative(per_block=per_block)
        settings = {**self.settings, "swap_per_block": per_block}
        return replace(self, swap_per_block=per_block, settings=settings)

    @classmethod
    def equal_steps(cls, duration: Time = 1, unit: Unit = "step") -> CostModel:
        """Every step takes the same time, whatever is in it."""
        _check_not_negative(duration=duration)
        settings = {"cost": "equal steps", "duration": duration}
        return cls(lambda shape: duration, unit, settings, reads_context=False)

    @classmethod
    def table(
        cls,
        times: Mapping[int, Time],
        by: Literal["tokens", "decode_sequences", "prefill_tokens"] = "tokens",
        unit: Unit = "ms",
        *,
        padded: bool = False,
    ) -> CostModel:
        """Step times that somebody measured or chose, by the size of the step.

        Between two sizes the time is interpolated linearly; below the first it is the first. A
        larger step than the table knows is a ValueError that names both sizes.
        """
        if not times:
            raise ValueError("a table of step times needs at least 1 row, got 0")
        if by not in ("tokens", "decode_sequences", "prefill_tokens"):
            raise ValueError(f"by must be tokens, decode_sequences or prefill_tokens, got {by!r}")
        sizes = sorted(times)
        column = [times[size] for size in sizes]
        _check_not_negative(**{f"the time of a step of {s} {by}": times[s] for s in sizes})

        def duration(shape: StepShape) -> Time:
            size: int = getattr(shape, by)
            if size > sizes[-1]:
                raise ValueError(
                    f"the table of step times ends at {sizes[-1]} {by}, and a step has {size}"
                )
            right = bisect_left(sizes, size)
            if right == 0 or sizes[right] == size:
                return column[right]
            left = right - 1
            share = column[right] - column[left]
            return column[left] + share * (size - sizes[left]) / (sizes[right] - sizes[left])

        settings = {"cost": "table", "by": by, "times": {str(s): times[s] for s in sizes}}
        return cls(duration, unit, settings, padded, reads_context=False)

    @classmethod
    def affine(
        cls,
        a: Time,
        b: Time,
        c: Time,
        d: Time = 0,
        unit: Unit = "s",
        *,
        padded: bool = False,
    ) -> CostModel:
        """a + b · prefill tokens + c · decode sequences + d · context tokens.

        With a = 10 ms, b = 0.05, c = 0.2 and d = 0 a step with a chunk of 200 prompt tokens
        beside 10 decodes takes 10 + 10 + 2 = 22 ms.
        """
        _check_not_negative(a=a, b=b, c=c, d=d)

        def duration(shape: StepShape) -> Time:
            return (
                a + b * shape.prefill_tokens + c * shape.decode_sequences + d * shape.context_tokens
            )

        settings = {"cost": "affine", "a": a, "b": b, "c": c, "d": d}
        return cls(duration, unit, settings, padded, reads_context=d != 0)

    @classmethod
    def roofline(
        cls,
        model: ModelSize | str,
        device: Device | str,
        *,
        dtype: str = "bf16",
        overlap: bool = True,
        padded: bool = False,
        block_tokens: int = 16,
        link_bytes_per_s: Number = PCIE_5_BYTES_PER_S,
    ) -> CostModel:
        """The bound of a model on a device, from their sizes: what no engine can beat.

        With `overlap` a step takes the longer of its time to compute and its time to move bytes;
        without, their sum, which is at most twice as long. Both may be given by name.

        A block of `block_tokens` positions, as large as the policy's, moves to host memory or back
        at `link_bytes_per_s`: one of Llama-3-8B is 2 MiB, which takes 33 us on a PCIe 5 link.
        """
        sizes = model_named(model) if isinstance(model, str) else model
        chip = device_named(device) if isinstance(device, str) else device
        prices = RooflineModel.of(sizes, chip, dtype=dtype)

        def duration(shape: StepShape) -> Time:
            _, _, context, pairs, samples = shape
            bounds = prices.step(shape.tokens, context, pairs, samples)
            return bounds.low_s if overlap else bounds.high_s

        settings: dict[str, Any] = {
            "cost": "roofline",
            "model": sizes.name,
            "device": chip.name,
            "dtype": dtype,
            "overlap": overlap,
        }
        per_block = float(block_bytes(sizes, block_tokens=block_tokens) / link_bytes_per_s)
        settings["swap_block_tokens"] = block_tokens
        return cls(duration, "s", settings, padded).swapping(per_block)


def _check_not_negative(**values: Time) -> None:
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value}")
