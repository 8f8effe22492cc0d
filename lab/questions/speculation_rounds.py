"""Rounds of guesses: questions on tokens a call, greedy matching, the best number of guesses, and
what "the same distribution" does not say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from lab.answers import Choice, Number, Option, WrongNumber
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.speculation import speed_up, tokens_per_call
from lab.ledgers.table import show
from lab.ledgers.words import counted, listed
from lab.questions.attention import simplest
from lab.questions.wording import percent
from lab.speculation.acceptance import greedy_matches

# Tokens of a run


def tokens_of_run(drafts: int, stood: Sequence[int]) -> Question:
    """How many tokens some checks bring, from how many guesses stood in each."""
    answer, calls = sum(stood) + len(stood), len(stood)
    full = sum(count == drafts for count in stood)
    wrong = [
        WrongNumber(
            sum(stood),
            "counting guesses alone",
            "Each call brings one token of the target's own as well.",
        ),
        WrongNumber(
            answer - full,
            "leaving out the bonus",
            f"In {counted(full, 'call')} all guesses stood. The target's next token comes then, "
            "too.",
        ),
        WrongNumber(
            sum(stood) + full,
            "leaving out what comes instead of a guess that fell",
            "A guess that falls is replaced in the same call.",
        ),
        WrongNumber(
            calls * (drafts + 1),
            "letting all guesses stand",
            "Behind the first guess that falls all are thrown away.",
        ),
        WrongNumber(calls * drafts, "counting what was guessed", "Not every guess stands."),
    ]
    return Question(
        text=f"The draft makes {drafts} guesses in each round. In {calls} rounds, one after the "
        f"other, {listed(stood)} of them stand.\n\nHow many tokens do these {calls} calls of the "
        "target bring?",
        answer=Number.told_apart(answer, "tokens", wrong),
        hints=(
            "What comes behind the guesses that stand, when one falls? And when none does?",
            "Each call brings one token more than guesses stand.",
        ),
        worked=(
            f"Guesses that stand: {' + '.join(map(str, stood))} = {sum(stood)}.",
            f"One token of the target's own a call: {sum(stood)} + {calls} = {answer}.",
        ),
    )


# Greedy matching


class Greedy(NamedTuple):
    """Ids that the draft guesses, and what the target would take at each place and one behind."""

    guesses: tuple[int, ...]
    choices: tuple[int, ...]

    @property
    def stood(self) -> int:
        """How many guesses stand."""
        return greedy_matches(self.guesses, self.choices)

    @property
    def matches(self) -> int:
        """How many guesses are what the target takes at their place, behind a wrong one too."""
        return sum(g == c for g, c in zip(self.guesses, self.choices, strict=False))


def greedy(run: Greedy, dice: random.Random) -> Question:
    """What a call delivers when the target takes its likeliest token."""
    stood, drafts = run.stood, len(run.guesses)
    delivered = run.choices[: stood + 1]
    told = {
        delivered: (
            True,
            f"{counted(stood, 'guess') if stood == 1 else f'{stood} guesses'} stand, and the "
            "target's own token follows.",
        ),
        run.choices[:stood] or (run.guesses[0],): (
            False,
            "The target's own token at the first difference is delivered in the same call.",
        ),
        run.choices: (
            False,
            f"The target took its later tokens behind the guess {run.guesses[stood]}, which is not "
            "in the text.",
        ),
        (*run.guesses[:stood], run.choices[stood], *run.guesses[stood + 1 :]): (
            False,
            "What was guessed behind a wrong token is thrown away, even where it matches.",
        ),
        run.guesses: (
            False,
            f"Guess {stood + 1} is {run.guesses[stood]}, and the target takes "
            f"{run.choices[stood]} there.",
        ),
    }
    options = [Option(_ids(ids), right, says) for ids, (right, says) in told.items()]
    dice.shuffle(options)
    return Question(
        text=f"The target decodes greedily: it always takes its likeliest token. The draft guesses "
        f"the {drafts} ids {_ids(run.guesses)}. In one call the target finds the ids that it would "
        f"take behind the text and behind each guess: {_ids(run.choices)}.\n\nWhich ids are "
        "delivered?",
        answer=Choice(tuple(options)),
        hints=(
            "Compare from left to right, and stop at the first difference.",
            "What the target computed there is its own token for that place.",
        ),
        worked=(
            f"The first {stood} agree; guess {stood + 1} is {run.guesses[stood]}, and the target "
            f"takes {run.choices[stood]}.",
            f"Delivered: {_ids(delivered)}. What lies behind was computed for another text.",
        ),
    )


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


# The best number of guesses


class Setting(NamedTuple):
    """How often a guess stands, what a draft step costs, and the numbers of guesses to choose."""

    alpha: Fraction
    cost: Fraction
    drafts: tuple[int, ...] = (0, 1, 2, 4, 8)

    def speeds(self) -> dict[int, Fraction]:
        """How many times as fast as plain decoding each of them is."""
        return {n: Fraction(speed_up(self.alpha, n, self.cost)) for n in self.drafts}


def best(setting: Setting) -> Question:
    """Which number of guesses is fastest."""
    speeds = setting.speeds()
    fastest = max(speeds, key=speeds.__getitem__)
    options = []
    for drafts, speed in speeds.items():
        tokens = tokens_per_call(setting.alpha, drafts)
        says = (
            f"Tokens a round: {_short(tokens)}. Plain steps: 1 + {drafts} · {show(setting.cost)} = "
            f"{_short(1 + drafts * setting.cost)}. So {_short(speed)} times as fast."
            if drafts
            else "Plain decoding: 1 token a step."
        )
        if drafts != fastest:
            says += " Another number of guesses is faster."
        name = "no guesses" if not drafts else counted(drafts, "guess").replace("guesss", "guesses")
        options.append(Option(name, drafts == fastest, says))
    return Question(
        text=f"A guess that is reached stands in {percent(setting.alpha)} of all cases. A step of "
        f"the draft takes {show(setting.cost)} of a step of the target, and a check takes as long "
        "as a plain step.\n\nWith how many guesses a round is decoding fastest?",
        answer=Choice(tuple(options)),
        hints=(
            "Guess k is delivered only if all before it stand, too.",
            "A round brings 1 + alpha + alpha² + … tokens and takes 1 + guesses · cost.",
        ),
        worked=tuple(
            f"{drafts}: {_short(tokens_per_call(setting.alpha, drafts))} / "
            f"{_short(1 + drafts * setting.cost)} = {_short(speed)}."
            for drafts, speed in speeds.items()
        ),
    )


def _short(number: object) -> str:
    return f"{float(simplest(number)):.3g}"


# The same distribution, and another text


def same_text(probs: Sequence[Fraction], tokens: int) -> Question:
    """How often two answers from one distribution are the same text."""
    once = sum(p * p for p in probs)
    both = simplest(100 * once**tokens)
    wrong = [
        WrongNumber(
            100,
            "taking equal distributions for equal texts",
            "The two follow the same probabilities and draw for themselves.",
        ),
        WrongNumber(
            simplest(100 * once),
            "looking at one token",
            f"All {tokens} tokens must agree.",
        ),
        WrongNumber(
            simplest(100 * max(probs) ** tokens),
            "taking the likeliest text",
            "That is how often one of them says its likeliest text. They may agree on another.",
        ),
        WrongNumber(
            simplest(100 * max(probs) ** (2 * tokens)),
            "both taking the likeliest text",
            "They may agree on any text, not on the likeliest alone.",
        ),
    ]
    squares = " + ".join(f"({show(p)})²" for p in probs)
    return Question(
        text="A target is sampled with and without speculation, and both follow its distribution "
        f"exactly. At each place it says {listed(percent(p) for p in probs)} for three tokens, "
        "whatever came before. The two runs use their random numbers in different ways, so their "
        f"draws have nothing to do with one another.\n\nIn how many percent of all cases are their "
        f"first {tokens} tokens the same? To one decimal.",
        answer=Number.told_apart(
            both, "%", wrong, tolerance=max(simplest(both / Fraction(100)), Fraction(1, 20))
        ),
        hints=(
            "In how many cases do two draws of one token agree?",
            f"They agree on a token if both draw it: add the squares. Then {tokens} times.",
        ),
        worked=(
            f"One token: {squares} = {show(once)}.",
            f"{tokens} tokens: ({show(once)})^{tokens} = {_short(both / 100)}, "
            f"about {_short(both)} %.",
        ),
    )


# The exercises


def _tokens_of_run(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[int, list[int]]:
        drafts = dice.randint(3, 6)
        return drafts, [dice.randint(0, drafts) for _ in range(dice.randint(3, 5))]

    def telling(run: tuple[int, list[int]]) -> bool:
        return run[0] in run[1] and min(run[1]) < run[0] and len(set(run[1])) > 1

    return tokens_of_run(*drawn(dice, draw, telling))


def _greedy(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Greedy:
        ids = dice.sample(range(10, 100), 7)
        guesses = tuple(ids[:4])
        at = dice.randrange(3)
        choices = [*guesses, ids[4]]
        choices[at] = ids[5]
        if dice.random() < 0.5 and at < 2:
            choices[3] = ids[6]
        return Greedy(guesses, tuple(choices))

    def telling(run: Greedy) -> bool:
        return 0 < run.stood < run.matches

    return greedy(drawn(dice, draw, telling), dice)


def _best(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Setting:
        cost = dice.choice((Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)))
        return Setting(Fraction(dice.randint(2, 9), 10), cost)

    def clear(setting: Setting) -> bool:
        *_, second, first = sorted(setting.speeds().values())
        return first > Fraction(103, 100) * second

    return best(drawn(dice, draw, clear))


def _same_text(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> list[Fraction]:
        cuts = sorted(dice.sample(range(1, 10), 2))
        return [Fraction(n, 10) for n in (cuts[0], cuts[1] - cuts[0], 10 - cuts[1])]

    probs = drawn(dice, draw, lambda probs: len(set(probs)) == 3)
    return same_text(probs, dice.randint(2, 4))


TOKENS_OF_RUN = Exercise("speculation-tokens", "Tokens of a run", 10, _tokens_of_run)
GREEDY = Exercise("speculation-greedy", "Greedy matching", 10, _greedy)
BEST = Exercise("speculation-best", "How many guesses?", 10, _best)
SAME_TEXT = Exercise("speculation-same-text", "Same distribution, same text?", 10, _same_text)
