"""A fit finds the cost model that made a trace, and is not misled by what held a few steps up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import lab
from lab.executors.fit import Fit, fit
from lab.trace import Trace

TRUE = {"a": 0.002, "b": 0.00006, "c": 0.0002, "d": 0.000001}


def run(cost: lab.CostModel, seed: int = 0, **more: object) -> Trace:
    dice = random.Random(seed)
    work = lab.Workload.given(
        {
            str(n): (n * 0.02, dice.randint(1, 200), dice.randint(1, 40))
            for n in range(30)
        },
        unit="s",
    )  # fmt: skip
    policy = replace(lab.Continuous(seats=6, token_budget=64), **more)
    return lab.simulate(work, policy, cost)


def affine() -> lab.CostModel:
    return lab.CostModel.affine(**TRUE)


def found(fitted: Fit) -> dict[str, float]:
    return {name: fitted.cost.settings[name] for name in "abcd"}


def delayed(trace: Trace, every: int, times: float) -> Trace:
    """The same run, where each so-maniest step took longer, and all later ones came later."""
    starts, ends, late = [], [], 0.0
    for number, (start, end) in enumerate(zip(trace.starts or (), trace.ends or (), strict=True)):
        starts.append(start + late)
        if number % every == 0:
            late += (end - start) * (times - 1)
        ends.append(end + late)
    return Trace(trace.unit, trace.settings, trace.requests, starts, ends)


def test_the_model_that_made_a_trace_is_found_again() -> None:
    fitted = fit(run(affine()))
    assert found(fitted) == pytest.approx(TRUE, rel=1e-6)
    assert max(abs(error) for error in fitted.errors) < 1e-6
    assert abs(fitted.total_error) < 1e-6


def test_several_traces_are_one_set_of_steps() -> None:
    traces = [run(affine(), seed) for seed in (1, 2)]
    fitted = fit(*traces)
    assert fitted.steps == len(fitted.errors) == sum(trace.num_steps for trace in traces)
    assert found(fitted) == pytest.approx(TRUE, rel=1e-6)


def test_a_few_steps_that_were_held_up_do_not_mislead_it() -> None:
    fitted = fit(delayed(run(affine()), every=10, times=6))
    assert found(fitted) == pytest.approx(TRUE, rel=0.01)
    assert fitted.errors[0] == pytest.approx(1 / 6 - 1, rel=0.01)  # and it says so
    assert fitted.total_error < -0.2


def test_where_all_steps_are_held_up_alike_they_cost_more() -> None:
    fitted = fit(delayed(run(affine()), every=1, times=3))
    assert found(fitted) == pytest.approx({name: 3 * x for name, x in TRUE.items()}, rel=1e-6)


def test_equal_steps_have_no_price_for_tokens() -> None:
    fitted = fit(run(lab.CostModel.equal_steps(0.01, "s")))
    assert found(fitted) == pytest.approx({"a": 0.01, "b": 0, "c": 0, "d": 0}, abs=1e-12)


def test_no_coefficient_is_negative_even_where_the_line_would_fall() -> None:
    falling = lab.CostModel(lambda shape: 0.1 - 0.001 * shape.prefill_tokens, "s")
    assert min(found(fit(run(falling))).values()) >= 0


def test_what_the_engine_does_between_two_steps_belongs_to_the_first() -> None:
    trace = run(affine())
    ends = [start + 0.001 for start in trace.starts or ()]
    early = Trace(trace.unit, trace.settings, trace.requests, trace.starts, ends)
    fitted = fit(early)
    assert found(fitted) == pytest.approx(TRUE, rel=0.02)  # but for steps after which all rested


def test_an_idle_engine_is_no_slow_step() -> None:
    work = lab.Workload.given({"A": (0, 5, 3), "B": (100, 9, 4)}, unit="s")
    fitted = fit(lab.simulate(work, lab.Continuous(seats=1), lab.CostModel.equal_steps(1, "s")))
    assert found(fitted)["a"] == pytest.approx(1)


def test_steps_that_move_blocks_are_left_out() -> None:
    trace = run(affine().swapping(0.05), blocks=20, preemption="swap")
    moved = sum(stay.swapped_out > 0 for record in trace.requests for stay in record.stays)
    fitted = fit(trace)
    assert moved > 3
    assert trace.num_steps - 2 * moved <= fitted.steps < trace.num_steps
    assert found(fitted) == pytest.approx(TRUE, rel=1e-6)
    assert max(map(abs, fitted.errors)) < 1e-6


def test_coefficients_come_in_the_unit_of_the_trace_and_are_shown_in_microseconds() -> None:
    ms = lab.CostModel.affine(*(value * 1000 for value in TRUE.values()), unit="ms")
    work = lab.Workload.given({str(n): (0, 5 + 7 * n, 3 + n) for n in range(9)}, unit="ms")
    fitted = fit(lab.simulate(work, lab.Continuous(seats=3), ms))
    assert fitted.cost.unit == "ms"
    assert fitted.cost.settings["a"] == pytest.approx(2)
    rows = {row["what"]: row["value"] for row in fitted.table()}
    assert rows["a: a step"] == pytest.approx(2000)
    assert rows["c: a decode"] == pytest.approx(200)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: fit(), "needs traces in one unit of time, got []"),
        (lambda: fit(run_in_steps()), "needs traces in one unit of time, got ['step']"),
        (lambda: fit(Trace("s", {}, (), [], [])), "needs at least 1 step, got 0"),
        (lambda: fit(run(lab.CostModel.equal_steps(0, "s"))), "must take more than 0 s"),
    ],
)
def test_what_cannot_be_fitted_is_an_error(make, reason) -> None:
    with pytest.raises(ValueError, match="fit") as error:
        make()
    assert reason in str(error.value)


def run_in_steps() -> Trace:
    work = lab.Workload.given({"A": (0, 5, 3)})
    return lab.simulate(work, lab.Continuous(seats=1), lab.CostModel.equal_steps())


def test_a_run_with_the_fitted_model_is_the_run_it_was_fitted_to() -> None:
    measured = run(affine(), seed=3)
    predicted = run(fit(measured).cost, seed=3)
    assert predicted.timeline() != []
    for one, other in zip(measured.requests, predicted.requests, strict=True):
        assert other.end == pytest.approx(one.end, rel=1e-6)
