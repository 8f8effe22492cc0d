"""What the built book asks of a reader's browser, beside the limits that it sets itself.

`python -m benchmarks.page` opens the site in headless Chromium, from this machine and without a
cache. It prints the bytes of a chapter page before anything is touched, the time of a player's
first answer to a key, frames per second while a large timeline is scrubbed, and the time of the
first and of a later answer from Python in the page. Nothing is asserted: a time is a matter of the
machine.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, Response, sync_playwright

from book.serve import server
from lab.draws import LogNormal, Poisson
from lab.executors.cost_model import CostModel
from lab.figures.crowd import crowd
from lab.policy import Continuous
from lab.run import simulate
from lab.trace import Trace
from lab.widgets.modules import module, style
from lab.widgets.player import play
from lab.workload import Workload

SITE = Path(__file__).parents[1] / "_build" / "html"
CHAPTER = "chapters/02-batching.html"
DEBIANS = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
TEXT = ("text/", "application/json", "image/svg", "application/javascript")
KB, MB = 1000, 1_000_000

# The first player of the page steps once by key, as soon as it is there; milliseconds from the
# page's load and from the key, both to the frame after the one that shows the step.
ANSWER = """globalThis.answer = () => new Promise((done) => {
  const painted = (act) => requestAnimationFrame(() => requestAnimationFrame(act));
  const look = () => {
    const player = document.querySelector(".tif-player");
    if (!player) return requestAnimationFrame(look);
    const pressed = performance.now(), count = player.querySelector(".count");
    new MutationObserver(() => painted(() => {
      const { loadEventEnd } = performance.getEntriesByType("navigation")[0];
      const now = performance.now();
      done([now - loadEventEnd, now - pressed]);
    })).observe(count, { childList: true, characterData: true, subtree: true });
    player.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  };
  if (document.readyState === "complete") look();
  else window.addEventListener("load", () => setTimeout(look));
})"""

# Frames that a player shows in three seconds in which the scrubber moves before every frame.
SCRUB = """() => new Promise((done) => {
  const scrubber = document.querySelector(".tif-player input[type=range]");
  const start = performance.now();
  let frames = 0, worst = 0, before = start;
  const tick = (now) => {
    worst = Math.max(worst, now - before);
    before = now;
    if (now - start >= 3000) return done([(1000 * frames) / (now - start), worst]);
    frames += 1;
    scrubber.value = frames % (Number(scrubber.max) + 1);
    scrubber.dispatchEvent(new Event("input"));
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})"""

PYTHON = """async () => {
  if (!globalThis.tifPython) return null;
  const seconds = [];
  for (let i = 0; i < 4; i += 1) {
    const start = performance.now();
    await tifPython.call("lab.what_ifs.batching:two_rules", { A: 2 + i, B: 4, C: 2 });
    seconds.push((performance.now() - start) / 1000);
  }
  return [seconds[0], Math.min(...seconds.slice(1))];
}"""

ALONE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">
<title>One player</title><link rel="stylesheet" href="style.css"><body><main></main>
<script type="module">
  import widget from "./player.js";
  const values = { scenes: await (await fetch("scenes.json")).json(), step: 0 };
  const model = { get: (name) => values[name], set() {}, save_changes() {}, on() {}, off() {} };
  widget.render({ model, el: document.querySelector("main") });
</script>"""


class Row(NamedTuple):
    """One line of the table: what was measured, what came out, and what it should be."""

    what: str
    value: str
    limit: str


class Part(NamedTuple):
    """One answer of the server: its address, its bytes on disk, and as they travel."""

    path: str
    raw: int
    moved: int


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder while it is served."""
    with server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@contextmanager
def fresh(browser: Browser, width: int = 1280) -> Iterator[Page]:
    """A page of a browser that has seen nothing yet."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    yield context.new_page()
    context.close()


def parts(page: Page, address: str) -> list[Part]:
    """Everything that opening the page moves, the largest first; text as `gzip -9` packs it."""
    answers: dict[str, Response] = {}
    page.on("response", lambda answer: answers.setdefault(answer.url, answer))
    page.goto(f"{address}/{CHAPTER}", wait_until="networkidle")
    found = []
    for url, answer in list(answers.items()):
        if url.startswith("http"):
            body = answer.body()
            packs = answer.headers.get("content-type", "").startswith(TEXT)
            moved = len(gzip.compress(body, 9)) if packs else len(body)
            found.append(Part(url.removeprefix(f"{address}/"), len(body), moved))
    return sorted(found, key=lambda part: -part.moved)


def answers(page: Page, address: str) -> list[Row]:
    """The first player's answer to a key: while the page is still at work, and at rest."""
    page.add_init_script(f"{ANSWER}; globalThis.answered = answer()")
    page.goto(f"{address}/{CHAPTER}")
    loaded, first = page.evaluate("globalThis.answered")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(2000)
    _, later = page.evaluate("answer()")
    return [
        Row("page loaded, to a player's first answer", f"{loaded:.0f} ms", ""),
        Row("first key, to the player's answer", f"{first:.0f} ms", "100 ms"),
        Row("later key, to the player's answer", f"{later:.0f} ms", "100 ms"),
    ]


def long_run() -> Trace:
    """A thousand requests of a little over 200 output tokens each."""
    lengths = {"prompt": LogNormal(300, p99=2000), "output": LogNormal(170, p99=720)}
    work = Workload.drawn(1000, Poisson(8), **lengths, seed=1)
    policy = Continuous(seats=64, token_budget=1024, blocks=8000)
    return simulate(work, policy, CostModel.affine(0.006, 0.00002, 0.00005))


def scrubbed(browser: Browser) -> tuple[str, float, float]:
    """What was scrubbed, frames per second, and the longest frame in ms, of a player alone."""
    trace = long_run()
    tokens = sum(record.output_tokens for record in trace.requests)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {
            "index.html": ALONE,
            "style.css": style(),
            "player.js": module("player"),
            "scenes.json": json.dumps(play(crowd(trace)).scenes),
        }.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        with served(Path(folder)) as address, fresh(browser) as page:
            page.goto(address)
            page.wait_for_selector(".tif-player .count")
            page.wait_for_timeout(500)
            rate, worst = page.evaluate(SCRUB)
    return f"{len(trace):,} requests, {tokens:,} tokens", rate, worst


def python(page: Page, address: str) -> list[Row]:
    """The first and a later answer of Python in the page."""
    page.goto(f"{address}/{CHAPTER}", wait_until="networkidle")
    seconds = page.evaluate(PYTHON)
    told = [f"{s:.2f} s" for s in seconds] if seconds else ["not in this site"] * 2
    return [
        Row("Python in the page, first answer", told[0], "10 s"),
        Row("Python in the page, later answer", told[1], "0.5 s"),
    ]


def measure(browser: Browser, address: str) -> tuple[list[Row], list[Part]]:
    """All rows, and what the page is made of."""
    with fresh(browser) as page:
        found = parts(page, address)
    with fresh(browser) as page:
        keys = answers(page, address)
    what, rate, worst = scrubbed(browser)
    with fresh(browser) as page:
        calls = python(page, address)
    moved = sum(part.moved for part in found)
    return [
        Row(f"bytes before a touch, {len(found)} files", f"{moved / MB:.2f} MB", "1.2 MB"),
        *keys,
        Row(f"scrubbing {what}", f"{rate:.0f} fps", "30 fps"),
        Row("its longest frame", f"{worst:.0f} ms", ""),
        *calls,
    ], found


def main() -> None:
    """Print the table, and the largest parts of the page."""
    if not (SITE / CHAPTER).is_file():
        raise SystemExit(f"There is no {CHAPTER} in {SITE}. Build it first: make site")
    executable = DEBIANS if Path(DEBIANS).exists() else None
    with sync_playwright() as driver, served(SITE) as address:
        browser = driver.chromium.launch(executable_path=executable, args=FLAGS)
        print(f"{CHAPTER} in headless Chromium {browser.version}")
        busy = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
        print(f"{platform.machine()}, {os.cpu_count()} cores, load before the run {busy}")
        rows, found = measure(browser, address)
        browser.close()
    for row in rows:
        print(f"{row.what:50} {row.value:>16}   {row.limit}".rstrip())
    print("largest parts, kB as they travel (on disk):")
    for part in found[:12]:
        print(f"  {part.moved / KB:7.1f} ({part.raw / KB:7.1f})  {part.path.split('?')[0]}")


if __name__ == "__main__":
    main()
