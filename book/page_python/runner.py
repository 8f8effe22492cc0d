"""What the worker of a page asks of Python: to call a function of `lab`, or to run a reader's code.

Questions and answers are JSON texts, so that no Python object has to live on the other side.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import traceback
from importlib import import_module
from typing import Any

import lab
from lab.figures.scene import plain

CELL = "the cell"
MOST_CHARACTERS = 20_000
"""More than anybody reads; what a long loop prints would fill the page."""


def answer(question: str) -> str:
    """`{"result"}` or `{"error"}` for a question `{"function", "parameters"}`, and
    `{"text", "error"}` for a question `{"source"}`; see `call` and `run`."""
    asked = json.loads(question)
    if "source" in asked:
        return json.dumps(run(asked["source"]))
    try:
        return json.dumps({"result": call(asked["function"], asked["parameters"])}, allow_nan=False)
    except ValueError as error:
        return json.dumps({"error": str(error)})
    except Exception as error:
        return json.dumps({"error": in_words(error)})


def call(name: str, parameters: dict[str, Any]) -> Any:
    """What the function "lab.module:function" returns, as plain values."""
    if not re.fullmatch(r"lab(\.[a-z]\w*)+:[a-z]\w*", name):
        raise ValueError(f"a page may call lab.module:function, got {name!r}")
    module, function = name.split(":")
    return plain(getattr(import_module(module), function)(**parameters))


def run(source: str) -> dict[str, str | None]:
    """What a cell prints, with its last expression as a notebook shows it, and what went wrong.

    Every run begins with nothing but `lab` and `display`.
    """
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            _execute(source)
        except (Exception, SystemExit) as caught:
            error = in_words(caught)
    text = printed.getvalue()
    if (more := len(text) - MOST_CHARACTERS) > 0:
        text = f"{text[:MOST_CHARACTERS]}\n... and {more} characters more\n"
    return {"text": text, "error": error}


def in_words(error: BaseException) -> str:
    """What went wrong, in one line, with the line of the reader's cell where there is one."""
    if isinstance(error, ModuleNotFoundError):
        what = f"{error.name} is not in this page: it has the core of lab and what Python brings"
    else:
        what = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError) and error.filename == CELL:
        return f"Line {error.lineno}: {what}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == CELL]
    return f"Line {lines[-1]}: {what}" if lines else what


def _execute(source: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__", "lab": lab, "display": _display}
    body = ast.parse(source, CELL).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), CELL, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), CELL, "eval"), names)
        if value is not None:
            _display(value)


def _display(*things: object) -> None:
    for thing in things:
        print(repr(thing))
