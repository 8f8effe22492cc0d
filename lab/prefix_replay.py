"""A workload's prompts played through the prefix cache, to see how many of their tokens hit.

The pool, the index and the keys are those of the engine. Left out is time: prompts come in order of
arrival, each is computed at once and gives its blocks back before the next one comes. So nobody
comes too early for a block that is still being computed, running requests take no room, and answers
are not kept, though the next question of a conversation repeats them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.eviction import ByRank, ByRelease, Eviction
from lab.kv_blocks import BlockPool
from lab.ledgers.attention_io import Cited
from lab.ledgers.latency import exact_ratio
from lab.ledgers.reuse import HIT_RATE, in_percent
from lab.ledgers.table import Shown, Table
from lab.prefix import Chain, Identity, PrefixIndex
from lab.prefix_keys import chain_without
from lab.request import Request, Time


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Replay(Shown):
    """What a cache of `blocks` blocks found of the prompts that were played through it."""

    blocks: int
    eviction: Eviction
    requests: int
    prompt_tokens: int
    cached_tokens: int
    full_blocks: int
    """Full blocks of all prompts."""
    cached_blocks: int
    evictions: int
    too_long: int
    """Prompts longer than the whole cache. They are computed, and nothing of them is kept."""

    @property
    def hit_rate(self) -> Time:
        """Cached tokens over prompt tokens."""
        return exact_ratio(self.cached_tokens, self.prompt_tokens)

    @property
    def block_hit_rate(self) -> Time | None:
        """Cached blocks over full blocks; None where no prompt fills one."""
        return exact_ratio(self.cached_blocks, self.full_blocks) if self.full_blocks else None

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.prompt_tokens - self.cached_tokens

    def table(self) -> Table:
        columns = ("blocks", "prompt tokens", "from the cache", HIT_RATE, "evicted", "too long")
        row = (
            *(self.blocks, self.prompt_tokens, self.cached_tokens, in_percent(self.hit_rate)),
            *(self.evictions, self.too_long),
        )
        return Table(columns, (row,), f"tokens of {self.requests} prompts")


REPORTED = Cited(
    what="an earlier trace of the same service, with prompts of 7,590 and answers of 182 tokens on "
    "average: blocks in the cache, and the share of blocks that hit (%)",
    values={"1,000": 30, "50,000": 50},
    source="Qin et al. 2024, technical report of Mooncake, arXiv:2407.00079v3, section 4.2",
)


class _Prompt(NamedTuple):
    tokens: int
    keys: Chain
    blocks: int
    """Blocks that it takes, the last one perhaps not full."""
    most: int
    """Blocks that it may take from the cache: its last token is always computed."""


def prefix_hits(
    workload: Iterable[Request],
    blocks: int | None = None,
    *,
    block_tokens: int = 16,
    eviction: Eviction = "least-recently-used",
    seed: int = 0,
    left_out: Collection[str] = (),
) -> Replay:
    """The prompts of a workload, in its order, through a cache of `blocks` blocks; None: no limit.

    Two prompts of 9 tokens that begin with the same 8: 8 of 18 tokens hit, in blocks of 4. Keys
    hold adapter and tenant of a request; `left_out` names fields of `lab.prefix_keys.FIELDS` that
    they lack, such as "tenant". `seed` is for the eviction "random". ValueError for no requests, a
    number below 1, an unknown eviction or field, and for prompts with block keys that do not fit
    `block_tokens`.
    """
    (one,) = hit_curve(
        *(workload, [blocks]),
        block_tokens=block_tokens, evictions=[eviction], seed=seed, left_out=left_out,
    )  # fmt: skip
    return one


def hit_curve(
    workload: Iterable[Request],
    sizes: Iterable[int | None],
    *,
    block_tokens: int = 16,
    evictions: Iterable[Eviction] = ("least-recently-used",),
    seed: int = 0,
    left_out: Collection[str] = (),
) -> list[Replay]:
    """`prefix_hits` for caches of several sizes, under each of several evictions. Keys are made
    once. An unlimited cache (None) gives nothing up and is the same under all of them."""
    prompts = [_prompt(request, block_tokens, left_out) for request in workload]
    if not prompts:
        raise ValueError("a replay needs at least 1 request, got 0")
    sizes, all_blocks = list(sizes), sum(prompt.blocks for prompt in prompts)
    return [
        _replayed(prompts, all_blocks if blocks is None else blocks, block_tokens, eviction, seed)
        for eviction in evictions
        for blocks in sizes
    ]


def _prompt(request: Request, block_tokens: int, left_out: Collection[str]) -> _Prompt:
    if block_tokens < 1:
        raise ValueError(f"block_tokens must be at least 1, got {block_tokens}")
    identity, tokens = Identity(adapter=request.adapter, tenant=request.tenant), len(request.prompt)
    keys = chain_without(left_out, identity, block_tokens, request.prompt)
    return _Prompt(tokens, keys, -(-tokens // block_tokens), (tokens - 1) // block_tokens)


def _replayed(
    prompts: Sequence[_Prompt], blocks: int, block_tokens: int, eviction: Eviction, seed: int
) -> Replay:
    index = PrefixIndex()
    evicted: list[int] = []

    def forget(block: int) -> None:
        index.forget(block)
        evicted.append(block)

    by_release = eviction == "least-recently-used"
    order = ByRelease() if by_release else ByRank(eviction, index.parent, seed)
    pool = BlockPool(blocks, block_tokens, forget, order)
    cached = too_long = 0
    for _, keys, need, most in prompts:
        found = index.match(keys, most)
        cached += len(found)
        if need > blocks:
            too_long += 1
            continue
        pool.share(found)
        table = found + pool.allocate(need - len(found))
        pool.keep(index.publish(keys, table, range(len(found), keys.num_full)))
        table.reverse()
        pool.release(table)
    return Replay(
        blocks=blocks,
        eviction=eviction,
        requests=len(prompts),
        prompt_tokens=sum(prompt.tokens for prompt in prompts),
        cached_tokens=cached * block_tokens,
        full_blocks=sum(prompt.keys.num_full for prompt in prompts),
        cached_blocks=cached,
        evictions=len(evicted),
        too_long=too_long,
    )
