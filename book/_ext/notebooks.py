"""Sphinx extension: every chapter page offers the notebook that it was made from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FOLDER = "_notebooks"


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("html-page-context", _offer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _offer(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if doctree is None:
        return
    source = Path(app.env.doc2path(page))
    if source.suffix != ".ipynb":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    shutil.copyfile(source, folder / source.name)
    address = context["pathto"](f"{FOLDER}/{source.name}", 1)
    context["body"] += (
        f'<p class="as-notebook"><a href="{address}" download>'
        "This chapter as a notebook</a> (it runs beside the project’s <code>lab</code> folder: "
        "<code>make lab</code>)</p>"
    )
