"""Grids: figures of numbered cells as values, and their text form."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lab.figures.grid import Cell, Grid, GridFrame
from lab.figures.scene import plain

FIRST = GridFrame(
    *(0, "1", "A and B come"),
    cells=(Cell("shared", ("A", "B"), 4, "new"), Cell("used", ("B",), 1, "new"), Cell("free")),
    rows={"A": (0,), "B": (0, 1)},
    aside={},
    sum="2 used",
)
LAST = GridFrame(
    *(1, "2", "both leave"),
    cells=(Cell("cached", (), 4), Cell("free"), Cell("free")),
    rows={},
    aside={"B": "1 block elsewhere"},
    sum="1 cached",
)
GRID = Grid(
    title="Whose?",
    finding="Nobody's.",
    conditions="2 requests",
    tag="given",
    unit="step",
    cell="block",
    row="block table",
    slots=4,
    who=("A", "B"),
    frames=(FIRST, LAST),
)


def test_the_text_has_rows_then_what_nobody_holds_and_explains_its_signs() -> None:
    assert GRID.text().splitlines() == [
        "Whose?",
        "2 requests (given)",
        "",
        "1  A: 0& | B: 0& 1[1/4] | free: 2",
        "   2 used",
        "   A and B come",
        "2  B: 1 block elsewhere | cached: 0 | free: 1 2",
        "   1 cached",
        "   both leave",
        "",
        "3[1/4] is block 3 with 1 of its 4 slots filled, 3& is block 3, held by others too",
        "",
        "Nobody's.",
    ]
    assert "is block 3" not in replace(GRID, frames=(LAST,)).text()


def test_the_plain_form_lists_cells_as_short_rows() -> None:
    values = json.loads(json.dumps(GRID.to_json()))
    assert values["kind"] == "grid"
    assert values["who"] == ["A", "B"]
    assert values["frames"][0]["cells"][:2] == [
        ["shared", ["A", "B"], 4, "new"],
        ["used", ["B"], 1, "new"],
    ]
    assert values["frames"][0]["rows"] == {"A": [0], "B": [0, 1]}
    assert plain(GRID) == values


# What is no grid


def with_cells(*cells: Cell) -> Grid:
    return replace(GRID, frames=(replace(FIRST, cells=cells),))


def test_a_grid_without_frames_or_with_a_name_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="a grid must have at least 1 frame, got 0"):
        replace(GRID, frames=())
    with pytest.raises(ValueError, match="names must be unique, and 'A' stands twice"):
        replace(GRID, who=("A", "B", "A"))


def test_every_frame_has_all_cells() -> None:
    with pytest.raises(ValueError, match="frame '2' has 2 cells, and the first has 3"):
        replace(GRID, frames=(FIRST, replace(LAST, cells=LAST.cells[:2])))


def test_a_role_is_one_that_somebody_draws() -> None:
    with pytest.raises(ValueError, match=r"role must be one of free, .* got 'fre'"):
        with_cells(*FIRST.cells[:2], Cell("fre"))


def test_a_cell_is_held_by_those_whose_rows_lead_to_it() -> None:
    shared, used, free = FIRST.cells
    for cells in (
        (shared, used._replace(who=("A",)), free),
        (shared._replace(who=("A",)), used, free),
        (shared._replace(role="used"), used, free),
        (shared, used._replace(role="free"), free),
        (shared, used._replace(role="cached"), free),
        (shared, used, free._replace(role="used")),
    ):
        with pytest.raises(
            ValueError, match=r"frame '1': cell \d is .* the rows must say the same"
        ):
            with_cells(*cells)
    with pytest.raises(ValueError, match=r"rows lead to cells beyond 1: \[7\]"):
        replace(
            GRID, frames=(replace(FIRST, cells=(shared, used), rows=FIRST.rows | {"A": (0, 7)}),)
        )


def test_no_cell_is_fuller_than_full() -> None:
    shared, used, free = FIRST.cells
    with pytest.raises(ValueError, match="frame '1': cell 1 has 4 slots, got 5 filled"):
        with_cells(shared, used._replace(filled=5), free)


def test_names_are_those_of_the_grid() -> None:
    with pytest.raises(ValueError, match=r"names that the grid does not have: \['Z'\]"):
        replace(GRID, frames=(FIRST, replace(LAST, aside={"Z": "1 block"})))
