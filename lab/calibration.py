"""What steps cost on this machine: a model serves requests of many sizes, and a line is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from lab.clock import WallClock
from lab.executors.fit import Fit, fit
from lab.live import serve
from lab.model.folder import Model, loaded
from lab.policy import Continuous
from lab.request import Request
from lab.trace import Trace

BUDGETS = (None, 16, 64, 256)  # tokens a step: whole prompts, and chunks of several sizes


def calibrate(
    model: Model | str = "tiny",
    *,
    seats: int = 16,
    seconds: float = 60,
    seed: int = 0,
    clock: Callable[[], WallClock] = WallClock,
    progress: Callable[[float], object] | None = None,
) -> Fit:
    """Fit the affine cost model to this machine, from `seconds` of live steps.

    Rounds of 1 to `seats` requests, with prompts from one token to half of the model's positions
    and answers up to a tenth of them, are served with several token budgets; the same `seed` gives
    the same rounds. With the `cost` that comes back, `lab.simulate` predicts what `lab.serve` would
    measure under a policy of at most so many seats. Every round starts a `clock`. `progress` hears
    the share of the time that has gone. Raises ValueError if `seats` is below 1 or `seconds` not
    above 0.
    """
    if seats < 1:
        raise ValueError(f"seats must be at least 1, got {seats}")
    if seconds <= 0:
        raise ValueError(f"seconds must be above 0, got {seconds}")
    model = loaded(model)
    dice, whole = Random(seed), clock()
    serve(_requests(dice, model, 2), Continuous(seats=2), model)  # to warm up
    traces: list[Trace] = []
    start = whole.now()
    while (gone := whole.now() - start) < seconds:
        if progress:
            progress(gone / seconds)
        count, budget = dice.randint(1, seats), BUDGETS[len(traces) % len(BUDGETS)]
        policy = Continuous(seats=seats, token_budget=budget and max(budget, seats))
        traces.append(serve(_requests(dice, model, count), policy, model, clock=clock()))
    if progress:
        progress(1.0)
    return fit(*traces)


def _requests(dice: Random, model: Model, count: int) -> list[Request]:
    """Requests that arrive at once. Small prompts are as frequent as large ones; the answers are
    about equally long, so that steps of many decodes are as frequent as those of a few."""
    positions, vocab = model.config.max_positions, model.config.vocab
    longest = dice.randint(1, max(1, positions // 10))
    found = []
    for number in range(count):
        prompt = int(math.exp(dice.uniform(0, math.log(max(1, positions // 2)))))
        ids = tuple(dice.randrange(vocab) for _ in range(prompt))
        tokens = dice.randint((longest + 1) // 2, longest)
        found.append(Request(id=str(number), prompt=ids, max_tokens=tokens))
    return found
