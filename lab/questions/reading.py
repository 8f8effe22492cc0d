"""Side by side, and what arranging it costs: questions for which nothing of serving is needed."""

from __future__ import annotations

import random

from lab.answers import Choice, Exact, Number, Option, Prediction, WrongNumber, exact
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.latency import exact_ratio
from lab.ledgers.splitting import Split, split
from lab.ledgers.words import listed

SOURCE = split([2, 3, 4, 1], together=(1, 2), coordination=4)
"""The job with which the book begins."""


def told(job: Split) -> str:
    """The parts, how long they take one after the other, and what may change."""
    return (
        f"A job has four parts; they take {listed(map(str, job.parts))} ms. One after the other "
        f"that is {job.serial} ms. Two workers could do the two parts in the middle side by side, "
        f"but to hand them out and to collect them takes {job.coordination} ms more."
    )


def summed(job: Split) -> str:
    """The sum of the parts, with the two in the middle side by side."""
    first, one, other, last = job.parts
    return f"{first} + max({one}, {other}) + {last} = {job.parallel}"


def side_by_side(job: Split) -> Question:
    """Guess whether a job is done sooner with its two middle parts side by side."""
    sum_of_all = f"{job.parallel} + {job.coordination} = {job.wait}"
    change = exact(job.wait - job.serial)
    options = (
        Option(
            "sooner",
            change < 0,
            f"Without coordination it takes {job.parallel} ms and not {job.serial}. With "
            f"it: {sum_of_all}.",
        ),
        Option(
            "later",
            change > 0,
            f"One after the other takes {job.serial} ms; side by side with coordination, "
            f"{sum_of_all}.",
        ),
        Option(
            "at the same time",
            change == 0,
            f"Compare {job.serial} ms one after the other with {sum_of_all} side by side.",
        ),
    )
    return Question(
        text=f"{told(job)}\n\nIf they do, when is the job done?",
        answer=Prediction(
            Choice(options),
            "Side by side, the two take only as long as the longer one, which makes "
            f"{job.parallel} ms and not {job.serial}. Coordination adds "
            f"{job.coordination}: {job.wait} ms, {_compared(change)}.",
        ),
        hints=(
            "When are two parts done that begin together? When the longer one is.",
            "Add up the first part, the longer of the two, the last part, and the coordination.",
        ),
        worked=(
            f"One after the other: {' + '.join(map(str, job.parts))} = {job.serial} ms.",
            f"Side by side: {summed(job)} ms.",
            f"With coordination: {sum_of_all} ms, {_compared(change)}.",
        ),
    )


def _compared(change: Exact) -> str:
    if change == 0:
        return "as long as one after the other"
    return f"{abs(change)} ms {'more' if change > 0 else 'less'} than one after the other"


def break_even(job: Split) -> Question:
    """At which cost of coordination side by side takes as long as one after the other."""
    one, other = job.parts[1:3]
    tie = exact(job.breakeven)
    now = f"With {job.coordination}, the job takes {job.wait} ms and not {job.serial}."
    wrong = [
        WrongNumber(
            exact(max(job.together)),
            "taking the longer part",
            "That is how long the two take side by side. Saved is the time of the shorter one.",
        ),
        WrongNumber(
            exact(job.coordination),
            "keeping the coordination as it is",
            f"That is no tie. {now}",
        ),
        WrongNumber(
            exact(abs(job.wait - job.serial)),
            "taking the difference that there is now",
            f"By that much the two ways differ now. {now} Look for no difference.",
        ),
        WrongNumber(
            exact(exact_ratio(one + other, 2)),
            "halving the two parts",
            "Two workers halve the time only where both parts take equally long.",
        ),
        WrongNumber(
            exact(job.parallel),
            "taking the job without coordination",
            "That is how long the job takes if coordination costs nothing. Coordination may use "
            f"up what is left to {job.serial}.",
        ),
        WrongNumber(
            exact(job.serial),
            "taking the whole job",
            "That is how long the whole job takes one after the other. With as much coordination, "
            f"side by side takes {job.parallel + job.serial} ms.",
        ),
    ]
    return Question(
        text=f"{told(job)}\n\nWith how many ms of coordination would it be a tie, side by "
        "side taking exactly as long as one after the other?",
        answer=Number.told_apart(tie, "ms", wrong),
        hints=(
            "How long does the job take side by side if coordination costs nothing?",
            f"Coordination may use up exactly what is saved. How far is that from {job.serial}?",
        ),
        worked=(
            f"Without coordination: {summed(job)} ms.",
            f"A tie: {job.serial} − {job.parallel} = {tie}, as long as the shorter of the two "
            f"parts, {one} and {other}.",
            "With more coordination than that, side by side is slower; with less, faster.",
        ),
    )


# The exercises; the guess begins with the source's numbers, whose tie the chapter then tells


def draw_job(dice: random.Random) -> Split:
    """A job whose coordination costs a little more or less than it saves, or just as much."""
    (first, last), (one, other) = dice.sample(range(1, 10), 2), dice.sample(range(3, 10), 2)
    coordination = min(one, other) + dice.choice((-2, -1, 0, 0, 1, 2))
    return split([first, one, other, last], (1, 2), coordination)


def _break_even(dice: random.Random) -> Question:
    return break_even(drawn(dice, draw_job, lambda job: job.wait != job.serial))


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
)
