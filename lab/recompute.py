"""Computes the worked numbers again: each formula of the ledger, from the recorded inputs."""

from __future__ import annotations

import math
import re
import textwrap
from fractions import Fraction
from typing import Any

from lab.worked_numbers import Entry, entry


def recompute(id: str) -> dict[str, Any]:
    """What the formula of the entry `id` gives: right and wrong results by their names.

        recompute("roofline-20gb-example")      {"t_ms": 20}

    In a formula the inputs have their names, and `F` is Fraction. ValueError for an unknown id and
    for an entry without a formula; whatever goes wrong in the formula goes wrong here.
    """
    return _evaluate(entry(id))


def mismatches(id: str) -> list[str]:
    """Where the formula of `id` and its record differ, one line each; nothing where they agree.

    ValueError for an unknown id and for an entry without a formula.
    """
    recorded = entry(id)
    results = recorded.expected | recorded.wrong
    try:
        computed = _evaluate(recorded)
    except Exception as error:
        return [f"{id}: the formula fails, {type(error).__name__}: {error}"]
    lines = [f"{id}: {name} is computed and not recorded" for name in computed.keys() - results]
    for name, result in results.items():
        if name not in computed:
            lines.append(f"{id}: {name} is recorded and not computed")
        elif not result.is_met_by(computed[name]):
            shown = f"{computed[name]!r}, recorded as {result.text}"
            lines.append(f"{id}: {name} is computed as {shown}")
    return lines


def _evaluate(recorded: Entry) -> dict[str, Any]:
    if recorded.formula is None:
        raise ValueError(f"{recorded.id!r} is a {recorded.kind} without a formula")
    body = textwrap.dedent(recorded.formula).strip()
    if not re.search(r"^\s*return\b", body, re.MULTILINE):
        body = f"return (\n{body}\n)"
    scope: dict[str, Any] = {"F": Fraction, "math": math}
    source = f"def formula({', '.join(recorded.inputs)}):\n{textwrap.indent(body, '    ')}"
    exec(compile(source, recorded.id, "exec"), scope)
    results: dict[str, Any] = scope["formula"](**recorded.inputs)
    return results
