"""How long work must take at least, from operations done and bytes moved. Pure functions.

Left out everywhere: activations, norms, softmax, sampling, kernel launches, communication,
scheduling gaps. They only add time. Rates are peaks unless the caller gives effective ones. A
measured time below `low_s` means wrong sizes, a wrong measurement, or data held in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from lab.ledgers.compute import flops, layer_macs, logits_macs
from lab.ledgers.memory import kv_bytes_per_token
from lab.ledgers.sizes import Device, ModelSize, Number

Limit: TypeAlias = Literal["compute", "bandwidth", "both"]


class Bounds(NamedTuple):
    """A time between perfect overlap and no overlap: never more than a factor 2 apart.

    As formulas:

        low_s = max(compute_s, memory_s)      high_s = compute_s + memory_s
    """

    compute_s: Number
    memory_s: Number

    @property
    def low_s(self) -> Number:
        """The bound from below: computing and moving overlap fully."""
        return max(self.compute_s, self.memory_s)

    @property
    def high_s(self) -> Number:
        """The sum: nothing overlaps. An upper bound of this model, not of a real machine."""
        return self.compute_s + self.memory_s

    @property
    def limit(self) -> Limit:
        """Which of the two takes longer: "compute", "bandwidth", or "both" when they tie."""
        return _longer(self.compute_s, self.memory_s)


def arithmetic_intensity(operations: Number, bytes_moved: Number) -> Number:
    """Operations per byte moved from memory: operations / bytes_moved, in FLOP/byte.

    2 x 10^12 FLOP over 20 GB: 100 FLOP/byte. Count FLOPs, not MACs, to compare with a `ridge`.
    """
    return _ratio("bytes_moved", operations, bytes_moved)


def ridge(flops_per_s: Number, bytes_per_s: Number) -> Number:
    """Intensity at which both ceilings meet: flops_per_s / bytes_per_s, in FLOP/byte.

    400 TFLOP/s and 1 TB/s: 400 FLOP/byte. ValueError for a bandwidth that is not above 0.
    """
    return _ratio("bytes_per_s", flops_per_s, bytes_per_s)


def limiting_resource(intensity: Number, ridge: Number) -> Limit:
    """Verdict of the roofline: "bandwidth" below the ridge, "compute" above, "both" on it.

    100 FLOP/byte on a machine with its ridge at 400: "bandwidth".
    """
    return _longer(intensity, ridge)


def bounds(
    operations: Number, bytes_moved: Number, *, flops_per_s: Number, bytes_per_s: Number
) -> Bounds:
    """Bounds in seconds of work that does `operations` FLOP and moves `bytes_moved` bytes.

        compute_s = F / C      memory_s = R / B      low_s = max      high_s = sum

    F = 2 x 10^12 at C = 400 TFLOP/s: 1/200 s; R = 20 GB at B = 1 TB/s: 1/50 s; so between 20
    and 25 ms. Exact for int and Fraction. ValueError for negative work or a rate not above 0.
    """
    for name, amount in (("operations", operations), ("bytes_moved", bytes_moved)):
        if amount < 0:
            raise ValueError(f"{name} must be at least 0, got {amount}")
    return Bounds(
        compute_s=_ratio("flops_per_s", operations, flops_per_s),
        memory_s=_ratio("bytes_per_s", bytes_moved, bytes_per_s),
    )


class StepWork(NamedTuple):
    """What one engine step does and moves."""

    operations: int
    bytes_moved: Number


def step_work(
    model: ModelSize,
    *,
    prefill_tokens: int,
    decode_sequences: int,
    context_tokens: int,
    attention_pairs: int,
    sampled_tokens: int | None = None,
    weight_bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
) -> StepWork:
    """FLOPs and bytes of one engine step, whose tokens share one flat batch of linear layers.

    `prefill_tokens` prompt tokens and `decode_sequences` single tokens are computed. Attention
    reads `context_tokens` cached positions, summed over all chunks, and works on
    `attention_pairs` query-key pairs. `sampled_tokens` positions get logits: by default those of
    the decoding sequences, so add one for each prompt that ends in this step.

        tokens     = prefill_tokens + decode_sequences
        operations = 2 x (tokens x layer matrices + 2 x layers x heads x head_dim x pairs
                          + sampled x hidden x vocab)
        bytes      = weights of all layers, once + output matrix, once, if anything is sampled
                     + tokens x (one embedding row + K and V written) + context x K and V read

    Llama-3-8B, 8 sequences of 1,024 cached tokens each: 16,084,705,280 bytes.
    Left out: see the top of this module; K and V of a chunk itself are taken to stay on the chip.
    ValueError for a step without tokens or for a negative count.
    """
    sampled = decode_sequences if sampled_tokens is None else sampled_tokens
    tokens = prefill_tokens + decode_sequences
    counts = {"prefill_tokens": prefill_tokens, "decode_sequences": decode_sequences}
    counts |= {"context_tokens": context_tokens, "attention_pairs": attention_pairs}
    for name, count in (counts | {"sampled_tokens": sampled}).items():
        if count < 0:
            raise ValueError(f"{name} must be at least 0, got {count}")
    if tokens < 1:
        raise ValueError("a step must compute at least 1 token, got 0 prefill and 0 decode tokens")
    layer = layer_macs(model, tokens=tokens, pairs=attention_pairs)
    macs = model.layers * layer.total + logits_macs(model, sampled)
    weights = _layer_weights(model) + (model.embedding_parameters if sampled else 0)
    kv = kv_bytes_per_token(model, bytes_per_element=kv_bytes_per_element)
    return StepWork(
        operations=flops(macs),
        bytes_moved=(weights + tokens * model.hidden) * weight_bytes_per_element
        + (tokens + context_tokens) * kv,
    )


def step_bounds(
    model: ModelSize,
    device: Device,
    *,
    prefill_tokens: int,
    decode_sequences: int,
    context_tokens: int,
    attention_pairs: int,
    sampled_tokens: int | None = None,
    dtype: str = "bf16",
    weight_bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
) -> Bounds:
    """Bounds in seconds of one engine step: the `step_work` at the peak rates of `device`.

    Llama-3-8B on an H100, 8 sequences of 1,024 cached tokens each: 4.80 ms to move, 0.13 ms to
    compute, so between 4.80 and 4.93 ms. Exact fractions where sizes and rates are exact. A
    simulation that asks very often prepares a `RooflineModel` instead.
    """
    work = step_work(
        model,
        prefill_tokens=prefill_tokens,
        decode_sequences=decode_sequences,
        context_tokens=context_tokens,
        attention_pairs=attention_pairs,
        sampled_tokens=sampled_tokens,
        weight_bytes_per_element=weight_bytes_per_element,
        kv_bytes_per_element=kv_bytes_per_element,
    )
    return bounds(
        work.operations,
        work.bytes_moved,
        flops_per_s=device.peak_flops_per_s(dtype),
        bytes_per_s=device.memory_bytes_per_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineModel:
    """`step_bounds` with everything divided out beforehand: seven prices, one short sum a step.

    `RooflineModel.of(model, device)` derives the prices from sizes and peak rates; prices fitted
    to a machine can be given directly. All are seconds, as floats.
    """

    compute_s_per_token: float
    compute_s_per_pair: float
    compute_s_per_sample: float
    memory_s_per_step: float
    """The weights of all layers, read once."""
    memory_s_for_logits: float
    """The output matrix, read once if anything is sampled."""
    memory_s_per_token: float
    memory_s_per_context_token: float

    @classmethod
    def of(
        cls,
        model: ModelSize,
        device: Device,
        *,
        dtype: str = "bf16",
        weight_bytes_per_element: Number = 2,
        kv_bytes_per_element: Number = 2,
    ) -> RooflineModel:
        """The prices of `model` on `device`, from its peak rates."""
        flops_per_s = device.peak_flops_per_s(dtype)
        token = layer_macs(model, tokens=1, pairs=0).total
        pair = layer_macs(model, tokens=0, pairs=1).total
        weight_s = weight_bytes_per_element / device.memory_bytes_per_s
        kv_s = float(
            kv_bytes_per_token(model, bytes_per_element=kv_bytes_per_element)
            / device.memory_bytes_per_s
        )
        return cls(
            compute_s_per_token=float(flops(model.layers * token) / flops_per_s),
            compute_s_per_pair=float(flops(model.layers * pair) / flops_per_s),
            compute_s_per_sample=float(flops(logits_macs(model)) / flops_per_s),
            memory_s_per_step=float(_layer_weights(model) * weight_s),
            memory_s_for_logits=float(model.embedding_parameters * weight_s),
            memory_s_per_token=float(model.hidden * weight_s) + kv_s,
            memory_s_per_context_token=kv_s,
        )

    def step(
        self, tokens: int, context_tokens: int, attention_pairs: int, sampled_tokens: int
    ) -> Bounds:
        """The bounds of one step, in floats; `tokens` = prefill tokens + decode sequences.

        The other numbers mean what they mean in `step_work`, and the left-outs are the same. A
        step without tokens is a ValueError; other counts are not checked, because this is called
        hundreds of thousands of times.
        """
        if tokens < 1:
            raise ValueError(f"a step must compute at least 1 token, got {tokens}")
        memory_s = (
            self.memory_s_per_step
            + tokens * self.memory_s_per_token
            + context_tokens * self.memory_s_per_context_token
        )
        if sampled_tokens:
            memory_s += self.memory_s_for_logits
        return Bounds(
            tokens * self.compute_s_per_token
            + attention_pairs * self.compute_s_per_pair
            + sampled_tokens * self.compute_s_per_sample,
            memory_s,
        )


def _layer_weights(model: ModelSize) -> int:
    return model.layers * model.layer_matrix_parameters + model.norm_parameters


def _longer(compute: Number, memory: Number) -> Limit:
    if compute == memory:
        return "both"
    return "compute" if compute > memory else "bandwidth"


def _ratio(divisor: str, numerator: Number, denominator: Number) -> Number:
    """The exact quotient of exact numbers; `divisor` names the denominator in the error."""
    if not denominator > 0:
        raise ValueError(f"{divisor} must be above 0, got {denominator}")
    if isinstance(numerator, float) or isinstance(denominator, float):
        return numerator / denominator
    return Fraction(numerator) / denominator
