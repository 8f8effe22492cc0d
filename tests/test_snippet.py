"""Every number of the chapters can be computed from its own lines alone, and from no more."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from book.coverage import Mention, read_notebook
from book.snippet import snippet

CHAPTERS = sorted((Path(__file__).resolve().parent.parent / "chapters").glob("*.ipynb"))
NOTEBOOKS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in CHAPTERS}


NUMBERS = [
    place
    for chapter, notebook in NOTEBOOKS.items()
    for place in read_notebook(chapter, notebook)[0]
    if place.by_number
]


def of(*cells: str) -> str:
    """The snippet of the number in the last cell."""
    code = [
        {"cell_type": "code", "metadata": {}, "source": dedent(cell).strip().splitlines(True)}
        for cell in cells
    ]
    return snippet({"cells": code}, len(cells) - 1, "n")


def lines(*cells: str) -> list[str]:
    """Its lines before the last one, without empty ones."""
    return [line for line in of(*cells).splitlines()[:-1] if line]


@pytest.mark.parametrize("place", NUMBERS, ids=lambda place: place.id)
def test_the_lines_of_a_number_compute_it_in_a_fresh_namespace(place: Mention) -> None:
    text = snippet(NOTEBOOKS[place.chapter], place.cell, place.id)
    exec(compile(text, place.id, "exec"), {})
    assert f'"{place.id}"' in text


@pytest.mark.parametrize("place", NUMBERS, ids=lambda place: place.id)
def test_no_line_of_a_number_shows_anything(place: Mention) -> None:
    text = snippet(NOTEBOOKS[place.chapter], place.cell, place.id)
    for word in ("print(", "self_check(", "lab.play(", "lab.what_if(", "lab.guess(", "compare("):
        assert word not in text


def test_what_is_unrelated_is_left_out() -> None:
    cell = """
        import lab, math
        import random
        a = 1
        b = 2
        print(a)
        assert b == 2
        lab.checked(lab.worked("m", f(b)), lab.worked("n", math.floor(a)))
    """
    assert of(cell) == 'import lab, math\na = 1\nlab.worked("n", math.floor(a))\n'


def test_the_latest_binding_before_counts() -> None:
    found = lines("paid = 1", "paid = 2\nx = paid", "paid = 3", 'worked("n", x)\nx = 4')
    assert found == ["paid = 2", "x = paid"]


def test_a_name_that_hides_one_of_python_is_a_name_like_any() -> None:
    assert lines("bytes = 2 * 8", 'worked("n", bytes)') == ["bytes = 2 * 8"]


def test_a_loop_that_fills_a_list_changes_nothing_of_python() -> None:
    loop = "for name in (1, 2):\n    made = []\n    made.append(len(lab.f(name)))"
    assert lines("x = [1]", loop, "y = len(lab.f(x))", 'worked("n", y)') == [
        *("x = [1]", "y = len(lab.f(x))")
    ]


def test_a_branch_may_not_run_so_what_was_before_counts_too() -> None:
    assert lines("x = 1\ny = 2\nif y:\n    x = 3", 'worked("n", x)') == [
        *("x = 1", "y = 2", "if y:", "    x = 3")
    ]


def test_an_augmented_assignment_adds_to_what_was() -> None:
    assert lines("x = 0\nx += 1\nx += 2\ny = 1", 'worked("n", x)') == ["x = 0", "x += 1", "x += 2"]


@pytest.mark.parametrize(
    "change",
    [
        "x.append(1)",
        "x[0] = 1",
        "x.a.b = 1",
        "last = x.pop()",
        "del x[0]",
        "shuffle(x)",
        "heapq.heappush(x, 1)",
        "row = x[0]\nrow.append(1)",
        "for row in x:\n    row.append(1)",
        "def put():\n    x.append(1)\nput()",
        "with hold() as held:\n    x[0] = held",
    ],
)
def test_what_changes_an_object_belongs_to_it(change: str) -> None:
    assert lines("x = [[0]]", change, 'worked("n", x)') == ["x = [[0]]", *change.splitlines()]


@pytest.mark.parametrize(
    "nothing",
    ["print(x)", "lab.play(x)", "y = x.index(1)", "y = [x for x in (1, 2)]", "x = [1]\nx = [[0]]"],
)
def test_what_only_looks_at_an_object_does_not(nothing: str) -> None:
    assert lines(nothing, "x = [[0]]", 'worked("n", x)') == ["x = [[0]]"]
    if "x = [1]" not in nothing:
        assert lines("x = [[0]]", nothing, 'worked("n", x)') == ["x = [[0]]"]


def test_an_object_that_a_class_has_made_may_change_whenever_it_is_asked() -> None:
    found = lines(
        "pool = KVBlocks(8)", "got = pool.take(3)\nn = len(got)", 'worked("n", pool.free)'
    )
    assert found == ["pool = KVBlocks(8)", "got = pool.take(3)"]


def test_a_function_brings_what_it_reads_when_it_is_called() -> None:
    found = lines(
        "def f(a, b=start):\n    c = a + late\n    return c + f(b)",
        "c = 1\nstart = 0\nlate = 2",
        "late = 3",
        "worked('n', f(1))\nlate = 4",
    )
    assert found == ["def f(a, b=start):", "    c = a + late", "    return c + f(b)", "late = 3"]


def test_a_name_for_a_function_brings_the_same() -> None:
    found = lines("f = lambda a: a + late\nlate = 1", "g = f\nlate = 2", 'worked("n", g(1))')
    assert found == ["f = lambda a: a + late", "late = 1", "g = f", "late = 2"]


def test_names_inside_a_comprehension_or_a_loop_are_its_own() -> None:
    found = lines(
        "for name in rows:\n    c = name\n    print(c)",
        "rows = [1]\ntotal = 0",
        "for name in rows:\n    c = name\n    total += c",
        "z = {name: name for name in rows if name}",
        'worked("n", [total, z])',
    )
    assert found == [
        *("rows = [1]", "total = 0", "for name in rows:", "    c = name", "    total += c"),
        "z = {name: name for name in rows if name}",
    ]


def test_a_decorator_and_a_class_are_kept() -> None:
    cell = "import functools\n@functools.cache\ndef f():\n    return base\nbase = Base\n"
    assert lines("class Base:\n    size = 2\n", cell, 'worked("n", f().size)') == [
        *("class Base:", "    size = 2", "import functools", "@functools.cache", "def f():"),
        *("    return base", "base = Base"),
    ]


def test_the_same_import_stands_once() -> None:
    assert lines("import lab\nx = lab.a", "import lab\ny = lab.b", 'lab.worked("n", x + y)') == [
        *("import lab", "x = lab.a", "y = lab.b")
    ]


def test_a_call_in_a_loop_brings_its_loop() -> None:
    text = of("rows = [1]", 'for one in rows:\n    worked("n", one)')
    assert text == 'rows = [1]\nfor one in rows:\n    worked("n", one)\n\n'
    assert of("rows = [1]", '[worked("n", one) for one in rows]').endswith("for one in rows]\n")


def test_a_long_call_is_moved_left_and_a_text_in_it_stays() -> None:
    text = of('lab.checked(\n    lab.worked(\n    "n",\n    x))')
    assert text == 'lab.worked(\n    "n",\n    x)\n'
    whole = of('lab.checked(\n        lab.worked("n", f("""a\n  b""")))')
    assert whole == 'lab.worked("n", f("""a\n  b"""))\n'


def test_a_block_ends_with_an_empty_line() -> None:
    assert of("def f():\n    return 1\nx = f()", 'worked("n", x)') == (
        'def f():\n    return 1\n\nx = f()\nworked("n", x)\n'
    )


def test_magic_and_words_are_no_code() -> None:
    notebook: dict[str, Any] = {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["x = 2"]},
            {"cell_type": "code", "metadata": {}, "source": ["%time\n", "x = 1\n"]},
            {"cell_type": "code", "metadata": {}, "source": ['worked("n", x)']},
        ]
    }
    assert snippet(notebook, 2, "n") == 'x = 1\nworked("n", x)\n'
    with pytest.raises(ValueError, match="cell 1 has no call of worked for 'n'"):
        snippet(notebook, 1, "n")
    with pytest.raises(ValueError, match="a notebook with 3 cells has no cell 3"):
        snippet(notebook, 3, "n")
