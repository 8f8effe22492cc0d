"""Who sits in the batch: questions on seats and steps, answered by running the scheduler."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple, TypeAlias

from lab.answers import (
    IDLE,
    Cell,
    Choice,
    Drawing,
    Filling,
    Number,
    Option,
    Order,
    Place,
    Prediction,
    Scale,
    Word,
    WrongNumber,
    WrongOrder,
    WrongWord,
    exact,
    in_words,
)
from lab.executors.cost_model import CostModel
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.latency import latency
from lab.ledgers.occupancy import occupancy
from lab.ledgers.words import counted, listed
from lab.policy import Continuous, Policy, Static
from lab.questions.wording import needs, span
from lab.record import Record
from lab.run import simulate
from lab.trace import Trace
from lab.workload import Workload

Lengths: TypeAlias = Mapping[str, int]
"""How many steps each request needs, in the order of the queue."""

TWO_SEATS = (
    "A server has two seats: it computes at most two requests at once. Every step takes equally "
    "long and brings one token for whoever sits: the first step of a request reads its prompt and "
    "makes its first token, and takes no longer than any other."
)
STATIC = (
    "Under *static* batching a group takes the seats and keeps them until its longest member is "
    "done; only then does the next group come in."
)
CONTINUOUS = (
    "Under *continuous* batching a seat is given on between two steps: who has the last token "
    "leaves, and the next in the queue sits down at once."
)
SOURCE: Lengths = {"A": 2, "B": 4, "C": 2}
"""The three requests with which the chapter begins."""


def run(lengths: Lengths, policy: Policy) -> Trace:
    """Requests that ask together, served in equal steps, with one token a step."""
    work = Workload.given({who: (0, 1, steps) for who, steps in lengths.items()})
    return simulate(work, policy, CostModel.equal_steps())


class Rules(NamedTuple):
    """The same requests under both rules."""

    static: Trace
    continuous: Trace


def both(lengths: Lengths) -> Rules:
    """The same requests on two seats, under both rules."""
    return Rules(run(lengths, Static(seats=2)), run(lengths, Continuous(seats=2)))


def draw_lengths(dice: random.Random, count: int, longest: int = 6) -> Lengths:
    """Lengths from 1 to `longest` steps for the first `count` letters."""
    return {who: dice.randrange(1, longest + 1) for who in "ABCDE"[:count]}


# Idle seats


def idle_seats(lengths: Lengths) -> Question:
    """How many seat-steps are idle under static batching."""
    rules = both(lengths)
    seats = occupancy(rules.static)
    groups = _groups(rules.static)
    first = groups[0]
    wrong = [
        WrongNumber(
            first.idle,
            "leaving out the groups after the first",
            "That is the first group alone. Seat-steps of the later groups are idle too.",
        ),
        WrongNumber(
            occupancy(rules.continuous).idle,
            "giving the seats on at once",
            "That is what continuous batching leaves idle. Under static batching a seat is kept "
            "until the whole group is done.",
        ),
        WrongNumber(
            seats.busy,
            "counting busy seat-steps",
            "These are the busy seat-steps, in which something is computed. The idle ones were "
            "asked for.",
        ),
    ]
    return Question(
        text=f"{TWO_SEATS} {needs(lengths)}; all are there at the start and queue in this order."
        f"\n\n{STATIC} One seat in one step is a *seat-step*; it is idle if nothing is computed "
        "in it.\n\nHow many seat-steps are idle until everybody is done?",
        answer=Number.told_apart(seats.idle, "seat-steps", wrong),
        hints=(
            "Until when does a request that is done early keep its seat?",
            f"Make the groups of static batching first: there are {len(groups)}.",
            "A group of the longest length L takes 2 · L seat-steps. Take away the steps that its "
            "members need; what is left is idle.",
        ),
        worked=(
            *(group.line() for group in groups),
            f"Idle together: {' + '.join(str(group.idle) for group in groups)} = {seats.idle} of "
            f"{2 * seats.steps} seat-steps.",
        ),
    )


class Group(NamedTuple):
    """Those who shared a static batch, how long it took, and the steps they needed."""

    members: list[str]
    steps: int
    busy: int

    @property
    def idle(self) -> int:
        """Seat-steps of the two seats that computed nothing."""
        return 2 * self.steps - self.busy

    def line(self) -> str:
        """The account of the group."""
        return (
            f"{listed(self.members)}: {counted(self.steps, 'step')} on 2 seats, "
            f"2 · {self.steps} − {self.busy} = {self.idle} idle."
        )


def _groups(static: Trace) -> list[Group]:
    groups = []
    for first, found in groupby(static.requests, key=_sits_from):
        members = list(found)
        last = max(_last_step(record) for record in members)
        busy = sum(record.output_tokens for record in members)
        groups.append(Group([record.id for record in members], last - first, busy))
    return groups


def _sits_from(record: Record) -> int:
    return record.stays[0].first


def _last_step(record: Record) -> int:
    """The step after the one that brought the last token."""
    return record.runs[-1].stop


# Who sits where


def who_sits_where(lengths: Lengths) -> Question:
    """Fill in the seats under continuous batching, step by step."""
    rules = both(lengths)
    static, free = _seating(rules.static), _seating(rules.continuous)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(step + 1), *(_cell(free, static, step, seat) for seat in (0, 1)))
        for step in range(1, len(free))
    )
    begin = (str(1), *free[0])
    return Question(
        text=f"{TWO_SEATS} {needs(lengths)}; all are there at the start and queue in this order."
        f"\n\n{CONTINUOUS} Of two free seats, seat 1 is taken first.\n\nWho sits where? The first "
        f"step is filled in. Write `{IDLE}` for a seat that nobody has.",
        answer=Filling(("step", "seat 1", "seat 2"), (begin, *rows)),
        hints=(
            "Look for the step that brings somebody's last token. Who is first in the queue then?",
            "Nobody waits for the other seat: each seat is given on by itself.",
            "Write under each seat how many steps its owner still needs, and take one away a step.",
        ),
        worked=tuple(
            f"{record.id} needs {counted(record.max_tokens, 'step')}: "
            f"seat {record.stays[0].seat + 1}, {span(_sits_from(record), _last_step(record))}."
            for record in rules.continuous.requests
        ),
    )


def _seating(trace: Trace) -> list[tuple[str, str]]:
    """Who is computed in seat 1 and seat 2, step by step."""
    seating = []
    for step in trace.steps():
        sits = {chunk.seat: chunk.request_id for chunk in step.chunks}
        seating.append((sits.get(0, IDLE), sits.get(1, IDLE)))
    return seating


def _cell(free: list[tuple[str, str]], static: list[tuple[str, str]], step: int, seat: int) -> Word:
    right = free[step][seat]
    before, grouped = free[step - 1][seat], static[step][seat]
    wrong = []
    if before != right and before != IDLE:
        wrong.append(
            WrongWord(before, f"{before} had the last token in step {step} and has left the seat.")
        )
    if grouped not in (right, before):
        would = "The seat would stand idle" if grouped == IDLE else f"{grouped} would sit here"
        says = f"{would} under static batching. Here no seat waits for the end of a group."
        wrong.append(WrongWord(grouped, says))
    return Word(right, tuple(wrong))


def _has_handover(lengths: Lengths) -> bool:
    """Whether the rules differ, and the table is neither trivial nor long."""
    rules = both(lengths)
    steps = rules.continuous.num_steps
    return 4 <= steps <= 7 and _seating(rules.static)[:steps] != _seating(rules.continuous)


# Draw the seats


def draw_seats(lengths: Lengths) -> Question:
    """Guess by drawing where everybody sits under continuous batching."""
    rules = both(lengths)
    end = rules.continuous.num_steps
    truth = {
        record.id: Place(f"seat {record.stays[0].seat + 1}", _sits_from(record), _last_step(record))
        for record in rules.continuous.requests
    }
    late = [record.id for record in rules.continuous.requests if _sits_from(record) > 0]
    lines = tuple(
        f"{who} takes {truth[who].lane} after step {truth[who].start} and is done after step "
        f"{truth[who].stop}; under static batching, after step {_last_step(rules.static[who])}."
        for who in late
    )
    drawn_so = "; ".join(
        f"{who} in {lane}, {span(start, stop)}" for who, (lane, start, stop) in truth.items()
    )
    return Question(
        text=f"{TWO_SEATS} {needs(lengths)}; all are there at the start and queue in this order. "
        f"A takes seat 1 and B seat 2.\n\n{CONTINUOUS}\n\nDraw who sits where.",
        answer=Prediction(
            Drawing(("seat 1", "seat 2"), max(end, rules.static.num_steps), truth),
            f"A seat is given on as soon as its owner has the last token. {lines[0]}",
        ),
        hints=(
            "Draw A and B first. Whose seat is free first?",
            "The next in the queue begins in the very step after that, in that seat.",
        ),
        worked=(*lines, f"Drawn: {drawn_so}."),
    )


# One seat changes hands

Moment: TypeAlias = tuple[int, int]
"""A boundary between steps, and what comes first there: last or first token, seat free, seat taken;
then the computing of the step that begins."""


def seat_changes_hands(lengths: Lengths, prompt: int, dice: random.Random) -> Question:
    """Put in order what happens between the last token of one request and the first of another."""
    static, free = _handover(lengths, prompt)
    right, grouped = _moments(free), _moments(static)
    items = sorted(right, key=right.__getitem__)
    too_early = {event: (at, {1: 2, 2: 1}.get(rank, rank)) for event, (at, rank) in right.items()}
    shown = drawn(dice, lambda d: d.sample(range(len(items)), len(items)), lambda s: s != sorted(s))
    wrong = (
        _wrong_order(
            items,
            grouped,
            "In this order C waits until both are done: that is static batching. The free seat is "
            "given on at once.",
        ),
        _wrong_order(
            items,
            too_early,
            "Here C sits down before the seat is free. First the last token, then the seat, then "
            "C.",
        ),
    )
    pieces = [part for part in free["C"].runs if part.kind == "prefill"]
    done = {who: _last_step(free[who]) for who in "AB"}
    return Question(
        text="A server has two seats and decides anew before every step who is computed. A step "
        "computes at most 3 tokens. A and B sit: A still needs "
        f"{counted(lengths['A'], 'step')} and B {counted(lengths['B'], 'step')}, each with one "
        f"token a step. C waits. The {prompt} tokens of its prompt must be computed before its "
        "first token can come, over several steps where they do not fit into one. C will get "
        f"{counted(lengths['C'], 'token')}.\n\nUnder *continuous* batching, in which order does "
        "this happen?",
        answer=Order(tuple(items), tuple(shown), wrong),
        hints=(
            "What must have happened before a seat can be given on?",
            "A running request takes 1 of the 3 tokens of a step. How much of C's prompt fits "
            "beside it?",
            "C's first token comes with the step that computes the end of its prompt.",
        ),
        worked=(
            f"A is done after step {done['A']}, B after step {done['B']}.",
            f"C sits from step {_sits_from(free['C']) + 1} on, and the {prompt} tokens of its "
            f"prompt are computed in pieces of {listed(part.tokens for part in pieces)}.",
            f"Its first token comes with the last piece, in step {pieces[-1].stop}.",
            f"The order: {'; '.join(items)}.",
        ),
    )


def _handover(lengths: Lengths, prompt: int) -> Rules:
    """A and B sit with nothing left to read, and C brings a prompt."""
    work = Workload.given(
        {who: (0, prompt if who == "C" else 1, steps) for who, steps in lengths.items()}
    )
    policies = Static(seats=2), Continuous(seats=2, token_budget=3)
    return Rules(*(simulate(work, policy, CostModel.equal_steps()) for policy in policies))


def _moments(trace: Trace) -> dict[str, Moment]:
    """When each event of the question happened."""
    a, b, c = trace.requests
    early, late = sorted((a, b), key=_last_step)
    leaves = early.stays[0].stop
    assert leaves is not None  # the run is over
    read = next(part for part in c.runs if part.delivered)
    return {
        f"{early.id} gets its last token": (_last_step(early), 0),
        f"{early.id}'s seat is free": (leaves, 1),
        "C takes that seat": (_sits_from(c), 2),
        "the first tokens of C's prompt are computed": (_sits_from(c), 3),
        "C gets its first token": (read.stop, 0),
        f"{late.id} gets its last token": (_last_step(late), 0),
    }


def _wrong_order(items: list[str], moments: Mapping[str, Moment], says: str) -> WrongOrder:
    return WrongOrder(tuple(map(items.index, sorted(moments, key=moments.__getitem__))), says)


def _draw_handover(dice: random.Random) -> tuple[Lengths, int]:
    lengths = {"A": dice.randrange(2, 8), "B": dice.randrange(2, 8), "C": dice.randrange(1, 4)}
    return lengths, dice.choice((4, 6))


def _is_in_one_order(draw: tuple[Lengths, int]) -> bool:
    """Whether no two of the events happen at the same moment, under either rule."""
    lengths, prompt = draw
    if lengths["A"] == lengths["B"]:
        return False
    return all(len(set(_moments(run).values())) == 6 for run in _handover(lengths, prompt))


# What changes


def what_changes(lengths: Lengths, dice: random.Random) -> Question:
    """Which statements hold when static batching becomes continuous."""
    static, free = both(lengths)
    before, after = occupancy(static), occupancy(free)
    ends = {
        record.id: (_last_step(record), _last_step(free[record.id])) for record in static.requests
    }
    last = static.requests[-1]
    moved = [who for who, (old, new) in ends.items() if old != new]
    gaps = [max(gap for row in latency(run) for gap in row.itl) for run in both(lengths)]
    said = listed(f"{who} {old} → {new}" for who, (old, new) in ends.items())
    options = [
        Option(
            "Every request is done sooner.",
            len(moved) == len(ends),
            f"Last tokens come after these steps: {said}.",
        ),
        Option(
            "No request is done later.",
            all(new <= old for old, new in ends.values()),
            f"Compare each with itself: {said}.",
        ),
        Option(
            "All of them together are done sooner.",
            free.last < static.last,
            f"All are done after {static.last} steps under static batching and after {free.last} "
            "under continuous.",
        ),
        Option(
            f"{last.id}, the last in the queue, is done sooner.",
            last.id in moved,
            f"{last.id} is done after step {ends[last.id][0]} under static batching and after step "
            f"{ends[last.id][1]} under continuous.",
        ),
        Option(
            "Fewer seat-steps are idle.",
            after.idle < before.idle,
            f"Idle under static batching: {counted(before.idle, 'seat-step')}; under continuous: "
            f"{counted(after.idle, 'seat-step')}.",
        ),
        Option(
            "The gaps between the tokens of a running request get shorter.",
            gaps[1] < gaps[0],
            f"In steps, the longest gap is {gaps[0]} under static batching and {gaps[1]} under "
            "continuous: who sits gets one token a step.",
        ),
    ]
    dice.shuffle(options)
    holds = " ".join(option.text for option in options if option.right)
    return Question(
        text=f"{TWO_SEATS} {needs(lengths)}; all are there at the start and queue in this order."
        f"\n\n{STATIC} {CONTINUOUS}\n\nThe server changes from static to continuous batching. "
        "What holds for these requests?",
        answer=Choice(tuple(options), several=True),
        hints=(
            "Draw both schedules, one column a step.",
            "Who sits in the first step under both rules? Can that request end at another step?",
            "Write down for each request the step of its last token, under both rules.",
        ),
        worked=(
            f"Steps of the last tokens, static → continuous: {said}.",
            f"Seat-steps: {before.busy} busy under both; idle {before.idle} → {after.idle}.",
            f"What holds: {holds}",
        ),
    )


# A long prompt in one go


def one_go(prompt: int, chunk: int, base: int, price: Fraction) -> Question:
    """Guess A's longest wait when C's prompt is computed in one go."""
    costs = CostModel.affine(base, price, 0, unit="ms")
    whole = _beside_a(prompt, Continuous(seats=2, chunked_prefill=False), costs)
    pieces = _beside_a(prompt, Continuous(seats=2, token_budget=chunk + 1), costs)
    waits, gaps = ([exact(gap) for gap in latency(run)["A"].itl] for run in (whole, pieces))
    alone, longest, bound = min(waits), max(waits), max(gaps)
    paid = [gap for gap in gaps if gap > alone]
    return Question(
        text="A is being answered, one token a step. A step takes "
        f"{base} ms, and {in_words(price)} ms more for each prompt token that is computed in it. "
        f"Now C comes with a prompt of {prompt:,} tokens. Cut into pieces of at most {chunk} "
        f"tokens, one piece a step, C's prompt makes A wait up to {in_words(bound)} ms for its "
        "next token.\n\nHow long does A wait at most if C's whole prompt is computed in one step?",
        answer=Prediction(
            Scale(
                low=0,
                high=600,
                step=10,
                unit="ms",
                truth=longest,
                wrong=(
                    WrongNumber(
                        alone,
                        "letting C in for nothing",
                        "That is a step without C. The step that reads C's prompt also brings "
                        "A's next token, and A waits for all of it.",
                    ),
                    WrongNumber(
                        bound,
                        "keeping the bound of the pieces",
                        "That is the wait with the prompt in pieces. Nothing bounds it now.",
                    ),
                    WrongNumber(
                        sum(paid),
                        "adding up the steps of the pieces",
                        f"Each of the {len(paid)} pieces pays for a step of its own; one step "
                        f"pays its {base} ms once.",
                    ),
                ),
            ),
            f"One step reads all of it: {base} + {prompt:,} · {in_words(price)} = "
            f"{in_words(longest)} ms, and A's next token comes at its end.",
        ),
        hints=(
            "Whose tokens are computed in the step that reads C's prompt?",
            "A's next token comes at the end of that step. How long does the step take?",
        ),
        worked=(
            f"In one go: {base} + {prompt:,} · {in_words(price)} = {in_words(longest)} ms.",
            f"In pieces: at most {base} + {chunk} · {in_words(price)} = {in_words(bound)} ms, in "
            f"each of {len(paid)} steps.",
            f"C pays for the pieces: from the start of the first to its first token "
            f"{in_words(sum(paid))} ms pass, and {in_words(longest)} ms in one go.",
        ),
    )


def _beside_a(prompt: int, policy: Policy, costs: CostModel) -> Trace:
    """A in the middle of a long answer when C comes with its prompt."""
    work = Workload.given({"A": (0, 8, 40), "C": (25, prompt, 3)}, unit="ms")
    return simulate(work, policy, costs)


# The exercises: each draws its numbers, and draws again where they would be dull


def _idle_seats(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Lengths:
        return draw_lengths(dice, dice.choice((3, 4)))

    return idle_seats(drawn(dice, draw, _leaves_seats_idle))


def _leaves_seats_idle(lengths: Lengths) -> bool:
    """Whether static batching leaves more seats idle than continuous batching would."""
    static, free = both(lengths)
    return occupancy(static).idle > occupancy(free).idle


def _who_sits_where(dice: random.Random) -> Question:
    return who_sits_where(drawn(dice, lambda d: draw_lengths(d, 4), _has_handover))


def _draw_seats(dice: random.Random) -> Question:
    return draw_seats(drawn(dice, lambda d: draw_lengths(d, 3, 5), lambda n: n["A"] != n["B"]))


def _seat_changes_hands(dice: random.Random) -> Question:
    lengths, prompt = drawn(dice, _draw_handover, _is_in_one_order)
    return seat_changes_hands(lengths, prompt, dice)


def _what_changes(dice: random.Random) -> Question:
    lengths = drawn(dice, lambda d: draw_lengths(d, 4, 4), lambda n: max(n.values()) > 1)
    return what_changes(lengths, dice)


def _one_go(dice: random.Random) -> Question:
    return one_go(
        prompt=dice.randrange(800, 2401, 200),
        chunk=dice.choice((200, 400)),
        base=dice.choice((10, 20)),
        price=dice.choice((Fraction(1, 10), Fraction(1, 20))),
    )


def _warm_up(dice: random.Random) -> Question:
    prompt, output = dice.randrange(3, 9), dice.randrange(2, 7)
    work = Workload.given({"A": (0, prompt, output)})
    trace = simulate(work, Continuous(), CostModel.equal_steps())
    steps = trace.num_steps
    wrong = [
        WrongNumber(
            prompt + output,
            "a step for every token of prompt and answer",
            "The tokens of a prompt are all known, so one step can read them together.",
        ),
        WrongNumber(
            output + 1,
            "a step for the prompt and one for every token of the answer",
            "The step that reads the last of the prompt makes the first token of the answer.",
        ),
        WrongNumber(
            output - 1,
            "counting only the steps after the first token",
            "The first token takes a step as well: the one that reads the prompt.",
        ),
    ]
    return Question(
        text=f"A request brings a prompt of {counted(prompt, 'token')} and gets an answer of "
        f"{counted(output, 'token')}. It has the machine to itself, and a step may read the whole "
        "prompt.\n\nHow many steps does it take?",
        answer=Number.told_apart(steps, "steps", wrong),
        hints=(
            "Which of the tokens are known from the start?",
            "Prefill is one step here, and it makes the first token.",
        ),
        worked=(
            "Prefill: 1 step, which makes token 1.",
            f"Decode: {counted(output - 1, 'step')}, one for each further token.",
            f"Together: 1 + {output - 1} = {steps} steps.",
        ),
    )


WARM_UP = Exercise("batching-warm-up", "Prefill and decode", 2, _warm_up)
IDLE_SEATS = Exercise(
    "batching-idle-seats", "Idle seats", 2, _idle_seats, lambda: idle_seats(SOURCE)
)
WHO_SITS_WHERE = Exercise("batching-who-sits-where", "Who sits where?", 2, _who_sits_where)
DRAW_SEATS = Exercise(
    "batching-draw-seats", "Where does C sit?", 2, _draw_seats, lambda: draw_seats(SOURCE)
)
SEAT_CHANGES_HANDS = Exercise(
    "batching-seat-changes-hands", "One seat changes hands", 2, _seat_changes_hands
)
WHAT_CHANGES = Exercise("batching-what-changes", "What changes?", 2, _what_changes)
ONE_GO = Exercise(
    "batching-one-go",
    "A long prompt in one go",
    2,
    _one_go,
    lambda: one_go(prompt=1900, chunk=400, base=10, price=Fraction(1, 10)),
)
