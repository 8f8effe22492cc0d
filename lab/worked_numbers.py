"""Checks a computed value against the ledger of worked numbers and shows one quiet row.

The ledger is `worked_numbers.json`, written from book/worked_numbers.yaml by a build step. In it
decimals and "a/b" stand for exact fractions. `recompute.py` evaluates its formulas.

    ValueError                  an unknown id, missing or extra keys, nothing to compare
    └── WorkedNumberError       a computed value is not the recorded one
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from html import escape
from importlib.resources import files
from math import isfinite
from numbers import Rational
from typing import Any

FLOAT_TOLERANCE = Fraction(1, 10**12)
SHOWN_LETTERS = 40
SHOWN_RESULTS = 4
SILENT_UNITS = (None, "1", "list", "fraction")


class WorkedNumberError(ValueError):
    """A computed value differs from the one in the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One recorded result: its exact value, and how it is printed and compared."""

    value: Any
    unit: str | None
    printed: Any | None
    tol: Fraction | None
    text: str

    def is_met_by(self, computed: object) -> bool:
        """Whether `computed` equals the value and, where there is one, the printed form.

        Without a printed form `tol` is the allowed difference from the value; with one it is the
        allowed difference from the printed form, and the value must be met exactly.
        """
        if self.printed is None:
            return _same(computed, self.value, self.tol)
        exactly = _same(computed, self.value, None)
        return exactly and _same(computed, self.printed, self.tol)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the ledger.

    The values of `inputs` are exact (int, Fraction, text, list); `given` has them in words with
    their units. `formula` is Python that gives the results from the inputs: an expression, or the
    body of a function. `where` says in words which chapters cover the entry, or why none does.
    """

    id: str
    kind: str
    statement: str
    inputs: dict[str, Any]
    given: dict[str, str]
    expected: dict[str, Result]
    wrong: dict[str, Result]
    formula: str | None
    where: str
    source: str
    section: str
    disputed: bool
    correct: str | None
    note: str | None

    @property
    def checked(self) -> bool:
        """Whether the entry is covered by computed numbers, and not by words."""
        return self.formula is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedNumber:
    """A value that was compared with the ledger and agreed. Its text form is one line."""

    id: str
    results: tuple[str, ...]
    wrong_results: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{self.id}: {self._summary()}; ok"

    def _repr_html_(self) -> str:
        return (
            f'<div class="worked-number"><code>{escape(self.id)}</code> '
            f'<span class="worked-value">{escape(self._summary())}</span> '
            f'<span class="worked-ok">ok</span></div>'
        )

    def _summary(self) -> str:
        wrong = [f"not {text}" for text in self.wrong_results]
        return "; ".join(", ".join(_shortened(part)) for part in (self.results, wrong) if part)


class Checked(tuple[WorkedNumber, ...]):
    """Worked numbers that agree, one line each; on a page folded behind their count."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        count = f"{len(self)} numbers agree" if len(self) > 1 else "1 number agrees"
        rows = "".join(number._repr_html_() for number in self)
        told = f"<summary>{count} with the ledger of worked numbers</summary>"
        return f'<details class="checked">{told}{rows}</details>'


def checked(*numbers: WorkedNumber) -> Checked:
    """The worked numbers of an example as one result: `checked(worked(...), worked(...))`."""
    return Checked(numbers)


def worked(id: str, value: object, *, wrong: object = None) -> WorkedNumber:
    """Compare `value`, and what the wrong method gives, with the entry `id` of the ledger.

    `value` is the result itself where the entry has one, else a mapping with exactly its names.
    `wrong` is the same for the results of the mistaken method, and needed where there are any.

        worked("roofline-20gb-example", milliseconds)      roofline-20gb-example: 20 ms; ok

    int and Fraction must be equal. A float must be within the entry's tolerance, or else within
    10^-12 of the recorded value, relatively; so it never equals a recorded 0 but as 0.0. True
    and False are not numbers. Lists and tuples are the same.

    WorkedNumberError names id, result, computed and recorded value. ValueError for an unknown
    id (with the nearest ones), for missing or extra names, and for a rule, which text covers.
    """
    recorded = entry(id)
    if not recorded.checked:
        raise ValueError(
            f"{id!r} is a {recorded.kind} without a computed result: it is covered by text "
            f'(cell metadata "covers"), not by a number'
        )
    if wrong is None and recorded.wrong:
        names = ", ".join(recorded.wrong)
        raise ValueError(f"{id}: pass wrong=, what the mistaken method gives, for {names}")
    _compare(recorded, "expected", value)
    if wrong is not None:
        _compare(recorded, "wrong", wrong)
    return WorkedNumber(
        id=id,
        results=_texts(recorded.expected),
        wrong_results=_texts(recorded.wrong),
    )


def entry(id: str) -> Entry:
    """The entry `id`, with exact inputs: `entry("roofline-20gb-example").inputs["data"]` is 20.

    ValueError for an unknown id, with the nearest known ones.
    """
    known = _entries()
    if id not in known:
        near = get_close_matches(id, known, n=3, cutoff=0.5)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise ValueError(f"unknown worked number {id!r} among {len(known)}{hint}")
    raw = known[id]
    given = raw.get("inputs", {})
    return Entry(
        id=id,
        kind=raw["kind"],
        statement=raw["statement"],
        inputs={name: _exact(spec["value"]) for name, spec in given.items()},
        given={name: _spec_text(spec) for name, spec in given.items()},
        expected=_results(raw.get("expected", {})),
        wrong=_results(raw.get("wrong", {})),
        formula=raw.get("formula"),
        where=raw["where"],
        source=raw["source"],
        section=raw["section"],
        disputed=raw["disputed"],
        correct=_correction(raw),
        note=raw.get("note"),
    )


def entries() -> tuple[str, ...]:
    """All ids, in the order of the ledger."""
    return tuple(_entries())


def describe(id: str) -> str:
    """Everything the ledger says about `id`, as lines of text for the command line."""
    found = entry(id)
    lines = [f"{id}  ({found.kind}; source {found.source}, {found.section})", found.statement]
    lines += [f"  given   {name} = {text}" for name, text in found.given.items()]
    if found.formula is not None:
        first, *more = found.formula.strip().splitlines()
        lines += [f"  formula {first}", *(f"          {line}" for line in more)]
    lines += [f"  result  {name} = {r.text}" for name, r in found.expected.items()]
    lines += [f"  wrong   {name} = {r.text}" for name, r in found.wrong.items()]
    if not found.checked:
        lines.append("  covered by text, not by a number")
    if found.disputed:
        lines.append("  disputed: the source's statement does not hold as written; what holds:")
        lines.append(f"  correct {found.correct}")
    if found.note:
        lines.append(f"  note    {found.note}")
    lines.append(f"  {found.where}")
    return "\n".join(lines)


@cache
def _entries() -> dict[str, Any]:
    text = files("lab").joinpath("worked_numbers.json").read_text(encoding="utf-8")
    return {raw["id"]: raw for raw in json.loads(text)["entries"]}


def _compare(recorded: Entry, part: str, computed: object) -> None:
    """Raise unless `computed` meets the results in `part`, which is "expected" or "wrong"."""
    results = recorded.expected if part == "expected" else recorded.wrong
    for name, given in _named(recorded.id, part, results, computed).items():
        if not results[name].is_met_by(given):
            shown = results[name].text
            raise WorkedNumberError(
                f"{recorded.id}: {part} {name} is computed as {given!r}, recorded as {shown}"
            )


def _named(
    id: str, part: str, results: Mapping[str, Result], computed: object
) -> Mapping[str, object]:
    """`computed` by name of the result; exactly the recorded names, or ValueError."""
    if not results:
        raise ValueError(f"{id}: the ledger records no {part} results, got {computed!r}")
    if len(results) == 1:
        return dict.fromkeys(results, computed)
    names = ", ".join(results)
    if not isinstance(computed, Mapping):
        raise ValueError(f"{id}: {part} needs a mapping with the names {names}, got {computed!r}")
    missing = [name for name in results if name not in computed]
    extra = [str(name) for name in computed if name not in results]
    if missing or extra:
        raise ValueError(
            f"{id}: {part} results must be named {names}; "
            f"missing: {', '.join(missing) or 'none'}; extra: {', '.join(extra) or 'none'}"
        )
    return computed


def _same(computed: object, recorded: object, tol: Fraction | None) -> bool:
    """Whether two values agree; containers are walked, numbers compared exactly or within tol."""
    if isinstance(recorded, list):
        return (
            isinstance(computed, list | tuple)
            and len(computed) == len(recorded)
            and all(_same(c, r, tol) for c, r in zip(computed, recorded, strict=True))
        )
    if isinstance(recorded, dict):
        return (
            isinstance(computed, Mapping)
            and computed.keys() == recorded.keys()
            and all(_same(computed[name], recorded[name], tol) for name in recorded)
        )
    if isinstance(recorded, int | Fraction) and not isinstance(recorded, bool):
        return _same_number(computed, Fraction(recorded), tol)
    return type(computed) is type(recorded) and computed == recorded


def _same_number(computed: object, recorded: Fraction, tol: Fraction | None) -> bool:
    if isinstance(computed, bool) or not isinstance(computed, Rational | float):
        return False
    if isinstance(computed, float) and not isfinite(computed):
        return False
    difference = abs(Fraction(computed) - recorded)
    allowed = tol or Fraction(0)
    if isinstance(computed, float):
        allowed = max(allowed, FLOAT_TOLERANCE * abs(recorded))
    return difference <= allowed


def _exact(recorded: object) -> Any:
    """A fresh copy in which decimals and "a/b" are fractions."""
    if isinstance(recorded, float):
        return Fraction(repr(recorded))
    if isinstance(recorded, str) and re.fullmatch(r"-?\d+/\d+|-?\d+\.\d+", recorded):
        return Fraction(recorded)
    if isinstance(recorded, list):
        return [_exact(item) for item in recorded]
    if isinstance(recorded, dict):
        return {name: _exact(item) for name, item in recorded.items()}
    return recorded


def _correction(raw: Mapping[str, Any]) -> str | None:
    """What holds instead of a disputed statement, as `name: text`."""
    specs = raw.get("correct", {})
    return "; ".join(f"{name}: {_spec_text(spec)}" for name, spec in specs.items()) or None


def _results(specs: Mapping[str, Any]) -> dict[str, Result]:
    return {name: _result(spec) for name, spec in specs.items()}


def _result(spec: Mapping[str, Any]) -> Result:
    return Result(
        value=_exact(spec["value"]),
        unit=spec["unit"],
        printed=_exact(spec.get("printed")),
        tol=None if spec.get("tol") is None else Fraction(_exact(spec["tol"])),
        text=_spec_text(spec),
    )


def _spec_text(spec: Mapping[str, Any]) -> str:
    """A recorded result in words: `50/3 token/s (about 16.667)`."""
    unit = _unit_text(spec)
    printed = spec.get("printed")
    about = "" if printed in (None, spec["value"]) else f" (about {printed})"
    return f"{_text(spec['value'])}{unit}{about}"


def _unit_text(spec: Mapping[str, Any]) -> str:
    silent = spec["value"] is None or spec["unit"] in SILENT_UNITS
    return "" if silent else f" {spec['unit']}"


def _text(recorded: object) -> str:
    """A recorded value in words, as the ledger writes it; large integers with commas."""
    if isinstance(recorded, bool):
        return "yes" if recorded else "no"
    if recorded is None:
        return "none"
    if isinstance(recorded, int) and abs(recorded) >= 10_000:
        return f"{recorded:,}"
    if isinstance(recorded, list):
        return f"[{', '.join(map(_text, recorded))}]"
    if isinstance(recorded, dict):
        return f"{{{', '.join(f'{name} {_text(item)}' for name, item in recorded.items())}}}"
    return str(recorded)


def _texts(results: Mapping[str, Result]) -> tuple[str, ...]:
    """Each result for the quiet row: with its name, unless it stands alone and has a unit."""
    texts = {name: _cut(result.text) for name, result in results.items()}
    if len(results) == 1 and all(result.unit not in SILENT_UNITS for result in results.values()):
        return tuple(texts.values())
    return tuple(f"{name} {text}" for name, text in texts.items())


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 3] + "..."


def _shortened(parts: list[str] | tuple[str, ...]) -> list[str]:
    """The first two, dots and the last one, where there are too many for a quiet row."""
    if len(parts) <= SHOWN_RESULTS:
        return list(parts)
    return [*parts[:2], "...", parts[-1]]
