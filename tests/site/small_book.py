"""A small book of a few cells, built with the settings and the extensions of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import yaml

ROOT = Path(__file__).parents[2]
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}


def build(
    folder: Path, book: Mapping[str, Sequence[Any]], pages: Sequence[str] = ()
) -> tuple[Path, str]:
    """The folder of the site, and what its build said. `book` names its notebooks; their cells are
    sources or nodes. `pages` lie in the folder already."""
    _write(folder, book)
    _set(folder, [*book, *pages])
    programs = Path(sys.executable).parent
    paths = {"PYTHONPATH": str(ROOT), "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}
    command = [programs / "jupyter-book", "build", folder, "-q"]
    log = folder / "build.log"  # a pipe would stay open as long as any kernel
    with log.open("w") as file:
        done = subprocess.run(
            command, env=os.environ | paths, stdout=file, stderr=file, timeout=90, check=False
        )
    said = log.read_text("utf-8")
    assert done.returncode == 0, said
    return folder / "_build" / "html", said


def _write(folder: Path, book: Mapping[str, Sequence[Any]]) -> None:
    cell = nbformat.v4.new_code_cell
    for name, cells in book.items():
        notebook = nbformat.v4.new_notebook(metadata=PYTHON)
        notebook.cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
        notebook.cells += [cell(one) if isinstance(one, str) else one for one in cells]
        file = folder / f"{name}.ipynb"
        file.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, file)


def _set(folder: Path, pages: Sequence[str]) -> None:
    first, *others = ({"file": name} for name in pages)
    toc = {"format": "jb-book", "root": first["file"], "chapters": others}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    settings["html"]["favicon"] = str(ROOT / settings["html"]["favicon"])
    sphinx = settings["sphinx"]
    local = [name for name in sphinx["local_extensions"] if "worked_number" not in name]
    sphinx["local_extensions"] = dict.fromkeys(local, str(ROOT / "book/_ext"))
    for name in ("templates_path", "html_static_path", "bibtex_bibfiles"):
        sphinx["config"][name] = [str(ROOT / path) for path in sphinx["config"][name]]
    del sphinx["config"]["include_patterns"]
    ours = sphinx["config"]["extensions"]  # without those that read the ledger: this book has none
    sphinx["config"]["extensions"] = [name for name in ours if "worked_number" not in name]
    (folder / "_config.yml").write_text(yaml.safe_dump(settings), "utf-8")
