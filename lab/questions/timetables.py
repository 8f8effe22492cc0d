"""When the tokens come: questions on given timetables, answered by the ledgers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lab.answers import (
    Choice,
    Exact,
    Filling,
    Line,
    Number,
    Option,
    Prediction,
    Unit,
    WrongNumber,
    exact,
    in_words,
)
from lab.exercises import Exercise, Question
from lab.ledgers.latency import Latency, exact_ratio, latency
from lab.ledgers.words import counted, listed
from lab.questions.wording import signed
from lab.request import Time
from lab.run import given
from lab.trace import Trace
from lab.workload import Workload

TTFT = "The *time to first token* (TTFT) of a request runs from its arrival to its first token."
TPOT = (
    "The *time per output token* (TPOT) is the time from its first token to its last, divided by "
    "the number of gaps between tokens."
)


class Timetables(NamedTuple):
    """One workload served one after the other, and together."""

    serial: Trace
    together: Trace


def timetables(
    arrivals: Mapping[str, int],
    serial: Mapping[str, Sequence[int]],
    together: Mapping[str, Sequence[int]],
) -> Timetables:
    """Two tables of delivery times in milliseconds, for the same requests."""
    rows = {who: (arrivals[who], 1, len(times)) for who, times in serial.items()}
    work = Workload.given(rows, unit="ms")
    return Timetables(given(serial, work), given(together, work))


SOURCE = timetables(
    {"A": 0, "B": 20, "C": 40},
    serial={"A": [100, 140, 180], "B": [260, 300], "C": [360]},
    together={"A": [100, 150, 200], "B": [150, 200], "C": [180]},
)
"""The two timetables of the chapter."""


def draw_timetables(dice: random.Random) -> Timetables:
    """Two timetables like the chapter's: together B and C begin sooner, and A's gaps are longer."""
    begin, gap = dice.randrange(80, 141, 10), dice.randrange(20, 51, 10)
    longer = gap + dice.choice((10, 20))
    a, b = dice.choice(((3, 2), (4, 2), (4, 3)))
    b_asks = dice.randrange(10, 41, 10)
    a_alone = [begin + gap * n for n in range(a)]
    b_begins = a_alone[-1] + dice.randrange(60, 101, 10)
    b_alone = [b_begins + gap * n for n in range(b)]
    a_beside = [begin + longer * n for n in range(a)]
    return timetables(
        {"A": 0, "B": b_asks, "C": b_asks + dice.choice((10, 20, 30))},
        serial={"A": a_alone, "B": b_alone, "C": [b_alone[-1] + dice.randrange(50, 91, 10)]},
        together={"A": a_beside, "B": a_beside[-b:], "C": [a_beside[-1] - dice.choice((10, 20))]},
    )


def asks(trace: Trace) -> str:
    """Who asks when: "A asks at 0 ms, B at 20 ms and C at 40 ms"."""
    first, *others = trace.requests
    return listed(
        [f"{first.id} asks at {first.arrival} ms", *(f"{r.id} at {r.arrival} ms" for r in others)]
    )


def comes(trace: Trace) -> str:
    """When the tokens come: "A's tokens come at 100 and 140 ms; B's at 260 ms"."""
    moments = {record.id: listed(trace.token_times(record.id)) for record in trace.requests}
    (who, first), *others = moments.items()
    begin = f"{who}'s tokens come at {first} ms"
    return "; ".join([begin, *(f"{who}'s at {times} ms" for who, times in others)])


def both_come(tables: Timetables) -> str:
    """When the tokens come under both timetables, a paragraph each."""
    return (
        f"*One after the other*: {comes(tables.serial)}.\n\n*Together*: {comes(tables.together)}."
    )


# The guess that opens the chapter


def whose_answer_is_later(tables: Timetables) -> Question:
    """Guess whose whole answer comes later when all are served together."""
    serial, together = tables
    ends = {r.id: (exact(r.end), exact(together[r.id].end)) for r in serial.requests}
    later = [who for who, (old, new) in ends.items() if new > old]
    options = [Option(f"{who}'s", who in later, _moved(who, *ends[who])) for who in ends]
    nobody = (
        f"The last token of all is out at {together.last} ms and not at {serial.last} ms, and yet "
        f"{_moved(later[0], *ends[later[0]])}"
    )
    return Question(
        text="Three travellers ask an assistant nearly at once: "
        + listed(
            f"{r.id} asks at {r.arrival} ms and will get {counted(r.output_tokens, 'token')}"
            for r in serial.requests
        )
        + f". Served one after the other, the last token of all is out at {serial.last} ms. Served "
        f"together, on the same machine, it is out at {together.last} ms. All times are "
        "given: somebody chose them for teaching.\n\nWhose whole answer comes later "
        "when they are served together?",
        answer=Prediction(
            Choice((*options, Option("nobody's", not later, nobody))),
            f"{listed(later)} no longer has the machine to itself; in this timetable its tokens "
            f"lie {in_words(exact(latency(together)[later[0]].itl[0]))} ms apart and not "
            f"{in_words(exact(latency(serial)[later[0]].itl[0]))}. Who was waiting gains; who was "
            "being served pays.",
        ),
        hints=(
            "Who had the machine to itself when they were served one after the other?",
            "Being served together takes waiting away from those who waited, and adds company.",
        ),
        worked=(
            *(_moved(who, *moments) for who, moments in ends.items()),
            f"Only one answer comes later: {later[0]}'s.",
        ),
    )


def _moved(who: str, old: Exact, new: Exact) -> str:
    if new == old:
        return f"{who}'s answer is complete at {new} ms either way."
    way = "later" if new > old else "sooner"
    return f"{who}'s answer is complete at {new} ms and not at {old} ms: {abs(new - old)} ms {way}."


# One request


def first_token(trace: Trace, who: str) -> Question:
    """The TTFT of one request of a timetable."""
    asked = trace[who].arrival
    row, begin = latency(trace)[who], trace.token_times(who)[0]
    ttft = exact(row.ttft)
    wrong = [
        WrongNumber(
            exact(begin),
            "forgetting the arrival",
            f"{begin} ms is a moment on the clock. {who} waits from {asked} ms on, not from 0.",
        ),
        WrongNumber(
            exact(row.e2e),
            "waiting for the last token",
            "That is the time of the whole answer. The first token was asked for.",
        ),
    ]
    return Question(
        text=f"{asks(trace)}. {comes(trace)}.\n\n{TTFT}\n\nWhat is {who}'s TTFT?",
        answer=Number.told_apart(ttft, "ms", wrong, units=(Unit("s", 1000),)),
        hints=(
            "A duration needs two moments. Which two?",
            f"Take {who}'s first token and {who}'s arrival, both on the clock of the table.",
        ),
        worked=(
            f"{who}'s first token comes at {begin} ms, and {who} asked at {asked} ms.",
            f"TTFT = {begin} − {asked} = {ttft} ms.",
        ),
    )


def request_times(tables: Timetables) -> Question:
    """How long each request takes from its arrival to its last token, under both timetables."""
    before, after = latency(tables.serial), latency(tables.together)
    rows = []
    for old in before:
        new, arrival = after[old.id], exact(tables.serial[old.id].arrival)
        rows.append((old.id, _whole(old, arrival), _whole(new, arrival), _change(old, new)))
    return Question(
        text=f"{asks(tables.serial)}.\n\n{both_come(tables)}\n\nThe time of a request runs "
        "from its arrival to its last token. Fill in the time of each request in ms, and the "
        "change from the first timetable to the second, with its sign.",
        answer=Filling(("request", "one after the other", "together", "change"), tuple(rows)),
        hints=(
            "Which token ends a request?",
            "Take the arrival away from the moment of the last token.",
            "The change is the new time minus the old one: below 0 where a request got quicker.",
        ),
        worked=tuple(
            f"{old.id}: {old.e2e} ms one after the other, {after[old.id].e2e} ms together, "
            f"{signed(exact(after[old.id].e2e) - exact(old.e2e))} ms."
            for old in before
        ),
    )


def _whole(row: Latency, arrival: Exact) -> Number:
    time, ttft = exact(row.e2e), exact(row.ttft)
    wrong = [
        WrongNumber(
            time + arrival,
            "forgetting the arrival",
            f"That is the moment of the last token. {row.id} asked at {arrival} ms, not at 0.",
        ),
        WrongNumber(
            ttft,
            "stopping at the first token",
            "That is the time to first token (TTFT). The request goes on to its last token.",
        ),
    ]
    return Number.told_apart(time, "ms", wrong)


def _change(old: Latency, new: Latency) -> Number:
    change = exact(new.e2e) - exact(old.e2e)
    wrong = [
        WrongNumber(
            -change,
            "taking the new time from the old",
            "The size is right. Above 0 means longer than before, below 0 quicker.",
        ),
        WrongNumber(
            exact(new.ttft) - exact(old.ttft),
            "comparing first tokens",
            "That is the change of the time to first token (TTFT). Compare the last tokens.",
        ),
    ]
    return Number.told_apart(change, "ms", wrong)


# A ledger with one wrong line


def wrong_line(trace: Trace, slip: str) -> Question:
    """Find the line of a ledger that is wrong. `slip` is one of SLIPS."""
    rows = list(latency(trace))
    lines, says = _ledger(trace, rows)
    at, line, answer = SLIPS[slip](trace, rows)
    right = lines[at]
    should = f'It should read "{right}".'
    lines[at], says[at] = line, f"{answer} {should}"
    return Question(
        text=f"{asks(trace)}. {comes(trace)}.\n\n{TTFT} {TPOT}\n\n"
        "One line of this ledger is wrong. Which one?",
        answer=Line(tuple(lines), at, tuple(says)),
        hints=(
            "Check the first tokens against the arrivals.",
            "How many gaps lie between the tokens of each request?",
            "What exists for a request with one token, and what does not?",
        ),
        worked=(f"Line {at + 1} is wrong. {answer}", should),
    )


def _ledger(trace: Trace, rows: Sequence[Latency]) -> tuple[list[str], list[str]]:
    """TTFT of every request, TPOT of every request, and the mean: lines, and why they hold."""
    lines, says = [], []
    for row in rows:
        arrival, begin = trace[row.id].arrival, trace.token_times(row.id)[0]
        lines.append(f"{row.id}: TTFT {row.ttft} ms")
        says.append(f"This line is right: {begin} − {arrival} = {row.ttft} ms.")
    for row in rows:
        times = trace.token_times(row.id)
        lines.append(f"{row.id}: {_tpot(row)}")
        says.append(
            "This line is right: one token has no gap."
            if row.tpot is None
            else f"This line is right: ({times[-1]} − {times[0]}) / {len(times) - 1} = "
            f"{in_words(exact(row.tpot))} ms."
        )
    have = [row for row in rows if row.tpot is not None]
    mean = exact_ratio(sum(exact(row.tpot) for row in have), len(have))
    lines.append(f"mean TPOT {_short(mean)} ms")
    says.append(f"This line is right: the mean is over {listed(r.id for r in have)}, who have one.")
    return lines, says


def _tpot(row: Latency) -> str:
    return "no TPOT" if row.tpot is None else f"TPOT {_short(row.tpot)} ms"


def _short(time: Time) -> str:
    """A time to four digits, so that a wrong one does not stand out by its form."""
    return f"{float(time):.4g}"


Slip = tuple[int, str, str]
"""Which line is wrong, how it reads, and what is wrong with it."""


def _zero_for_nothing(trace: Trace, rows: Sequence[Latency]) -> Slip:
    place, row = next((place, row) for place, row in enumerate(rows) if row.tpot is None)
    return (
        len(rows) + place,
        f"{row.id}: TPOT {sum(row.itl)} ms",
        f"{row.id} has one token, so there is no gap to divide and no TPOT. A 0 is made up.",
    )


def _zero_in_the_mean(trace: Trace, rows: Sequence[Latency]) -> Slip:
    mean = exact_ratio(sum(exact(row.tpot or 0) for row in rows), len(rows))
    return (
        2 * len(rows),
        f"mean TPOT {_short(mean)} ms",
        f"The mean counts a 0 for {rows[-1].id}, which has no TPOT. That makes it too low.",
    )


def _arrival_forgotten(trace: Trace, rows: Sequence[Latency]) -> Slip:
    begin = trace.token_times(rows[1].id)[0]
    return (
        1,
        f"{rows[1].id}: TTFT {begin} ms",
        f"{begin} ms is a moment on the clock; {rows[1].id} asked at "
        f"{trace[rows[1].id].arrival} ms.",
    )


def _tokens_for_gaps(trace: Trace, rows: Sequence[Latency]) -> Slip:
    times = trace.token_times(rows[0].id)
    return (
        len(rows),
        f"{rows[0].id}: TPOT {_short(exact_ratio(times[-1] - times[0], len(times)))} ms",
        f"{len(times)} tokens have {len(times) - 1} gaps, and the time was divided by "
        f"{len(times)}.",
    )


SLIPS = {
    "a zero for a TPOT that does not exist": _zero_for_nothing,
    "a zero in the mean": _zero_in_the_mean,
    "an arrival forgotten": _arrival_forgotten,
    "tokens counted instead of gaps": _tokens_for_gaps,
}


# The exercises, each with the chapter's own numbers where it has them


def _first_token(dice: random.Random) -> Question:
    return first_token(dice.choice(draw_timetables(dice)), dice.choice("BC"))


def _wrong_line(dice: random.Random) -> Question:
    return wrong_line(draw_timetables(dice).together, dice.choice(list(SLIPS)))


WHOSE_ANSWER_IS_LATER = Exercise(
    "batching-whose-answer-is-later",
    "Whose answer comes later?",
    2,
    lambda dice: whose_answer_is_later(SOURCE),
)
FIRST_TOKEN = Exercise(
    "batching-first-token",
    "Time to first token",
    2,
    _first_token,
    lambda: first_token(SOURCE.together, "B"),
)
REQUEST_TIMES = Exercise(
    "batching-request-times",
    "Who is done sooner?",
    2,
    lambda dice: request_times(draw_timetables(dice)),
    lambda: request_times(SOURCE),
)
WRONG_LINE = Exercise(
    "batching-wrong-line",
    "The wrong line",
    2,
    _wrong_line,
    lambda: wrong_line(SOURCE.together, "a zero for a TPOT that does not exist"),
)
