"""`import lab` in a bare interpreter: quick, and without anything that is not Python itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MOST_MODULES = 12
"""`import lab` may load so many modules beyond a bare interpreter's: itself, `importlib` and what
that needs. Loading `typing` or `dataclasses` would bring several times as many."""

LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def run(code: str, *options: str) -> Any:
    """What `code` prints as JSON, in a new interpreter with the repository alone on its path."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n"
    command = [sys.executable, "-X", "utf8", "-W", "error", *options, "-c", start + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bare(code: str) -> Any:
    """The same, without site-packages: nothing but the standard library can be found."""
    return run(code, "-I", "-S")


NEW = "new = sorted(set(sys.modules) - before); import json; print(json.dumps(new))"
EVERY_NAME = """import lab
BEYOND = "lab.widgets", "lab.live", "lab.calibration", "lab.figures.charts"
BEYOND += ("lab.speculation.proposer",)
BEYOND += ("lab.parallel.serving", "lab.parallel.replicas", "lab.parallel.agreement")
for name, where in lab._WHERE.items():
    if not where.startswith(BEYOND): getattr(lab, name)
"""


def is_known(module: str) -> bool:
    return module.split(".")[0] in {"lab", *sys.stdlib_module_names}


def test_a_bare_interpreter_finds_no_third_party_package() -> None:
    code = "import importlib.util as u, json; print(json.dumps([bool(u.find_spec(n)) for n in {}]))"
    assert bare(code.format(["numpy", "pytest", "lab"])) == [False, False, True]


def test_lab_alone_loads_next_to_nothing() -> None:
    new = bare(f"import lab\n{NEW}")
    assert "lab" in new
    assert [module for module in new if module.startswith("lab.")] == []
    assert len(new) <= MOST_MODULES, new


def test_every_public_name_resolves_with_nothing_but_python() -> None:
    new = bare(EVERY_NAME + NEW)
    assert "lab.engine" in new
    assert [module for module in new if not is_known(module)] == []


@pytest.mark.parametrize("code", ["import lab\n", EVERY_NAME])
def test_packages_that_are_installed_are_not_loaded_either(code: str) -> None:
    new = run(code + NEW)
    assert [module for module in new if not is_known(module)] == []


def test_the_command_line_needs_nothing_but_python() -> None:
    new = bare(f"import lab.__main__\n{NEW}")
    assert [module for module in new if not is_known(module)] == []


def test_the_chain_from_workload_to_figure_runs_with_nothing_but_python() -> None:
    code = """
import json, lab
work = lab.Workload.given({"A": (0, 2, 2), "B": (0, 2, 4), "C": (0, 2, 2)})
trace = lab.simulate(work, lab.Continuous(seats=2), lab.CostModel.equal_steps())
trace.check()
ledgers = (lab.latency(trace), lab.throughput(trace), lab.cost(trace, 1, reserved_hours=1))
print(json.dumps([lab.timeline(trace).finding, *(len(repr(ledger)) > 0 for ledger in ledgers)]))
"""
    assert bare(code) == ["ends: A step 2, B step 4, C step 4", True, True, True]


def test_the_worked_numbers_are_found_from_anywhere() -> None:
    code = "import json, lab; print(json.dumps(repr(lab.worked('roofline-20gb-example', 20))))"
    assert bare(code) == "roofline-20gb-example: 20 ms; ok"


def test_the_time_of_an_import_is_printed_and_not_judged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "import json, time; t = time.perf_counter(); import lab; "
    took_s = bare(code + "print(json.dumps(time.perf_counter() - t))")
    with capsys.disabled():
        print(f"\nimport lab: {1000 * took_s:.1f} ms")
