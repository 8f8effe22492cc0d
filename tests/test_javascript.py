"""The pure functions of the widgets, as Node runs them: one test a file of tests/js."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from book import vendor

ROOT = Path(__file__).parents[1]
FILES = sorted(path.name for path in (ROOT / "tests" / "js").glob("*.test.mjs"))


@pytest.fixture(scope="session")
def node() -> list[str]:
    """The command for Node, of this machine or of the virtual environment."""
    return vendor.program("node")


def run(node: list[str], *files: Path) -> subprocess.CompletedProcess[str]:
    command = [*node, "--test", *map(str, files)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", FILES)
def test_the_functions_do_what_their_tests_say(node: list[str], name: str) -> None:
    done = run(node, Path("tests") / "js" / name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass 0" not in done.stdout


def test_a_failing_test_would_be_noticed(node: list[str], tmp_path: Path) -> None:
    judge = (ROOT / "lab" / "widgets" / "judge.js").as_uri()
    broken = tmp_path / "broken.test.mjs"
    broken.write_text(
        'import assert from "node:assert/strict"; import { test } from "node:test";\n'
        f'import {{ parseNumber }} from "{judge}";\n'
        'test("wrong", () => assert.equal(parseNumber("1/3").value, 3));\n',
        encoding="utf-8",
    )
    done = run(node, broken)
    assert done.returncode == 1
    assert "0.3333333333333333" in done.stdout
