"""Where one answer's time goes: questions on the stages of a request and the metrics over them."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from lab.answers import (
    Choice,
    Exact,
    Number,
    Option,
    Order,
    Prediction,
    Unit,
    WrongNumber,
    WrongOrder,
    exact,
    in_words,
)
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.latency import exact_ratio, latency
from lab.ledgers.task import TASK, task
from lab.ledgers.words import counted, grouped, listed
from lab.questions.rates import ROUNDED
from lab.questions.timetables import TPOT, TTFT
from lab.run import given
from lab.trace import Trace
from lab.what_ifs.one_request import one_request
from lab.workload import Workload

E2E = "The *end-to-end time* (E2E) of a request runs from its arrival to its last token."
SECONDS = (Unit("s", 1000),)


class Stages(NamedTuple):
    """What a request goes through, in ms: the queue, the step that reads its prompt, and a step
    for each token. With `own_step` the first token has such a step too; else the step that reads
    the prompt makes it."""

    queue: int
    prefill: int
    step: int
    outputs: int
    own_step: bool = True

    def run(self) -> Trace:
        """The request, A, served."""
        return one_request(*self)

    def told(self) -> str:
        """What the request goes through, and which step makes the first token."""
        waits = f"A request waits {self.queue} ms in the queue of a server."
        if self.own_step:
            return (
                f"{waits} One step of {self.prefill} ms then reads its prompt, all but the last "
                f"token of it. Each of the {self.outputs} tokens of the answer, the first one too, "
                f"takes a step of {self.step} ms."
            )
        return (
            f"{waits} One step of {self.prefill} ms then reads its whole prompt and makes the "
            f"first of the {self.outputs} tokens of the answer. Each further token takes a step of "
            f"{self.step} ms."
        )


SOURCE = Stages(queue=40, prefill=60, step=20, outputs=4)
"""The request of the chapter; its task then waits for a database."""
DATABASE = 800


def draw_stages(dice: random.Random) -> Stages:
    """Stages like the chapter's, with the first token made in either way."""
    return Stages(
        queue=dice.randrange(30, 151, 10),
        prefill=dice.randrange(50, 131, 10),
        step=dice.randrange(10, 41, 2),
        outputs=dice.randrange(3, 8),
        own_step=dice.random() < 0.5,
    )


# Warm-up: gaps between tokens


def warm_up(stages: Stages) -> Question:
    """How many gaps lie between the tokens of an answer."""
    trace = stages.run()
    times, gaps = trace.token_times("A"), latency(trace)["A"].itl
    wrong = [
        WrongNumber(
            len(times),
            "a gap for every token",
            "No token comes before the first one, so no gap ends there.",
        ),
        WrongNumber(
            len(times) + 1,
            "counting the ends of the answer",
            "Before the first token and after the last one lies no gap: a gap has a token on both "
            "sides.",
        ),
        WrongNumber(
            exact(gaps[0]),
            "taking the length of a gap",
            "That is how long a gap is, in ms. The number of gaps was asked for.",
        ),
    ]
    return Question(
        text=f"An answer comes in {counted(len(times), 'token')}, small pieces of text, one after "
        f"the other: at {listed(times)} ms. Between one token and the next lies a *gap*.\n\nHow "
        "many gaps does the answer have?",
        answer=Number.told_apart(len(gaps), "gaps", wrong),
        hints=(
            "Take an answer of two tokens first.",
            "Every token but the first ends one gap.",
        ),
        worked=(
            f"{len(times)} tokens; the first one ends no gap: {len(times)} − 1 = {len(gaps)} gaps.",
        ),
    )


# Every token step twice as fast


def halve_the_steps(stages: Stages, database: int, dice: random.Random) -> Question:
    """Guess how much of a user's time goes when every token step takes half as long."""
    faster = stages._replace(step=stages.step // 2)
    before, after = (task((s.run(), "A"), ("database", database)) for s in (stages, faster))
    whole, answer = exact(before.total), exact(before.total) - database
    saved = whole - exact(after.total)
    steps = stages.outputs * stages.step
    options = [
        Option(
            _about(saved, steps),
            False,
            f"That is the share of the token steps. They are {steps} of the user's {whole} ms.",
        ),
        Option(
            _about(saved, answer),
            False,
            f"That is the share of the answer's {answer} ms. The user waits {whole} ms.",
        ),
        Option(_about(saved, whole), True, f"{saved} of {whole} ms go."),
    ]
    dice.shuffle(options)
    return Question(
        text=f"A user's question waits {stages.queue} ms in the queue of a server. Its prompt is "
        f"then read in {stages.prefill} ms, and {stages.outputs} steps of {stages.step} ms each "
        f"make the {stages.outputs} tokens of the answer. After that the task waits "
        f"{database} ms for a database. That is {whole} ms in all.\n\nNow every token step is made "
        f"twice as fast. How much of the user's {whole} ms goes?",
        answer=Prediction(
            Choice(tuple(options)),
            f"The token steps take {steps} of {whole} ms, and half of that goes: {saved} ms, "
            f"{_about(saved, whole)}. {_beside_the_queue(saved, stages.queue)} The database's "
            f"{database} ms stay either way.",
        ),
        hints=(
            "How many milliseconds do the token steps take together?",
            f"What goes is half of that. Set it against all {whole} ms.",
        ),
        worked=(
            f"Before: {stages.queue} + {stages.prefill} + {steps} + {database} = {whole} ms.",
            f"The token steps: {stages.outputs} · {stages.step} = {steps} ms; half of it, {saved} "
            "ms, goes.",
            f"{saved} / {whole} is {_about(saved, whole)}.",
        ),
    )


def _beside_the_queue(saved: Exact, queue: int) -> str:
    if saved == queue:
        return f"Having no queue would save exactly as much, {queue} ms."
    return f"Having no queue would save {queue} ms."


def _about(part: Exact, whole: Exact) -> str:
    return f"about {float(100 * Fraction(part) / whole):.0f} %"


# One metric at a time


def first_token(stages: Stages) -> Question:
    """The TTFT of a request, with the first token made in the way that its stages say."""
    row = latency(stages.run())["A"]
    assert row.spans is not None  # an engine ran
    ttft, queue = exact(row.ttft), exact(row.spans["queue"])
    wrong = [
        _made_the_other_way(stages),
        WrongNumber(
            ttft - queue,
            "leaving out the queue",
            f"The request has arrived and waits: the {queue} ms in the queue count.",
        ),
        WrongNumber(
            exact(row.e2e),
            "waiting for the last token",
            "That is the time up to the last token. The first one was asked for.",
        ),
    ]
    sum_of = f"{queue} + {stages.prefill}"
    return Question(
        text=f"{stages.told()}\n\n{TTFT}\n\nWhat is the request's TTFT?",
        answer=Number.told_apart(ttft, "ms", wrong, units=SECONDS),
        hints=(
            "What must be over before the first token is there?",
            "Which step makes the first token: the one that reads the prompt, or one of its own?",
        ),
        worked=(
            f"TTFT = {sum_of} + {stages.step} = {ttft} ms: queue, prompt, and the step of the "
            "first token."
            if stages.own_step
            else f"TTFT = {sum_of} = {ttft} ms: the step that reads the prompt makes the token.",
        ),
    )


def _made_the_other_way(stages: Stages) -> WrongNumber:
    """The TTFT if the first token were made in the way that the stages do not say."""
    value = exact(latency(stages._replace(own_step=not stages.own_step).run())["A"].ttft)
    if stages.own_step:
        return WrongNumber(
            value,
            "leaving out the step of the first token",
            "The prompt is read by then, but for its last token, and no token is there yet: the "
            f"first one takes a step of {stages.step} ms.",
        )
    return WrongNumber(
        value,
        "counting a step of its own for the first token",
        "The step that reads the prompt makes the first token already. A step of its own would "
        "count it twice.",
    )


def per_token(trace: Trace) -> Question:
    """The TPOT of A, from its arrival, its first token and its last."""
    row, arrival, times = latency(trace)["A"], trace["A"].arrival, trace.token_times("A")
    count, first, last = len(times), exact(times[0]), exact(times[-1])
    tpot = exact(row.tpot)
    wrong = [
        WrongNumber(
            exact(exact_ratio(last - first, count)),
            "dividing by the tokens",
            f"Between {count} tokens lie {count - 1} gaps. Divide by the gaps.",
        ),
        WrongNumber(
            exact(exact_ratio(exact(row.e2e), count)),
            "dividing the whole answer by its tokens",
            "That spreads queue and prefill over the tokens as well. Begin with the first token.",
        ),
        WrongNumber(
            exact(exact_ratio(exact(row.e2e), count - 1)),
            "beginning at the arrival",
            "The number of gaps is right. The time that they take begins with the first token.",
        ),
        WrongNumber(
            last - first,
            "not dividing",
            f"That is how long the {count - 1} gaps take together. Divide by their number.",
        ),
        WrongNumber(
            exact(row.ttft),
            "taking the time to first token",
            "That is the time to first token (TTFT). The TPOT begins where it ends.",
        ),
    ]
    return Question(
        text=f"A request arrives at {arrival} ms. The first of its {count} tokens comes at "
        f"{first} ms and the last at {last} ms.\n\n{TPOT}\n\nWhat is the request's TPOT?",
        answer=Number.told_apart(tpot, "ms", wrong, units=SECONDS, tolerance=tpot * ROUNDED),
        hints=(
            "Which two of the three moments does the TPOT need?",
            f"How many gaps lie between {count} tokens?",
        ),
        worked=(
            f"From the first token to the last: {last} − {first} = {last - first} ms.",
            f"{count} tokens have {count - 1} gaps: {last - first} / {count - 1} = "
            f"{in_words(tpot)} ms.",
        ),
    )


def one_token(stages: Stages, dice: random.Random) -> Question:
    """What the TPOT of an answer of one token is. The stages have one output."""
    row = latency(stages.run())["A"]
    options = [
        Option(
            "It does not exist.",
            row.tpot is None,
            "One token has no gap: there is nothing to divide, and nothing to divide by.",
        ),
        Option(
            "0 ms",
            row.tpot == 0,
            "A 0 is made up: it would say that further tokens come in no time, and pull every mean "
            "down.",
        ),
        Option(
            f"{row.ttft} ms",
            row.tpot == row.ttft,
            "That is the time to its first token (TTFT), which is its last one as well. It is no "
            "gap between tokens.",
        ),
        Option(
            f"{stages.step} ms",
            row.tpot == stages.step,
            "That is how long the step of its only token took. A gap lies between two tokens.",
        ),
    ]
    dice.shuffle(options)
    return Question(
        text=f"A request waits {stages.queue} ms in the queue of a server. One step of "
        f"{stages.prefill} ms reads its prompt, all but the last token of it, and one more step, "
        f"of {stages.step} ms, makes the only token of its answer.\n\n{TPOT}\n\nWhat is the "
        "request's TPOT?",
        answer=Choice(tuple(options)),
        hints=("Between which two tokens would the gap lie?",),
        worked=(
            "1 token has 1 − 1 = 0 gaps, and nothing can be divided by 0: the TPOT does not exist. "
            "A table leaves its cell empty, and a mean leaves the request out.",
        ),
    )


# All metrics at once

CAUSES = {
    "queue": "the request waits {} ms in the queue, and not {}",
    "prefill": "the step that reads the prompt takes {} ms, and not {}",
    "step": "a token's step takes {} ms, and not {}",
    "database": "the database takes {} ms, and not {}",
}
"""What may change, and how that is said of its new time and its old one."""


def which_metric_sees(stages: Stages, database: int, cause: str, new: int) -> Question:
    """Which metrics change when one cause, one of CAUSES, takes `new` ms."""
    told = CAUSES[cause].format(new, getattr(stages, cause, database))
    before = _metrics(stages, database)
    after = {
        "queue": _metrics(stages._replace(queue=new), database),
        "prefill": _metrics(stages._replace(prefill=new), database),
        "step": _metrics(stages._replace(step=new), database),
        "database": _metrics(stages, new),
    }[cause]
    options = tuple(
        Option(
            name,
            before[name] != after[name],
            f"{_moved(before[name], after[name])} {covers}",
        )
        for name, covers in _covers(stages).items()
    )
    seen = [option.text for option in options if option.right]
    return Question(
        text=f"{stages.told()} After that the user's task waits {database} ms for a database."
        f"\n\n{TTFT} {TPOT} {E2E} The *task time* is all that the user waits for.\n\nNow one "
        f"thing changes: {told}. Which of the four change with it?",
        answer=Choice(options, several=True),
        hints=(
            "Draw the stages as one line of time, and mark on it where the change lies.",
            "From where to where on that line does each of the four run?",
        ),
        worked=(
            *(f"{name}: {_moved(before[name], after[name])}" for name in _covers(stages)),
            f"What changes: {listed(seen)}.",
        ),
    )


def _metrics(stages: Stages, database: int) -> dict[str, Exact]:
    """Each metric of a request and its task, under the name that it has in the question."""
    account = task((stages.run(), "A"), ("database", database))
    return {_named(m.metric): exact(m.value) for m in account.metrics}


def _named(metric: str) -> str:
    return "task time" if metric == TASK else metric


def _covers(stages: Stages) -> dict[str, str]:
    """Each metric, and what of the stages it covers."""
    makes = "a step of its own" if stages.own_step else "the step that reads the prompt"
    return {
        "TTFT": f"It runs from the arrival to the first token, which {makes} makes.",
        "TPOT": "It is a mean over the gaps, from the first token to the last.",
        "E2E": "It runs from the arrival to the last token.",
        "task time": "It runs on to the end, the database included.",
    }


def _moved(old: Exact, new: Exact) -> str:
    if old == new:
        return f"{grouped(old)} ms before and after."
    return f"{grouped(old)} ms before, {grouped(new)} ms after."


# The moments of one request

SENT = "the client sends the request"
HERE = "the server has the request"
STARTS = "the first step of the request starts"
READ = "the last of its prompt is read"
FIRST = "its first token leaves the server"
LAST = "its last token leaves the server"
DONE = "the user's task is done"

SWAPPED = {
    (HERE, STARTS): "Between the two lies the queue: a step can compute only what the server has.",
    (STARTS, READ): "The prompt is read by steps, so the first of them must have started.",
    (READ, FIRST): "The first token follows from the whole prompt: none leaves before the prompt "
    "is read.",
    (LAST, DONE): "The answer is not yet the task: the database comes after its last token.",
}
"""Pairs of moments that are taken for one another, and why they come in this order."""

Moment: TypeAlias = tuple[Exact, int]
"""A time, and what comes first of that which happens at the same time."""


def moments(stages: Stages, chosen: frozenset[str], dice: random.Random) -> Question:
    """Put the chosen moments of a request in the order in which they happen."""
    happens = _happens(stages)
    items = sorted(chosen, key=happens.__getitem__)
    shown = drawn(dice, lambda d: d.sample(range(len(items)), len(items)), lambda s: s != sorted(s))
    wrong = tuple(
        WrongOrder(_swapped(len(items), items.index(early)), says)
        for (early, late), says in SWAPPED.items()
        if chosen >= {early, late}
    )
    return Question(
        text="A server is busy with somebody else when a client's request comes. The request gets "
        f"an answer of {counted(stages.outputs, 'token')}, each sent as soon as it is there. With "
        "the whole answer the user's task then asks a database.\n\nIn which order do these moments "
        "come?",
        answer=Order(tuple(items), tuple(shown), wrong),
        hints=(
            "What must have happened before the server can compute anything?",
            "Queue, prefill, decode, and what comes after the answer: to which does each moment "
            "belong?",
        ),
        worked=(
            "The request travels, waits in the queue, is read (prefill) and answered token by "
            "token (decode); then comes what the task needs besides.",
            f"The order: {'; '.join(items)}.",
        ),
    )


def _happens(stages: Stages) -> dict[str, Moment]:
    """When each moment comes, in a run of the stages with 10 ms of network before them."""
    trace = stages.run()
    record, times = trace["A"], trace.token_times("A")
    assert trace.starts is not None  # an engine ran
    assert trace.ends is not None
    read = next(run for run in record.runs if run.delivered)
    arrival, begins = exact(record.arrival), exact(trace.starts[record.runs[0].first])
    return {
        SENT: (arrival - 10, 0),
        HERE: (arrival, 0),
        STARTS: (begins, 0),
        READ: (exact(trace.ends[read.first]), 0),
        FIRST: (exact(times[0]), 1),
        LAST: (exact(times[-1]), 1),
        DONE: (exact(times[-1]) + DATABASE, 2),
    }


def _swapped(count: int, place: int) -> tuple[int, ...]:
    """The places of an order in which the one at `place` and the next have changed theirs."""
    order = list(range(count))
    order[place : place + 2] = place + 1, place
    return tuple(order)


# The exercises, each with the chapter's own numbers where it has them


def _halve_the_steps(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[Stages, int]:
        return draw_stages(dice)._replace(own_step=True), _draw_database(dice)

    return halve_the_steps(*drawn(dice, draw, lambda found: _are_apart(*found)), dice)


def _draw_database(dice: random.Random) -> int:
    return dice.randrange(300, 651, 50)


def _are_apart(stages: Stages, database: int) -> bool:
    """Whether the shares of token steps, answer and task that go look different."""
    saved = stages.outputs * stages.step // 2
    answer = stages.queue + stages.prefill + 2 * saved
    shares = [100 * saved / whole for whole in (2 * saved, answer, answer + database)]
    return shares[0] > shares[1] + 10 and shares[1] > 2 * shares[2] and shares[2] > 2


def _per_token(dice: random.Random) -> Question:
    return per_token(
        drawn(dice, _draw_answer, lambda trace: isinstance(latency(trace)["A"].tpot, int))
    )


def _draw_answer(dice: random.Random) -> Trace:
    """An answer with gaps of several lengths."""
    arrival = dice.randrange(10, 101, 10)
    times = [arrival + dice.randrange(80, 301, 10)]
    for _ in range(dice.randrange(2, 8)):
        times.append(times[-1] + dice.randrange(20, 61, 5))
    return given({"A": times}, Workload.given({"A": (arrival, 1, len(times))}, unit="ms"))


def _which_metric_sees(dice: random.Random) -> Question:
    stages, database = draw_stages(dice), _draw_database(dice)
    cause = dice.choice(list(CAUSES))
    return which_metric_sees(
        stages, database, cause, getattr(stages, cause, database) * 3 // dice.choice((2, 6))
    )


def _moments(dice: random.Random) -> Question:
    others = dice.sample((SENT, HERE, STARTS, LAST, DONE), 3)
    return moments(draw_stages(dice), frozenset({READ, FIRST, *others}), dice)


WARM_UP = Exercise(
    "request-warm-up",
    "Gaps between tokens",
    1,
    lambda dice: warm_up(draw_stages(dice)),
    lambda: warm_up(SOURCE),
)
HALVE_THE_STEPS = Exercise(
    "request-halve-the-steps",
    "Every step twice as fast",
    1,
    _halve_the_steps,
    lambda: halve_the_steps(SOURCE, DATABASE, random.Random("request-halve-the-steps")),
)
FIRST_TOKEN = Exercise(
    "request-first-token",
    "When is the first token there?",
    1,
    lambda dice: first_token(draw_stages(dice)),
)
PER_TOKEN = Exercise(
    "request-per-token",
    "Time per output token",
    1,
    _per_token,
)
ONE_TOKEN = Exercise(
    "request-one-token",
    "An answer of one token",
    1,
    lambda dice: one_token(draw_stages(dice)._replace(outputs=1, own_step=True), dice),
)
WHICH_METRIC_SEES = Exercise(
    "request-which-metric-sees",
    "Which metric sees it?",
    1,
    _which_metric_sees,
    lambda: which_metric_sees(SOURCE, DATABASE, "queue", 2 * SOURCE.queue),
)
MOMENTS = Exercise("request-moments", "The moments of a request", 1, _moments)
