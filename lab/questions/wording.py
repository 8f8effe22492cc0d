"""How lists, counts, spans of steps and changes are said in a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction


def listed(words: Iterable[object]) -> str:
    """Words in a row: "100, 150 and 200"."""
    *front, last = map(str, words)
    return f"{', '.join(front)} and {last}" if front else last


def counted(count: int | float | Fraction, noun: str) -> str:
    """A count and its noun: "1 token", "3 tokens"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
