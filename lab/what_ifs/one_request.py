"""Chapter 1, where one answer's time goes: one request, its causes made longer and shorter."""

from __future__ import annotations

from lab.executors.cost_model import CostModel
from lab.figures.lifeline import task_lifeline
from lab.figures.one_log import one_log
from lab.figures.scene import Scene
from lab.ledgers.definitions import DEFINITIONS, CallLog, call_log
from lab.ledgers.table import show
from lab.ledgers.task import task
from lab.policy import Continuous
from lab.request import Time
from lab.run import simulate
from lab.trace import Trace
from lab.workload import Workload

PIECE = 40
"""Tokens of the prompt that one step computes; the step's time is given, not its tokens'."""


def one_request(
    queue: Time = 40,
    prefill: Time = 60,
    step: Time = 20,
    outputs: int = 4,
    own_step: bool = True,
) -> Trace:
    """Request A behind somebody else's prompt, on one seat: the real scheduler, with given times.

    A comes at 0 and waits `queue` ms for the seat; a step that reads its prompt takes `prefill`
    ms, a step that computes one token takes `step` ms. With `own_step` the last token of the prompt
    is left to a step of its own, and the first output token comes at the end of that one; else it
    comes at the end of the prefill.
    """
    rows = {"A": (0, PIECE + own_step, outputs)}
    if queue:
        rows = {"before A": (0, PIECE // 2, 1), **rows}
    times = {1: step, PIECE // 2: queue, PIECE: prefill}
    return simulate(
        Workload.given(rows, unit="ms"),
        Continuous(seats=1, token_budget=PIECE),
        CostModel.table(times, unit="ms"),
    )


def one_task(queue: Time, prefill: Time, step: Time, database: Time) -> tuple[Scene]:
    """A's answer of four tokens, and a database that the task waits for afterwards; all in ms."""
    call = one_request(queue, prefill, step)
    account = task((call, "A"), ("database", database))
    told = ", ".join(f"{m.metric} {show(m.value)} ms" for m in account.metrics[1:])
    return (
        task_lifeline(
            account,
            f"Token steps of {show(step)} ms: where does the user's time go?",
            f"Token steps of {show(step)} ms: {told}; the user waits {show(account.total)} ms.",
        ),
    )


def one_log_many_definitions(first_token: int, ttft: int, tpot: int, e2e: int) -> tuple[Scene]:
    """One call as everybody logs it, and one definition of each metric, by its place in
    DEFINITIONS. `first_token` is 0 where it needs a step of its own, 1 where the prefill makes it.
    """
    chosen = [DEFINITIONS["TTFT"][ttft], DEFINITIONS["TPOT"][tpot], DEFINITIONS["E2E"][e2e]]
    return (one_log(example_log(own_step=first_token == 0), chosen),)


def example_log(own_step: bool = True) -> CallLog:
    """The call of the chapter as user, client and server note it: a search of 60 ms before it, 10
    ms of network each way, and the second and the third token in one message."""
    return call_log(one_request(own_step=own_step), "A", before=60, network=10, messages=(1, 2, 1))
