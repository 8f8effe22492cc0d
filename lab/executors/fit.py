"""A cost model from steps that were measured: which affine model says best how long they took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

from lab.executors.cost_model import CostModel, shape_of_chunks
from lab.ledgers.latency import percentile
from lab.ledgers.table import Shown, Table
from lab.trace import PER_SECOND, Step, Trace

ROUNDS = 20  # of reweighting: the coefficients stand still long before
CLOSE = 1e-3  # errors below are all taken for this, so that no step's weight grows without bound

Coefficients = tuple[float, float, float, float]


class Timed(NamedTuple):
    """A step as an affine model sees it, and how long it took."""

    inputs: Coefficients
    """1, prefill tokens, decode sequences, context tokens: what a, b, c and d are multiplied by."""
    took: float


@dataclass(frozen=True, slots=True, repr=False)
class Fit(Shown):
    """An affine cost model, and how well it says what was measured. Errors are relative to what
    each step took: 0.05 is 5 % too long, -0.05 as much too short."""

    cost: CostModel
    steps: int
    errors: tuple[float, ...]
    """Of the steps, from the smallest to the largest."""
    total_error: float
    """Of all steps together."""

    def table(self) -> Table:
        """Coefficients in microseconds, then errors in per cent."""
        settings = self.cost.settings
        us = 1_000_000 / PER_SECOND[self.cost.unit]
        off = [abs(error) for error in self.errors]
        return Table(
            ("what", "value", "unit"),
            (
                ("a: a step", settings["a"] * us, "us"),
                ("b: a prefill token", settings["b"] * us, "us"),
                ("c: a decode", settings["c"] * us, "us"),
                ("d: a token of context", settings["d"] * us, "us"),
                ("steps measured", self.steps, ""),
                ("half of them are off by up to", percentile(off, 50) * 100, "%"),
                ("nine in ten by up to", percentile(off, 90) * 100, "%"),
                ("all steps together", self.total_error * 100, "%"),
            ),
        )


def fit(*traces: Trace) -> Fit:
    """The affine cost model under which the steps of these traces would take what they took.

    A step lasts until the next one starts, where somebody goes on from one to the other: what the
    engine does between two steps belongs to it. Steps that move blocks to or from host memory are
    left out. Of all coefficients that are not negative, the fit takes those with the smallest sum
    of relative errors, which a few steps that something else has held up hardly change. They are
    as good as the steps are varied: where all steps are alike, one coefficient takes all the time.

    Raises ValueError for traces without steps, in steps instead of time, in several units, or with
    a step that took no time.
    """
    units = {trace.unit for trace in traces}
    if len(units) != 1 or not units <= {*PER_SECOND}:
        raise ValueError(f"a fit needs traces in one unit of time, got {sorted(units)}")
    steps = [step for trace in traces for step in _timed(trace)]
    if not steps:
        raise ValueError("a fit needs at least 1 step, got 0")
    if (shortest := min(step.took for step in steps)) <= 0:
        raise ValueError(f"a step must take more than 0 {units.pop()} to be fitted, got {shortest}")
    found = _least_errors(steps)
    errors = [_time(found, step.inputs) / step.took - 1 for step in steps]
    total = sum(step.took for step in steps)
    return Fit(
        CostModel.affine(*found, unit=units.pop()),
        len(steps),
        tuple(sorted(errors)),
        sum(_time(found, step.inputs) for step in steps) / total - 1,
    )


def _timed(trace: Trace) -> Iterator[Timed]:
    moving = set(_moves(trace))
    steps = list(trace.steps())
    for step, after in pairwise([*steps, None]):
        assert step is not None
        if step.number in moving:
            continue
        shape = shape_of_chunks(step.chunks)
        inputs = (1.0, shape.prefill_tokens, shape.decode_sequences, shape.context_tokens)
        until = after.start if after and _goes_on(step, after) else step.end
        yield Timed(inputs, float(until - step.start))


def _moves(trace: Trace) -> Iterator[int]:
    """The steps before which blocks were moved to host memory or back."""
    for record in trace.requests:
        for stay, later in pairwise([*record.stays, None]):
            if stay and stay.swapped_out and stay.stop is not None:
                yield stay.stop
                if later:
                    yield later.first


def _goes_on(step: Step, after: Step) -> bool:
    """Whether somebody is in both steps, so that nothing was waited for between them."""
    return not {chunk.request_id for chunk in step.chunks}.isdisjoint(
        chunk.request_id for chunk in after.chunks
    )


def _least_errors(steps: Sequence[Timed]) -> Coefficients:
    """Least relative errors, as least squares whose weights are made anew from the last errors."""
    weights = [1 / step.took**2 for step in steps]
    found = _least_squares(steps, weights)
    for _ in range(ROUNDS):
        weights = [
            1 / (step.took**2 * max(CLOSE, abs(_time(found, step.inputs) / step.took - 1)))
            for step in steps
        ]
        found = _least_squares(steps, weights)
    return found


def _time(found: Coefficients, inputs: Coefficients) -> float:
    return sum(x * c for x, c in zip(inputs, found, strict=True))


def _least_squares(steps: Sequence[Timed], weights: Sequence[float]) -> Coefficients:
    """The weighted least squares without negative coefficients: the best of all those that set
    some coefficients to 0 and leave the others free."""
    columns = range(4)
    squares = [[0.0] * 4 for _ in columns]
    products = [0.0] * 4
    for (inputs, took), weight in zip(steps, weights, strict=True):
        for i in columns:
            weighted = inputs[i] * weight
            products[i] += weighted * took
            for j in range(i, 4):
                squares[i][j] += weighted * inputs[j]
    for i, j in combinations(columns, 2):
        squares[j][i] = squares[i][j]
    best, least = (0.0, 0.0, 0.0, 0.0), 0.0
    for size in (1, 2, 3, 4):
        for free in combinations(columns, size):
            values = _solve(
                [[squares[i][j] for j in free] for i in free], [products[i] for i in free]
            )
            if not values or min(values) < 0:
                continue
            # at the minimum the loss is that of all zeros less this much
            gain = sum(value * products[i] for value, i in zip(values, free, strict=True))
            if gain > least:
                least, by = gain, dict(zip(free, values, strict=True))
                best = (by.get(0, 0.0), by.get(1, 0.0), by.get(2, 0.0), by.get(3, 0.0))
    return best


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """The solution of a small symmetric system, after Gauss and Jordan; None if it has several."""
    size = len(right)
    scale = [matrix[i][i] for i in range(size)]
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(size):
        if rows[i][i] <= 1e-12 * scale[i]:  # the column is a mixture of those before it
            return None
        pivot = rows[i][i]
        rows[i] = [x / pivot for x in rows[i]]
        for k in range(size):
            if k != i:
                factor = rows[k][i]
                rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]
