"""Self-checks on a page: exercises to try as often as one likes, and guesses that open a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from lab.exercises import VARIANTS, Exercise, bake
from lab.figures.scene import Figure
from lab.questions import exercises, more, number_in_book
from lab.widgets.answering import Answering
from lab.widgets.modules import module, style


class SelfCheck(Answering):
    """Asks exercises, each in its first `variants` variants; `scenes` appear after a guess.

    All answers are in the state of the widget, and so in the source of a page that shows it.
    """

    _esm = module("self_check")
    _css = style()

    exercises: Any = traitlets.List(read_only=True).tag(sync=True)
    scenes: Any = traitlets.List(read_only=True).tag(sync=True)
    score: Any = traitlets.Bool(True, read_only=True).tag(sync=True)

    def __init__(
        self,
        asked: Sequence[Exercise],
        scenes: Sequence[Figure] = (),
        *,
        variants: int = VARIANTS,
        score: bool = True,
    ) -> None:
        if not asked:
            raise ValueError("a self-check needs at least 1 exercise, got 0")
        super().__init__()
        baked = {exercise: bake(exercise, variants) for exercise in asked}
        self._text = "\n\n\n".join(
            f"{_heading(exercise)}{first.text()}" for exercise, (first, *_) in baked.items()
        )
        self.set_trait(
            "exercises",
            [
                {
                    "id": e.id,
                    "number": number_in_book(e),
                    "variants": [one.to_json() for one in all_of],
                }
                for e, all_of in baked.items()
            ],
        )
        self.set_trait("scenes", [scene.to_json() for scene in scenes])
        self.set_trait("score", score)

    def answer(self, **parameters: Any) -> dict[str, Any]:
        """One more variant of an exercise of the bank, by its `id` and `number`."""
        return more(**parameters)

    def __repr__(self) -> str:
        """The text form: questions and choices, and nothing of an answer."""
        return self._text


def self_check(*asked: str | Exercise, score: bool = True) -> SelfCheck:
    """Exercises to try: by id, all of a chapter by its number ("2"), or as they are.

    `score` shows below them how many are solved, and lets a reader save or clear the answers.

    ValueError for no exercise, and for an unknown id with the nearest ones.
    """
    found = [one for a in asked for one in ((a,) if isinstance(a, Exercise) else exercises(a))]
    return SelfCheck(found, score=score)


def guess(asked: str | Exercise, *scenes: Figure) -> SelfCheck:
    """A prediction, which opens the figure of `scenes` once it is given.

    It is asked in its first variant, the one that the figure shows. ValueError where the exercise
    is none to be guessed.
    """
    (exercise,) = (asked,) if isinstance(asked, Exercise) else exercises(asked)
    if (kind := bake(exercise, 1)[0].kind) != "predict":
        raise ValueError(f"a guess needs an exercise of kind predict, got {kind}: {exercise.id}")
    return SelfCheck([exercise], scenes, variants=1)


def _heading(exercise: Exercise) -> str:
    """What stands before its title: "Exercise 2.3: "."""
    number = number_in_book(exercise)
    return f"Exercise {number}: " if number else ""
