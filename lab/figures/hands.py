"""A hand of work to be played by a reader: every way to seat the requests, and what rules do.

The reader decides before each step who sits. A request that gets up keeps what it has, and goes on
from there when it sits again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

from lab.figures.scene import Scene, moment
from lab.figures.timeline import timeline
from lab.ledgers.occupancy import occupancy
from lab.trace import Trace

MOST_STATES = 500
"""A hand with more states is no game for a page."""

State = tuple[int, ...]
"""Steps that each request still needs, in the order of the requests."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a rule played the hand: its scene, when each request ended, and what stood idle."""

    name: str
    scene: Scene
    ends: Mapping[str, int]
    steps: int
    idle: int


@dataclass(frozen=True, slots=True)
class Hands:
    """The game: `work` steps for each request, `seats`, and the rules that play it afterwards.

    `states` leads from each state, by each choice of requests, to the state after that step.
    `fewest` is the number of steps below which no way of playing ends.
    """

    work: Mapping[str, int]
    seats: int
    states: Mapping[State, Mapping[tuple[str, ...], State]]
    fewest: int
    rules: tuple[Rule, ...]

    @property
    def conditions(self) -> str:
        """What is given, in one line."""
        (first, steps), *others = self.work.items()
        rest = "".join(f", {who} {steps}" for who, steps in others)
        return f"{self.seats} seats, steps of equal length; {first} needs {steps} steps{rest}"

    def text(self) -> str:
        """How to play. What comes of it is not said: the reader has not played yet."""
        rules = " and ".join(rule.name.lower() for rule in self.rules)
        return (
            f"You are the scheduler\n{self.conditions} (given)\n\n"
            f"Before each step, choose who sits: at most {self.seats} requests. The step brings "
            "everybody who\nsits one step further. Who is done leaves; who gets up keeps what it "
            "has. When all are done,\nthe same hand is played beside yours by other schedulers: "
            f"{rules}."
        )

    def to_json(self) -> dict[str, Any]:
        """The game as plain values: states and choices are words, as in `"2 4 2"` and `"A B"`."""
        return {
            "requests": [{"id": who, "steps": steps} for who, steps in self.work.items()],
            "seats": self.seats,
            "conditions": self.conditions,
            "fewest": self.fewest,
            "states": {
                _word(state): {" ".join(seated): _word(after) for seated, after in choices.items()}
                for state, choices in self.states.items()
            },
            "rules": [
                {
                    "name": rule.name,
                    "scene": rule.scene.to_json(),
                    "ends": dict(rule.ends),
                    "steps": rule.steps,
                    "idle": rule.idle,
                }
                for rule in self.rules
            ],
        }


def hands(*traces: Trace) -> Hands:
    """The game behind runs of one workload, each by another rule, on a clock that counts steps.

    Raises ValueError if there is no trace, if the traces differ in work or seats, if somebody
    arrives late or does not finish, or if the game has more than 500 states.
    """
    if not traces:
        raise ValueError("a hand needs the run of at least 1 rule, got 0")
    works = [_work(trace) for trace in traces]
    seats = [occupancy(trace).seats for trace in traces]
    for work, places in zip(works, seats, strict=True):
        if (work, places) != (works[0], seats[0]):
            raise ValueError(
                f"all rules must play one hand, got {works[0]} on {seats[0]} seats "
                f"and {work} on {places}"
            )
    states = dict(_states(works[0], seats[0]))
    return Hands(
        works[0], seats[0], states, _fewest(states), tuple(_rule(trace) for trace in traces)
    )


def _work(trace: Trace) -> dict[str, int]:
    """How many steps each request took."""
    if trace.unit != "step":
        raise ValueError(f"a hand is played in steps, and this trace counts in {trace.unit!r}")
    for record in trace.requests:
        if record.arrival != 0 or record.status != "finished":
            raise ValueError(
                f"request {record.id!r} must be there at step 0 and finish: "
                f"it arrived at {record.arrival} and is {record.status}"
            )
    return {record.id: sum(run.count for run in record.runs) for record in trace.requests}


def _states(
    work: Mapping[str, int], seats: int
) -> Iterator[tuple[State, dict[tuple[str, ...], State]]]:
    """Every state, the end first, with every choice in it: nobody is left out by all of them."""
    if (count := prod(steps + 1 for steps in work.values())) > MOST_STATES:
        raise ValueError(f"a hand must have at most {MOST_STATES} states, and this one has {count}")
    for state in product(*(range(steps + 1) for steps in work.values())):
        left = dict(zip(work, state, strict=True))
        here = [who for who, steps in left.items() if steps]
        yield (
            state,
            {
                seated: tuple(steps - (who in seated) for who, steps in left.items())
                for size in range(1, seats + 1)
                for seated in combinations(here, size)
            },
        )


def _fewest(states: Mapping[State, Mapping[tuple[str, ...], State]]) -> int:
    """Steps of the shortest way from the last state, where all is to be done, to the first."""
    steps: dict[State, int] = {}
    for state, choices in states.items():
        steps[state] = min((1 + steps[after] for after in choices.values()), default=0)
    return max(steps.values())


def _rule(trace: Trace) -> Rule:
    name = f"{trace.settings['policy']} batching"
    seats = occupancy(trace)
    ends = {r.id: max(run.stop for run in r.runs) for r in trace.requests}
    told = ", ".join(f"{who} {moment(end, 'step')}" for who, end in ends.items())
    scene = timeline(trace, name, f"{name}: ends {told}; idle seat-steps: {seats.idle}")
    return Rule(name, scene, ends, seats.steps, seats.idle)


def _word(state: State) -> str:
    return " ".join(map(str, state))
