"""The papers' numbers beside the formulas'."""

import pytest

from lab.ledgers.speculation_papers import (
    FORMULA,
    MEASURED,
    formula_beside_paper,
    measured_beside_formula,
    verdict,
)


def test_what_the_paper_computed_is_met_in_all_its_digits():
    for row in formula_beside_paper():
        assert (row["speed is"], row["operations are"]) == ("exact", "exact")
    assert len(formula_beside_paper()) == len(FORMULA) == 6


def test_what_was_measured_is_near_for_most_and_exact_for_none():
    verdicts = [row.verdict for row in MEASURED]
    assert set(verdicts) == {"near", "not"}
    assert verdicts.count("near") == 9
    assert [row["it is"] for row in measured_beside_formula()] == verdicts


def test_the_dearest_draft_is_farthest_from_the_formula():
    worst = max(MEASURED[:12], key=lambda row: abs(row.by_formula / float(row.speed) - 1))
    assert worst.what == "translation, T5-large, temperature 0"


@pytest.mark.parametrize(
    ("computed", "printed", "said"),
    [
        (1.9600, "1.96", "exact"),
        (1.9649, "1.96", "exact"),
        (1.97, "1.96", "near"),
        (2.35, "1.96", "near"),
        (2.36, "1.96", "not"),
        (1.5, "1.96", "not"),
        (1.64, "1.6", "exact"),
        (1.64, "1.60", "near"),
    ],
)
def test_verdicts(computed, printed, said):
    assert verdict(computed, printed) == said


def test_every_row_names_its_source():
    assert all("2023, Table" in row.source for row in (*FORMULA, *MEASURED))
