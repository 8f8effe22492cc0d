"""One guess and its check: questions on what stands, what falls and what comes instead."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from lab.answers import Choice, Filling, Number, Option, Prediction, WrongNumber, exact
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.words import listed
from lab.questions.attention import simplest
from lab.questions.wording import percent
from lab.speculation.acceptance import Check, Probs
from lab.speculation.gallery import delivered, from_the_target_again

TOKENS = ("Paris", "Lyon", "Nice")


def check_of(draft: Sequence[int], target: Sequence[int]) -> Check:
    """A guess whose probabilities are given in tenths."""
    return Check(*(tuple(Fraction(n, 10) for n in row) for row in (draft, target)))


def drawn_again(check: Check) -> list[Fraction]:
    """What is delivered when a guess that falls is drawn again from the whole target."""
    return [Fraction(exact(part)) for part in delivered(from_the_target_again, check)]


def draw_check(dice: random.Random, tokens: int = 3) -> Check:
    """Two distributions in tenths, in which every token may come."""

    def row() -> list[int]:
        cuts = sorted(dice.sample(range(1, 10), tokens - 1))
        return [stop - start for start, stop in zip([0, *cuts], [*cuts, 10], strict=True)]

    return check_of(row(), row())


SOURCE = check_of((2, 5, 3), (6, 3, 1))
"""The guess of the chapter's opening question."""


def _said(probs: Probs, names: Sequence[str] = TOKENS) -> str:
    """A distribution in words: "Paris 60 %, Lyon 30 % and Nice 10 %"."""
    return listed(f"{name} {percent(p)}" for name, p in zip(names, probs, strict=False))


def _asks(check: Check) -> str:
    return (
        f"The draft draws its guess with {_said(check.draft)}. The target says "
        f"{_said(check.target)}."
    )


# Warm-up: how often both happen


def warm_up(guessed: int, stands: int) -> Question:
    """How often a token is guessed and stands; both chances are in tens of percent."""
    both = guessed * stands
    wrong = [
        WrongNumber(
            10 * stands,
            "leaving out how often it is guessed",
            "That is how often it stands once it is guessed. It is guessed in "
            f"{10 * guessed} % of all cases only.",
        ),
        WrongNumber(
            10 * (guessed + stands),
            "adding the chances",
            "Both must happen, one after the other: multiply.",
        ),
        WrongNumber(
            guessed * (10 - stands),
            "taking those that fall",
            f"Of its guesses {10 * (10 - stands)} % fall, and {10 * stands} % stand.",
        ),
    ]
    return Question(
        text=f"A token is guessed in {10 * guessed} % of all cases. Of these guesses "
        f"{10 * stands} % stand, and the others fall.\n\nIn how many of 100 cases is it guessed, "
        "and does it stand?",
        answer=Number.told_apart(both, "cases", wrong),
        hints=(
            f"In how many of 100 cases is it guessed? {10 * guessed}.",
            f"Of these, {10 * stands} % stand.",
        ),
        worked=(f"{10 * guessed} · {stands}/10 = {both} of 100 cases.",),
    )


# Drawing again from the target


def draw_again(check: Check, dice: random.Random) -> Question:
    """Guess whether the first token comes as often as it should when rejections are drawn anew."""
    wanted, found = check.target[0], drawn_again(check)[0]
    more, stood = check.rejected * wanted, check.accepted_mass[0]
    sums = f"{percent(stood)} + {percent(check.rejected)} · {percent(wanted)} = {percent(found)}"
    told = (
        f"{TOKENS[0]} is guessed and stands in {percent(stood)} of all cases. "
        f"{percent(check.rejected)} of all guesses fall, and of these it gets {percent(wanted)}, "
        f"which is {percent(more)}: {sums}."
    )
    options = [
        Option(
            f"in {percent(wanted)} of all answers, as the target says",
            found == wanted,
            "What stood was chosen by the draft. Only what fell was drawn from the target: "
            f"{sums}.",
        ),
        Option("more often", found > wanted, told),
        Option("less often", found < wanted, told),
    ]
    return Question(
        text="A small model (the draft) guesses the next token, and a large one (the target) "
        f"checks it. {_asks(check)} A guess that is at least as probable for the target as for the "
        "draft stands. Otherwise it stands with the probability target / draft; else it falls, and "
        f"the next token is drawn from the target.\n\nHow often is the next token {TOKENS[0]}?",
        answer=Prediction(Choice(tuple(options)), told),
        hints=(
            f"In how many of 100 cases is {TOKENS[0]} guessed, and does it ever fall?",
            "How many guesses fall in all, and what does the target then draw?",
        ),
        worked=(
            f"Guessed and stands: {percent(stood)}.",
            f"Fallen in all: {percent(check.rejected)}, of which {TOKENS[0]} gets "
            f"{percent(wanted)}.",
            f"{sums}, and the target says {percent(wanted)}.",
        ),
    )


# The whole account


def account(check: Check) -> Question:
    """Fill in what becomes of every token."""
    residual = check.residual or check.target
    rows = []
    for place, name in enumerate(TOKENS[: len(check.draft)]):
        draft, target = check.draft[place], check.target[place]
        rows.append(
            (
                name,
                _plain(draft),
                _plain(target),
                _number(
                    min(1, target / draft),
                    (target / draft, "the ratio without a limit", "No chance is above 1."),
                    (draft / target, "dividing the wrong way round", "Divide target by draft."),
                    (target, "taking the target", "Divide it by how often the token is guessed."),
                ),
                _number(
                    min(draft, target),
                    (draft, "taking all guesses", "Some of these guesses fall."),
                    (target, "taking the target", "It is not guessed that often."),
                    (0, "taking none", "It is guessed, and then it may stand."),
                ),
                _number(
                    residual[place],
                    (
                        check.missing[place],
                        "not dividing by what is lacking in all",
                        f"In all {_plain(check.rejected)} is lacking: divide by it.",
                    ),
                    (target, "drawing from the target", "Draw from what the target still lacks."),
                    (
                        max(draft - target, 0),
                        "taking what falls",
                        "That is what this token has lost, not what it lacks.",
                    ),
                ),
            )
        )
    return Question(
        text=f"{_asks(check)}\n\nFill in how often each token stands once it is guessed, how often "
        "it is guessed and stands, and with which probability it is drawn after a rejection, by "
        "the exact rule.",
        answer=Filling(
            ("token", "draft", "target", "accept", "guessed and stands", "after a rejection"),
            tuple(rows),
        ),
        hints=(
            "A guess stands with target over draft, or always if that is more than 1.",
            "Guessed and stands: the smaller of draft and target.",
            "After a rejection: target minus draft where it is above 0, so enlarged that it sums "
            "to 1.",
        ),
        worked=(
            f"Accept: {_row(check.accept)}.",
            f"Guessed and stands: {_row(check.accepted_mass)}; {_plain(check.rejected)} falls.",
            f"Lacking: {_row(check.missing)}; over {_plain(check.rejected)}: {_row(residual)}.",
            f"Together: {_row(check.output)}, which is the target.",
        ),
    )


def _number(value: object, *wrong: tuple[object, str, str]) -> Number:
    turns = [WrongNumber(simplest(number), method, says) for number, method, says in wrong]
    return Number.told_apart(simplest(value), "", turns)


def _plain(number: object) -> str:
    return str(simplest(number))


def _row(numbers: Sequence[object]) -> str:
    return listed(map(_plain, numbers))


# After a rejection


def residual(check: Check, token: int) -> Question:
    """How probable a token is after a rejection, where several are lacking."""
    assert check.residual is not None
    name, lacking = TOKENS[token], check.missing
    answer = _percent(check.residual[token])
    wrong = [
        WrongNumber(
            _percent(check.target[token]),
            "drawing from the target",
            "The guesses that stood have delivered part of that already.",
        ),
        WrongNumber(
            _percent(lacking[token]),
            "not dividing by what is lacking in all",
            f"That is what it lacks of all cases. It is drawn in the {percent(check.rejected)} in "
            "which a guess falls: divide by that.",
        ),
        WrongNumber(
            _percent(
                check.target[token]
                / sum(t for t, lack in zip(check.target, lacking, strict=True) if lack)
            ),
            "dividing the target among those that lack something",
            "What counts is not how probable they are but how much they lack.",
        ),
        WrongNumber(
            _percent(check.draft[token]),
            "drawing from the draft",
            "The draft has had its guess. What is lacking is the target's.",
        ),
    ]
    sums = f"({_plain(lacking[token])}) / ({_plain(check.rejected)})"
    return Question(
        text=f"{_asks(check)} A guess has fallen.\n\nWith how many percent, to one decimal, must "
        f"{name} be drawn now, so that the target's distribution comes out over all cases?",
        answer=Number.told_apart(answer, "%", wrong, tolerance=Fraction(1, 10)),
        hints=(
            "How much does each token still lack when only guesses that stand are counted?",
            "Lacking is target minus draft, where that is above 0.",
        ),
        worked=(
            f"Lacking: {_row(lacking)}, in all {_plain(check.rejected)}.",
            f"{name}: {sums} = {_plain(check.residual[token])}.",
        ),
    )


def _percent(prob: object) -> Fraction | int:
    return simplest(100 * simplest(prob))


# A broken rule


def broken(check: Check, token: int) -> Question:
    """The distribution of a rule that draws again from the target."""
    name, found = TOKENS[token], drawn_again(check)[token]
    stood, rejected, wanted = check.accepted_mass[token], check.rejected, check.target[token]
    wrong = [
        WrongNumber(
            _percent(wanted),
            "expecting the target",
            "That is what the exact rule gives. This rule brings again part of what stood.",
        ),
        WrongNumber(
            _percent(stood),
            "counting guesses that stand alone",
            f"{percent(rejected)} of the guesses fall, and then it may be drawn.",
        ),
        WrongNumber(
            _percent(stood + wanted),
            "drawing again always",
            f"A token is drawn again in {percent(rejected)} of all cases only.",
        ),
        WrongNumber(
            _percent(check.draft[token] + rejected * wanted),
            "letting all guesses stand",
            f"{name} is guessed in {percent(check.draft[token])} of all cases, and in only "
            f"{percent(stood)} it also stands.",
        ),
    ]
    sums = f"{_plain(stood)} + {_plain(rejected)} · {_plain(wanted)} = {_plain(found)}"
    return Question(
        text=f"{_asks(check)} Guesses are accepted by the right rule, but one that falls is "
        "replaced by a draw from the target.\n\nIn how many percent of all cases is "
        f"{name} delivered?",
        answer=Number.told_apart(_percent(found), "%", wrong),
        hints=(
            f"How often is {name} guessed and stands? The smaller of draft and target.",
            "How often does any guess fall, and what is drawn then?",
        ),
        worked=(
            f"Stands: {_plain(stood)}. Falls in all: {_plain(rejected)}.",
            f"{sums}, and the target says {_plain(wanted)}.",
        ),
    )


# The exercises

_Draw = Callable[[random.Random], Check]


def _warm_up(dice: random.Random) -> Question:
    return warm_up(dice.randint(2, 8), dice.choice((1, 2, 3, 4, 6, 7, 8, 9)))


def _uneven(check: Check) -> bool:
    """Whether the first token comes too often or too rarely when it is drawn again."""
    return drawn_again(check)[0] != check.target[0]


def _draw_again(dice: random.Random) -> Question:
    return draw_again(drawn(dice, draw_check, _uneven), dice)


def _account(dice: random.Random) -> Question:
    return account(drawn(dice, draw_check, lambda check: check.rejected > 0))


def _residual(dice: random.Random) -> Question:
    def several(check: Check) -> bool:
        return sum(lack > 0 for lack in check.missing) == 2

    check = drawn(dice, draw_check, several)
    return residual(check, dice.choice([n for n, lack in enumerate(check.missing) if lack]))


def _broken(dice: random.Random) -> Question:
    return broken(drawn(dice, draw_check, _uneven), dice.randrange(3))


WARM_UP = Exercise("speculation-warm-up", "Guessed and stands", 10, _warm_up)
DRAW_AGAIN = Exercise(
    "speculation-draw-again",
    "Drawing again",
    10,
    _draw_again,
    first=lambda: draw_again(SOURCE, random.Random(0)),
)
ACCOUNT = Exercise(
    "speculation-account",
    "What becomes of every token",
    10,
    _account,
    first=lambda: account(check_of((6, 4), (3, 7))),
)
RESIDUAL = Exercise("speculation-residual", "After a rejection", 10, _residual)
BROKEN = Exercise(
    "speculation-broken",
    "A broken rule",
    10,
    _broken,
    first=partial(broken, check_of((4, 4, 2), (6, 3, 1)), 1),
)
