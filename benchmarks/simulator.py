"""How fast the simulator is, beside a plain SimPy model of the same queue, in one run.

`python -m benchmarks.simulator [TRACE]` takes a public trace file (Azure CSV, Mooncake JSONL or
BurstGPT CSV), or draws a workload of the size of the Azure conversation trace. It prints tokens per
CPU second as a ratio to the peer, with every token's time in both; and how time grows with the
number of requests. The peer knows seats and step times; it has no blocks, no token budget and no
ledgers.
"""

from __future__ import annotations

import gc
import platform
import resource
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import process_time

import simpy

from lab.draws import LogNormal, Poisson
from lab.executors.cost_model import CostModel
from lab.policy import Continuous
from lab.run import simulate
from lab.workload import Workload

SEATS = 256
# A straight line through the roofline of llama-3-8b on an H100, at contexts of 1,000 tokens.
STEP_S, PREFILL_S, DECODE_S = 0.0045, 0.0000146, 0.000039
POLICY = Continuous(seats=SEATS, token_budget=4096, blocks=40_000)
COST = CostModel.affine(STEP_S, PREFILL_S, DECODE_S)


@dataclass
class Job:
    """A request of the peer: what is left of it, and when its tokens came."""

    prompt: int
    left: int
    times: list[float]


def peer(workload: Workload) -> list[list[float]]:
    """Iteration-level batching as two SimPy processes: token times of every request."""
    env = simpy.Environment()
    waiting: deque[Job] = deque()
    jobs: list[Job] = []
    bell = [env.event()]

    def source():
        for request in workload:
            yield env.timeout(request.arrival - env.now)
            jobs.append(Job(request.prompt_tokens, request.max_tokens, []))
            waiting.append(jobs[-1])
            if not bell[0].triggered:
                bell[0].succeed()

    def server():
        running: list[Job] = []
        while len(jobs) < len(workload) or waiting or running:
            prefill = 0
            while waiting and len(running) < SEATS:
                running.append(waiting.popleft())
                prefill += running[-1].prompt
            if not running:
                yield bell[0]
                bell[0] = env.event()
                continue
            yield env.timeout(STEP_S + PREFILL_S * prefill + DECODE_S * len(running))
            for job in running:
                job.times.append(env.now)
                job.left -= 1
            running = [job for job in running if job.left]

    env.process(source())
    env.process(server())
    env.run()
    return [job.times for job in jobs]


def ours(workload: Workload) -> list[list[float]]:
    """The same with the real scheduler, a block budget, the trace and its check."""
    trace = simulate(workload, POLICY, COST)
    trace.check()
    return [trace.token_times(record.id) for record in trace.requests]


def bare(workload: Workload) -> list[list[float]]:
    """As `ours`, without the check: what the peer does is not checked either."""
    trace = simulate(workload, POLICY, COST)
    return [trace.token_times(record.id) for record in trace.requests]


def cpu_seconds(
    runs: Mapping[str, Callable[[Workload], list[list[float]]]], workload: Workload
) -> dict[str, float]:
    """The best of five rounds for each; in a round all run, so that all meet the same machine."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(5):
        for name, run in runs.items():
            gc.collect()
            start = process_time()
            times = run(workload)
            best[name] = min(best[name], process_time() - start)
            assert sum(map(len, times)) == workload.output_tokens
    return best


def drawn(count: int) -> Workload:
    """Requests of the sizes of a conversation service, at a rate that leaves no growing queue."""
    lengths = {"prompt": LogNormal(800, p99=4000, high=8000), "output": LogNormal(130, p99=900)}
    return Workload.drawn(count, Poisson(5.5), **lengths, seed=1, name=f"{count} drawn requests")


def main() -> None:
    """Print both comparisons."""
    workload = Workload.read(sys.argv[1]) if len(sys.argv) > 1 else drawn(19_366)
    print(f"{platform.machine()}, Python {platform.python_version()}")
    print(workload)
    tokens = workload.output_tokens
    seconds = cpu_seconds({"SimPy": peer, "lab": bare, "lab with check()": ours}, workload)
    for name, took in seconds.items():
        rate, ratio = tokens / took / 1e6, seconds["SimPy"] / took
        print(f"{name:18} {took:6.2f} s  {rate:5.2f} M tokens/CPU s  {ratio:5.2f}")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the whole run {megabytes:.0f} MB")
    print("growth, in microseconds a token:")
    for count in (1_000, 10_000, 100_000):
        sample = drawn(count)
        start = process_time()
        bare(sample)
        each = (process_time() - start) / sample.output_tokens
        print(f"  {count:7,} requests  {each * 1e6:.2f}")


if __name__ == "__main__":
    main()
