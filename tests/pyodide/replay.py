"""Plays every run that must never change and compares it with its file, bit for bit.

It needs nothing but Python and `lab`, so that it runs where there is no pytest.
"""

from __future__ import annotations

import json
import pkgutil
import tempfile
from importlib import import_module
from pathlib import Path

from golden_runs import MAKERS, drawn_rows

import lab
from lab.trace_json import load, save


def differences(golden: Path) -> list[str]:
    """The names of what came out differently; everything of `lab` that is here must load."""
    for module in pkgutil.walk_packages(lab.__path__, "lab."):
        import_module(module.name)
    found = [name for name in MAKERS if not _same(name, golden / f"{name}.json")]
    if drawn_rows() != json.loads((golden / "workload.json").read_text("utf-8")):
        found.append("workload")
    return found


def _same(name: str, kept: Path) -> bool:
    trace = MAKERS[name]()
    trace.check()
    with tempfile.TemporaryDirectory() as folder:
        save(trace, Path(folder) / "now.json")
        now = (Path(folder) / "now.json").read_bytes()
    return now == kept.read_bytes() and trace.timeline() == load(kept).timeline()
