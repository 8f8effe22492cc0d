"""How numbers, counts and lists are said in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from lab.ledgers.table import show
from lab.request import Time


def grouped(number: Time) -> str:
    """A number as a reader expects it, with its thousands apart: "1.75", "1/3", "28,929"."""
    value = float(number)
    return f"{value:,.0f}" if abs(value) >= 1000 else show(number)


def counted(count: Time, noun: str) -> str:
    """A count and its noun: "1 request", "3 requests", "1,900 tokens"."""
    return f"{grouped(count)} {noun}{'' if count == 1 else 's'}"


def listed(words: Iterable[object]) -> str:
    """Words in a row: "100, 150 and 200"."""
    *front, last = map(str, words)
    return f"{', '.join(front)} and {last}" if front else last
