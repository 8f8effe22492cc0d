"""What the tests of questions share: an exercise in all its variants, and how its text is read."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from lab.exercises import VARIANTS, bake
from lab.questions import exercises


def variants_of(id):
    """A test for every variant of an exercise, which it gets as `asked`."""
    (one,) = exercises(id)
    return pytest.mark.parametrize("asked", bake(one), ids=range(VARIANTS))


def numbers(pattern, text):
    """The numbers that a pattern finds in a text, exactly."""
    return [Fraction(part.replace(",", "")) for part in re.search(pattern, text).groups()]


def wrong_numbers(answer):
    """Where each wrong turn of a number leads."""
    return {wrong.method: wrong.value for wrong in answer.wrong}


def right_options(choice):
    """The options that are right."""
    return {option.text for option in choice.options if option.right}


def worked_end(asked):
    """The last line of the worked answer."""
    return asked.question.worked[-1]
