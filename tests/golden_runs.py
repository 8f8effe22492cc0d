"""The runs that must never change, and the files that keep them: nothing here but Python and `lab`.

The golden traces are written anew by `PYTHONPATH=. python tests/golden_runs.py`, in the root of the
repository. A change of theirs is a change of behaviour: it needs a reason and a line in CHANGELOG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

from lab.draws import (
    Arrivals,
    Bursts,
    Empirical,
    EvenlySpaced,
    Geometric,
    Lengths,
    LogNormal,
    OnOff,
    Poisson,
    Uniform,
)
from lab.executors.cost_model import CostModel
from lab.policy import Continuous, Static
from lab.request import Request
from lab.run import simulate
from lab.trace import Trace
from lab.trace_json import save
from lab.workload import Workload

GOLDEN = Path(__file__).parent / "golden"


def preempted() -> Trace:
    """Two answers in a pool for one and a half; C passes B, which is preempted."""
    work = Workload.given({"A": (0, 4, 3), "B": (0, 4, 3), "C": (1, 4, 1)}, unit="step", name="3")
    policy = Continuous(seats=2, token_budget=8, blocks=3, block_tokens=4)
    return simulate(work, policy, CostModel.equal_steps())


def static_with_timeout() -> Trace:
    """A batch that goes after its time-out, one whose member hangs up, and one that is refused."""
    work = Workload.given(
        {
            "A": (0, 6, 4),
            "B": (Fraction(1, 3), 2, 2),
            "C": {"arrival": 1, "prompt": 3, "output": 9, "cancel_at": Fraction(29, 6)},
            "D": {"arrival": 1, "prompt": 5, "output": 5, "deadline": 11},
            "E": (2, 40, 1),
            "F": {"arrival": 2, "prompt": 2, "output": 3, "cancel_at": 3},
        },
        unit="ms",
        name="time-out",
    )
    policy = Static(seats=3, timeout=Fraction(1, 2), blocks=6, block_tokens=4)
    return simulate(work, policy, CostModel.affine(Fraction(1, 3), Fraction(1, 7), 1, unit="ms"))


def drawn() -> Trace:
    """Sixty drawn requests with prefill chunks, preemptions and times in floats."""
    work = Workload.drawn(
        60, Poisson(9), prompt=Uniform(5, 90), output=Geometric(25), seed=7, name="drawn"
    )
    policy = Continuous(seats=12, token_budget=48, blocks=40, block_tokens=16, patience=2)
    return simulate(work, policy, CostModel.affine(0.01, 0.0001, 0.0005, 0.000002))


def shared() -> Trace:
    """Two answers from one prompt, whose beginning B has too; B is swapped out and comes back; a
    cached block is given up for C."""
    asked = [
        Request(id="A", prompt=range(7), max_tokens=3, n=2),
        Request(id="B", prompt=range(10), max_tokens=2, arrival=1),
        Request(id="C", prompt=range(100, 105), max_tokens=1, arrival=3),
    ]
    policy = Continuous(
        seats=4, blocks=5, block_tokens=4, preemption="swap", host_blocks=3, prefix_cache=True
    )
    cost = CostModel.equal_steps().swapping(Fraction(1, 3))
    return simulate(Workload(tuple(asked), unit="step", name="shared"), policy, cost)


MAKERS: dict[str, Callable[[], Trace]] = {
    "trace_preempted": preempted,
    "trace_static_with_timeout": static_with_timeout,
    "trace_drawn": drawn,
    "trace_shared": shared,
}

PROCESSES: Mapping[str, Arrivals] = {
    "evenly spaced": EvenlySpaced(3),
    "poisson": Poisson(4),
    "bursts": Bursts(4, size=2),
    "on off": OnOff(4, on_s=0.5, off_s=1.5),
}
LENGTHS: Mapping[str, Lengths] = {
    "evenly spaced": Uniform(10, 90),
    "poisson": LogNormal(300, p99=4000, low=20, high=5000),
    "bursts": Geometric(50),
    "on off": Empirical((8, 16, 1000)),
}


def drawn_rows() -> dict[str, list[list[object]]]:
    """Arrival, first and last prompt id, and output tokens of eight requests of each process."""
    rows: dict[str, list[list[object]]] = {}
    for name, arrivals in PROCESSES.items():
        work = Workload.drawn(
            8, arrivals, prompt=LENGTHS[name], output=LogNormal(100, 900), seed=2024
        )
        rows[name] = [[r.arrival, r.prompt[0], r.prompt[-1], r.max_tokens] for r in work]
    return rows


if __name__ == "__main__":
    for file, maker in MAKERS.items():
        save(maker(), GOLDEN / f"{file}.json")
