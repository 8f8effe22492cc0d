"""The saved notebooks: text outputs and nothing else, and a check of them that can turn red."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
if not CHAPTERS:
    raise RuntimeError("chapters/ holds no notebook: the book has at least one")

TEXT = {"text/plain", "text/html", "text/markdown", "text/latex", "application/json"}
CHARTS = {"application/vnd.vegalite.v5+json"}

every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=[path.stem for path in CHAPTERS])


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def prints(code: str) -> bool:
    """Whether a cell calls print itself, outside of the functions that it defines."""
    tree = ast.parse(
        "\n".join(line for line in code.splitlines() if not line.startswith(("%", "!")))
    )
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and id(node) not in inside
        for node in ast.walk(tree)
    )


@every_chapter
def test_what_a_cell_prints_is_saved(path: Path):
    silent = [
        source(cell)
        for cell in code_cells(read(path))
        if prints(source(cell)) and not any(o.get("name") == "stdout" for o in cell["outputs"])
    ]
    assert silent == []


@every_chapter
def test_a_chapter_has_saved_outputs_to_compare(path: Path):
    assert any(cell["outputs"] for cell in code_cells(read(path)))


@every_chapter
def test_outputs_are_text_without_errors_or_warnings(path: Path):
    for cell in code_cells(read(path)):
        for output in cell["outputs"]:
            assert output["output_type"] != "error", source(cell)
            assert output.get("name", "stdout") == "stdout", source(cell)
            assert set(output.get("data", {})) <= TEXT | CHARTS, source(cell)
            assert "base64," not in json.dumps(output), source(cell)


@every_chapter
def test_nothing_is_saved_that_changes_from_run_to_run(path: Path):
    notebook = read(path)
    assert "widgets" not in notebook["metadata"]
    cells = code_cells(notebook)
    assert all("execution" not in cell["metadata"] for cell in cells), "times are saved"
    # a cell without a number would not be compared at all
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell["outputs"]:
            assert output.get("execution_count") in (None, cell["execution_count"]), source(cell)


@every_chapter
def test_a_measured_output_is_never_compared(path: Path):
    for cell in code_cells(read(path)):
        shown = json.dumps(cell["outputs"], ensure_ascii=False)
        if re.search(r"\(measured\)|measured \d{4}-\d\d-\d\d", shown):
            assert "nbval-ignore-output" in cell["metadata"].get("tags", []), source(cell)


@every_chapter
def test_a_visible_cell_is_short_and_defines_no_class(path: Path):
    for cell in code_cells(read(path)):
        assert "class " not in [line[:6] for line in source(cell).splitlines()], source(cell)
        if {"hide-input", "remove-cell"}.isdisjoint(cell["metadata"].get("tags", [])):
            assert len(source(cell).splitlines()) <= 12, source(cell)


@every_chapter
def test_attachments_hold_no_pictures(path: Path):
    assert [cell for cell in read(path)["cells"] if cell.get("attachments")] == []


def test_the_table_of_contents_names_every_chapter_once():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    named = [item["file"] for part in toc["parts"] for item in part["chapters"]]
    written = [f"chapters/{path.stem}" for path in CHAPTERS]
    assert [name for name in named if name.startswith("chapters/")] == written


def run_nbval(notebook: Path) -> subprocess.CompletedProcess[str]:
    sanitizers = ROOT / "tests" / "nbval.cfg"
    options = ["--nbval", f"--nbval-sanitize-with={sanitizers}", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(notebook)],
        cwd=notebook.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def with_one_digit_changed(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy in which the first digit of the first saved text that has one is another digit."""
    copy = json.loads(json.dumps(notebook))
    for cell in code_cells(copy):
        for output in cell["outputs"]:
            lines = output["text"] if "text" in output else output["data"]["text/plain"]
            text = "".join(lines)
            if re.search(r"\d", text):
                changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text, count=1)
                if "text" in output:
                    output["text"] = changed
                else:
                    output["data"]["text/plain"] = changed
                return copy
    raise AssertionError("no saved text output has a digit")


def without_one_output(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy in which the first cell with a saved output has none."""
    copy = json.loads(json.dumps(notebook))
    next(cell for cell in code_cells(copy) if cell["outputs"])["outputs"] = []
    return copy


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_comparison_of_saved_outputs_turns_red(tmp_path: Path):
    as_saved = read(CHAPTERS[0])
    copies = {
        "as_saved": as_saved,
        "one_digit_changed": with_one_digit_changed(as_saved),
        "one_output_missing": without_one_output(as_saved),
    }
    verdicts = {}
    for name, notebook in copies.items():
        copy = tmp_path / f"{name}.ipynb"
        copy.write_text(json.dumps(notebook), encoding="utf-8")
        verdicts[name] = run_nbval(copy)
    assert verdicts["as_saved"].returncode == 0, verdicts["as_saved"].stdout
    for name in ("one_digit_changed", "one_output_missing"):
        assert verdicts[name].returncode == 1, verdicts[name].stdout
        assert " 1 failed" in f" {verdicts[name].stdout.splitlines()[-1]}", verdicts[name].stdout
