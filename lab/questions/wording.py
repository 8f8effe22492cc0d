"""How needs, spans of steps and changes are said in a question."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from lab.ledgers.sizes import Number
from lab.ledgers.table import show
from lab.ledgers.words import counted, listed


def needs(lengths: Mapping[str, int]) -> str:
    """What each request needs: "A needs 2 steps, B 4 steps and C 1 step"."""
    (first, steps), *others = lengths.items()
    rest = [f"{who} {counted(count, 'step')}" for who, count in others]
    return listed([f"{first} needs {counted(steps, 'step')}", *rest])


def span(start: int, stop: int) -> str:
    """The steps from `start` up to `stop`, which count from 0: "step 3", "steps 1 to 4"."""
    return f"step {stop}" if stop - start == 1 else f"steps {start + 1} to {stop}"


def signed(number: int | Fraction) -> str:
    """A change with its sign: "+20", "−100"."""
    return f"{number:+}".replace("-", "−")


def percent(share: Number) -> str:
    """A share in percent: "60 %", "100/3 %"."""
    return f"{show(100 * share)} %"
