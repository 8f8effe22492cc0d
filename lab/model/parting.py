"""Where two greedy answers part, and how close the choice was there.

In float32 a batch of another shape may round a sum differently. That can change an answer only
where the two likeliest tokens are as good as tied, so a difference is judged by the margin of the
logits at the first token that differs, computed alone and in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.model.decoder import Decoder, logits_alone


class Parting(NamedTuple):
    """The first difference of two answers."""

    place: int
    """How many tokens of the answers are equal before it."""
    said: int | None
    """The token there; None where the answer is over."""
    wanted: int | None
    margin: float
    """How far the lower of the two tokens' logits lies below the highest one, in float64."""


def parting(
    decoder: Decoder, prompt: Sequence[int], said: Sequence[int], wanted: Sequence[int]
) -> Parting | None:
    """Where `said` leaves `wanted`, or None where they are equal.

    `decoder` should compute in float64. The margin of an answer that is over too soon, or goes on
    too long, is infinite: no rounding does that.
    """
    if list(said) == list(wanted):
        return None
    shorter = min(len(said), len(wanted))
    place = next((n for n in range(shorter) if said[n] != wanted[n]), shorter)
    if place == shorter:
        one, other = (ids[place] if place < len(ids) else None for ids in (said, wanted))
        return Parting(place, one, other, float("inf"))
    logits_V = logits_alone(decoder, [*prompt, *said[:place]])
    margin = float(logits_V.max() - logits_V[[said[place], wanted[place]]].min())
    return Parting(place, said[place], wanted[place], margin)
