"""Speculation on the shipped pair beside plain decoding: does it pay on this machine?

    python -m benchmarks.speculation [--rounds 3] [--tokens 96] [--drafts 1 2 3 4 5]

Batches of 1, 4 and 8 requests, each with its own beginning of a sentence, are answered to their
limit without guesses and with those of "tiny-draft", in turn, by one thread. Printed are the rate
at which guesses that were reached stood, tokens a call of the target, and output tokens a second of
processor time, speculative over plain: the median of the rounds. Processor time is that of this
process, so a busy machine changes it less. Before it stand the parts of a step of 8 requests with 4
guesses: the target's call, the draft's calls, drawing guesses, and everything else (judging them,
scheduler, blocks, trace), also as a share of the target's call; and "prompt-lookup" on a text that
repeats itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import torch

import lab
from lab.ledgers.speculation import acceptance
from lab.live import live_engine
from lab.model.folder import Model, load
from lab.trace import Trace

BEGINNINGS = (
    "It is a truth universally acknowledged, that",
    "The bell had rung twice, and nobody in the garden",
    "She was not to be persuaded that",
    "Two letters and a parcel lay on the table when",
    '"My dear," said her mother,',
    "They walked towards the house, and",
    "Mr. Knightley, who had been standing by the fire,",
    "In the evening, when tea was over,",
)
AGAIN = "The bell had rung twice, and nobody in the garden had heard it. " * 3
TEMPERATURES = (0.0, 0.5, 1.0)
BATCHES = (1, 4, 8)


class Run(NamedTuple):
    """One workload served once."""

    trace: Trace
    seconds: float
    """Of processor time."""

    @property
    def rate(self) -> float:
        """Output tokens a second."""
        return sum(record.output_tokens for record in self.trace.requests) / self.seconds


def workload(
    model: Model, batch: int, temperature: float, tokens: int, text: str = ""
) -> list[lab.Request]:
    """Requests that arrive at once; with a `text` it stands before the beginning of each."""
    return [
        lab.Request(
            id=str(number),
            prompt=tuple(model.tokenizer.encode(text + beginning)),
            max_tokens=tokens,
            sampling=lab.Sampling(temperature=temperature, seed=number),
        )
        for number, beginning in enumerate(BEGINNINGS[:batch])
    ]


def serve(
    requests: Sequence[lab.Request], model: Model, draft: Any, drafts: int, watch: Any = None
) -> Run:
    """All of them in one batch."""
    policy = lab.Continuous(
        seats=len(requests), blocks=32 * len(requests), draft_tokens=drafts if draft else 0
    )
    engine = live_engine(model, policy, draft=draft, keep=None)
    if watch:
        watch(engine)
    before = process_time()
    trace = engine.run(requests)
    return Run(trace, process_time() - before)


def speeds(model: Model, draft: Model, rounds: int, tokens: int, drafts: Sequence[int]) -> None:
    """A line for each batch, temperature and number of guesses."""
    print("batch  temperature  guesses   stood  tokens a call   speed")
    for batch in BATCHES:
        for temperature in TEMPERATURES:
            requests = workload(model, batch, temperature, tokens)
            found: dict[int, list[float]] = {count: [] for count in drafts}
            for _ in range(rounds):
                plain = serve(requests, model, None, 0).rate
                for count in drafts:
                    run = serve(requests, model, draft, count)
                    found[count].append(run.rate / plain)
            for count in drafts:
                what = acceptance(serve(requests, model, draft, count).trace)
                print(
                    f"{batch:5}{temperature:13}{count:9}{float(what.rate or 0):8.2f}"
                    f"{float(what.tokens_per_call or 0):15.2f}{median(found[count]):8.2f}"
                )


def lookup(model: Model, rounds: int, tokens: int) -> None:
    """Guesses from the text itself, which has a sentence three times over."""
    print("\nprompt-lookup, a prompt that repeats itself, 4 guesses, temperature 0")
    for batch in BATCHES:
        requests = workload(model, batch, 0.0, tokens, AGAIN)
        ratios = []
        for _ in range(rounds):
            plain = serve(requests, model, None, 0).rate
            run = serve(requests, model, "prompt-lookup", 4)
            ratios.append(run.rate / plain)
        what = acceptance(run.trace)
        print(
            f"{batch:5}{what.drafted:9} guesses{float(what.rate or 0):8.2f} stood"
            f"{float(what.tokens_per_call or 0):8.2f} tokens a call{median(ratios):8.2f} speed"
        )


def _timed(thing: Any, name: str, spent: dict[str, float], part: str) -> None:
    """Measure every call of a method of one object."""
    inner: Callable[..., Any] = getattr(thing, name)

    def outer(*given: Any) -> Any:
        before = process_time()
        found = inner(*given)
        spent[part] = spent.get(part, 0.0) + process_time() - before
        return found

    setattr(thing, name, outer)


def parts(model: Model, draft: Model, rounds: int, tokens: int) -> None:
    """What a step of 8 requests with 4 guesses consists of, in milliseconds."""
    print("\na step of 8 requests with 4 guesses, ms (the target's call is that of 40 tokens)")
    print(f"{'temperature':>11}{'target':>9}{'draft':>9}{'drawing':>9}{'the rest':>10}{'share':>8}")
    for temperature in TEMPERATURES:
        rows = []
        for _ in range(rounds):
            spent: dict[str, float] = {}

            def watch(engine: Any, spent: dict[str, float] = spent) -> None:
                _timed(engine.executor, "_compute", spent, "target")
                _timed(engine.executor.proposer, "_forward", spent, "draft")
                _timed(engine.executor.proposer, "propose", spent, "proposing")
                _timed(engine, "step", spent, "step")

            steps = serve(
                workload(model, 8, temperature, tokens), model, draft, 4, watch
            ).trace.num_steps
            ms = {part: 1000 * seconds / steps for part, seconds in spent.items()}
            rest = ms["step"] - ms["target"] - ms["proposing"]
            rows.append((ms["target"], ms["draft"], ms["proposing"] - ms["draft"], rest))
        target, drafting, drawing, rest = map(median, zip(*rows, strict=True))
        print(
            f"{temperature:11}{target:9.2f}{drafting:9.2f}{drawing:9.2f}{rest:10.2f}"
            f"{rest / target:8.1%}"
        )


def main() -> None:
    """All tables, and the day and machine they are of."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=3, help="of which the median is taken (3)")
    options.add_argument("--tokens", type=int, default=96, help="of each answer (96)")
    options.add_argument("--drafts", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    chosen = options.parse_args()
    torch.set_num_threads(1)
    model, draft = load("tiny"), load("tiny-draft")
    serve(workload(model, 2, 1.0, 8), model, draft, 2)  # to warm up
    print(f"{lab.machine()}; tiny, tiny-draft, 1 thread, processor time\n")
    parts(model, draft, chosen.rounds, chosen.tokens)
    lookup(model, chosen.rounds, chosen.tokens)
    print()
    speeds(model, draft, chosen.rounds, chosen.tokens, chosen.drafts)


if __name__ == "__main__":
    main()
