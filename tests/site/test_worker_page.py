"""Python on the built page: calls, a reader's own code, errors in words, stop and a new start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

PAGE = "book/intro.html"
FIRST_ANSWER_MS = 120_000  # the browser compiles 10 MB, and a machine may be busy

CALL = """([name, parameters]) => tifPython.call(name, parameters)
    .then((told) => told.result, (error) => `${error.name}: ${error.message}`)"""
SHOW = ["lab.ledgers.table:show", {"value": 0.0123456}]

CELL = """<div class="cell tag_try-it docutils container">
<div class="cell_input docutils container"><div class="highlight-ipython3 notranslate">
<div class="highlight"><pre><span></span>work = lab.Workload.given({"A": (0, 1, 2)})
print(len(work))
6 * 7
</pre></div></div></div>
<div class="cell_output docutils container"><div class="highlight"><pre>saved 42</pre></div></div>
</div></article>"""


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page with such a cell at its end, shared: a start of Python takes seconds."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(FIRST_ANSWER_MS)

    def add(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("</article>", CELL, 1))

    page.route(f"**/{PAGE}", add)
    page.goto(f"{address}/{PAGE}")
    page.unroute_all()  # the browser keeps files only while nothing is routed
    yield page
    context.close()


@pytest.fixture
def cell(page: Any) -> Any:
    """The cell as the page shows it first."""
    cell = page.locator(".tif-try")
    press(cell, "Reset")
    return cell


def press(cell: Any, name: str) -> None:
    cell.locator(".controls").get_by_role("button", name=name).click()


def result(cell: Any) -> Any:
    """The result, once there is one."""
    shown = cell.get_by_label("Result")
    shown.wait_for()
    return shown.inner_text()


# Calls


@pytest.mark.parametrize("address", ["sub-path"], indirect=True)
def test_the_first_questions_are_answered_in_order_by_one_worker_without_another_host(
    visit: Callable[..., Any],
):
    there = visit(PAGE)
    asked: list[str] = []
    there.page.on("request", lambda request: asked.append(request.url))
    answers, said = there.page.evaluate(
        """async ([name, parameters]) => {
            const answers = [], said = [];
            const tell = (words, fraction) => said.push([words, fraction ?? null]);
            await Promise.all([
                tifPython.run("print(1)", tell).then(({ text }) => answers.push(text)),
                tifPython.call(name, parameters).then(({ result }) => answers.push(result)),
                tifPython.run("3").then(({ text }) => answers.push(text)),
            ]);
            return [answers, said];
        }""",
        SHOW,
    )
    assert answers == ["1\n", "0.01235", "3\n"]
    assert (there.foreign, there.errors, there.not_ok) == ([], [], [])
    assert any(url.endswith("/pyodide.asm.wasm") for url in asked), "the worker's are seen as well"
    assert len([url for url in asked if "/py/worker." in url]) == 1

    words = list(dict.fromkeys(word for word, _ in said))
    assert words[0].startswith("Fetching Python (about ")
    assert words[1:] == ["Starting Python", "Running"]
    fractions = [fraction for _, fraction in said if fraction is not None]
    assert fractions == sorted(fractions)
    assert (fractions[0], len(fractions) > 1, fractions[-1] < 1) == (0, True, True)


def test_a_request_of_the_worker_to_another_host_would_be_noticed(visit: Callable[..., Any]):
    there = visit(PAGE)
    with there.page.expect_event("requestfailed"):
        there.page.evaluate("""() => {
            const text = 'fetch("http://elsewhere.invalid/x")';
            const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
            new Worker(url, { type: "module" });
        }""")
    assert there.foreign == ["http://elsewhere.invalid/x"]


def test_nothing_is_fetched_before_it_is_needed(visit: Callable[..., Any]):
    names = "performance.getEntriesByType('resource').map((entry) => entry.name)"
    assert [name for name in visit(PAGE).page.evaluate(names) if "pyodide" in name] == []


def test_an_error_of_a_call_is_in_words_and_the_next_call_is_answered(page: Any):
    empty = ["lab.ledgers.latency:percentile", {"values": [], "percent": 50}]
    assert page.evaluate(CALL, empty) == "Error: a percentile needs at least 1 value, got 0"
    told = page.evaluate(CALL, ["os:getcwd", {}])
    assert told == "Error: a page may call lab.module:function, got 'os:getcwd'"
    assert page.evaluate(CALL, SHOW) == "0.01235"


def test_stop_ends_what_runs_and_the_next_call_starts_anew(page: Any):
    told = page.evaluate("""() => new Promise((done) => {
        tifPython.run("while True: pass", (words) => words === "Running" && tifPython.stop())
          .catch((error) => done(`${error.name}: ${error.message}`));
    })""")
    assert told == "AbortError: Stopped."
    assert page.evaluate(CALL, SHOW) == "0.01235"


def test_a_worker_that_cannot_fetch_python_says_so_and_is_tried_again(page: Any):
    page.evaluate("tifPython.stop()")
    page.route("**/python_stdlib.zip", lambda route: route.fulfill(status=404))
    told = page.evaluate(CALL, SHOW)
    page.unroute_all()
    assert told.startswith("Error: Python could not start: ")
    assert "python_stdlib.zip answered 404" in told
    assert page.evaluate(CALL, SHOW) == "0.01235"


def test_code_that_breaks_python_itself_does_not_end_the_page(page: Any):
    told = page.evaluate("""tifPython.run("import os\\nos.abort()")
        .then(({ error }) => error, (error) => error.message)""")
    assert told.startswith("Python broke down: ")
    assert page.evaluate(CALL, SHOW) == "0.01235"


# Cells


def test_the_saved_output_stands_until_the_first_run_and_comes_back(cell: Any):
    assert cell.get_by_text("saved 42").is_visible()
    assert cell.locator(".controls").get_by_role("button").all_inner_texts() == [
        "Run",
        "Stop",
        "Reset",
    ]
    press(cell, "Run")
    assert result(cell) == "1\n42"
    assert not cell.get_by_text("saved 42").is_visible()
    code = cell.get_by_label("Try it")
    code.fill("print('mine')")
    press(cell, "Reset")
    assert code.input_value().endswith("6 * 7")
    assert cell.get_by_text("saved 42").is_visible()
    assert not cell.get_by_label("Result").is_visible()


def test_a_reader_without_a_mouse_can_run_and_leave_the_code(cell: Any):
    code = cell.get_by_label("Try it")
    code.fill("1 + 1")
    code.press("Control+Enter")
    assert result(cell) == "2"
    code.press("Tab")
    assert cell.get_by_role("button", name="Run").evaluate(
        "node => node === document.activeElement"
    )
    assert code.input_value() == "1 + 1"


def test_an_error_of_a_cell_names_the_line_and_nothing_of_the_machinery(cell: Any):
    code = cell.get_by_label("Try it")
    code.fill("print('so far')\nlab.Continuous(seats=0)")
    press(cell, "Run")
    assert result(cell) == "so far\n\nLine 2: ValueError: seats must be at least 1, got 0"
    assert cell.locator("span[role=status]").inner_text() == "It stopped at an error."


def test_stop_is_a_button_and_run_works_after_it(cell: Any):
    code = cell.get_by_label("Try it")
    status = cell.locator("span[role=status]")
    code.fill("while True: pass")
    press(cell, "Run")
    cell.get_by_text("Running").wait_for()
    press(cell, "Stop")
    cell.get_by_text("Stopped.").wait_for()
    assert status.inner_text() == "Stopped. Below is what the book's build printed."
    code.fill("'on again'")
    press(cell, "Run")
    assert result(cell) == "'on again'"


def test_the_code_grows_with_its_text_and_never_scrolls_down(cell: Any):
    code = cell.get_by_label("Try it")
    for lines in (1, 12):
        code.fill("\n".join(["x = 1"] * lines))
        assert code.evaluate("node => node.scrollHeight <= node.clientHeight"), lines
        assert code.evaluate("node => node.rows") == lines


def test_a_page_from_a_file_says_why_it_cannot_run_and_keeps_the_saved_output(
    site: Path, tmp_path: Path, visit: Callable[..., Any]
):
    (tmp_path / "_static").symlink_to(site / "_static", target_is_directory=True)
    text = (site / PAGE).read_text("utf-8").replace("</article>", CELL, 1)
    file = tmp_path / PAGE
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    page = visit(PAGE).page
    page.goto(file.as_uri())
    cell = page.locator(".tif-try")
    press(cell, "Run")
    assert "only when the page comes from a web server" in cell.inner_text()
    assert cell.get_by_text("saved 42").is_visible()
