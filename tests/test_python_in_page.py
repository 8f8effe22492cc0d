"""What the pages get of `lab`, and how their Python answers."""

from __future__ import annotations

import ast
import io
import json
import sys
import zipfile
from typing import Any

import pytest

from book._ext.python_in_page import lab_zip
from book.page_python.runner import MOST_CHARACTERS, answer, run

ZIP = zipfile.ZipFile(io.BytesIO(lab_zip()))


def asked(**question: Any) -> Any:
    return json.loads(answer(json.dumps(question)))


# The zip


def test_the_same_files_make_the_same_zip() -> None:
    assert lab_zip() == lab_zip()
    assert {entry.date_time for entry in ZIP.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_zip_holds_the_core_and_nothing_that_needs_more_than_python() -> None:
    names = ZIP.namelist()
    assert {"lab/__init__.py", "lab/worked_numbers.json", "lab/figures/scene.py", "runner.py"} <= {
        *names
    }
    for name in names:
        if name.endswith(".py"):
            assert tops(ZIP.read(name).decode()) <= {"lab", *sys.stdlib_module_names}, name


def tops(text: str) -> set[str]:
    """The packages that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.split(".")[0])
    return found


# Calls


def test_a_call_gives_plain_values() -> None:
    result = asked(function="lab.ledgers.table:show", parameters={"value": 2.5})
    assert result == {"result": "2.5"}


@pytest.mark.parametrize(
    "name",
    ["os:getcwd", "lab:worked", "labs.x:y", "lab.run:_x", "lab.run", "lab.run:simulate.x", ""],
)
def test_a_call_reaches_only_public_functions_of_lab(name: str) -> None:
    told = asked(function=name, parameters={})
    assert told == {"error": f"a page may call lab.module:function, got {name!r}"}


def test_what_a_call_raises_is_told_in_words() -> None:
    told = asked(function="lab.ledgers.latency:percentile", parameters={"values": [], "percent": 5})
    assert told == {"error": "a percentile needs at least 1 value, got 0"}
    told = asked(function="lab.ledgers.latency:percentile", parameters={"rows": 1})
    assert told["error"].startswith("TypeError: ")
    assert "rows" in told["error"]


def test_a_result_that_json_cannot_hold_is_an_error() -> None:
    endless = {"values": [float("inf")], "percent": 5}
    told = asked(function="lab.ledgers.latency:percentile", parameters=endless)
    assert "JSON does not know the number inf" in told["error"]


# Cells


def test_a_cell_shows_what_it_prints_and_its_last_expression() -> None:
    assert run("print('a')\ndisplay(lab.Static(), 'x')\n1 + 1") == {
        "text": f"a\n{run('lab.Static()')['text']}'x'\n2\n",
        "error": None,
    }
    assert run("x = 3") == {"text": "", "error": None}
    assert run("") == {"text": "", "error": None}
    assert run("None")["text"] == ""


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            "a = 1\nlab.Continuous(seats=0)",
            "Line 2: ValueError: seats must be at least 1, got 0",
        ),
        ("def f():\n    return 1 / 0\n\nf()", "Line 2: ZeroDivisionError: division by zero"),
        ("x = 1\nif x\n    y", "Line 2: SyntaxError: expected ':'"),
        ("raise SystemExit('enough')", "Line 1: SystemExit: enough"),
        (
            "import numpi",
            "Line 1: numpi is not in this page: it has the core of lab and what Python brings",
        ),
    ],
)
def test_an_error_is_one_line_with_the_line_of_the_cell(source: str, error: str) -> None:
    assert run(source)["error"] == error


def test_what_was_printed_before_an_error_stays() -> None:
    assert run("print('so far')\nx")["text"] == "so far\n"


def test_a_run_knows_nothing_of_the_one_before() -> None:
    assert run("left = 1")["error"] is None
    assert run("left")["error"] == "Line 1: NameError: name 'left' is not defined"


def test_a_text_that_nobody_would_read_is_cut() -> None:
    text = run(f"print('x' * {MOST_CHARACTERS + 10})")["text"]
    assert text is not None
    assert text.endswith("x\n... and 11 characters more\n")
