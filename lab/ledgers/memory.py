"""How many bytes weights and the KV cache take, and how much cache fits beside the weights.

Left out everywhere: activations, block metadata, alignment, workspace, scales of quantized numbers.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from lab.ledgers.sizes import Device, ModelSize, Number


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
    counts = {"layers": layers, "tokens": tokens, "kv_heads": kv_heads, "head_dim": head_dim}
    counts |= {"sequences": sequences}
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name} must be at least 0, got {count}")
    return 2 * layers * sequences * tokens * kv_heads * head_dim * bytes_per_element


def kv_bytes_per_token(model: ModelSize, *, bytes_per_element: Number = 2) -> Number:
    """Bytes of keys and values that one token leaves behind, over all layers.

        2 x layers x kv_heads x head_dim x bytes_per_element

    Llama-3-8B in bf16: 2 x 32 x 8 x 128 x 2 = 131,072 bytes = 128 KiB.
    """
    return kv_bytes(
        layers=model.layers,
        tokens=1,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        bytes_per_element=bytes_per_element,
    )


def weight_bytes(model: ModelSize, *, bytes_per_element: Number = 2) -> Number:
    """Bytes of all weights: parameters x bytes_per_element.

    Llama-3-8B in bf16: 8,030,261,248 x 2 = 16,060,522,496 bytes.
    """
    return model.parameters * bytes_per_element


def kv_blocks_that_fit(
    model: ModelSize,
    device: Device,
    *,
    block_tokens: int = 16,
    reserve: Number = Fraction(1, 10),
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
    if not 0 <= reserve < 1:
        raise ValueError(f"reserve must be in [0, 1), got {reserve}")
    # str: a reserve typed as 0.1 means one tenth, not the binary number next to it
    usable = device.memory_bytes * (1 - Fraction(str(reserve)))
    weights = Fraction(weight_bytes(model, bytes_per_element=weight_bytes_per_element))
    if weights > usable:
        raise ValueError(
            f"the weights of {model.name} need {floor(weights)} bytes, and {device.name} has "
            f"{floor(usable)} beside its reserve"
        )
    per_token = kv_bytes_per_token(model, bytes_per_element=kv_bytes_per_element)
    return floor((usable - weights) / (block_tokens * Fraction(per_token)))
