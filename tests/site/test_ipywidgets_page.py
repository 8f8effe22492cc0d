"""Saved ipywidgets on the pages of a small book, built with the extensions of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from needs import cannot

from book._ext.ipywidgets_on_page import MANAGER, NOTE
from book.serve import server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
RUN = """import ipywidgets, lab
work = lab.Workload.given({"A": (0, 1, 2), "B": (0, 1, 3)})
trace = lab.simulate(work, lab.Static(seats=1), lab.CostModel.equal_steps())"""
PLAYER = f"{RUN}\nlab.play(lab.timeline(trace))"
MIXED = f"{RUN}\nipywidgets.VBox([lab.play(lab.timeline(trace))])"
CONTROLS = """import ipywidgets
from IPython.display import display
seats = ipywidgets.IntSlider(value=7, min=1, max=9, description="Seats")
out = ipywidgets.Output()
with out:
    print("7 seats, 3 idle")
ipywidgets.VBox([seats, out])"""
LINKED = """moment, run = ipywidgets.IntSlider(description="Moment"), ipywidgets.Play()
tie = ipywidgets.jslink((run, "value"), (moment, "value"))
ipywidgets.HBox([run, moment])"""
LOST = """from IPython.display import display
display({"application/vnd.jupyter.widget-view+json": {"model_id": "gone", "version_major": 2,
    "version_minor": 0}, "text/plain": "gone"}, raw=True)"""
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
BOOK = {"plain": [PLAYER], "controls": [CONTROLS, LINKED], "broken": [MIXED, LOST]}
LOADED = "performance.getEntriesByType('resource').map(({ name }) => name).join(' ')"


def write_book(folder: Path) -> None:
    """Notebooks with these cells, and the settings of this book."""
    for name, cells in BOOK.items():
        book = nbformat.v4.new_notebook(metadata=PYTHON)
        book.cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
        book.cells += [nbformat.v4.new_code_cell(source) for source in cells]
        nbformat.write(book, folder / f"{name}.ipynb")
    first, *others = ({"file": name} for name in BOOK)
    toc = {"format": "jb-book", "root": first["file"], "chapters": others}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), "utf-8")
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    settings["html"]["favicon"] = str(ROOT / settings["html"]["favicon"])
    sphinx = settings["sphinx"]
    sphinx["local_extensions"] = dict.fromkeys(sphinx["local_extensions"], str(ROOT / "book/_ext"))
    for name in ("templates_path", "html_static_path", "bibtex_bibfiles"):
        sphinx["config"][name] = [str(ROOT / path) for path in sphinx["config"][name]]
    del sphinx["config"]["include_patterns"]
    (folder / "_config.yml").write_text(yaml.safe_dump(settings), "utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the small book's site, and what its build said."""
    if not MANAGER.is_dir():
        cannot("html-manager is not there: python book/vendor.py")
    folder = tmp_path_factory.mktemp("book")
    write_book(folder)
    programs = Path(sys.executable).parent
    paths = {"PYTHONPATH": str(ROOT), "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}
    command = [programs / "jupyter-book", "build", folder, "-q"]
    done = subprocess.run(
        command, env=os.environ | paths, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "_build" / "html", done.stderr


@pytest.fixture(scope="module")
def address(built: tuple[Path, str]) -> Iterator[str]:
    """Where the small book is: `visit` opens its pages."""
    with server(built[0], 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_a_saved_control_is_drawn_with_its_value_and_the_line(visit: Callable[..., Any]):
    there = visit("controls.html")
    first = there.page.locator(".saved-ipywidget").first
    assert first.locator(".widget-readout").inner_text() == "7"
    assert first.get_by_role("slider").get_attribute("aria-valuenow") == "7.0"
    assert first.get_by_text("7 seats, 3 idle").is_visible()
    assert first.get_by_text(NOTE).is_visible()
    assert first.get_by_text("VBox(children=").is_hidden()
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_controls_that_are_tied_together_stay_so_without_a_kernel(visit: Callable[..., Any]):
    there = visit("controls.html")
    second = there.page.locator(".saved-ipywidget").nth(1)
    second.get_by_role("slider").press("ArrowRight")
    assert second.locator(".widget-readout").inner_text() == "1"
    second.get_by_title("Play", exact=False).first.click()
    there.page.wait_for_function(
        "Number([...document.querySelectorAll('.widget-readout')].at(-1).textContent) > 2"
    )
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])


def test_only_a_page_with_such_a_control_loads_the_manager(visit: Callable[..., Any]):
    loaded = visit("controls.html").page.evaluate(LOADED)
    assert "/require.js" in loaded
    assert "/libembed-amd.js" in loaded
    plain = visit("plain.html")
    assert plain.page.locator(".tif-player .count").is_visible()
    assert "ipywidgets" not in plain.page.content()
    assert "/require.js" not in plain.page.evaluate(LOADED)
    assert (plain.foreign, plain.errors, plain.not_ok) == ([], [], [])
