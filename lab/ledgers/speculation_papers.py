"""What the two founding papers print of speculative decoding, beside what the formulas say."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from lab.ledgers.sizes import Number
from lab.ledgers.speculation import speed_up, work
from lab.ledgers.table import Table

Verdict: TypeAlias = Literal["exact", "near", "not"]
"""How a formula meets a printed number: in all its digits, within a fifth of it, or not."""
NEAR = 0.2


class Printed(NamedTuple):
    """A row of a paper's table. Where it prints no alpha, it is 1: the most that could be."""

    what: str
    alpha: float
    drafts: int
    cost: float
    speed: str
    source: str
    operations: str | None = None

    @property
    def by_formula(self) -> Number:
        """The speed-up by `speed_up`, with a check as fast as a plain step."""
        return speed_up(self.alpha, self.drafts, self.cost)

    @property
    def verdict(self) -> Verdict:
        """How the formula meets the printed speed."""
        return verdict(self.by_formula, self.speed)


def verdict(computed: Number, printed: str) -> Verdict:
    """Exact, near or not: "1.96" is met exactly by 1.964, nearly by 2.2, and not by 2.5."""
    digits = len(printed.partition(".")[2])
    if f"{float(computed):.{digits}f}" == printed:
        return "exact"
    number = float(printed)
    return "near" if abs(computed - number) <= NEAR * number else "not"


_LEVIATHAN_1 = "Leviathan et al. 2023, Table 1; a draft that costs nothing"
_LEVIATHAN_2 = "Leviathan et al. 2023, Table 2, costs as stated there; T5-XXL, batch of 1, TPU v4"
_CHEN = "Chen et al. 2023, Table 1; 1.8 over 14.1 ms a token; Chinchilla 70B, draft of 4B"

FORMULA = (
    Printed("alpha 0.6", 0.6, 2, 0, "1.96", _LEVIATHAN_1, "1.53"),
    Printed("alpha 0.7", 0.7, 3, 0, "2.53", _LEVIATHAN_1, "1.58"),
    Printed("alpha 0.8", 0.8, 2, 0, "2.44", _LEVIATHAN_1, "1.23"),
    Printed("alpha 0.8", 0.8, 5, 0, "3.69", _LEVIATHAN_1, "1.63"),
    Printed("alpha 0.9", 0.9, 2, 0, "2.71", _LEVIATHAN_1, "1.11"),
    Printed("alpha 0.9", 0.9, 10, 0, "6.86", _LEVIATHAN_1, "1.60"),
)
"""Computed by the paper: speed and operations, as multiples of plain decoding."""

MEASURED = (
    Printed("translation, T5-small, temperature 0", 0.75, 7, 0.02, "3.4", _LEVIATHAN_2),
    Printed("translation, T5-base, temperature 0", 0.80, 7, 0.04, "2.8", _LEVIATHAN_2),
    Printed("translation, T5-large, temperature 0", 0.82, 7, 0.11, "1.7", _LEVIATHAN_2),
    Printed("translation, T5-small, temperature 1", 0.62, 7, 0.02, "2.6", _LEVIATHAN_2),
    Printed("translation, T5-base, temperature 1", 0.68, 5, 0.04, "2.4", _LEVIATHAN_2),
    Printed("translation, T5-large, temperature 1", 0.71, 3, 0.11, "1.4", _LEVIATHAN_2),
    Printed("summaries, T5-small, temperature 0", 0.65, 5, 0.02, "3.1", _LEVIATHAN_2),
    Printed("summaries, T5-base, temperature 0", 0.73, 5, 0.04, "3.0", _LEVIATHAN_2),
    Printed("summaries, T5-large, temperature 0", 0.74, 3, 0.11, "2.2", _LEVIATHAN_2),
    Printed("summaries, T5-small, temperature 1", 0.53, 5, 0.02, "2.3", _LEVIATHAN_2),
    Printed("summaries, T5-base, temperature 1", 0.55, 3, 0.04, "2.2", _LEVIATHAN_2),
    Printed("summaries, T5-large, temperature 1", 0.56, 3, 0.11, "1.7", _LEVIATHAN_2),
    Printed("programs, draft of 4B, nucleus sampling", 1.0, 4, 1.8 / 14.1, "2.46", _CHEN),
)
"""Measured by the papers: seconds of plain decoding over seconds of rounds."""


def formula_beside_paper() -> Table:
    """The paper's own computed table, computed again."""
    rows = tuple(
        (
            *(row.alpha, row.drafts, row.speed, f"{row.by_formula:.2f}", row.verdict),
            *(row.operations, f"{operations:.2f}", verdict(operations, row.operations)),
        )
        for row in FORMULA
        if row.operations is not None
        for operations in [work(row.alpha, row.drafts)]
    )
    columns = ("alpha", "guesses", "speed", "by formula", "speed is", "operations", "formula")
    told = "operations: arithmetic for a token that is delivered, over that of plain decoding"
    return Table((*columns, "operations are"), rows, _LEVIATHAN_1, (told,))


def measured_beside_formula() -> Table:
    """What the papers measured, and what the formula makes of their alpha, guesses and cost."""
    rows = tuple(
        (
            *(row.what, row.alpha, row.drafts, row.cost),
            *(row.speed, f"{row.by_formula:.2f}", row.verdict),
        )
        for row in MEASURED
    )
    notes = (
        f"exact: equal as far as printed; near: within {NEAR:.0%}; not: farther off.",
        "The formula takes a check to be as fast as a plain step, everything else to be free, and "
        "alpha to be the same at every place. The last row prints no alpha; 1 is the most.",
        f"{_LEVIATHAN_2}. {_CHEN}.",
    )
    columns = ("task, draft", "alpha", "guesses", "cost", "measured", "by formula", "it is")
    return Table(columns, rows, "times as fast as plain decoding", notes)
