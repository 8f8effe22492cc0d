"""The chapters in JupyterLab: every cell runs, every widget comes alive and answers to keys."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from playwright.sync_api import Browser, Locator, Page
from test_charts_page import AREAS, BARS, LINES

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
TOKEN = "a-token-for-this-test"
START_S, RUN_S = 60, 120

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

SETTINGS: dict[str, dict[str, Any]] = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # what is out of sight is drawn too
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
BROKEN = """
import anywidget
class Broken(anywidget.AnyWidget):
    _esm = "export default { render() { throw new Error('broken') } }"
Broken()
"""

CHART_CELLS = [LINES, AREAS, BARS]

# Opens a notebook, runs it, and tells what came of it, as the document has it.
RUN = """async (path) => {
  await jupyterapp.restored;
  const panel = await jupyterapp.commands.execute("docmanager:open", { path });
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
  jupyterapp.shell.activateById(panel.id);
  await jupyterapp.commands.execute("notebook:run-all-cells");
  const cells = panel.content.model.toJSON().cells.filter((cell) => cell.cell_type === "code");
  const outputs = cells.flatMap((cell) => cell.outputs);
  return {
    unrun: cells.filter((cell) => cell.execution_count === null && cell.source.length).length,
    errors: outputs.filter((one) => one.output_type === "error" || one.name === "stderr")
      .map((one) => one.evalue ?? one.text),
    views: outputs.filter((one) => "application/vnd.jupyter.widget-view+json" in (one.data ?? {}))
      .length,
  };
}"""


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab that has the chapters and nobody's settings."""
    folder = tmp_path_factory.mktemp("jupyter")
    work, runtime, log = folder / "work", folder / "runtime", folder / "log.txt"
    work.mkdir()
    for chapter in CHAPTERS:
        shutil.copy(chapter, work)
    for name, sources in {"broken": [BROKEN, "1 / 0"], "charts": CHART_CELLS}.items():
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, work / f"{name}.ipynb")
    for name, settings in SETTINGS.items():
        file = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings), encoding="utf-8")
    with log.open("w") as said:
        process = subprocess.Popen(
            command(folder, work),
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "JUPYTER_CONFIG_DIR": str(folder / "config"),
                "JUPYTER_DATA_DIR": str(folder / "data"),
                "JUPYTER_RUNTIME_DIR": str(runtime),
                "IPYTHONDIR": str(folder / "ipython"),
            },
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield f"{wait_for(process, runtime, log)}lab?token={TOKEN}"
        finally:
            end(process)


def command(folder: Path, work: Path) -> list[str]:
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": 0,
        "ServerApp.root_dir": work,
        "IdentityProvider.token": TOKEN,
        "LabApp.user_settings_dir": folder / "settings",
        "LabApp.workspaces_dir": folder / "workspaces",
        "LabApp.extension_manager": "readonly",
        "LabApp.expose_app_in_browser": True,
    }
    given = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *given]


def wait_for(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """The address that the server has written down once it listens."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            try:
                return str(json.loads(file.read_text("utf-8"))["url"])
            except (json.JSONDecodeError, KeyError):
                continue  # it is being written
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start: {log.read_text('utf-8')[-2000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop the server, and the kernels that it started: nothing in them is worth keeping."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    process.kill()
    process.wait()
    for other in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            other.kill()
    psutil.wait_procs(started, timeout=5)


@pytest.fixture(scope="module")
def page(browser: Browser, jupyterlab: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(RUN_S * 1000)
    page.goto(jupyterlab)
    page.wait_for_function("globalThis.jupyterapp")
    yield page
    context.close()


def alive(notebook: Locator, views: int) -> int:
    """How many outputs show a card of ours, once as many do as there are views."""
    cards = notebook.locator(".jp-OutputArea-output:has(.tif)")
    until = time.monotonic() + 10
    while time.monotonic() < until and cards.count() < views:
        notebook.page.wait_for_timeout(100)
    return cards.count()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_runs_and_its_widgets_come_alive(page: Page, chapter: Path) -> None:
    result = page.evaluate(RUN, chapter.name)
    notebook = page.locator(".jp-NotebookPanel:visible")
    assert result["errors"] == []
    assert result["unrun"] == 0
    assert alive(notebook, result["views"]) == result["views"] > 0
    players = notebook.locator(".tif-player:has(> .controls .count:not([hidden])):visible").all()
    assert players
    for player in players:
        count = player.locator("> .controls .count")
        player.focus()
        page.keyboard.press("Home")
        first = count.inner_text()
        page.keyboard.press("ArrowRight")
        assert first.startswith("1 /")
        assert count.inner_text() == first.replace("1 /", "2 /", 1)
    for what_if in notebook.locator(".tif-what-if:has(.knobs [type=range])").all():
        what_if.locator(".knobs [type=range]").first.focus()
        page.keyboard.press("ArrowRight")
        what_if.get_by_text("Outlined: what was there before.").wait_for()  # the kernel's answer


def test_a_cell_that_fails_and_a_widget_that_does_not_draw_are_noticed(page: Page) -> None:
    result = page.evaluate(RUN, "broken.ipynb")
    assert result["errors"] == ["division by zero"]
    assert result["views"] == 1
    assert alive(page.locator(".jp-NotebookPanel:visible"), 1) == 0


def test_a_chart_is_drawn_and_vega_has_nothing_to_say(page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    assert page.evaluate(RUN, "charts.ipynb")["errors"] == []
    notebook = page.locator(".jp-NotebookPanel:visible")
    for index in range(len(CHART_CELLS)):
        notebook.locator(".vega-embed :is(svg, canvas)").nth(index).wait_for()
    assert notebook.locator(".jp-OutputArea-output pre").count() == 0  # not the text form
    assert [text for text in said if re.search("vega|WARN|Infinite|spec", text)] == []
