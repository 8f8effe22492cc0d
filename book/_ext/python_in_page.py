"""Sphinx extension: Python for the readers' browsers, and `lab` for it, stand beside the pages.

`_static/py` gets the worker and a zip of the core of `lab`, both with their content in their
names, because hosts let browsers keep files for a while; `_static/pyodide-VERSION` gets Python.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import Any

from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "lab"
PARTS = ROOT / "book" / "page_python"
PYODIDE = ROOT / "_build" / "vendor" / "node_modules" / "pyodide"
NEEDED = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
FETCHED = [name for name in NEEDED if not name.endswith(".mjs")]
"""What the worker can count while it comes; modules come by import."""
BEYOND_PYTHON = {
    *("attention/live.py", "calibration.py", "deliveries.py", "executors/answer.py"),
    *("executors/live.py", "executors/swap_space.py", "live.py", "model"),
    *("figures/charts.py", "figures/vega.py"),
    *(f"parallel/{name}.py" for name in ("agreement", "collectives", "context", "expert")),
    *(f"parallel/{name}.py" for name in ("pipeline", "replicas", "serving", "tensor")),
    *(f"parallel/{name}.py" for name in ("worker", "world", "zero")),
    *("speculation/proposer.py", "speculation/verify.py", "widgets"),
}
"""What of `lab` needs packages which the page has not."""

log = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("config-inited", _prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def lab_zip() -> bytes:
    """The core of `lab` and the runner of the page: the same bytes from the same files."""
    files = {
        path: path.relative_to(ROOT).as_posix()
        for path in LAB.rglob("*")
        if path.suffix in (".py", ".json") and not _is_beyond(path.relative_to(LAB))
    }
    files[PARTS / "runner.py"] = "runner.py"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, name in sorted(files.items(), key=lambda item: item[1]):
            entry = zipfile.ZipInfo(name)  # without the time of the file
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _is_beyond(file: Path) -> bool:
    return not BEYOND_PYTHON.isdisjoint(one.as_posix() for one in (file, *file.parents))


def _prepare(app: Any, config: Any) -> None:
    """Name the worker in the pages and write the files when those are done."""
    if not PYODIDE.is_dir():
        log.warning(
            "the pages have no Python: `python book/vendor.py` fetches it (`make site` does both)"
        )
        return
    version = json.loads((PYODIDE / "package.json").read_text("utf-8"))["version"]
    folder = f"pyodide-{version}"
    lab = lab_zip()
    lab_name = _named("lab.zip", lab)
    worker = _worker(folder, lab_name, lab)
    files = {lab_name: lab, _named("worker.mjs", worker): worker}
    _, worker_name = files
    script = {"defer": "defer", "data-worker": f"py/{worker_name}"}
    config.html_js_files.insert(0, ("python.js", script))
    app.connect("build-finished", functools.partial(_write, folder, files))


def _named(name: str, content: bytes) -> str:
    """The name with a mark of the content in it."""
    stem, suffix = name.split(".")
    return f"{stem}.{hashlib.sha256(content).hexdigest()[:10]}.{suffix}"


def _worker(folder: str, lab_name: str, lab: bytes) -> bytes:
    """The worker with the names and sizes of what it fetches."""
    text = (PARTS / "worker.mjs").read_text("utf-8")
    counted = len(lab) + sum((PYODIDE / name).stat().st_size for name in FETCHED)
    packed = len(lab) + sum(len(zlib.compress((PYODIDE / name).read_bytes())) for name in NEEDED)
    for written, real in {
        '"../pyodide/"': f'"../{folder}/"',
        '"lab.zip"': f'"{lab_name}"',
        "BYTES = 1;": f"BYTES = {counted};",
        "N MB": f"{packed / 1e6:.0f} MB",
    }.items():
        if text.count(written) != 1:
            raise ValueError(f"worker.mjs must hold {written} once, got {text.count(written)}")
        text = text.replace(written, real)
    return text.encode()


def _write(folder: str, files: dict[str, bytes], app: Any, error: Exception | None) -> None:
    if error is not None:
        return
    static = Path(app.outdir) / "_static"
    for old in (static / "py", *static.glob("pyodide-*")):
        shutil.rmtree(old, ignore_errors=True)
    (static / "py").mkdir()
    for name, content in files.items():
        (static / "py" / name).write_bytes(content)
    (static / folder).mkdir()
    for name in NEEDED:
        shutil.copyfile(PYODIDE / name, static / folder / name)
