"""Sphinx extension: the built site asks no other host for anything, and works from any folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STATIC = Path(__file__).resolve().parent.parent / "_static"


def _own_files(app: Any, config: Any) -> None:
    """jupyter-book would put every file of a folder named in its own settings on every page."""
    config.html_static_path.append(str(STATIC))
    app.add_css_file("book.css", priority=900)
    app.add_js_file("book.js", loading_method="defer")


def _drop_thebe(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """jupyter-book always adds thebe, which would load scripts from a foreign host."""

    def stays(script: Any) -> bool:
        body = (getattr(script, "attributes", None) or {}).get("body") or ""
        return "thebe" not in f"{body}{getattr(script, 'filename', '') or ''}".lower()

    context["script_files"][:] = [script for script in context["script_files"] if stays(script)]


def _publish_as_is(app: Any, error: Exception | None) -> None:
    """Some hosts leave out folders with a leading underscore unless this file is there."""
    if error is None:
        (Path(app.outdir) / ".nojekyll").touch()


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("config-inited", _own_files)
    app.connect("html-page-context", _drop_thebe, priority=900)
    app.connect("build-finished", _publish_as_is)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
