"""How many bytes weights, activations and the KV cache take, and what fits on a device.

Left out everywhere: block metadata, alignment, workspace of kernels, buffers for communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from lab.ledgers.latent import CachedModel, cached_model
from lab.ledgers.precision import Precision, precision
from lab.ledgers.sizes import GB, Device, GiB, ModelSize, Number, device
from lab.ledgers.table import Shown, Table
from lab.ledgers.words import grouped

TENTH = Fraction(1, 10)


def kv_bytes(
    *,
    layers: int,
    tokens: int,
    kv_heads: int,
    head_dim: int,
    sequences: int = 1,
    bytes_per_element: Number = 2,
) -> Number:
    """Bytes of keys and values of `sequences` sequences that hold `tokens` tokens each.

        2 (K and V) x layers x sequences x tokens x kv_heads x head_dim x bytes_per_element

    32 layers, 8,192 tokens, 8 KV heads of 128, 2 bytes: 2^30 bytes = 1 GiB. Exact for int and
    Fraction (4-bit elements are Fraction(1, 2)). ValueError for a negative count.
    """
    _at_least_0(
        layers=layers, tokens=tokens, kv_heads=kv_heads, head_dim=head_dim, sequences=sequences
    )
    return 2 * layers * sequences * tokens * kv_heads * head_dim * bytes_per_element


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a cache: what it is, and the factors whose product it is."""

    what: str
    layers: int
    sequences: int
    tokens: int
    """Tokens that a layer holds of a sequence."""
    numbers: int
    """Numbers that a layer keeps of a token; `factors` says how many that is."""
    factors: str
    bytes_each: Fraction

    @property
    def bytes(self) -> Fraction:
        """layers x sequences x tokens x numbers x bytes_each."""
        return self.layers * self.sequences * self.tokens * self.numbers * self.bytes_each


@dataclass(frozen=True, slots=True, repr=False)
class Cache(Shown):
    """What the cache of some sequences weighs, part by part. It can be shown as a table."""

    model: str
    precision: str
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> Fraction:
        """All parts."""
        return sum((part.bytes for part in self.parts), Fraction(0))

    @property
    def gib(self) -> Fraction:
        """The same in GiB of 2^30 bytes."""
        return self.bytes / GiB

    def table(self) -> Table:
        """One row a part, one column a factor; the last row is the sum."""
        columns = ("part", "layers", "requests", "tokens", "of a token", "bytes each")
        rows: list[tuple[object, ...]] = [
            (
                part.what,
                part.layers,
                part.sequences,
                grouped(part.tokens),
                part.factors,
                part.bytes_each,
                f"{_whole(part.bytes):,}",
                float(part.bytes / GiB),
            )
            for part in self.parts
        ]
        if len(rows) > 1:
            rows.append(("sum", *[None] * 5, f"{_whole(self.bytes):,}", float(self.gib)))
        caption = f"KV cache of {self.model} in {self.precision}: a row is a product"
        return Table((*columns, "bytes", "GiB"), tuple(rows), caption)


def kv_cache(
    model: CachedModel | str, tokens: int, *, sequences: int = 1, kept_in: Precision | str = "fp16"
) -> Cache:
    """What the cache of `sequences` sequences of `tokens` tokens weighs, with every term.

    Layers that keep as much of a token stand in one row, those with a window in a row of their
    own: they hold the last tokens only. Scales and zero points of short numbers have rows too.

        kv_cache("llama-3-8b", 8192).bytes                     1,073,741,824 = 1 GiB
        kv_cache("llama-3-8b", 8192, kept_in="int4").bytes     335,544,320 = 5/16 GiB
        kv_cache("deepseek-v3", 1).bytes                       70,272

    ValueError for a negative count, an unknown name, and a group that does not divide what lies
    together, such as the key of one head.
    """
    _at_least_0(tokens=tokens, sequences=sequences)
    size = cached_model(model) if isinstance(model, str) else model
    form = precision(kept_in) if isinstance(kept_in, str) else kept_in
    parts = []
    for group in size.cache:
        if form.group and group.row % form.group:
            raise ValueError(
                f"a group must divide the {group.row} numbers that lie together in {size.name}, "
                f"got {form.group}"
            )
        where = "" if group.window is None else f", window {grouped(group.window)}"
        held = group.tokens_kept(tokens)
        parts += [
            Part(
                f"{group.what if what == 'numbers' else what}{where}",
                group.layers,
                sequences,
                held,
                group.numbers,
                group.factors,
                each,
            )
            for what, each in form.parts
        ]
    return Cache(size.name, form.name, tuple(parts))


def kv_bytes_per_token(model: CachedModel, *, bytes_per_element: Number = 2) -> Number:
    """Bytes that one token leaves in the cache, over all layers.

        2 x layers x kv_heads x head_dim x bytes_per_element

    Llama-3-8B in bf16: 2 x 32 x 8 x 128 x 2 = 131,072 bytes = 128 KiB. A layer with a window
    counts as well: it holds the token until the window has moved on.
    """
    return sum(group.layers * group.numbers for group in model.cache) * bytes_per_element


def weight_bytes(model: CachedModel, *, bytes_per_element: Number = 2) -> Number:
    """Bytes of all weights: parameters x bytes_per_element.

    Llama-3-8B in bf16: 8,030,261,248 x 2 = 16,060,522,496 bytes.
    """
    return model.parameters * bytes_per_element


def activation_bytes(
    model: ModelSize,
    tokens: int,
    *,
    logits_rows: int = 1,
    bytes_per_element: Number = 2,
    bytes_per_logit: Number = 4,
) -> Number:
    """About the most bytes that a step of `tokens` tokens holds at once beside weights and cache.

        layers: tokens x (2 hidden + max(2 (heads + kv_heads) head_dim, 2 ffn)) x bytes
        logits: tokens x hidden x bytes + logits_rows x vocab x bytes_per_logit

    The larger of the two. In a layer live the stream from layer to layer, its normalised copy and
    either queries, keys, values and output of attention, or the two wide vectors of the MLP; layers
    come one after the other, so they take this once. Scores are not written out. After the layers
    live the stream and the logits of those rows that are sampled from.

    Llama-3-8B, 8,192 tokens in bf16: 8,192 x (8,192 + 28,672) x 2 = 603,979,776 bytes = 9/16 GiB.
    Kernels that write in place need no more; one that keeps the product of the two wide vectors
    beside them needs 3 ffn in place of 2: 838,860,800 bytes. ValueError for a negative count.
    """
    _at_least_0(tokens=tokens, logits_rows=logits_rows)
    attention = 2 * (model.heads + model.kv_heads) * model.head_dim
    inside = 2 * model.hidden + max(attention, 2 * model.ffn)
    layers = tokens * inside * bytes_per_element
    logits = tokens * model.hidden * bytes_per_element + logits_rows * model.vocab * bytes_per_logit
    return max(layers, logits)


@dataclass(frozen=True, slots=True, repr=False)
class Room(Shown):
    """What the memory of a device is for: reserve, weights, and the cache beside them.

    Amounts are exact bytes. `left` is what no cache takes yet; below 0 that much is missing.
    """

    device: str
    model: str
    memory: int
    reserve: Fraction
    weights: Fraction
    cache: Fraction
    sequence: Fraction
    """Bytes of the cache of one sequence."""

    @property
    def for_cache(self) -> Fraction:
        """memory - reserve - weights; below 0 where the weights alone do not fit."""
        return self.memory - self.reserve - self.weights

    @property
    def left(self) -> Fraction:
        """for_cache - cache."""
        return self.for_cache - self.cache

    @property
    def sequences(self) -> int:
        """Whole sequences whose cache would fit."""
        return max(0, floor(self.for_cache / self.sequence))

    def table(self) -> Table:
        """One row a term, in the order in which they are taken off."""
        terms = {
            "memory": Fraction(self.memory),
            "− reserve": self.reserve,
            "− weights": self.weights,
            "= for the cache": self.for_cache,
            "− cache": self.cache,
            "= left": self.left,
        }
        rows = [
            (term, f"{_whole(size):,}", float(size / GB), float(size / GiB))
            for term, size in terms.items()
        ]
        each = f"a request takes {_whole(self.sequence):,} bytes"
        fit = f"{each}, so {grouped(self.sequences)} fit beside the weights"
        caption = f"{self.model} on {self.device}"
        return Table(("term", "bytes", "GB", "GiB"), tuple(rows), caption, (fit,))


def room(
    model: CachedModel | str,
    on: Device | str,
    tokens: int,
    *,
    sequences: int = 1,
    weights_in: Precision | str = "fp16",
    kept_in: Precision | str = "fp16",
    reserve: Number = TENTH,
) -> Room:
    """What fits on a device beside the weights, for sequences of `tokens` tokens.

        for the cache = memory - reserve - weights
        sequences     = floor(for the cache / cache of one sequence)

    `reserve` is the fraction of memory kept for activations, workspace and the driver. Llama-3-8B
    on an H100 (80 GB, one tenth reserved) with 8,192 tokens each: 72 GB - 16.06 GB leave room for
    52 sequences of 1 GiB. What does not fit is not an error here: `left` is below 0. ValueError
    for tokens below 1, a negative count, a reserve outside [0, 1), and unknown names.
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}")
    size = cached_model(model) if isinstance(model, str) else model
    card = device(on) if isinstance(on, str) else on
    form = precision(weights_in) if isinstance(weights_in, str) else weights_in
    _at_least_0(sequences=sequences)
    sequence = kv_cache(size, tokens, kept_in=kept_in).bytes
    return Room(
        device=card.name,
        model=size.name,
        memory=card.memory_bytes,
        reserve=card.memory_bytes * _share(reserve),
        weights=size.parameters * form.bytes_per_element,
        cache=sequences * sequence,
        sequence=sequence,
    )


def kv_blocks_that_fit(
    model: CachedModel,
    device: Device,
    *,
    block_tokens: int = 16,
    reserve: Number = TENTH,
    weight_bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
) -> int:
    """Whole cache blocks that fit on `device` beside the weights.

        floor((memory x (1 - reserve) - weights) / (block_tokens x bytes of a token))

    `reserve` is the fraction of memory kept for activations, workspace and the driver.
    Llama-3-8B in bf16 on an H100 (80 GB, one tenth reserved): 26,674 blocks of 16 tokens, so
    426,784 tokens. ValueError if block_tokens < 1, if reserve is outside [0, 1), or if the
    weights alone do not fit, with both amounts of bytes.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens must be at least 1, got {block_tokens}")
    usable = device.memory_bytes * (1 - _share(reserve))
    weights = Fraction(weight_bytes(model, bytes_per_element=weight_bytes_per_element))
    if weights > usable:
        raise ValueError(
            f"the weights of {model.name} need {floor(weights)} bytes, and {device.name} has "
            f"{floor(usable)} beside its reserve"
        )
    per_token = kv_bytes_per_token(model, bytes_per_element=kv_bytes_per_element)
    return floor((usable - weights) / (block_tokens * Fraction(per_token)))


def _share(reserve: Number) -> Fraction:
    """A fraction as it was typed: 0.1 means one tenth, not the binary number next to it."""
    if not 0 <= reserve < 1:
        raise ValueError(f"reserve must be in [0, 1), got {reserve}")
    return Fraction(str(reserve))


def _whole(size: Fraction) -> int:
    """Whole bytes of a sum of parts; the last one is begun where a part is no whole byte."""
    return ceil(size)


def _at_least_0(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name} must be at least 0, got {count}")
