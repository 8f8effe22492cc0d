"""What works on this machine, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from datetime import date
from pathlib import Path

_NEEDED_FOR = {
    "torch": "the live engine",
    "triton": "kernels on a GPU (Linux only)",
    "jupyterlab": "make lab",
    "ipywidgets": "figures in JupyterLab",
    "altair": "charts",
    "jupyter-book": "make book",
    "nbval": "make test",
    "simpy": "make bench",
}


def report() -> str:
    """One line a part: what was found, and for what is missing how to get it."""
    lines = [_python(), "the core: ready, it needs only Python", *map(_package, _NEEDED_FOR)]
    return "\n".join([*lines, _gpu(), _browser(), f"{os.cpu_count()} processor cores"])


def machine() -> str:
    """Where and when a number is measured: the day, the processor, its cores, and what computes.

    Such as "2026-11-30, Intel(R) Xeon(R) Processor, 2 cores, torch 2.13.0+cpu".
    """
    try:
        computes = f"torch {importlib.metadata.version('torch')}"
    except importlib.metadata.PackageNotFoundError:
        computes = f"Python {platform.python_version()}"
    return ", ".join([f"{date.today()}", _processor(), f"{os.cpu_count()} cores", computes])


def _processor() -> str:
    """The name that the maker gave it, where the system tells; else its kind."""
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        for line in listed.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _python() -> str:
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def _package(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}: found, for {_NEEDED_FOR[name]}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name}: missing, needed for {_NEEDED_FOR[name]}; pip install -r requirements.txt"


def _gpu() -> str:
    if shutil.which("nvidia-smi") or shutil.which("rocm-smi"):
        return "a GPU driver: found"
    return "a GPU: none found; everything here runs without one"


def _browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return f"{name}: found, for the tests of the site"
    return "a browser: none found; the tests of the site are skipped (Debian: apt install chromium)"
