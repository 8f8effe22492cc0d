"""Parts put together: times that are given, and runs that are simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from lab.clock import VirtualClock
from lab.engine import Engine
from lab.executors.cost_model import CostModel
from lab.executors.guesses import Guesses
from lab.policy import Policy
from lab.record import Record
from lab.request import Time
from lab.scheduler import Scheduler
from lab.trace import Trace, Unit
from lab.workload import Workload


def given(times: Mapping[str, Sequence[Time]], workload: Workload, unit: Unit = "ms") -> Trace:
    """A trace from a textbook table: for each request the moments at which its tokens come.

    Such a trace has requests and deliveries, and no steps: nobody says what the engine did.
    Raises ValueError if a request is missing or has another number of tokens than was asked for.
    """
    records = [record for request in workload for record in Record.of(request)]
    if unknown := set(times) - {record.id for record in records}:
        raise ValueError(f"times are given for {sorted(unknown)}, which the workload does not hold")
    unit = _common_unit(workload, unit)
    for record in records:
        if record.id not in times:
            raise ValueError(f"request {record.id!r}: no delivery times are given for it")
        moments = list(times[record.id])
        if len(moments) != record.max_tokens:
            raise ValueError(
                f"request {record.id!r}: {record.max_tokens} output tokens were asked for, "
                f"and {len(moments)} delivery times are given"
            )
        record.times, record.end = moments, moments[-1]
        record.status, record.reason = "finished", "length"
    trace = Trace(unit, {"maker": "given"}, records)
    trace.check()
    return trace


def simulate(
    workload: Workload,
    policy: Policy,
    cost: CostModel | Guesses,
    *,
    repeats: bool = True,
    progress: Callable[[int], object] | None = None,
) -> Trace:
    """Serve a workload on a virtual clock: the real scheduler, with durations from `cost`.

    The same inputs give the same trace, bit for bit, with and without `repeats`: many equal steps
    planned at once, where the executor names no tokens. `progress` is called with the number of
    requests that have arrived. Raises ValueError if workload and cost model have two units, or
    policy and cost model two sizes of the blocks that are swapped.
    """
    size = cost.settings.get("swap_block_tokens", policy.block_tokens)
    if policy.preemption == "swap" and size != policy.block_tokens:
        raise ValueError(
            f"the cost model moves blocks of {size} tokens and the policy has blocks of "
            f"{policy.block_tokens}: give both the same block_tokens"
        )
    settings = {
        "maker": "simulated",
        "workload": workload.name,
        "policy": type(policy).__name__,
        **asdict(policy),
        **cost.settings,
    }
    trace = Trace(_common_unit(workload, cost.unit), settings, starts=[], ends=[])
    scheduler = Scheduler(policy, repeats=repeats and isinstance(cost, CostModel))
    engine = Engine(scheduler, cost, VirtualClock(), trace)
    return engine.run(workload, progress)


def _common_unit(workload: Workload, unit: Unit) -> Unit:
    if workload.unit is not None and workload.unit != unit:
        raise ValueError(
            f"the workload's times are in {workload.unit!r} and the run's in {unit!r}: "
            "give both in one unit"
        )
    return unit
