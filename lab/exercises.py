"""Self-checks: questions whose answers are computed, in as many variants as there are seeds.

An exercise is a pure function of a generator of random numbers; variant k is what it makes of
`random.Random("id/k")`, on a student's machine as on the page. A page carries the first `VARIANTS`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from lab.answers import Answer

VARIANTS = 12
"""How many variants of an exercise a page carries; a seed is taken modulo this number."""

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and what helps. In `text` a blank line parts paragraphs, and `code` and
    *emphasis* may stand. Hints go from a nudge to the method; `worked` shows the arithmetic."""

    text: str
    answer: Answer
    hints: tuple[str, ...]
    worked: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError(f"a question needs a text, got {self.text!r}")
        for name, lines in (("hint", self.hints), ("line of worked answer", self.worked)):
            if not lines:
                raise ValueError(f"a question needs at least 1 {name}, got 0")
            if not all(line.strip() for line in lines):
                raise ValueError(f"a {name} must have words, got {lines!r}")


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question in many variants: `make` draws one. Where `first` is given, variant 0 is that
    one: the numbers that the chapter, or a source, works with."""

    id: str
    title: str
    chapter: int
    make: Callable[[random.Random], Question]
    first: Callable[[], Question] | None = None

    def __post_init__(self) -> None:
        for name in ("id", "title"):
            if not getattr(self, name).strip():
                raise ValueError(f"an exercise needs words for {name}")


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of an exercise, ready to be asked."""

    id: str
    title: str
    number: int
    question: Question

    @property
    def kind(self) -> str:
        """number, choice, order, table, line or predict."""
        return self.question.answer.kind

    def text(self) -> str:
        """Question and choices: what a student may see first, and nothing of the answer."""
        head = f"{self.title}  ({self.id}, variant {self.number})"
        asked = "\n".join(self.question.answer.asked())
        return "\n\n".join([head, self.question.text, asked])

    def answer_text(self) -> str:
        """The key: answer, known wrong answers and what is said to each, and the worked answer."""
        answer = "\n".join(self.question.answer.key())
        worked = "\n".join(f"  {line}" for line in self.question.worked)
        return f"Answer: {answer}\nWorked:\n{worked}"

    def to_json(self) -> dict[str, Any]:
        """The variant as plain values for a page, answer included."""
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "question": self.question.text,
            "variant": self.number,
            "hints": list(self.question.hints),
            "worked": list(self.question.worked),
            "answer": self.question.answer.to_json(),
        }


def variant(exercise: Exercise, number: int) -> Variant:
    """Variant `number` of an exercise, the same one on every machine.

    ValueError for a negative number.
    """
    if number < 0:
        raise ValueError(f"the number of a variant must be at least 0, got {number}")
    if number == 0 and exercise.first is not None:
        question = exercise.first()
    else:
        question = exercise.make(random.Random(f"{exercise.id}/{number}"))
    return Variant(exercise.id, exercise.title, number, question)


def bake(exercise: Exercise, count: int = VARIANTS) -> list[Variant]:
    """The first `count` variants: what a page carries."""
    return [variant(exercise, number) for number in range(count)]


def drawn(
    dice: random.Random, draw: Callable[[random.Random], Drawn], good: Callable[[Drawn], bool]
) -> Drawn:
    """The first of up to 1,000 draws that is `good`: how an exercise leaves out dull numbers.

    ValueError where none is, since such an exercise could not be asked.
    """
    for _ in range(1000):
        found = draw(dice)
        if good(found):
            return found
    raise ValueError("none of 1,000 draws was good: the rule for them is too strict")
