"""A browser, and the built site served twice: at the root of a host and under a path of it."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Error, sync_playwright

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def missing(reason):
    """Without what these tests need they are skipped; where everything is checked they fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").is_file():
        missing("the site is not built: call `make site` first")
    return SITE


@pytest.fixture(scope="session", params=["at the root", "under a path"])
def address(request, site, tmp_path_factory):
    folder, path = site, ""
    if request.param == "under a path":
        folder, path = tmp_path_factory.mktemp("host"), "courses/serving/"
        shutil.copytree(site, folder / path)
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/{path}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        try:
            chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            missing(f"there is no browser (Debian: apt install chromium): {error.message[:80]}")
        yield chromium
        chromium.close()
