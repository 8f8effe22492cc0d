"""The Python of the pages computes what this one computes: the golden runs, bit for bit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden_runs import GOLDEN
from needs import cannot

from book import vendor
from book._ext.python_in_page import lab_zip

TESTS = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def replayed(golden: Path, folder: Path) -> Any:
    """What the replay in Pyodide tells of the files in `golden`."""
    if not vendor.stamp().exists():
        cannot("Python for the pages is not there: python book/vendor.py")
    (folder / "lab.zip").write_bytes(lab_zip())
    script = TESTS / "pyodide" / "run.mjs"
    command = [*vendor.program("node"), script, vendor.PYODIDE, folder / "lab.zip", TESTS, golden]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_golden_runs_are_the_same_in_the_page(tmp_path: Path) -> None:
    told = replayed(GOLDEN, tmp_path)
    assert told["platform"] == "emscripten"
    assert told["python"] != sys.version
    assert told["differences"] == []


def test_one_digit_that_differs_is_noticed(tmp_path: Path) -> None:
    changed = shutil.copytree(GOLDEN, tmp_path / "golden")
    for name, number in {"trace_drawn": "0.077451", "workload": "0.200082"}.items():
        text = (changed / f"{name}.json").read_text("utf-8")
        assert number in text
        spoilt = text.replace(number, f"{number}0000000001", 1)
        (changed / f"{name}.json").write_text(spoilt, encoding="utf-8")
    assert replayed(changed, tmp_path)["differences"] == ["trace_drawn", "workload"]
