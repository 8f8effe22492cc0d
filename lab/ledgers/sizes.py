"""Units, devices and model sizes: a number without a source does not enter this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Number: TypeAlias = int | float | Fraction
"""What a ledger calculates with: integers and fractions stay exact, floats stay floats."""

KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12  # datasheets, networks, disks: powers of ten
KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40  # allocated memory: powers of two
GFLOP, TFLOP = 10**9, 10**12  # operations are counted in powers of ten, never in 2**40
MILLISECONDS = 1000  # in a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator, as its maker describes it: peak rates that no program quite reaches.

    `memory_bytes` is read as printed, 80 GB = 80 x 10^9; a driver may report a little more.
    `flops_per_s` gives the dense rate (no structured sparsity) for each number format.
    """

    name: str
    memory_bytes: int
    memory_bytes_per_s: Number
    flops_per_s: Mapping[str, Number]
    source: str

    def __post_init__(self) -> None:
        rates = {"memory_bytes": self.memory_bytes, "memory_bytes_per_s": self.memory_bytes_per_s}
        rates |= {f"flops_per_s[{dtype!r}]": rate for dtype, rate in self.flops_per_s.items()}
        for field, amount in rates.items():
            if not amount > 0:
                raise ValueError(f"device {self.name!r}: {field} must be above 0, got {amount}")

    def peak_flops_per_s(self, dtype: str = "bf16") -> Number:
        """Peak rate in FLOP/s for numbers of the format `dtype`; ValueError if it is not known.

        `device("h100").peak_flops_per_s()` is 989.5 x 10^12 FLOP/s.
        """
        if dtype not in self.flops_per_s:
            known = ", ".join(self.flops_per_s)
            raise ValueError(f"device {self.name!r} has no rate for {dtype!r}; it has {known}")
        return self.flops_per_s[dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedLayers:
    """Layers that keep as many numbers of a token: `numbers` each, which are `factors` in words.

    `what` says what the numbers are, and `row` how many of them lie together, such as the key of
    one head. With a `window` only the last `window` tokens are looked at, and so kept.
    """

    layers: int
    what: str
    numbers: int
    factors: str
    row: int
    window: int | None = None

    def tokens_kept(self, tokens: int) -> int:
        """Tokens that a layer holds of a sequence of `tokens`: all, or those in the window."""
        return tokens if self.window is None else min(tokens, self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """The sizes of a decoder-only transformer (Llama family) that memory and time depend on.

    Each layer has Q, K, V and output projections without bias, a gated MLP of three matrices and
    `layer_norms` RMS norms; with `qk_norm` also one norm each for the queries and keys of a head.
    `windowed_layers` of the layers look at the last `window` tokens only.
    """

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool
    source: str
    qk_norm: bool = False
    layer_norms: int = 2
    window: int | None = None
    windowed_layers: int = 0

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab"):
            if getattr(self, field) < 1:
                raise ValueError(
                    f"model {self.name!r}: {field} must be at least 1, got {getattr(self, field)}"
                )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"model {self.name!r}: heads must be a multiple of kv_heads, "
                f"got {self.heads} and {self.kv_heads}"
            )
        if not 0 <= self.windowed_layers <= self.layers:
            raise ValueError(
                f"model {self.name!r}: windowed_layers must be from 0 to {self.layers}, "
                f"got {self.windowed_layers}"
            )
        if (self.window or 0) < 1 and (self.windowed_layers or self.window is not None):
            raise ValueError(
                f"model {self.name!r}: window must be at least 1 for {self.windowed_layers} "
                f"windowed layers, got {self.window}"
            )

    @property
    def cache(self) -> tuple[CachedLayers, ...]:
        """What the layers keep of a token: keys and values, 2 x kv_heads x head_dim in each layer.

        Layers that look at all tokens stand before those with a window. Gemma-2-9B: 21 layers of
        2 x 8 x 256 = 4,096 numbers, and 21 of as many for the last 4,096 tokens.
        """
        split = (self.layers - self.windowed_layers, None), (self.windowed_layers, self.window)
        return tuple(
            CachedLayers(
                layers=layers,
                what="K and V",
                numbers=2 * self.kv_heads * self.head_dim,
                factors=f"2 × {self.kv_heads} × {self.head_dim}",
                row=self.head_dim,
                window=window,
            )
            for layers, window in split
            if layers
        )

    @property
    def layer_matrix_parameters(self) -> int:
        """Weights in the matrices of one layer: each is multiplied once for every token.

            2 x hidden x heads x head_dim + 2 x hidden x kv_heads x head_dim + 3 x hidden x ffn

        Llama-3-8B: 33,554,432 + 8,388,608 + 176,160,768 = 218,103,808.
        """
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        return attention + 3 * self.hidden * self.ffn

    @property
    def embedding_parameters(self) -> int:
        """Weights in one vocab x hidden matrix; Llama-3-8B: 128,256 x 4,096 = 525,336,576."""
        return self.vocab * self.hidden

    @property
    def norm_parameters(self) -> int:
        """Scales of all RMS norms; Llama-3-8B: 32 x 2 x 4,096 + 4,096 = 266,240."""
        in_layer = self.layer_norms * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        return self.layers * in_layer + self.hidden

    @property
    def parameters(self) -> int:
        """All weights of the model.

            layers x matrices of a layer + norms + 2 x vocab x hidden   (1 x if tied)

        Llama-3-8B: 32 x 218,103,808 + 266,240 + 2 x 525,336,576 = 8,030,261,248.
        """
        tables = 1 if self.tied_embeddings else 2
        matrices = self.layers * self.layer_matrix_parameters
        return matrices + self.norm_parameters + tables * self.embedding_parameters


# The datasheets of Hopper and Ada print rates "with sparsity"; the dense rate is half of it.
_DEVICES = {
    "a100": Device(
        name="A100-SXM4-80GB",
        memory_bytes=80 * GB,
        memory_bytes_per_s=2039 * GB,
        flops_per_s={"bf16": 312 * TFLOP, "fp16": 312 * TFLOP, "int8": 624 * TFLOP},
        source="NVIDIA A100 80GB datasheet, column SXM",
    ),
    "h100": Device(
        name="H100-SXM5-80GB",
        memory_bytes=80 * GB,
        memory_bytes_per_s=3350 * GB,
        flops_per_s={
            "bf16": 1979 * TFLOP // 2,
            "fp16": 1979 * TFLOP // 2,
            "fp8": 3958 * TFLOP // 2,
            "int8": 3958 * TFLOP // 2,
        },
        source="NVIDIA H100 datasheet, column SXM; rates with sparsity halved",
    ),
    "h200": Device(
        name="H200-SXM-141GB",
        memory_bytes=141 * GB,
        memory_bytes_per_s=4800 * GB,
        flops_per_s={
            "bf16": 1979 * TFLOP // 2,
            "fp16": 1979 * TFLOP // 2,
            "fp8": 3958 * TFLOP // 2,
            "int8": 3958 * TFLOP // 2,
        },
        source="NVIDIA H200 datasheet, column SXM; rates with sparsity halved",
    ),
    "l4": Device(
        name="L4-24GB",
        memory_bytes=24 * GB,
        memory_bytes_per_s=300 * GB,
        flops_per_s={
            "bf16": 242 * TFLOP // 2,
            "fp16": 242 * TFLOP // 2,
            "fp8": 485 * TFLOP // 2,
            "int8": 485 * TFLOP // 2,
        },
        source="NVIDIA L4 datasheet; rates with sparsity halved",
    ),
    "laptop-cpu": Device(
        name="laptop CPU",
        memory_bytes=16 * GB,
        memory_bytes_per_s=50 * GB,
        flops_per_s={"fp32": 500 * GFLOP, "bf16": 500 * GFLOP},
        source="given: round numbers for teaching, of no particular product",
    ),
}

_MODELS = {
    "llama-2-7b": ModelSize(
        name="Llama-2-7B",
        layers=32,
        hidden=4096,
        ffn=11008,
        heads=32,
        kv_heads=32,
        head_dim=128,
        vocab=32000,
        tied_embeddings=False,
        source="config.json of meta-llama/Llama-2-7b-hf",
    ),
    "llama-2-13b": ModelSize(
        name="Llama-2-13B",
        layers=40,
        hidden=5120,
        ffn=13824,
        heads=40,
        kv_heads=40,
        head_dim=128,
        vocab=32000,
        tied_embeddings=False,
        source="config.json of meta-llama/Llama-2-13b-hf",
    ),
    "llama-3-8b": ModelSize(
        name="Llama-3-8B",
        layers=32,
        hidden=4096,
        ffn=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        tied_embeddings=False,
        source="config.json of meta-llama/Meta-Llama-3-8B",
    ),
    "llama-3-70b": ModelSize(
        name="Llama-3-70B",
        layers=80,
        hidden=8192,
        ffn=28672,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        tied_embeddings=False,
        source="config.json of meta-llama/Meta-Llama-3-70B",
    ),
    "llama-3.1-405b": ModelSize(
        name="Llama-3.1-405B",
        layers=126,
        hidden=16384,
        ffn=53248,
        heads=128,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        tied_embeddings=False,
        source="config.json of meta-llama/Llama-3.1-405B",
    ),
    "llama-3.2-1b": ModelSize(
        name="Llama-3.2-1B",
        layers=16,
        hidden=2048,
        ffn=8192,
        heads=32,
        kv_heads=8,
        head_dim=64,
        vocab=128256,
        tied_embeddings=True,
        source="config.json of meta-llama/Llama-3.2-1B",
    ),
    "mistral-7b": ModelSize(
        name="Mistral-7B-v0.1",
        layers=32,
        hidden=4096,
        ffn=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=32000,
        tied_embeddings=False,
        window=4096,
        windowed_layers=32,
        source="config.json of mistralai/Mistral-7B-v0.1",
    ),
    "gemma-2b": ModelSize(
        name="Gemma-2B",
        layers=18,
        hidden=2048,
        ffn=16384,
        heads=8,
        kv_heads=1,
        head_dim=256,
        vocab=256000,
        tied_embeddings=True,
        source="config.json of google/gemma-2b",
    ),
    "gemma-2-9b": ModelSize(
        name="Gemma-2-9B",
        layers=42,
        hidden=3584,
        ffn=14336,
        heads=16,
        kv_heads=8,
        head_dim=256,
        vocab=256000,
        tied_embeddings=True,
        layer_norms=4,
        window=4096,
        windowed_layers=21,
        source="config.json of google/gemma-2-9b; every second layer has the window",
    ),
    "gemma-3-1b": ModelSize(
        name="Gemma-3-1B",
        layers=26,
        hidden=1152,
        ffn=6912,
        heads=4,
        kv_heads=1,
        head_dim=256,
        vocab=262144,
        tied_embeddings=True,
        qk_norm=True,
        layer_norms=4,
        window=512,
        windowed_layers=22,
        source="config.json of google/gemma-3-1b-pt; every sixth layer has no window",
    ),
    "qwen3-0.6b": ModelSize(
        name="Qwen3-0.6B",
        layers=28,
        hidden=1024,
        ffn=3072,
        heads=16,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=True,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-0.6B",
    ),
    "qwen3-8b": ModelSize(
        name="Qwen3-8B",
        layers=36,
        hidden=4096,
        ffn=12288,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=False,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-8B",
    ),
}


def device(name: str) -> Device:
    """The device called `name`; `device("h100").memory_bytes` is 80 x 10^9.

    Upper and lower case are the same. ValueError lists the known names for an unknown one.
    """
    if name.lower() not in _DEVICES:
        raise ValueError(f"unknown device {name!r}; known: {', '.join(_DEVICES)}")
    return _DEVICES[name.lower()]


def model_size(name: str) -> ModelSize:
    """The sizes of the model called `name`; `model_size("llama-3-8b").layers` is 32.

    Upper and lower case are the same. ValueError lists the known names for an unknown one.
    """
    if name.lower() not in _MODELS:
        raise ValueError(f"unknown model {name!r}; known: {', '.join(_MODELS)}")
    return _MODELS[name.lower()]


def known_devices() -> tuple[str, ...]:
    """The names that `device` understands."""
    return tuple(_DEVICES)


def known_models() -> tuple[str, ...]:
    """The names that `model` understands."""
    return tuple(_MODELS)
