"""What each kernel computes and moves: FLOPs and bytes. Pure functions of sizes, exact integers.

A kernel reads an input once unless its formula says how often. Bytes are those asked of memory:
what a cache of the chip answers is not taken off. Left out everywhere: roots, exponentials,
comparisons, addresses, and the integers that say where things lie (block tables, lengths, slots).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.ledgers.compute import attention_macs, attention_pairs, flops


class KernelWork(NamedTuple):
    """What one launch does and moves."""

    operations: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes_moved(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written


def rms_norm_work(
    rows: int, width: int, *, residual: bool = False, element_bytes: int = 2
) -> KernelWork:
    """RMSNorm of `rows` rows, with `residual` added before.

        operations = rows x (4 x width + 1)            square, sum, two products; mean and eps
                     + rows x width                    with a residual
        read       = (rows x width + width) x bytes    + rows x width x bytes with a residual
        written    = rows x width x bytes              + rows x width x bytes with a residual

    64 rows of 4,096 in 16 bits: 532,480 bytes read, 524,288 written. ValueError below 1.
    """
    _at_least_1(rows=rows, width=width)
    numbers, times = rows * width, 2 if residual else 1
    return KernelWork(
        operations=rows * (4 * width + 1) + (numbers if residual else 0),
        bytes_read=(times * numbers + width) * element_bytes,
        bytes_written=times * numbers * element_bytes,
    )


def rope_store_work(
    tokens: int,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    heads_of_program: int = 16,
    element_bytes: int = 2,
) -> KernelWork:
    """Rotary positions of queries and keys; keys and values into the cache.

        programs   = ceil((heads + 2 x kv_heads) / heads_of_program), for each token
        operations = tokens x (heads + kv_heads) x head_dim x 3       4 products, 2 sums a pair
        read       = tokens x (heads + 2 x kv_heads) x head_dim x bytes
                     + tokens x programs x head_dim x 4               what a pair is multiplied by
        written    = tokens x (heads + 2 x kv_heads) x head_dim x bytes

    64 tokens, 32 query and 8 KV heads of 128, 16 bits: 884,736 bytes read, 786,432 written.
    ValueError below 1.
    """
    _at_least_1(tokens=tokens, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    in_all = heads + 2 * kv_heads
    programs = -(-in_all // heads_of_program)
    numbers = tokens * in_all * head_dim * element_bytes
    return KernelWork(
        operations=tokens * (heads + kv_heads) * head_dim * 3,
        bytes_read=numbers + tokens * programs * head_dim * 4,
        bytes_written=numbers,
    )


def paged_attention_work(
    lengths: Sequence[int],
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    split: int = 512,
    element_bytes: int = 2,
) -> KernelWork:
    """Attention of one query of each sequence over `lengths` positions, in splits.

        splits     = sum of ceil(length / split)
        operations = 4 x heads x head_dim x sum of lengths
        read       = sum of lengths x 2 x kv_heads x head_dim x bytes      K and V, once
                     + splits x heads x head_dim x bytes                   the queries
                     + splits x heads x (head_dim + 1) x 4                 the parts, to join them
        written    = sequences x heads x head_dim x bytes
                     + splits x heads x (head_dim + 1) x 4                 the parts

    There are no parts where nobody is longer than a split. Softmax is left out of the operations.
    64 sequences of 4,096, 32 query and 8 KV heads of 128, 16 bits: 1,073,741,824 bytes of K and V
    in 1,086,390,272 bytes read. ValueError below 1.
    """
    _at_least_1(heads=heads, kv_heads=kv_heads, head_dim=head_dim, split=split)
    splits = sum(-(-length // split) for length in lengths)
    parts = splits * heads * (head_dim + 1) * 4 if max(lengths, default=0) > split else 0
    query_bytes = heads * head_dim * element_bytes
    kv_bytes = sum(lengths) * 2 * kv_heads * head_dim * element_bytes
    return KernelWork(
        operations=flops(attention_macs(sum(lengths), heads=heads, head_dim=head_dim)),
        bytes_read=kv_bytes + splits * query_bytes + parts,
        bytes_written=len(lengths) * query_bytes + parts,
    )


def flash_attention_work(
    queries: Sequence[int],
    lengths: Sequence[int],
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    tile_rows: int = 128,
    causal: bool = True,
    element_bytes: int = 2,
) -> KernelWork:
    """Attention of `queries` queries of each sequence over its `lengths`, tile by tile of queries.

    A tile holds tile_rows // (heads // kv_heads) queries with all heads of one KV head. It reads
    the keys and values that its last query sees; scores never reach memory.

        operations = 4 x heads x head_dim x pairs of a query and a position that it sees
        read       = queries x heads x head_dim x bytes
                     + sum over tiles of what the last query sees x 2 x kv_heads x head_dim x bytes
        written    = queries x heads x head_dim x bytes

    Softmax is left out of the operations, and so are the pairs of a tile that are masked. 8,192
    tokens, 32 query and 8 KV heads of 128, 16 bits: 549,822,922,752 FLOP; the 256
    tiles read 4,378,853,376 bytes, most of which a cache of the chip answers. ValueError below 1.
    """
    _at_least_1(heads=heads, kv_heads=kv_heads, head_dim=head_dim, tile_rows=tile_rows)
    in_tile = tile_rows // (heads // kv_heads)
    pairs = read = 0
    for asked, length in zip(queries, lengths, strict=True):
        pairs += attention_pairs(asked, length - asked, causal=causal)
        for first in range(0, asked, in_tile):
            last = min(first + in_tile, asked)
            read += length - asked + last if causal else length
    query_bytes = sum(queries) * heads * head_dim * element_bytes
    return KernelWork(
        operations=flops(attention_macs(pairs, heads=heads, head_dim=head_dim)),
        bytes_read=query_bytes + read * 2 * kv_heads * head_dim * element_bytes,
        bytes_written=query_bytes,
    )


def quantized_matmul_work(
    tokens: int,
    inputs: int,
    outputs: int,
    *,
    bits: int,
    group: int | None = None,
    tile_tokens: int = 16,
    tile_outputs: int = 64,
    splits: int = 1,
    element_bytes: int = 2,
) -> KernelWork:
    """Activations times a matrix of codes; `group` inputs share a scale, or a whole row does.

        token_tiles  = ceil(tokens / tile_tokens), output_tiles = ceil(outputs / tile_outputs)
        operations   = 2 x tokens x inputs x outputs
        read         = token_tiles x outputs x inputs x bits / 8        the codes
                       + token_tiles x outputs x scales of a row x 4    of 8 bits: once a split
                       + output_tiles x tokens x inputs x bytes         the activations
        written      = tokens x outputs x bytes, or with splits of the inputs
                       splits x tokens x outputs x 4                    to be added by another pass

    Products with scales are left out of the operations. 1 token, 4,096 x 14,336 in 4 bits with
    groups of 128: 29,360,128 bytes of codes and 1,835,008 of scales, where 16 bits are 117,440,512.
    ValueError below 1, or for a group that does not divide the inputs.
    """
    _at_least_1(tokens=tokens, inputs=inputs, outputs=outputs, bits=bits, splits=splits)
    if group is not None and inputs % group:
        raise ValueError(f"a group must divide the {inputs} inputs, got {group}")
    token_tiles, output_tiles = -(-tokens // tile_tokens), -(-outputs // tile_outputs)
    scales = splits if group is None else inputs // group
    return KernelWork(
        operations=flops(tokens * inputs * outputs),
        bytes_read=token_tiles * outputs * (inputs * bits // 8 + scales * 4)
        + output_tiles * tokens * inputs * element_bytes,
        bytes_written=tokens * outputs * (element_bytes if splits == 1 else splits * 4),
    )


def rejection_sample_work(
    counts: Sequence[int], accepted: Sequence[int], *, vocab: int
) -> KernelWork:
    """Drafts of each sequence, how many of them stood, and the draw behind them, in float32.

        operations = drafts                                     uniform x draft
                     + 4 x vocab for each sequence that rejects     difference and sum, twice
                     + vocab for each other one                     the running sum
        read       = (3 x drafts + sequences) x 4               two probabilities and a uniform each
                     + 4 x vocab x 4 for each sequence that rejects
                     + vocab x 4 for each other one

    What is written are two integers a sequence, which are left out. One rejection in a vocabulary
    of 128,256: 2,052,096 bytes of probabilities. ValueError if more are accepted than drafted.
    """
    _at_least_1(vocab=vocab)
    for drafted, stood in zip(counts, accepted, strict=True):
        if not 0 <= stood <= drafted:
            raise ValueError(f"accepted must be in [0, {drafted}], got {stood}")
    rejects = sum(stood < drafted for drafted, stood in zip(counts, accepted, strict=True))
    entries = (4 * rejects + len(counts) - rejects) * vocab
    return KernelWork(
        operations=sum(counts) + entries,
        bytes_read=(3 * sum(counts) + len(counts) + entries) * 4,
        bytes_written=0,
    )


def _at_least_1(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
