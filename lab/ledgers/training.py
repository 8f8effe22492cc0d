"""What training keeps for every parameter, and what ZeRO leaves on a rank and makes it send."""

from __future__ import annotations

from typing import NamedTuple

from lab.ledgers.communication import Collective, collective
from lab.ledgers.latency import exact_ratio
from lab.ledgers.links import Link
from lab.ledgers.sizes import Number

ADAM_BYTES = 12
"""A copy of the parameter, its momentum and its variance, 4 bytes each: K of the ZeRO paper."""


class TrainingState(NamedTuple):
    """Bytes on one rank: of the parameters, their gradients and the optimizer's states."""

    parameters: Number
    gradients: Number
    optimizer: Number

    @property
    def total(self) -> Number:
        """All three together. Activations are left out."""
        return self.parameters + self.gradients + self.optimizer


def training_state(
    parameters: Number, ranks: int, stage: int, *, optimizer_bytes: Number = ADAM_BYTES
) -> TrainingState:
    """The state on each of `ranks` data-parallel ranks under ZeRO `stage`, cut evenly.

        stage 0   (2 + 2 + K) P                 every rank holds everything
        stage 1   (2 + 2) P + K P / N           the optimizer's states are cut
        stage 2   2 P + (2 + K) P / N           and the gradients
        stage 3   (2 + 2 + K) P / N             and the parameters

    P = 7.5 x 10^9, N = 64, K = 12: 120, 31.4, 16.6 and 1.9 GB (Rajbhandari et al. 2020, figure 1).
    Mixed precision: parameters and gradients take 2 bytes each. ValueError for another stage and
    for less than 1 rank.
    """
    if stage not in range(4):
        raise ValueError(f"stage must be 0, 1, 2 or 3, got {stage}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, got {ranks}")

    def held(total: Number, cut_from: int) -> Number:
        return exact_ratio(total, ranks) if stage >= cut_from else total

    return TrainingState(
        parameters=held(2 * parameters, 3),
        gradients=held(2 * parameters, 2),
        optimizer=held(optimizer_bytes * parameters, 1),
    )


def training_traffic(
    parameters: Number, ranks: int, stage: int, over: Link
) -> tuple[Collective, ...]:
    """What every step of training sends among `ranks` data-parallel ranks under ZeRO `stage`.

        stage 0      all-reduce of the gradients
        stage 1, 2   reduce-scatter of the gradients, all-gather of the parameters
        stage 3      all-gather of the parameters, forward and again backward, and reduce-scatter

    Gradients and parameters take 2 bytes each. With many ranks a rank sends nearly 2 P, 2 P and 3 P
    numbers: stages 1 and 2 cost nothing more than no ZeRO, stage 3 half as much again. At inference
    nobody has gradients, and replicas send one another nothing. ValueError for another stage.
    """
    kinds = {
        0: ("all-reduce",),
        1: ("reduce-scatter", "all-gather"),
        2: ("reduce-scatter", "all-gather"),
        3: ("all-gather", "all-gather", "reduce-scatter"),
    }
    if stage not in kinds:
        raise ValueError(f"stage must be 0, 1, 2 or 3, got {stage}")
    return tuple(collective(kind, 2 * parameters, ranks, over) for kind in kinds[stage])
