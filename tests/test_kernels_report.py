"""The compiler's side: every kernel compiles for three chips, spills nothing, uses matrix units."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernels import __main__ as command
from kernels import report
from kernels.reported import Report, reported
from kernels.triton.ahead_of_time import TARGETS

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(300)  # the compiler needs most of a minute, once
MULTIPLY = {"flash_attention", "paged_attention", "quantized_matmul"}

# One process for both: it takes seconds until the compiler is loaded.
SPILLS_AND_REPORT = """
import runpy, sys
from kernels import report
from kernels.triton.ahead_of_time import resources

launch = report.chunks(128, True, "sm_90")
print(resources(launch._replace(warps=4), "sm_90").spilled_bytes)
sys.argv[1:] = ["report", "--json"]
runpy.run_module("kernels", run_name="__main__")
"""


@pytest.fixture(scope="session")
def compiled() -> list[str]:
    """What a process says in which nothing is interpreted: the bytes of a kernel that spills,
    and the report of all."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    said = subprocess.run(
        [sys.executable, "-c", SPILLS_AND_REPORT],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return said.split("\n", 1)


@pytest.fixture(scope="session")
def made(compiled: list[str]) -> Report:
    """The report, made once."""
    found: Report = json.loads(compiled[1])
    return found


@pytest.fixture(scope="session")
def rows(made: Report) -> list[dict[str, Any]]:
    return made["rows"]


def test_every_kernel_is_compiled_for_every_chip(rows: list[dict[str, Any]]) -> None:
    found = {(row["kernel"], row["case"], row["chip"]) for row in rows}
    assert found == {(*case, chip) for case in report.cases() for chip in TARGETS}


def test_the_report_that_the_book_shows_is_that_of_this_compiler(made: Report) -> None:
    if made["triton"] != reported()["triton"]:
        pytest.skip(f"saved with Triton {reported()['triton']}, and here is {made['triton']}")
    assert made == reported(), "python -m kernels report --json > kernels/reported.json"


def test_nothing_spills(rows: list[dict[str, Any]]) -> None:
    assert [row for row in rows if row["spilled_bytes"]] == []


def test_a_kernel_that_spills_would_be_seen(compiled: list[str]) -> None:
    assert int(compiled[0]) > 0  # half the warps: twice the registers a thread


def test_what_multiplies_matrices_does_so_in_matrix_units(rows: list[dict[str, Any]]) -> None:
    unit = {"sm_80": "mma", "sm_90": "wgmma", "gfx942": "mfma"}
    for row in rows:
        wanted = unit[row["chip"]] if row["kernel"] in MULTIPLY else None
        if (row["kernel"], row["chip"]) == ("paged_attention", "sm_90"):
            wanted = "mma"  # 16 rows: wgmma needs 64
        assert row["matrix_unit"] == wanted, row


def test_shared_memory_fits_the_chip(rows: list[dict[str, Any]]) -> None:
    """For sm_80 that of its smaller relatives, sm_86 and sm_89, where the same tiles are used."""
    room = {"sm_80": 99 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}
    assert [row for row in rows if row["shared_bytes"] > room[row["chip"]]] == []


def test_the_table_has_a_line_for_each(rows: list[dict[str, Any]]) -> None:
    head, *lines = report.table(rows).splitlines()
    assert head.split()[:3] == ["kernel", "case", "chip"]
    assert len(lines) == len(rows)


def test_an_interpreted_kernel_cannot_be_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kernels.triton.INTERPRETED", True)
    assert command.main(["report"]) == 2
    assert "unset TRITON_INTERPRET" in capsys.readouterr().err
