"""How well a calibrated simulation predicts the live engine on this machine.

    python -m benchmarks.calibration [--rounds 5] [--seconds 10] [--processor]

A round: `lab.calibrate` measures steps of the shipped model and fits the affine cost model; then
three workloads, from an almost idle engine to a full one, are served live and simulated with the
fit. Printed are TTFT, TPOT and E2E of both, median and 90th percentile, and prediction over
measurement: the median of the rounds, the smallest and the largest. A machine whose speed changes
from one minute to the next does so within a round as well, and the range shows it; so beside it
stands the prediction by the fit to the steps of the very run, which only the model can fail. One
thread computes. With `--processor` all times are seconds of this process's processor time, and
waiting takes none.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from statistics import median
from time import process_time
from typing import NamedTuple, TypeAlias

import lab
from lab.clock import WallClock
from lab.model.folder import Model, load

Key: TypeAlias = tuple[str, str, int]
"""Workload, metric, percentile."""


class Times(NamedTuple):
    """Milliseconds, measured and predicted."""

    live: float
    calibrated: float
    own: float
    """By the fit to the steps of the live run itself."""


class ProcessorClock(WallClock):
    """Processor time of this process; where nothing is to do, it jumps."""

    def __init__(self) -> None:
        self._skipped = 0.0
        super().__init__(lambda: process_time() + self._skipped, self._skip)

    def _skip(self, seconds: float) -> None:
        self._skipped += seconds


POLICY = lab.Continuous(seats=16, token_budget=128)
GAPS_S = {"almost idle": 0.15, "half busy": 0.06, "full": 0.03}


def workload(gap_s: float, vocab: int, requests: int = 60, seed: int = 5) -> lab.Workload:
    """Requests that arrive at random, `gap_s` apart on average, with random prompts."""
    dice = Random(seed)
    now, found = 0.0, []
    for number in range(requests):
        now += dice.expovariate(1 / gap_s)
        prompt = min(300, max(8, int(dice.lognormvariate(4.5, 0.7))))
        tokens = min(100, max(4, int(dice.lognormvariate(3.3, 0.6))))
        ids = tuple(dice.randrange(vocab) for _ in range(prompt))
        found.append(lab.Request(id=str(number), prompt=ids, max_tokens=tokens, arrival=now))
    return lab.Workload(found, unit="s")


def compare(model: Model, seconds: float, clock: type[WallClock]) -> dict[Key, Times]:
    """One round."""
    calibrated = lab.calibrate(model, seats=POLICY.seats, seconds=seconds, clock=clock)
    print(f"{calibrated}\n", file=sys.stderr)
    found = {}
    for name, gap_s in GAPS_S.items():
        work = workload(gap_s, model.config.vocab)
        live = lab.serve(work, POLICY, model, clock=clock())
        costs = calibrated.cost, lab.fit(live).cost
        runs = (live, *(lab.simulate(work, POLICY, cost) for cost in costs))
        ledgers = [lab.latency(run) for run in runs]
        for metric in ("TTFT", "TPOT", "E2E"):
            for percent in (50, 90):
                found[name, metric, percent] = Times(
                    *(
                        1000 * float(lab.percentile(ledger.values(metric), percent))
                        for ledger in ledgers
                    )
                )
    return found


def main() -> None:
    """Fit, predict and measure, several times."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5, help="how often (5)")
    options.add_argument("--seconds", type=float, default=10, help="of live steps to fit (10)")
    options.add_argument("--processor", action="store_true", help="processor time (busy machine)")
    chosen = options.parse_args()
    model, clock = load("tiny"), ProcessorClock if chosen.processor else WallClock
    rounds = []
    for number in range(chosen.rounds):
        print(f"round {number + 1} of {chosen.rounds} ...", file=sys.stderr)
        rounds.append(compare(model, chosen.seconds, clock))
    print(f"{'':37}{'calibrated':>32}{'fitted to the run':>24}")
    print(f"{'':25}{'live':>12}{'simulated':>14}" + "   ratio (rounds)   " * 2)
    for key in rounds[0]:
        name, metric, percent = key
        times = [found[key] for found in rounds]
        live, simulated, _ = (median(column) for column in zip(*times, strict=True))
        ratios = [
            sorted(t.calibrated / t.live for t in times),
            sorted(t.own / t.live for t in times),
        ]
        print(
            f"{name:14}{metric:6}p{percent:<4}{live:9.1f} ms{simulated:11.1f} ms"
            + "".join(f"{median(r):8.2f} ({r[0]:.2f}-{r[-1]:.2f})" for r in ratios)
        )


if __name__ == "__main__":
    main()
