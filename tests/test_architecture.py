"""The import direction is a test, not a wish."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lab

ROOT = Path(__file__).parents[1]
LAB = ROOT / "lab"
FILES = sorted(path.relative_to(LAB).as_posix() for path in LAB.rglob("*.py"))

# Who may import whom. A row may name only rows above it, so there can be no circle between them.
ALLOWED = {
    # what was asked
    "sampling": set(),
    "request": {"sampling"},
    "draws": set(),
    "trace_files": {"request"},
    "workload": {"request", "draws", "trace_files"},
    "conversations": {"request", "draws", "trace_files", "workload"},
    "public_traces": {"draws", "workload", "conversations"},
    # what is decided, and what came of it
    "prefix": set(),
    "plan": {"request"},
    "record": {"request", "plan"},
    "trace_blocks": {"request", "record"},
    "trace_check": {"request", "record", "trace_blocks"},
    "trace_window": {"request", "record"},
    "trace": {"request", "plan", "record", "trace_check", "trace_window"},
    "trace_json": {"request", "record", "trace"},
    "perfetto": {"request", "record", "trace"},
    # what a trace says: nothing here knows who made it
    "worked_numbers": set(),
    "recompute": {"worked_numbers"},
    "attention": set(),
    "speculation": set(),
    "ledgers": {"request", "plan", "record", "trace", "attention", "speculation"},
    "parallel": {"ledgers"},
    "answers": {"ledgers"},
    "exercises": {"answers"},
    "figures": {
        *("request", "prefix", "plan", "record", "trace", "attention", "speculation", "ledgers"),
        "parallel",
    },
    "figures/vega": {"figures"},
    "figures/charts": {"request", "ledgers", "figures"},
    # who decides: nothing here knows who computes
    "eviction": set(),
    "kv_blocks": {"eviction"},
    "addresses": set(),
    "prefix_keys": {"prefix"},
    "prefix_replay": {"request", "ledgers", "eviction", "kv_blocks", "prefix", "prefix_keys"},
    "policy": {"request"},
    "decode_group": {"request", "plan"},
    "block_tables": {"request", "plan", "kv_blocks", "prefix", "policy"},
    "outcome": {"request", "plan"},
    "scheduler": {
        *("request", "plan", "prefix", "policy", "decode_group", "block_tables", "outcome"),
    },
    "clock": {"request"},
    # who computes: nothing here knows who decided
    "model": {"ledgers", "sampling"},
    "executors": {"request", "plan", "trace", "ledgers", "speculation"},
    "attention/live": {"model"},
    "executors/answer": {"request", "plan", "model"},
    "executors/swap_space": {"plan", "model"},
    "speculation/proposer": {"sampling", "plan", "executors", "model"},
    "speculation/verify": {"sampling", "model", "speculation"},
    "executors/live": {
        *("request", "plan", "policy", "clock", "model", "speculation", "executors"),
    },
    "deliveries": {"plan", "model"},
    # the one loop, and its parts put together
    "engine": {"request", "plan", "trace", "clock", "scheduler"},
    "run": {
        *("request", "workload", "record", "trace", "policy", "scheduler"),
        *("executors", "clock", "engine"),
    },
    "tenants": {"request", "workload", "policy", "run", "executors", "ledgers"},
    "live": {
        *("sampling", "request", "plan", "trace", "policy", "prefix", "scheduler"),
        *("executors", "speculation", "model", "clock", "deliveries", "engine"),
    },
    "allocators": {
        *("addresses", "request", "workload", "trace", "policy", "run", "executors", "ledgers"),
    },
    "calibration": {"request", "trace", "policy", "executors", "model", "clock", "live"},
    # several processes
    "parallel/launch": {"ledgers", "clock", "parallel"},
    "parallel/collectives": {"ledgers", "parallel"},
    "parallel/world": {"parallel"},
    "parallel/worker": {"parallel"},
    "parallel/context": {"parallel"},
    "parallel/expert": {"parallel"},
    "parallel/zero": {"parallel"},
    "parallel/tensor": {"model", "parallel"},
    "parallel/pipeline": {"model", "parallel"},
    "parallel/serving": {
        *("request", "plan", "trace", "policy", "clock", "ledgers", "model", "executors", "live"),
        "parallel",
    },
    "parallel/agreement": {"request", "trace", "ledgers", "model"},
    "parallel/router": {"request", "prefix"},
    "parallel/replicas": {
        *("request", "trace", "policy", "ledgers", "model", "live", "parallel"),
    },
    # what a reader may change: a run and its picture, from a few numbers
    "what_ifs": {
        *("request", "workload", "trace", "policy", "run", "executors", "ledgers", "figures"),
        *("attention", "speculation", "allocators", "parallel", "prefix", "prefix_keys"),
    },
    # what is asked: every answer is computed by what stands above
    "questions": {
        *("request", "workload", "record", "trace", "ledgers", "answers", "exercises"),
        *("policy", "executors", "run", "what_ifs", "attention", "speculation", "parallel"),
        *("kv_blocks", "prefix", "prefix_keys", "prefix_replay"),
    },
    # what moves and answers on a page
    "widgets": {"trace", "figures", "exercises", "questions"},
    "doctor": set(),
    "__main__": {
        *("workload", "trace", "trace_json", "perfetto", "worked_numbers", "ledgers", "figures"),
        *("policy", "executors", "clock", "run", "exercises", "questions", "doctor", "recompute"),
        "sampling",
    },
}
CORE = set(sys.stdlib_module_names) | {"lab"}
PACKAGES = {  # what a row needs beyond the standard library
    "model": {"torch", "safetensors", "tokenizers", "jinja2", "kernels"},
    "figures/vega": {"altair"},
    "attention/live": {"torch"},
    "executors/swap_space": {"torch"},
    "speculation/proposer": {"torch"},
    "speculation/verify": {"torch", "kernels"},
    "executors/live": {"torch"},
    "live": {"torch"},
    "parallel/collectives": {"torch"},
    "parallel/world": {"torch"},
    "parallel/agreement": {"torch"},
    "parallel/context": {"torch"},
    "parallel/expert": {"torch"},
    "parallel/zero": {"torch"},
    "parallel/tensor": {"torch"},
    "parallel/pipeline": {"torch"},
    "parallel/serving": {"torch"},
    "widgets": {"anywidget", "traitlets"},
}


def source(file: str) -> str:
    return (LAB / file).read_text(encoding="utf-8")


def row_of(file: str) -> str:
    """The row of ALLOWED that a file or a module stands in: its own name, or its package's."""
    whole = file.removesuffix(".py")
    return whole if whole in ALLOWED else whole.split("/")[0]


def imported(text: str) -> Iterator[str]:
    """Every module that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def faults(file: str, text: str) -> list[str]:
    """What is wrong with the imports of a file, in words."""
    row = row_of(file)
    if row == "__init__":
        row, allowed = "lab", set[str]()
    else:
        allowed = {row, *ALLOWED[row]}
    wrong_way = (fault for module in imported(text) for fault in _wrong_way(row, allowed, module))
    return [*wrong_way, *_hidden(row, text)]


def _wrong_way(row: str, allowed: set[str], module: str) -> Iterator[str]:
    if module.startswith("."):
        yield f"{module} is relative: write lab. and the rest"
        return
    top, *rest = module.split(".")
    if top not in CORE | PACKAGES.get(row, set()):
        yield f"{module} is not in the standard library"
    if (row, module) == ("__main__", "lab"):
        return  # whatever needs more than Python is looked up late, where it is used
    if top == "lab" and (not rest or rest[0] not in allowed):
        yield f"{row} may not import {module}"
    if top == "time" and row != "clock":
        yield "time is read in clock.py and nowhere else"


def _hidden(row: str, text: str) -> Iterator[str]:
    """Imports that are not at the top of the file, and words that would hide one."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in tree.body:
            yield f"line {node.lineno}: the import is not at the top"
    for word in ("TYPE_CHECKING", "__import__", "exec", "eval"):
        if word in _names(tree) and (row, word) != ("recompute", "exec"):  # the ledger's formulas
            yield f"{word}: an import in hiding"
    if "import_module" in _names(tree) and row != "lab":
        yield "import_module: only lab/__init__.py looks names up late"


def _names(tree: ast.Module) -> set[str]:
    """Every name that a file uses or imports."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found.add(name)
    return found


@pytest.mark.parametrize("file", FILES)
def test_imports_point_one_way(file: str) -> None:
    assert faults(file, source(file)) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("plan.py", "from lab.scheduler import Scheduler", "plan may not import lab.scheduler"),
        ("plan.py", "import lab.trace", "plan may not import lab.trace"),
        ("plan.py", "import lab", "plan may not import lab"),
        ("__main__.py", "import lab.live", "__main__ may not import lab.live"),
        ("scheduler.py", "from lab.executors.cost_model import A", "scheduler may not import"),
        ("executors/new.py", "from lab.scheduler import A", "executors may not import"),
        ("ledgers/new.py", "from lab.figures.scene import A", "ledgers may not import"),
        ("figures/new.py", "from lab.engine import A", "figures may not import"),
        ("trace.py", "from .plan import StepPlan", ".plan is relative"),
        ("plan.py", "import torch", "torch is not in the standard library"),
        ("plan.py", "from numpy.random import rng", "numpy.random is not in the standard"),
        ("__init__.py", "from lab.trace import Trace", "lab may not import lab.trace"),
        ("engine.py", "import time", "time is read in clock.py"),
        ("engine.py", "from time import sleep", "time is read in clock.py"),
        ("run.py", "def f():\n    import json", "line 2: the import is not at the top"),
        ("run.py", "try:\n    import json\nexcept E: pass", "line 2: the import is not at the top"),
        ("run.py", "from typing import TYPE_CHECKING", "TYPE_CHECKING: an import in hiding"),
        ("run.py", "import typing\nif typing.TYPE_CHECKING: pass", "TYPE_CHECKING: an import"),
        ("run.py", "from importlib import import_module", "import_module: only lab/__init__.py"),
        ("run.py", "x = __import__('json')", "__import__: an import in hiding"),
        ("worked_numbers.py", "exec(formula)", "exec: an import in hiding"),
        ("recompute.py", "eval(formula)", "eval: an import in hiding"),
    ],
)
def test_an_import_against_the_rules_would_be_found(file: str, text: str, fault: str) -> None:
    assert any(fault in found for found in faults(file, text))


def test_every_file_has_a_row_and_every_row_a_file() -> None:
    assert {row_of(file) for file in FILES} == {"__init__", *ALLOWED}


def test_a_row_names_only_rows_above_it() -> None:
    above: set[str] = set()
    for row, allowed in ALLOWED.items():
        assert allowed <= above, f"{row} may not reach down to {allowed - above}"
        above.add(row)


def test_every_permission_is_used() -> None:
    used: dict[str, set[str]] = {row: set() for row in ALLOWED}
    for file in FILES:
        if file != "__init__.py":
            targets = (m.split(".")[1] for m in imported(source(file)) if m.startswith("lab."))
            used[row_of(file)].update(targets)
    for row, allowed in ALLOWED.items():
        assert allowed - used[row] <= {"request"}, f"{row} does not need them all"


def test_no_two_files_import_each_other_by_any_way_round() -> None:
    known = {f"lab.{f.removesuffix('.py').replace('/', '.')}": f for f in FILES}
    needs = {file: {known[m] for m in imported(source(file)) if m in known} for file in FILES}
    while free := [file for file, others in needs.items() if not others]:
        for file in free:
            del needs[file]
        for others in needs.values():
            others.difference_update(free)
    assert needs == {}


def test_lab_itself_imports_nothing_early_and_looks_names_up_in_one_place() -> None:
    text = source("__init__.py")
    assert set(imported(text)) <= {"__future__", "importlib"}
    late = [
        function.name
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef) and "import_module(" in ast.unparse(function)
    ]
    assert late == ["__getattr__"]


@pytest.mark.parametrize("file", FILES)
def test_a_module_begins_with_a_sentence_that_says_what_it_is_for(file: str) -> None:
    tree = ast.parse(source(file))
    if tree.body:
        docstring = ast.get_docstring(tree)
        assert docstring, f"lab/{file} has no docstring"
        assert re.match(r"[A-Z`].*?\.(\s|$)", docstring, re.DOTALL), f"lab/{file}: no sentence"


# The table of public names

PUBLIC: list[str] = vars(lab)["__all__"]


def names_in_stub() -> dict[str, str]:
    """Where the stub says that each public name lives."""
    found = {}
    for node in ast.parse(source("__init__.pyi")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name} is not exported by the stub"
                found[alias.name] = str(node.module)
    return found


def test_the_stub_names_the_same_things_in_the_same_places() -> None:
    assert names_in_stub() == vars(lab)["_WHERE"]


def test_all_is_the_table_and_the_version() -> None:
    assert sorted(PUBLIC) == sorted(["__version__", *names_in_stub()])
    assert dir(lab) == sorted(PUBLIC)
    assert len(set(PUBLIC)) == len(PUBLIC)
    assert isinstance(lab.__version__, str)


@pytest.mark.parametrize("name", sorted(names_in_stub()))
def test_every_public_name_resolves_to_the_thing_of_its_module(name: str) -> None:
    thing = getattr(lab, name)
    assert thing is getattr(sys.modules[names_in_stub()[name]], name)
    assert getattr(thing, "__module__", names_in_stub()[name]).startswith("lab.")


def test_no_public_name_is_hidden_by_a_module() -> None:
    assert not set(PUBLIC) & {row_of(file) for file in FILES}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'lab' has no attribute 'simulator'"):
        lab.simulator  # type: ignore[attr-defined]  # noqa: B018
