"""A mixture of experts whose experts lie on several ranks: tokens travel to them and back.

A router sends each token to a few experts. Every rank has tokens of its own; it sends a row to the
rank of each expert that the router chose, and adds up what comes back with the router's weights.
With a capacity an expert takes so many rows from each rank, the first ones, and the others are
dropped: they get nothing from that expert. Without one, nobody is dropped, and the rank of a hot
expert computes while the others wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.parallel.collectives import Group
from lab.parallel.mesh import share
from lab.parallel.world import World

# T token of a rank, D width of the model, F width of an expert, X expert, A expert of a token,
# N row on its way: a token for one expert, P rank


class Mixture(NamedTuple):
    """The weights of a layer: a router that everybody has, and the `experts` that are here."""

    router_XD: Tensor
    bias_X: Tensor
    """Added to the router's scores: what makes an expert hot."""
    experts: range
    gate_up: tuple[Tensor, ...]
    down: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all weights that are here."""
        parts = (self.router_XD, self.bias_X, *self.gate_up, *self.down)
        return sum(part.nbytes for part in parts)

    def to(self, device: torch.device) -> Mixture:
        """The same weights on a device."""
        router_XD, bias_X = self.router_XD.to(device), self.bias_X.to(device)
        gate_up, down = (tuple(w.to(device) for w in ws) for ws in (self.gate_up, self.down))
        return Mixture(router_XD, bias_X, self.experts, gate_up, down)

    def compute(self, expert: int, x_ND: Tensor) -> Tensor:
        """What one of the experts here makes of some rows."""
        place = expert - self.experts.start
        gate_NF, up_NF = F.linear(x_ND, self.gate_up[place]).chunk(2, dim=-1)
        return F.linear(F.silu(gate_NF) * up_NF, self.down[place])


class Mixed(NamedTuple):
    """What a layer made of a rank's tokens."""

    output_TD: Tensor
    rows: tuple[int, ...]
    """Rows that each expert computed, for all ranks together."""
    dropped: tuple[tuple[int, int], ...]
    """(token, expert): who of this rank's tokens an expert had no room for."""


class _Sent(NamedTuple):
    """Rows in the order of their experts, and of the tokens of each."""

    tokens_N: Tensor
    experts_N: Tensor
    weights_N: Tensor
    dropped: tuple[tuple[int, int], ...]


def drawn_mixture(
    hidden: int,
    ffn: int,
    experts: int,
    *,
    here: range | None = None,
    hot: int | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Mixture:
    """Weights drawn from a seed, of the experts `here` alone: the same ones wherever they lie. The
    router chooses `hot` first, for every token. ValueError for one that is not there."""
    if hot is not None and not 0 <= hot < experts:
        raise ValueError(f"hot must be one of {experts} experts, counted from 0, got {hot}")
    here = range(experts) if here is None else here

    def draw(number: int, rows: int, columns: int) -> Tensor:
        dice = torch.Generator().manual_seed(seed * 1_000_003 + number)
        drawn = torch.randn(rows, columns, generator=dice, dtype=torch.float64)
        return (drawn / sqrt(columns)).to(dtype)

    bias_X = torch.zeros(experts, dtype=dtype)
    if hot is not None:
        bias_X[hot] = 1000
    return Mixture(
        draw(0, experts, hidden),
        bias_X,
        here,
        tuple(draw(2 * expert + 1, 2 * ffn, hidden) for expert in here),
        tuple(draw(2 * expert + 2, hidden, ffn) for expert in here),
    )


def mixture(
    x_TD: Tensor, weights: Mixture, active: int, group: Group, *, capacity: float | None = None
) -> Mixed:
    """The layer for this rank's tokens, each of which goes to `active` experts.

    The experts of `weights` are this rank's share along `group`; a group of one has them all. An
    expert takes at most ceil(capacity x tokens x active / experts) rows from a rank; None: all.
    ValueError for another share, for fewer experts than ranks, for more active experts than there
    are, and for a capacity that is not above 0.
    """
    count = len(weights.router_XD)
    if count < group.size:
        raise ValueError(f"each rank of ep needs an expert, got {group.size} and {count}")
    shares = group.shares(count)
    if weights.experts != shares[group.index]:
        raise ValueError(
            f"rank {group.index} has the experts {shares[group.index]}, got {weights.experts}"
        )
    if not 1 <= active <= count:
        raise ValueError(f"active must be from 1 to all {count} experts, got {active}")
    if capacity is not None and not capacity > 0:
        raise ValueError(f"capacity must be above 0, got {capacity}")
    room = None if capacity is None else ceil(capacity * len(x_TD) * active / count)
    sent = _route(x_TD, weights, active, room)
    rows_X = torch.bincount(sent.experts_N, minlength=count)
    rows_PX = group.all_gather(rows_X).tolist()  # everybody's, so that all know what comes
    away = [sum(rows_PX[group.index][run.start : run.stop]) for run in shares]
    mine = shares[group.index]
    coming = [sum(rows[mine.start : mine.stop]) for rows in rows_PX]
    arrived_ND = group.all_to_all(x_TD[sent.tokens_N], away, coming)
    made_ND = _compute(arrived_ND, [rows[mine.start : mine.stop] for rows in rows_PX], weights)
    back_ND = group.all_to_all(made_ND, coming, away)
    output_TD = torch.zeros_like(x_TD)
    output_TD.index_add_(0, sent.tokens_N, back_ND * sent.weights_N[:, None])
    return Mixed(output_TD, tuple(map(sum, zip(*rows_PX, strict=True))), sent.dropped)


def _route(x_TD: Tensor, weights: Mixture, active: int, room: int | None) -> _Sent:
    """Who goes where: the likeliest experts of each token, with the softmax over them."""
    scores_TX = F.linear(x_TD, weights.router_XD) + weights.bias_X
    scores_TA, experts_TA = scores_TX.sort(dim=-1, descending=True, stable=True)
    weights_TA, experts_TA = scores_TA[:, :active].softmax(-1), experts_TA[:, :active]
    experts_N, order_N = experts_TA.flatten().sort(stable=True)
    tokens_N, weights_N = order_N // active, weights_TA.flatten()[order_N]
    if room is None:
        return _Sent(tokens_N, experts_N, weights_N, ())
    rows_X = torch.bincount(experts_N, minlength=len(weights.router_XD))
    place_N = (
        torch.arange(len(experts_N), device=x_TD.device) - (rows_X.cumsum(0) - rows_X)[experts_N]
    )
    fits_N = place_N < room
    dropped = zip(tokens_N[~fits_N].tolist(), experts_N[~fits_N].tolist(), strict=True)
    return _Sent(tokens_N[fits_N], experts_N[fits_N], weights_N[fits_N], tuple(dropped))


def _compute(x_ND: Tensor, rows: Sequence[Sequence[int]], weights: Mixture) -> Tensor:
    """Rows came rank by rank and, of each, expert by expert: each expert computes all of its own
    at once."""
    pieces = x_ND.split([count for of_rank in rows for count in of_rank])
    here = len(weights.experts)
    made: list[Tensor] = [x_ND[:0]] * len(pieces)
    for place, expert in enumerate(weights.experts):
        mine = pieces[place::here]
        found = weights.compute(expert, torch.cat(mine)).split([len(piece) for piece in mine])
        made[place::here] = found
    return torch.cat(made)


def mix(
    world: World,
    *,
    tokens: int,
    hidden: int,
    ffn: int,
    experts: int,
    active: int,
    hot: int | None = None,
    capacity: float | None = None,
    seed: int = 0,
    dtype: str = "float32",
) -> Mixed:
    """A layer drawn from a seed on the ranks of ep, for `tokens` rows cut among them.

        run = lab.launch(mix, lab.Mesh(ep=2), tokens=64, hidden=32, ffn=64, experts=4, active=2)
        run.values[0].rows      rows that each expert computed

    `hot` is an expert that every token is sent to. Bytes of the experts here are taken down as
    `world.held["parameters"]`.
    """
    group, format = world.along("ep"), getattr(torch, dtype)
    here, run = group.shares(experts)[group.index], share(tokens, group.size, group.index)
    weights = drawn_mixture(hidden, ffn, experts, here=here, hot=hot, seed=seed, dtype=format)
    weights = weights.to(world.device)
    world.held["parameters"] = weights.num_bytes
    x_TD = drawn_tokens(tokens, hidden, seed, format)[run.start : run.stop].to(world.device)
    found = mixture(x_TD, weights, active, group, capacity=capacity)
    return found._replace(output_TD=found.output_TD.cpu())


def drawn_tokens(tokens: int, hidden: int, seed: int, dtype: torch.dtype) -> Tensor:
    """The rows that `mix` computes with."""
    dice = torch.Generator().manual_seed(seed + 7)
    return torch.randn(tokens, hidden, generator=dice, dtype=torch.float64).to(dtype)
