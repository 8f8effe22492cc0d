"""What users wait for: questions on a whole task, on where to look, and on what a mean hides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from lab.answers import Choice, Exact, Number, Option, Unit, WrongNumber, exact, in_words
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.latency import exact_ratio, latency, percentile
from lab.ledgers.task import Task, task
from lab.ledgers.words import grouped, listed
from lab.questions.wording import signed
from lab.run import given
from lab.trace import Trace
from lab.what_ifs.one_request import one_request
from lab.workload import Workload

SECONDS = (Unit("s", 1000),)


# Where to look first


class Answer(NamedTuple):
    """An answer as a user sees it, in ms from the question on: up to its first token, from token
    to token, and from its last token to the end of the task."""

    first: int
    gap: int
    afterwards: int

    def told(self) -> str:
        """When the tokens come, and when the task ends."""
        end = f"{self.afterwards} ms after the last one" if self.afterwards else "with the last one"
        return (
            f"the first token comes after {self.first} ms, then one every {self.gap} ms, and the "
            f"task ends {end}"
        )

    def times(self, outputs: int) -> list[int]:
        """The moments of its tokens."""
        return [self.first + self.gap * n for n in range(outputs)]

    def trace(self, outputs: int) -> Trace:
        """The answer as request A of a trace."""
        work = Workload.given({"A": (0, 1, outputs)}, unit="ms")
        return given({"A": self.times(outputs)}, work)


def diagnosis(before: Answer, after: Answer, outputs: int, dice: random.Random) -> Question:
    """Where to look first when one of the three stretches of an answer has become longer."""
    old, new = (latency(one.trace(outputs))["A"] for one in (before, after))
    wholes = [_whole(one, outputs) for one in (before, after)]
    ratios = [in_words(exact(exact_ratio(whole, outputs))) for whole in wholes]
    tail = _from_to(before.afterwards, after.afterwards)
    options = [
        Option(
            "at the queue and at prefill, each by itself",
            new.ttft != old.ttft,
            f"The TTFT {_from_to(exact(old.ttft), exact(new.ttft))}. It ends with the first token, "
            "so queue and prefill lie in it.",
        ),
        Option(
            "at the steps that make one token after the other",
            new.tpot != old.tpot,
            f"The TPOT, the time from token to token, {_from_to(before.gap, after.gap)}.",
        ),
        Option(
            "at what the task does after the last token",
            after.afterwards != before.afterwards,
            f"The time from the last token to the end of the task {tail}.",
        ),
    ]
    dice.shuffle(options)
    right = next(option for option in options if option.right)
    return Question(
        text=f"A user gets answers of {outputs} tokens.\n\n*Before*: {before.told()}.\n\n*Now*: "
        f"{after.told()}.\n\nSomebody divides the user's whole time by the number of tokens, finds "
        f"that it went from {ratios[0]} to {ratios[1]} ms a token, and wants a faster model."
        "\n\nWhere should one look first?",
        answer=Choice(tuple(options)),
        hints=(
            "The whole time falls into three stretches: up to the first token, up to the last, and "
            "what comes after.",
            "Which of the three has changed?",
        ),
        worked=(
            f"Up to the first token {before.first} → {after.first} ms; from there to the last "
            f"token {(outputs - 1) * before.gap} → {(outputs - 1) * after.gap} ms; after that "
            f"{before.afterwards} → {after.afterwards} ms.",
            f"The whole time, {wholes[0]} → {wholes[1]} ms, mixes all three. Divided by "
            f"{outputs} tokens it is {ratios[0]} → {ratios[1]} ms, and says nothing of where it "
            "has grown.",
            f"Look {right.text}.",
        ),
    )


def _whole(answer: Answer, outputs: int) -> Exact:
    """The user's whole time."""
    return exact(task((answer.trace(outputs), "A"), ("afterwards", answer.afterwards)).total)


def _from_to(old: Exact, new: Exact) -> str:
    return f"stays at {old} ms" if old == new else f"goes from {old} to {new} ms"


# The whole task


class Groups(NamedTuple):
    """What a user waits for, one after the other, in ms."""

    context: int
    tools: int
    network_and_queue: int
    prefill: int
    decode: tuple[int, ...]
    checks: int

    def account(self) -> Task:
        """The groups as one task."""
        steps = tuple(("decode", step) for step in self.decode)
        before = ("context", self.context), ("tools", self.tools)
        way = ("network and queue", self.network_and_queue)
        return task(*before, way, ("prefill", self.prefill), *steps, ("checks", self.checks))


def whole_task(groups: Groups) -> Question:
    """The time of a user's task, from its six groups."""
    account = groups.account()
    total, decode = exact(account.total), exact(account["decode"])
    others = listed(f"{step} ms" for step in groups.decode)
    model = groups.prefill + decode
    request = groups.network_and_queue + model
    wrong = [
        WrongNumber(
            total - decode + groups.decode[0],
            "counting one decode step",
            f"There are {len(groups.decode)} decode steps, and the user waits for each of them.",
        ),
        WrongNumber(
            request,
            "stopping at the request",
            "That is the way to the model and its answer. The task begins sooner and ends later.",
        ),
        WrongNumber(
            model,
            "counting the model alone",
            "That is how long the model computes. The user waits for the other groups too.",
        ),
        WrongNumber(
            total - groups.checks,
            "stopping at the last token",
            f"After the last token the answer is still checked, for {groups.checks} ms.",
        ),
        WrongNumber(
            total - groups.network_and_queue,
            "leaving out network and queue",
            "Nothing is computed there, and the user waits all the same.",
        ),
        WrongNumber(
            max(exact(part.time) for part in account),
            "taking the longest part",
            "The parts come one after the other: their times add up.",
        ),
    ]
    parts = (*groups[:4], *groups.decode, groups.checks)
    return Question(
        text="A user asks an assistant, and this happens one after the other: the context is "
        f"prepared ({groups.context} ms), a search and other tools are asked ({groups.tools} ms), "
        f"the request crosses the network and waits in the queue ({groups.network_and_queue} ms), "
        f"the prompt is read ({groups.prefill} ms, prefill), {len(groups.decode)} decode steps "
        f"make a token each ({others}), and the answer is checked ({groups.checks} ms).\n\nHow "
        "long does the user's task take?",
        answer=Number.told_apart(total, "ms", wrong, units=SECONDS),
        hints=(
            "Does anything here happen at the same time as something else?",
            "There are six groups; one of them is the decode steps, all of them.",
        ),
        worked=(f"{' + '.join(map(str, parts))} = {total} ms.",),
    )


# A mean that falls

Times: TypeAlias = Sequence[int]
"""The TTFT of each request in ms, in the order of the requests."""


def mean_and_tail(before: Times, after: Times) -> Question:
    """By how much the nearest-rank p90 of ten TTFTs changes while their mean falls."""
    change = _p90(after) - _p90(before)
    means = [exact(exact_ratio(sum(times), len(times))) for times in (before, after)]
    rank = -(-90 * len(before) // 100)
    linear = [exact(percentile(times, 90)) for times in (before, after)]
    wrong = [
        WrongNumber(
            means[1] - means[0],
            "comparing the means",
            "That is the change of the mean. It hides who waits longest.",
        ),
        WrongNumber(
            max(after) - max(before),
            "comparing the longest times",
            f"That is the change of the largest value. The p90 is the {rank}th of "
            f"{len(before)} in order.",
        ),
        WrongNumber(
            linear[1] - linear[0],
            "interpolating between neighbours",
            f"That p90 lies between the {rank}th value and the next. By nearest rank it is always "
            "one of the values.",
        ),
        WrongNumber(
            after[rank - 1] - before[rank - 1],
            "leaving the values unsorted",
            f"Those are the {rank}th values as they stand. Put both rows in order first.",
        ),
        WrongNumber(
            -change,
            "taking the new value from the old",
            "The size is right. Above 0 means longer than before.",
        ),
    ]
    rows = [", ".join(map(str, sorted(times))) for times in (before, after)]
    return Question(
        text=f"The times to first token of {len(before)} requests, in ms.\n\n*Before* a change: "
        f"{', '.join(map(str, before))}.\n\n*After* it: {', '.join(map(str, after))}.\n\nThe mean "
        f"falls from {in_words(means[0])} to {in_words(means[1])} ms. The *p90 by nearest rank* is "
        "the smallest of the values that at least 90 % of them do not exceed.\n\nBy how many ms "
        "does this p90 change? Give the sign: + for longer.",
        answer=Number.told_apart(change, "ms", wrong),
        hints=(
            "Put each row in order first.",
            f"90 % of {len(before)} values are {rank}. The p90 is the one at that place.",
        ),
        worked=(
            f"Before, in order: {rows[0]}. The {rank}th is {_p90(before)} ms.",
            f"After, in order: {rows[1]}. The {rank}th is {_p90(after)} ms.",
            f"{_p90(after)} − {_p90(before)} = {signed(change)} ms, while the mean changes by "
            f"{signed(means[1] - means[0])} ms.",
        ),
    )


def _p90(times: Times) -> Exact:
    return exact(percentile(times, 90, "nearest-rank"))


# Work done ahead


def work_moved(guesses: int, prefill: int) -> Question:
    """How much prefill is computed for each answer when it is computed ahead for every guess."""
    wrong = [
        WrongNumber(
            prefill,
            "counting the prompt that is used",
            "The prompts that nobody asks for are computed as well.",
        ),
        WrongNumber(
            0,
            "counting what the user waits for",
            "The user no longer waits for it. It is computed all the same, only sooner.",
        ),
        WrongNumber(
            (guesses - 1) * prefill,
            "counting what is thrown away",
            "That is computed for nothing. The prompt that is used is computed too.",
        ),
        WrongNumber(
            exact(exact_ratio(prefill, guesses)),
            "sharing the prefill among the guesses",
            "Each guess is a prompt of its own, and takes its whole prefill.",
        ),
    ]
    call = one_request(queue=0, prefill=prefill, outputs=1, own_step=False)
    ahead = exact(task(*[(call, "A")] * guesses)["prefill"])
    return Question(
        text=f"Below each answer an assistant shows {guesses} questions that the user may ask "
        f"next, and the user always picks one of them. Reading its prompt (prefill) takes "
        f"{prefill} ms, for which the user waited until now. From now on the prompts of all "
        f"{guesses} are read in the background while the user is still busy with the answer, and "
        f"the user waits {prefill} ms less.\n\nHow many ms of prefill are computed now for each "
        "question that is asked?",
        answer=Number.told_apart(ahead, "ms", wrong, units=SECONDS),
        hints=(
            "Was any computing saved, or was it done at another time?",
            "How many prompts are read for one that is used?",
        ),
        worked=(
            f"{guesses} prompts of {prefill} ms each: {guesses} · {prefill} = {grouped(ahead)} ms; "
            f"before the change, {prefill} ms.",
            f"The user waits {prefill} ms less, and for each question the machine computes "
            f"{grouped(ahead - prefill)} ms more. On a busy machine somebody else waits for that.",
        ),
    )


# The exercises, each with the source's numbers where it has them


def _diagnosis(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[Answer, Answer, int]:
        before = Answer(*(dice.randrange(low, high, 10) for low, high in _USUAL))
        longer = dice.choice(before._fields)
        times = dice.randrange(3, 6)
        after = before._replace(**{longer: times * getattr(before, longer)})
        return before, after, dice.choice((4, 5, 8, 10))

    def is_even(found: tuple[Answer, Answer, int]) -> bool:
        *answers, outputs = found
        return all(_whole(one, outputs) % outputs == 0 for one in answers)

    return diagnosis(*drawn(dice, draw, is_even), dice)


_USUAL = ((80, 201), (10, 51), (50, 301))
"""From where to where the stretches of an answer are drawn."""


def _whole_task(dice: random.Random) -> Question:
    context, tools, way, prefill, checks = dice.sample(range(5, 100), 5)
    decode = tuple(dice.randrange(10, 40) for _ in range(dice.randrange(2, 5)))
    return whole_task(Groups(context, tools, way, prefill, decode, checks))


def _mean_and_tail(dice: random.Random) -> Question:
    return mean_and_tail(*drawn(dice, _draw_change, lambda times: _hides_a_tail(*times)))


def _draw_change(dice: random.Random) -> tuple[Times, Times]:
    """Ten times, and the same after a change that helps most of them and hurts two."""
    before = [dice.randrange(100, 301, 10) for _ in range(10)]
    hurt = dice.sample(range(10), 2)
    after = [
        time + dice.randrange(50, 201, 10) if n in hurt else time - dice.randrange(30, 91, 10)
        for n, time in enumerate(before)
    ]
    return before, after


def _hides_a_tail(before: Times, after: Times) -> bool:
    return sum(after) < sum(before) and _p90(after) >= _p90(before) + 20


def _work_moved(dice: random.Random) -> Question:
    guesses = dice.randrange(3, 7)
    return work_moved(guesses, guesses * dice.randrange(15, 66))


DIAGNOSIS = Exercise(
    "request-diagnosis",
    "Where to look first?",
    1,
    _diagnosis,
)
WHOLE_TASK = Exercise(
    "request-whole-task",
    "The whole task",
    1,
    _whole_task,
)
MEAN_AND_TAIL = Exercise("request-mean-and-tail", "The mean falls", 1, _mean_and_tail)
WORK_MOVED = Exercise(
    "request-work-moved",
    "Computed ahead",
    1,
    _work_moved,
)
