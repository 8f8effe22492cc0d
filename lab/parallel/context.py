"""Attention over a context that no rank holds whole: keys and values go round a ring.

Each rank has the queries, keys and values of its own run of positions. It looks at its own keys
first; then every rank hands the keys and values that it has to the next one, until all have been
everywhere. What the tiles of keys say is merged as an online softmax merges them, so no rank ever
has more than two runs of keys. Without a ring, for a few queries whose context is spread, each rank
looks at its own keys and the statistics are merged.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lab.parallel.collectives import Group
from lab.parallel.world import World

# T query, L key, H query head, K KV head, G query head of a KV head, E element of a head, P rank


class Statistics(NamedTuple):
    """What some keys say to every query: the weighted sum of their values, the sum of the weights,
    and the score that the weights are relative to: −inf where there was no key."""

    numerator_THE: Tensor
    denominator_TH: Tensor
    maximum_TH: Tensor

    @property
    def output_THE(self) -> Tensor:
        """The average of the values."""
        return self.numerator_THE / self.denominator_TH[..., None]

    def merge(self, other: Statistics) -> Statistics:
        """The statistics of the keys of both."""
        maximum_TH = torch.maximum(self.maximum_TH, other.maximum_TH)
        one_TH, other_TH = (
            torch.where(part.maximum_TH == -math.inf, 0, (part.maximum_TH - maximum_TH).exp())
            for part in (self, other)
        )
        return Statistics(
            one_TH[..., None] * self.numerator_THE + other_TH[..., None] * other.numerator_THE,
            one_TH * self.denominator_TH + other_TH * other.denominator_TH,
            maximum_TH,
        )


def look(
    q_THE: Tensor, kv_2LKE: Tensor, first_query: int, first_key: int, *, causal: bool = True
) -> Statistics:
    """What these keys say to these queries; positions are counted over the whole sequence, and a
    query sees no key behind its own position. ValueError for KV heads that do not divide the query
    heads."""
    (T, H, E), (L, K) = q_THE.shape, kv_2LKE.shape[1:3]
    if H % K:
        raise ValueError(f"query heads must be a multiple of KV heads, got {H} and {K}")
    k_LKE, v_LKE = kv_2LKE
    q_TKGE = q_THE.view(T, K, H // K, E)
    s_TKGL = torch.einsum("tkge,lke->tkgl", q_TKGE, k_LKE) / math.sqrt(E)
    if causal:
        seen_T = torch.arange(first_query, first_query + T, device=q_THE.device)
        key_L = torch.arange(first_key, first_key + L, device=q_THE.device)
        s_TKGL = s_TKGL.masked_fill((key_L > seen_T[:, None])[:, None, None], -math.inf)
    m_TKG = s_TKGL.amax(-1) if L else q_TKGE.new_full((T, K, H // K), -math.inf)
    w_TKGL = (s_TKGL - m_TKG.clamp_min(torch.finfo(m_TKG.dtype).min)[..., None]).exp()
    n_TKGE = torch.einsum("tkgl,lke->tkge", w_TKGL, v_LKE)
    return Statistics(n_TKGE.reshape(T, H, E), w_TKGL.sum(-1).reshape(T, H), m_TKG.reshape(T, H))


def ring_attention(
    q_THE: Tensor, kv_2LKE: Tensor, total: int, group: Group, *, causal: bool = True
) -> Tensor:
    """The output_THE of this rank's queries over the keys of all ranks.

    `total` positions are cut into a run for each rank of `group`, of which this rank has queries,
    keys and values: ValueError if it has another number. Keys and values are passed on once for
    every other rank.
    """
    runs = group.shares(total)
    mine = runs[group.index]
    if not len(q_THE) == kv_2LKE.shape[1] == len(mine):
        raise ValueError(
            f"rank {group.index} has {len(mine)} of {total} positions, got {len(q_THE)} queries "
            f"and {kv_2LKE.shape[1]} keys"
        )
    found = look(q_THE, kv_2LKE, mine.start, mine.start, causal=causal)
    here_2LKE = kv_2LKE
    for step in range(1, group.size):
        run = runs[(group.index - step) % group.size]
        into_2LKE = kv_2LKE.new_empty((2, len(run), *kv_2LKE.shape[2:]))
        here_2LKE = group.shift(here_2LKE, into_2LKE)
        found = found.merge(look(q_THE, here_2LKE, mine.start, run.start, causal=causal))
    return found.output_THE


def spread_attention(q_THE: Tensor, kv_2LKE: Tensor, total: int, group: Group) -> Tensor:
    """The output_THE of queries that every rank has, behind all of `total` positions whose keys
    and values lie on all ranks: one all-gather of statistics, however long the context is."""
    run = group.shares(total)[group.index]
    mine = look(q_THE, kv_2LKE, total - 1, run.start, causal=False)
    packed_THX = torch.cat(
        [mine.numerator_THE, mine.denominator_TH[..., None], mine.maximum_TH[..., None]], -1
    )
    found: Statistics | None = None
    for part_THX in group.all_gather(packed_THX):
        part = Statistics(part_THX[..., :-2], part_THX[..., -2], part_THX[..., -1])
        found = part if found is None else found.merge(part)
    assert found is not None, "a group has a rank"
    return found.output_THE


def attend(
    world: World, q_THE: Tensor, kv_2LKE: Tensor, *, causal: bool = True
) -> tuple[Tensor, Tensor]:
    """What a rank of cp finds of a whole sequence: its own rows of the attention, and the last
    row of all as every rank finds it in a decode.

        run = lab.launch(attend, lab.Mesh(cp=2), q_THE=q, kv_2LKE=kv)
        torch.cat([rows for rows, _ in run.values])

    Each rank takes its run of positions and leaves the rest; its keys and values are taken down as
    `world.held["KV"]`. ValueError for another number of keys than of queries.
    """
    group, total = world.along("cp"), len(q_THE)
    if kv_2LKE.shape[1] != total:
        raise ValueError(f"there must be a key for each of {total} queries, got {kv_2LKE.shape[1]}")
    run = group.shares(total)[group.index]
    q_THE = q_THE.to(world.device)
    mine_2LKE = kv_2LKE[:, run.start : run.stop].to(world.device, copy=True)
    world.held["KV"] = mine_2LKE.nbytes
    rows_THE = ring_attention(q_THE[run.start : run.stop], mine_2LKE, total, group, causal=causal)
    return rows_THE.cpu(), spread_attention(q_THE[-1:], mine_2LKE, total, group).cpu()
