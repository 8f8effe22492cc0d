"""What the compiler made of the kernels, as it was saved: `python -m kernels report --json`.

A test holds it against the compiler. So it can be read where there is none.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, TypedDict


class Report(TypedDict):
    """Which Triton compiled, and a row for each kernel, size and chip."""

    triton: str
    rows: list[dict[str, Any]]


@cache
def reported() -> Report:
    """The saved report."""
    found: Report = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found
