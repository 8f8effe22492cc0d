"""How many tokens a second and at what price: questions on windows, answered by the ledgers."""

from __future__ import annotations

import random
from fractions import Fraction

from lab.answers import Choice, Exact, Number, Option, Unit, WrongNumber, exact, in_words
from lab.exercises import Exercise, Question
from lab.ledgers.latency import exact_ratio, latency
from lab.ledgers.money import cost
from lab.ledgers.throughput import throughput
from lab.ledgers.words import counted
from lab.questions.timetables import (
    SOURCE,
    Timetables,
    asks,
    both_come,
    draw_timetables,
)

ROUNDED = Fraction(1, 200)
"""A number rounded to three digits is off by at most this share of itself."""

DRAIN = "the *drain window*, from the first arrival to the last token of all"

RATE_UNITS = (Unit("tokens/ms", 1000), Unit("tokens/min", Fraction(1, 60)))


def _rounded(value: Exact) -> Exact:
    """The tolerance for an answer that may be rounded."""
    return exact(value * ROUNDED)


def fixed_window(tables: Timetables, window: int) -> Question:
    """Tokens per second of the quicker timetable, in a window that outlasts both."""
    serial, together = tables
    found = throughput(together, (0, window))
    rate = exact(found.tokens_per_second)
    drained = {run: throughput(run) for run in tables}
    wrong = [
        WrongNumber(
            exact(drained[together].tokens_per_second),
            "ending the window with the last token",
            f"That is the rate in the drain window, up to {together.last} ms. The fixed window is "
            f"{window} ms long, and the idle time at its end counts.",
        ),
        WrongNumber(
            exact(drained[serial].tokens_per_second),
            "ending the window with the other timetable",
            f"That is the rate up to {serial.last} ms, in the drain window of the other timetable.",
        ),
        WrongNumber(
            exact(exact_ratio(found.output_tokens, window)),
            "leaving the window in milliseconds",
            f"That many tokens come per millisecond. {window} ms are "
            f"{in_words(Fraction(window, 1000))} s.",
        ),
        WrongNumber(
            exact(found.requests_per_second),
            "counting requests",
            f"{found.finished} requests end in the window, and {found.output_tokens} tokens come.",
        ),
    ]
    return Question(
        text=f"{asks(serial)}.\n\n{both_come(tables)}\n\nBoth are now watched in the same *fixed "
        f"window* of {window} ms, from 0 on. How many output tokens a second does *Together* make "
        "in it?",
        answer=Number.told_apart(
            rate, "tokens/s", wrong, units=RATE_UNITS, tolerance=_rounded(rate)
        ),
        hints=(
            "Count the output tokens of all requests that come in the fixed window.",
            "Divide by the whole window, also by the part of it in which nothing comes any more.",
            f"A rate per second needs the window in seconds: {window} ms are "
            f"{in_words(Fraction(window, 1000))} s.",
        ),
        worked=(
            f"{found.output_tokens} / {in_words(Fraction(window, 1000))} s = {in_words(rate)} "
            "tokens/s, for both timetables.",
            f"In the fixed window *Together* idles for {window - together.last} ms after its last "
            f"token, *One after the other* for {window - serial.last} ms. In their own drain "
            f"windows they make {in_words(exact(drained[together].tokens_per_second))} and "
            f"{in_words(exact(drained[serial].tokens_per_second))} tokens/s.",
        ),
    )


def drain_ratio(tables: Timetables, window: int) -> Question:
    """How many times as many tokens a second, each timetable over its own drain window."""
    serial, together = tables
    old, new = (exact(throughput(run).tokens_per_second) for run in tables)
    same = exact(throughput(together, (0, window)).tokens_per_second)
    ratio = exact(exact_ratio(new, old))
    wrong = [
        WrongNumber(
            exact(exact_ratio(new, same)),
            "mixing two windows",
            f"That sets the drain window of one against the fixed window of {window} ms of the "
            "other. Take the same kind of window for both.",
        ),
        WrongNumber(
            exact(exact_ratio(same, exact(throughput(serial, (0, window)).tokens_per_second))),
            "taking the fixed window",
            f"In the fixed window of {window} ms both make as many. The drain windows were asked "
            "for.",
        ),
        WrongNumber(
            exact(exact_ratio(old, new)),
            "dividing the wrong way round",
            "That is one after the other compared with together.",
        ),
    ]
    total = throughput(serial).output_tokens
    return Question(
        text=f"The same {total} output tokens are made in two ways. The first request asks at 0 "
        f"ms. *One after the other* the last token of all comes at {serial.last} ms, *together* at "
        f"{together.last} ms. In the same *fixed window* of {window} ms, from 0 on, both make "
        f"{in_words(same)} tokens/s.\n\nNow take for each {DRAIN}. How many times as many output "
        "tokens a second are made together?",
        answer=Number.told_apart(ratio, "times", wrong, tolerance=_rounded(ratio)),
        hints=(
            "Each drain window ends at another moment.",
            "Compute both rates first, then divide the one of *together* by the other.",
        ),
        worked=(
            f"Together: {total} / {in_words(Fraction(exact(together.last), 1000))} s = "
            f"{in_words(new)} tokens/s.",
            f"One after the other: {total} / {in_words(Fraction(exact(serial.last), 1000))} s = "
            f"{in_words(old)} tokens/s.",
            f"That is {in_words(ratio)} times as many. It says how soon a heap of work is cleared, "
            "and nothing about a service that is asked all day.",
        ),
    )


# What it costs


def price_of_a_thousand(tables: Timetables, price: int) -> Question:
    """What a thousand output tokens cost if exactly the drain window is paid."""
    serial, together = tables
    paid = cost(together, price)
    each = exact(paid.per_thousand_tokens)
    wrong = [
        WrongNumber(
            exact(cost(serial, price).per_thousand_tokens),
            "paying for the other timetable",
            f"That is the price up to {serial.last} ms. Served together, the drain window ends at "
            f"{together.last} ms.",
        ),
        WrongNumber(
            each * 1000,
            "taking milliseconds for seconds",
            f"{together.last} ms are {in_words(Fraction(exact(together.last), 1000))} s.",
        ),
        WrongNumber(
            exact(paid.total),
            "stopping at the bill",
            f"That is what all {paid.output_tokens} tokens cost. Bring it to a thousand.",
        ),
        WrongNumber(
            exact(cost(together, price, reserved_hours=1).per_thousand_tokens),
            "paying for a whole hour",
            "That would be the price of a reserved hour with nothing else in it. Here only the "
            "drain window is paid.",
        ),
    ]
    seconds = in_words(Fraction(exact(together.last), 1000))
    return Question(
        text=f"A machine costs {counted(price, 'dollar')} an hour, an invented price, and is paid "
        f"for exactly {DRAIN}. The first request asks at 0 ms. Served together, the last of "
        f"{paid.output_tokens} output tokens comes at {together.last} ms; one after the other it "
        f"would come at {serial.last} ms.\n\nWhat do a thousand output tokens cost when the "
        "requests are served together?",
        answer=Number.told_apart(
            each,
            "dollars",
            wrong,
            units=(Unit("cents", Fraction(1, 100)),),
            tolerance=_rounded(each),
        ),
        hints=(
            "What does the drain window cost? An hour has 3,600 seconds.",
            f"Divide the bill by the {paid.output_tokens} tokens and take it a thousand times.",
        ),
        worked=(
            f"Bill: {price} · {seconds} / 3,600 = {in_words(exact(paid.total))} dollars.",
            f"A thousand tokens: 1,000 / {paid.output_tokens} of that, {in_words(each)} dollars.",
        ),
    )


def reserved_hour(tables: Timetables, price: int, dice: random.Random) -> Question:
    """By how much the bill falls if the hour is reserved anyway."""
    serial, together = tables
    old, new = (exact(cost(run, price, reserved_hours=1).total) for run in tables)
    drained = [exact(cost(run, price).total) for run in tables]
    saving = Fraction(drained[0] - drained[1], drained[0])
    change = Fraction(new - old, old)
    gaps = [exact(latency(run)["A"].itl[0]) for run in tables]
    longer = Fraction(gaps[1] - gaps[0], gaps[0])
    options = [
        Option(
            "It stays the same.",
            change == 0,
            f"The hour is paid either way: {counted(price, 'dollar')}.",
        ),
        Option(
            f"It falls by {_percent(saving)}.",
            change == -saving,
            "That is how much shorter the drain window is. It saves money only where exactly that "
            "window is paid.",
        ),
        Option(
            f"It rises by {_percent(longer)}.",
            change == longer,
            "By that share A's gaps get longer. A pays with patience; the bill is for the hour.",
        ),
    ]
    dice.shuffle(options)
    return Question(
        text=f"A machine is reserved for one hour at {counted(price, 'dollar')}, and nothing else "
        f"runs in it. Served one after the other, three requests are done at {serial.last} ms; "
        f"served together, at {together.last} ms, while the gaps between A's tokens grow from "
        f"{gaps[0]} to {gaps[1]} ms.\n\nWhat happens to the bill when they are served "
        "together?",
        answer=Choice(tuple(options)),
        hints=("What is paid for here: tokens, steps, or time?",),
        worked=(
            f"Were exactly the drain window paid, the bill would fall from {in_words(drained[0])} "
            f"to {in_words(drained[1])} dollars.",
            f"The hour is paid either way, {in_words(old)} before and {in_words(new)} after, in "
            "dollars: the bill stays the same.",
        ),
    )


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.0f} %"


# The exercises, each with the chapter's own numbers where it has them


def _draw_window(dice: random.Random) -> tuple[Timetables, int]:
    """Timetables, and a window in whole hundreds that outlasts both."""
    tables = draw_timetables(dice)
    hundreds = -(-exact(tables.serial.last) // 100)
    return tables, 100 * (hundreds + dice.randrange(3))


FIXED_WINDOW = Exercise(
    "batching-fixed-window",
    "The same window for both",
    2,
    lambda dice: fixed_window(*_draw_window(dice)),
    lambda: fixed_window(SOURCE, 500),
)
DRAIN_RATIO = Exercise(
    "batching-drain-ratio",
    "Each with its own window",
    2,
    lambda dice: drain_ratio(*_draw_window(dice)),
    lambda: drain_ratio(SOURCE, 400),
)
PRICE_OF_A_THOUSAND = Exercise(
    "batching-price-of-a-thousand",
    "The price of a thousand tokens",
    2,
    lambda dice: price_of_a_thousand(draw_timetables(dice), dice.randrange(1, 7)),
    lambda: price_of_a_thousand(SOURCE, 2),
)
RESERVED_HOUR = Exercise(
    "batching-reserved-hour",
    "A reserved hour",
    2,
    lambda dice: reserved_hour(draw_timetables(dice), dice.randrange(1, 7), dice),
)
