"""The formulas of the ledger are computed again, and a record that is changed is noticed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from lab import recompute as module
from lab.recompute import mismatches, recompute
from lab.worked_numbers import entries, entry

ID = "latency-timeline-row-3-tpot"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`recorded(formula=...)`: the entry of the tests with other fields."""

    def change(**fields: Any) -> None:
        changed = replace(entry(ID), **fields)
        monkeypatch.setattr(module, "entry", lambda id: changed)

    return change


def test_a_formula_is_an_expression_or_the_body_of_a_function() -> None:
    assert "return" not in (entry("latency-tpot-formula-002").formula or "")
    assert recompute("latency-tpot-formula-002") == {"tpot": 20}
    assert "return" in (entry("batching-two-slot-static").formula or "")
    assert recompute("batching-two-slot-static")["occupancy"] == Fraction(2, 3)


def test_every_formula_gives_what_is_recorded() -> None:
    ids = [id for id in entries() if entry(id).checked]
    assert len(ids) > 100
    assert [line for id in ids for line in mismatches(id)] == []


def test_other_inputs_give_another_result(recorded: Any) -> None:
    inputs = entry(ID).inputs
    name = next(name for name, value in inputs.items() if isinstance(value, int))
    recorded(inputs=inputs | {name: inputs[name] + 1})
    assert any("recorded as" in line for line in mismatches(ID))


def test_each_kind_of_mismatch_is_a_line(recorded: Any) -> None:
    recorded(formula="dict(tpot=21, intervals=3, more=1)")
    wrong_name = next(iter(entry(ID).wrong))
    assert mismatches(ID) == [
        f"{ID}: more is computed and not recorded",
        f"{ID}: tpot is computed as 21, recorded as 20 ms",
        f"{ID}: {wrong_name} is recorded and not computed",
    ]


def test_a_formula_that_fails_is_a_line(recorded: Any) -> None:
    recorded(formula="dict(tpot=1/0)")
    assert mismatches(ID) == [f"{ID}: the formula fails, ZeroDivisionError: division by zero"]


def test_an_entry_without_a_formula_has_nothing_to_compute() -> None:
    with pytest.raises(ValueError, match="'kv-why-cache' is a rule without a formula"):
        recompute("kv-why-cache")
