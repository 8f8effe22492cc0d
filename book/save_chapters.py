"""Runs notebooks afresh and saves them with their outputs: no times, no widget state.

The cells are numbered 1, 2, 3 as in any fresh run: nbval compares only cells that have a number.

`python book/save_chapters.py chapters/*.ipynb`
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"  # only its text form is saved


def save(path: Path) -> None:
    """Run one notebook from top to bottom and write what it printed into it."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    NotebookClient(
        notebook, timeout=120, record_timing=False, resources={"metadata": {"path": path.parent}}
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for output in cell.outputs:
                output.get("data", {}).pop(WIDGET, None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        save(Path(name))
        print(f"saved {name}")
