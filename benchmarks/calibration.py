"""How well a calibrated simulation predicts the live engine on this machine.

    python -m benchmarks.calibration [--seconds 60] [--processor]

First `lab.calibrate` measures steps of the shipped model and fits the affine cost model. Then three
workloads, from an almost idle engine to a full one, are served live and simulated with the fit.
Printed are TTFT, TPOT and E2E of both, median and 90th percentile, and prediction over measurement.
One thread computes. On a machine that is busy with other things the two differ by what those take;
with `--processor` all times are seconds of this process's processor time, and waiting takes none.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from time import process_time

import lab
from lab.clock import WallClock
from lab.model.folder import load


class ProcessorClock(WallClock):
    """Processor time of this process; where nothing is to do, it jumps."""

    def __init__(self) -> None:
        self._skipped = 0.0
        super().__init__(lambda: process_time() + self._skipped, self._skip)

    def _skip(self, seconds: float) -> None:
        self._skipped += seconds


POLICY = lab.Continuous(seats=16, token_budget=128)
GAPS_S = {"almost idle": 0.15, "half busy": 0.06, "full": 0.03}


def workload(gap_s: float, vocab: int, requests: int = 200, seed: int = 5) -> lab.Workload:
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


def main() -> None:
    """Fit, then predict, then measure."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60, help="of live steps to fit (60)")
    options.add_argument("--processor", action="store_true", help="processor time (busy machine)")
    chosen = options.parse_args()
    seconds, clock = chosen.seconds, ProcessorClock if chosen.processor else WallClock
    model = load("tiny")
    print(f"calibrating for {seconds:.0f} s ...", file=sys.stderr)
    fitted = lab.calibrate(model, seats=POLICY.seats, seconds=seconds, clock=clock)
    print(f"{fitted}\n")
    print(f"{'':14}{'':6}{'':5}{'live':>10}{'simulated':>12}{'ratio':>8}")
    for name, gap_s in GAPS_S.items():
        work = workload(gap_s, model.config.vocab)
        print(f"serving {len(work)} requests, {name} ...", file=sys.stderr)
        live = lab.latency(lab.serve(work, POLICY, model, clock=clock()))
        simulated = lab.latency(lab.simulate(work, POLICY, fitted.cost))
        for metric in ("TTFT", "TPOT", "E2E"):
            for percent in (50, 90):
                one, other = (
                    lab.percentile(ledger.values(metric), percent) for ledger in (live, simulated)
                )
                print(
                    f"{name:14}{metric:6}p{percent:<4}{one * 1000:7.1f} ms{other * 1000:9.1f} ms"
                    f"{other / one:8.2f}"
                )


if __name__ == "__main__":
    main()
