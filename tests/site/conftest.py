"""The built site at an address of its own, and a browser that can reach nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from needs import cannot
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    Playwright,
    Request,
    sync_playwright,
)

from book.serve import server

ROOT = Path(__file__).parents[2]
SITE = ROOT / "_build" / "html"
MADE_FROM = ["_config.yml", "_toc.yml", "book/**/*", "chapters/*.ipynb", "lab/**/*"]
AXE = ROOT / "_build" / "vendor" / "node_modules" / "axe-core" / "axe.min.js"
DEBIANS = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no other host is there
HEIGHT = 900
PATIENCE_S = 30
UNCHANGED = 304  # since it was fetched before

IS_DRAWN = """() => [...document.querySelectorAll("script[type$='widget-view+json']")]
  .every((saved) => saved.nextElementSibling?.childNodes.length)"""
IS_STILL = "document.getAnimations().every((one) => one.playState !== 'running')"
AT_REST = """async () => {
  // a page that lies behind another may be drawn late, or not at all
  const soon = (ask) => new Promise((done) => { ask(done); setTimeout(done, 2000); });
  for (let frame = 0; frame < 2; frame++) await soon(requestAnimationFrame);
  await soon(requestIdleCallback);
  await document.fonts.ready;
}"""
OFTEN_MS = 50


@dataclass
class Visit:
    """A page in the browser, and everything that went wrong while it was there."""

    page: Page
    address: str
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_ok: list[str] = field(default_factory=list)
    pending: set[Request] = field(default_factory=set)

    def open(self, path: str) -> None:
        """Open a page of the site and wait until all is there and no script has more to do."""
        self.pending.clear()
        self.page.goto(f"{self.address}/{path}")
        self.page.wait_for_function(IS_DRAWN, polling=OFTEN_MS)
        self.come_to_rest()
        until = time.monotonic() + PATIENCE_S
        while self.pending and time.monotonic() < until:
            self.page.wait_for_timeout(20)
            self.come_to_rest()  # what came may ask for more
        assert not self.pending, f"{path} still waits for {[one.url for one in self.pending]}"

    def resize(self, width: int) -> None:
        """Make the page as wide as that, and wait until it is as if it had been opened so."""
        self.page.bring_to_front()
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.come_to_rest()

    def come_to_rest(self) -> None:
        """Wait until no script has anything to do and nothing moves."""
        for _ in range(2):  # what a script does may begin to move as well
            self.page.evaluate(AT_REST)
            self.page.wait_for_function(IS_STILL, polling=OFTEN_MS)

    def listen(self) -> None:
        self.page.on("request", self._asked)
        self.page.on("requestfinished", self._answered)
        self.page.on("requestfailed", self._answered)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda message: (
                self.errors.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        self.page.on(
            "response",
            lambda answer: (
                None
                if answer.ok or answer.status == UNCHANGED
                else self.not_ok.append(f"{answer.status} {answer.url}")
            ),
        )

    def _asked(self, request: Request) -> None:
        if request.url.startswith(f"{self.address}/"):
            self.pending.add(request)
        elif not request.url.startswith(("data:", "blob:")):
            self.foreign.append(request.url)

    def _answered(self, request: Request) -> None:
        self.pending.discard(request)


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder that `make site` wrote, not older than what it is made from."""
    if not (SITE / "index.html").is_file():
        cannot("the site is not built: make site")
    built_s = (SITE / "index.html").stat().st_mtime
    sources = [path for glob in MADE_FROM for path in ROOT.glob(glob) if path.suffix != ".pyc"]
    newer = sorted(
        str(path.relative_to(ROOT))
        for path in sources
        if path.is_file() and path.stat().st_mtime > built_s
    )
    if newer:
        cannot(f"the site is older than {newer[0]}: make site")
    return SITE


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium where there is one, else Playwright's own."""
    debians = DEBIANS if Path(DEBIANS).exists() else None
    try:
        running = playwright.chromium.launch(executable_path=debians, args=FLAGS)
    except Error as error:
        cannot(
            "no browser: apt install chromium, or python -m playwright install chromium "
            f"({error.message.splitlines()[0]})"
        )
    yield running
    running.close()


@pytest.fixture(scope="session")
def address(
    request: pytest.FixtureRequest, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where the site is: at the root of a host, or in a folder of one for tests that ask for it."""
    folder, path = site, ""
    if getattr(request, "param", "root") == "sub-path":
        folder, path = tmp_path_factory.mktemp("host"), "/courses/serving"
        (folder / "courses").mkdir()
        (folder / "courses" / "serving").symlink_to(site, target_is_directory=True)
    with server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}{path}"
        running.shutdown()


@pytest.fixture(scope="module")
def contexts(browser: Browser, address: str) -> Iterator[list[BrowserContext]]:
    """Those that nobody uses at the moment. They keep files that were fetched before."""
    free: list[BrowserContext] = []
    yield free
    for context in free:
        context.close()


@contextmanager
def visits(
    browser: Browser, contexts: list[BrowserContext], address: str
) -> Iterator[Callable[..., Visit]]:
    """Opens pages for readers who have never been there, and closes them all at the end."""
    used = []
    remembered = {"origin": "http://" + urlsplit(address).netloc, "storageTypes": "all"}

    def open_page(path: str, *, width: int = 1280, theme: str = "light") -> Visit:
        used.append(contexts.pop() if contexts else browser.new_context())
        there = Visit(used[-1].new_page(), address)
        used[-1].new_cdp_session(there.page).send("Storage.clearDataForOrigin", remembered)
        there.page.set_viewport_size({"width": width, "height": HEIGHT})
        there.page.emulate_media(color_scheme=theme)
        there.listen()
        there.open(path)
        return there

    yield open_page
    for context in used:
        for page in context.pages:
            page.close()
    contexts += used


@pytest.fixture
def visit(
    browser: Browser, contexts: list[BrowserContext], address: str
) -> Iterator[Callable[..., Visit]]:
    """`visit(path, width=1280, theme="light")` opens a page of the site."""
    with visits(browser, contexts, address) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def look(
    browser: Browser, contexts: list[BrowserContext], address: str, path: str
) -> Iterator[Callable[..., Visit]]:
    """`look(width=1280, theme="light")`: the page at `path`, which the module names, for tests that
    only look at it: opened once at a desk and once on a telephone, and resized for other widths."""
    with visits(browser, contexts, address) as open_page:
        opened = cache(open_page)

        def look(*, width: int = 1280, theme: str = "light") -> Visit:
            there = opened(path, width=320 if width < 600 else 1280, theme=theme)
            if there.page.viewport_size["width"] != width:
                there.resize(width)
            return there

        yield look


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which finds what a screen reader or a keyboard would stumble over."""
    if not AXE.is_file():
        cannot(f"axe-core is not there: {AXE.relative_to(ROOT)}")
    return AXE.read_text("utf-8")
