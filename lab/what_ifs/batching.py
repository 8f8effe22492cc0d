"""Chapter 2, who sits in the batch: two rules side by side, and a long prompt in pieces."""

from __future__ import annotations

from lab.executors.cost_model import CostModel
from lab.figures.rows import request_rows
from lab.figures.scene import Scene
from lab.figures.timeline import timeline
from lab.ledgers.latency import latency
from lab.ledgers.occupancy import occupancy
from lab.ledgers.table import show
from lab.policy import Continuous, Static
from lab.run import simulate
from lab.workload import Workload


def two_rules(A: int, B: int, C: int, seats: int = 2) -> tuple[Scene, Scene]:
    """Static and continuous batching of three requests that need so many equal steps each."""
    work = Workload.given({"A": (0, 1, A), "B": (0, 1, B), "C": (0, 1, C)})
    runs = {
        "Static": simulate(work, Static(seats=seats), CostModel.equal_steps()),
        "Continuous": simulate(work, Continuous(seats=seats), CostModel.equal_steps()),
    }
    static, continuous = (
        timeline(
            run,
            f"{name} batching: who sits where?",
            f"{name} batching: done after step {show(run.last)}; "
            f"idle seat-steps: {occupancy(run).idle}.",
        )
        for name, run in runs.items()
    )
    return static, continuous


def long_prompt(prompt: int, budget: int) -> tuple[Scene, Scene]:
    """A decodes, and C arrives with a long prompt: computed in one go, and in pieces.

    `prompt` in tokens; `budget` is the most tokens that a step of the second run computes. A step
    takes 10 ms, and 0.1 ms more for each prompt token in it.
    """
    work = Workload.given({"A": (0, 8, 12), "C": (25, prompt, 3)}, unit="ms")
    price = CostModel.affine(10, 0.1, 0, unit="ms")
    policies = {
        "In one go": Continuous(seats=2, chunked_prefill=False),
        "In pieces": Continuous(seats=2, token_budget=budget),
    }
    scenes = []
    for name, policy in policies.items():
        run = simulate(work, policy, price)
        rows = latency(run)
        found = (
            f"A's longest gap is {max(rows['A'].itl):.0f} ms, "
            f"C's first token takes {rows['C'].ttft:.0f} ms."
        )
        scenes.append(request_rows(run, f"{name}: how long must A wait?", f"{name}: {found}"))
    return scenes[0], scenes[1]
