"""Sphinx extension: the site works in any folder of any host, and says which version it is."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

from lab.figures import palette

ROOT = Path(__file__).resolve().parents[2]
FRONT_DOOR = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="_static/{icon}">
<meta http-equiv="refresh" content="0; url={page}">
<p><a href="{page}">{title}</a></p>
</html>
"""


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("config-inited", _write_footer)
    app.connect("config-inited", _write_palette)
    app.connect("build-finished", _publish_as_is)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_footer(app: Any, config: Any) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    commit = _commit()
    config.html_theme_options["extra_footer"] = (
        f"<p>Version {version}{f', commit {commit}' if commit else ''}.</p>"
        "<p>Text and figures: CC BY 4.0. Code: MIT.</p>"
        f"<p>To cite: {config.author}, <cite>{config.html_title}</cite>, version {version}, "
        f"{config.copyright}.</p>"
    )


def _write_palette(app: Any, config: Any) -> None:
    folder = ROOT / "_build" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    dark = 'html[data-theme="dark"]'
    (folder / "palette.css").write_text(palette.css("html", dark), encoding="utf-8")
    config.html_static_path.append(str(folder))
    config.html_css_files.insert(0, "palette.css")


def _commit() -> str | None:
    """The short name of the checked-out commit; None outside a repository."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _publish_as_is(app: Any, error: Exception | None) -> None:
    """A front door that leads to the first page; and some hosts leave out folders with a leading
    underscore unless this file is there."""
    if error is None:
        folder, config = Path(app.outdir), app.config
        page, icon = f"{config.root_doc}.html", Path(config.html_favicon).name
        door = FRONT_DOOR.format(title=config.html_title, icon=icon, page=page)
        (folder / "index.html").write_text(door, encoding="utf-8")
        (folder / ".nojekyll").touch()
