"""The chapters as files: saved with their outputs and nothing else, and nbval really compares."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
SAVED = [pytest.param(path, id=path.stem) for path in CHAPTERS]


def cells_of(path):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


def test_there_is_a_chapter():
    assert CHAPTERS


@pytest.mark.parametrize("path", SAVED)
def test_a_chapter_is_saved_with_its_outputs_and_nothing_else(path):
    notebook = json.loads(path.read_text())
    assert "widgets" not in notebook["metadata"]
    cells = cells_of(path)
    assert any(cell["outputs"] for cell in cells)
    for cell in cells:
        assert cell["execution_count"] is None
        assert "execution" not in cell["metadata"]
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr"
            assert not any(kind.startswith("image/") for kind in output.get("data", {}))


@pytest.mark.parametrize("path", SAVED)
def test_a_cell_of_a_chapter_defines_no_class_and_is_short(path):
    for cell in cells_of(path):
        source = "".join(cell["source"])
        assert not re.search(r"^class ", source, re.M)
        if "hide-input" not in cell["metadata"].get("tags", ()):
            assert len(source.splitlines()) <= 12, cell["id"]


def nbval(path):
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-sanitize-with"]
    options = [str(ROOT / "tests" / "nbval.cfg"), "-p", "no:cacheprovider", "-q", str(path)]
    return subprocess.run(command + options, cwd=ROOT, capture_output=True, text=True, timeout=170)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("path", SAVED[:1])
def test_one_changed_number_in_a_copy_turns_the_comparison_red(path, tmp_path):
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", ())
            for number, line in enumerate(text):
                if "360" in line:
                    text[number] = line.replace("360", "361", 1)
                    break
            else:
                continue
            break
        else:
            continue
        break
    else:
        pytest.fail("no saved output holds the number that is to be changed")
    copy = tmp_path / path.name
    copy.write_text(json.dumps(notebook))
    result = nbval(copy)
    assert result.returncode == 1, result.stdout[-2000:]
    assert "1 failed" in result.stdout
