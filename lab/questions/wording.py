"""How lists, counts and lines in a queue are said in a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def listed(words: Iterable[object]) -> str:
    """Words in a row: "100, 150 and 200"."""
    *front, last = map(str, words)
    return f"{', '.join(front)} and {last}" if front else last


def counted(count: int, noun: str) -> str:
    """A count and its noun: "1 token", "3 tokens"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def needs(lengths: Mapping[str, int]) -> str:
    """What each request needs: "A needs 2 steps, B 4 and C 1"."""
    (who, steps), *others = lengths.items()
    return listed(
        [f"{who} needs {counted(steps, 'step')}", *(f"{who} {steps}" for who, steps in others)]
    )
