"""Chapter 8, attention in tiles: one query's pass, with other scores, tiles and orders."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lab.attention.online_softmax import (
    Step,
    Value,
    equal_average,
    ln,
    of_block,
    online_softmax,
    softmax_average,
)
from lab.figures.scene import Scene
from lab.figures.tiles import online_steps, said
from lab.ledgers.words import counted, listed

WEIGHTS = (4, 2, 1, 1, 2, 4)
"""exp(score) of each key; the first four are those of the chapter's example."""
VALUES = (1, 3, 0, 2, 4, 1)


def merged_tiles(weight: int, keys: int, tile: int, order: int) -> tuple[Scene]:
    """One query over the first `keys` keys of the example, in tiles of `tile` keys.

    The first key has the score ln(`weight`), the others those of the example. `order` is 0 where
    the tiles are read from first to last, 1 from last to first.
    """
    steps = example_pass(weight, keys, tile, order)
    alone = [of_block(step.scores, step.values).output for step in steps]
    scores = [ln(w) for w in (weight, *WEIGHTS[1:keys])]
    whole, mean = softmax_average(scores, VALUES[:keys]), equal_average(alone)
    return (online_steps(steps, "What is the output over all keys?", _found(whole, mean, alone)),)


def example_pass(
    weight: int = WEIGHTS[0], keys: int = 4, tile: int = 2, order: int = 0
) -> tuple[Step, ...]:
    """The pass that `merged_tiles` shows."""
    scores = [ln(Fraction(w)) for w in (weight, *WEIGHTS[1:keys])]
    tiles = range(-(-keys // tile))
    return online_softmax(
        scores, VALUES[:keys], tile, order=list(reversed(tiles)) if order else None
    )


def _found(whole: Value, mean: Value, alone: Sequence[Value]) -> str:
    if len(alone) == 1:
        return f"One tile holds all keys: its output, {said(whole)}, is the answer."
    told = f"{counted(len(alone), 'tile')} merged: {said(whole)}. By themselves they give "
    verdict = "and is right here" if mean == whole else "and is wrong"
    return f"{told}{listed(map(said, alone))}; the mean of those is {said(mean)}, {verdict}."
