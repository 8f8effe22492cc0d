"""Side by side, and what arranging it costs: questions for which nothing of serving is needed."""

from __future__ import annotations

import random
from typing import NamedTuple

from lab.answers import Choice, Exact, Number, Option, Prediction, WrongNumber, exact
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.latency import exact_ratio
from lab.ledgers.words import counted, listed


class Job(NamedTuple):
    """Four parts in minutes, and what it costs to have the two in the middle done side by side."""

    parts: tuple[int, int, int, int]
    coordination: int

    @property
    def serial(self) -> int:
        """The time of all parts one after the other."""
        return sum(self.parts)

    @property
    def middle(self) -> int:
        """The time of the two in the middle side by side: that of the longer one."""
        return max(self.parts[1:3])

    @property
    def side_by_side(self) -> int:
        """The time with the two in the middle side by side, if that cost nothing."""
        return self.parts[0] + self.middle + self.parts[3]

    @property
    def coordinated(self) -> int:
        """The same with coordination."""
        return self.side_by_side + self.coordination

    def told(self) -> str:
        """The parts, how long they take one after the other, and what may change."""
        return (
            f"A job has four parts; they take {listed(self.parts)} minutes. One after the other "
            f"that is {self.serial} minutes. Two people could do the two parts in the middle side "
            f"by side, but arranging that takes {counted(self.coordination, 'minute')} more."
        )

    def sum(self) -> str:
        """The sum of the parts, with the two in the middle side by side."""
        first, one, other, last = self.parts
        return f"{first} + max({one}, {other}) + {last} = {self.side_by_side}"


SOURCE = Job((2, 3, 4, 1), coordination=4)
"""The job with which the book begins."""


def side_by_side(job: Job) -> Question:
    """Guess whether a job is done sooner with its two middle parts side by side."""
    sum_of_all = f"{job.side_by_side} + {job.coordination} = {job.coordinated}"
    change = job.coordinated - job.serial
    options = (
        Option(
            "sooner",
            change < 0,
            f"Without coordination it takes {job.side_by_side} minutes and not {job.serial}. With "
            f"it: {sum_of_all}.",
        ),
        Option(
            "later",
            change > 0,
            f"One after the other takes {job.serial} minutes; side by side with coordination, "
            f"{sum_of_all}.",
        ),
        Option(
            "at the same time",
            change == 0,
            f"Compare {job.serial} minutes one after the other with {sum_of_all} side by side.",
        ),
    )
    return Question(
        text=f"{job.told()}\n\nIf they do, when is the job done?",
        answer=Prediction(
            Choice(options),
            "Side by side, the two take only as long as the longer one, which makes "
            f"{job.side_by_side} minutes and not {job.serial}. Coordination adds "
            f"{job.coordination}: {job.coordinated} minutes, {_compared(change)}.",
        ),
        hints=(
            "When are two parts done that begin together? When the longer one is.",
            "Add up the first part, the longer of the two, the last part, and the coordination.",
        ),
        worked=(
            f"One after the other: {' + '.join(map(str, job.parts))} = {job.serial} minutes.",
            f"Side by side: {job.sum()} minutes.",
            f"With coordination: {sum_of_all} minutes, {_compared(change)}.",
        ),
    )


def _compared(change: int) -> str:
    if change == 0:
        return "as many as one after the other"
    return f"{abs(change)} {'more' if change > 0 else 'fewer'} than one after the other"


def break_even(job: Job) -> Question:
    """At which cost of coordination side by side takes as long as one after the other."""
    one, other = job.parts[1:3]
    tie = job.serial - job.side_by_side
    now = f"With {job.coordination}, the job takes {job.coordinated} minutes and not {job.serial}."
    wrong = [
        WrongNumber(
            job.middle,
            "taking the longer part",
            "That is how long the two take side by side. Saved is the time of the shorter one.",
        ),
        WrongNumber(
            job.coordination,
            "keeping the coordination as it is",
            f"That is no tie. {now}",
        ),
        WrongNumber(
            abs(job.coordinated - job.serial),
            "taking the difference that there is now",
            f"By that much the two ways differ now. {now} Look for no difference.",
        ),
        WrongNumber(
            _half(one + other),
            "halving the two parts",
            "Two people halve the time only where both parts take equally long.",
        ),
        WrongNumber(
            job.side_by_side,
            "taking the job without coordination",
            "That is how long the job takes if coordination costs nothing. Coordination may use "
            f"up what is left to {job.serial}.",
        ),
        WrongNumber(
            job.serial,
            "taking the whole job",
            "That is how long the whole job takes one after the other. With as much coordination, "
            f"side by side takes {job.side_by_side + job.serial} minutes.",
        ),
    ]
    return Question(
        text=f"{job.told()}\n\nWith how many minutes of coordination would it be a tie, side by "
        "side taking exactly as long as one after the other?",
        answer=Number.told_apart(tie, "min", wrong),
        hints=(
            "How long does the job take side by side if coordination costs nothing?",
            f"Coordination may use up exactly what is saved. How far is that from {job.serial}?",
        ),
        worked=(
            f"Without coordination: {job.sum()} minutes.",
            f"A tie: {job.serial} − {job.side_by_side} = {tie}, as long as the shorter of the two "
            f"parts, {one} and {other}.",
            "With more coordination than that, side by side is slower; with less, faster.",
        ),
    )


def _half(minutes: int) -> Exact:
    return exact(exact_ratio(minutes, 2))


# The exercises, each with the source's numbers as its first variant


def draw_job(dice: random.Random) -> Job:
    """A job whose coordination costs a little more or less than it saves, or just as much."""
    (first, last), (one, other) = dice.sample(range(1, 10), 2), dice.sample(range(3, 10), 2)
    return Job((first, one, other, last), min(one, other) + dice.choice((-2, -1, 0, 0, 1, 2)))


def _break_even(dice: random.Random) -> Question:
    return break_even(drawn(dice, draw_job, lambda job: job.coordinated != job.serial))


SIDE_BY_SIDE = Exercise(
    "reading-side-by-side",
    "Side by side",
    0,
    lambda dice: side_by_side(draw_job(dice)),
    lambda: side_by_side(SOURCE),
)
BREAK_EVEN = Exercise(
    "reading-break-even",
    "Where is the tie?",
    0,
    _break_even,
    lambda: break_even(SOURCE),
)
