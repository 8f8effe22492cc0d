"""Boards: figures of trays as values, and their text form."""

import json
from dataclasses import replace

import pytest

from lab.figures.board import Board, BoardFrame, Item, Place, Tray
from lab.figures.scene import plain

FIRST = BoardFrame(0, "1", "A and B come", {"A": Place("seats", 0, 2), "B": Place("queue", 0)})
SECOND = BoardFrame(
    1, "2", "B follows", {"A": Place("done", 0), "B": Place("seats", 0, 1), "C": Place("queue", 0)}
)
BOARD = Board(
    title="Who is where?",
    finding="B sits.",
    conditions="3 requests",
    tag="given",
    unit="step",
    trays=(Tray("queue"), Tray("seats", 1), Tray("done")),
    items=tuple(Item(who, "request", who, who) for who in "ABC"),
    frames=(FIRST, SECOND),
)


def test_the_text_has_a_block_a_frame() -> None:
    assert BOARD.text().splitlines() == [
        "Who is where?",
        "3 requests (given)",
        "",
        "1  queue: B | seats: A[2]",
        "   A and B come",
        "2  queue: C | seats: B[1] | done: A",
        "   B follows",
        "",
        "[2] carries 2 cache blocks",
        "",
        "B sits.",
    ]
    assert repr(BOARD) == BOARD.text()


def test_stacks_are_explained_only_where_there_are_some() -> None:
    places = {who: place._replace(stack=0) for who, place in FIRST.places.items()}
    assert "cache" not in replace(BOARD, frames=(replace(FIRST, places=places),)).text()


def test_the_front_of_a_tray_comes_first() -> None:
    places = {"A": Place("queue", 1), "B": Place("queue", 0), "C": Place("queue", 2)}
    frame = replace(FIRST, places=places)
    assert BOARD.lying(frame) == {"queue": ["B", "A", "C"]}


def test_the_plain_form_lists_placements_only() -> None:
    values = json.loads(json.dumps(BOARD.to_json()))
    assert values["kind"] == "board"
    assert values["trays"][1] == {"name": "seats", "capacity": 1, "group": ""}
    assert values["items"][0] == {
        "id": "A",
        "role": "request",
        "label": "A",
        "who": "A",
        "note": "",
    }
    assert values["frames"][0] == {
        "at": 0,
        "label": "1",
        "caption": "A and B come",
        "places": {"A": ["seats", 0, 2], "B": ["queue", 0, 0]},
    }
    assert plain(BOARD) == values
    assert {"title", "finding", "conditions", "tag", "unit"} <= set(values)


# What is no board


def with_places(**places: Place) -> Board:
    return replace(BOARD, frames=(replace(FIRST, places=places),))


def test_an_item_has_a_role_that_somebody_draws() -> None:
    with pytest.raises(ValueError, match="role must be one of request, got 'requst'"):
        Item("A", "requst", "A")


def test_a_board_without_frames_is_an_error() -> None:
    with pytest.raises(ValueError, match="a board must have at least 1 frame, got 0"):
        replace(BOARD, frames=())


def test_two_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="names of trays must be unique, and 'done' stands twice"):
        replace(BOARD, trays=(*BOARD.trays, Tray("done")))
    with pytest.raises(ValueError, match="ids of items must be unique, and 'A' stands twice"):
        replace(BOARD, items=(*BOARD.items, BOARD.items[0]))


def test_an_item_or_a_tray_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"frame '1' places items .* not have: \['Z'\]"):
        with_places(Z=Place("queue", 0))
    with pytest.raises(ValueError, match=r"frame '1' uses trays .* not have: \['bin'\]"):
        with_places(A=Place("bin", 0))


def test_positions_count_up_from_0() -> None:
    with pytest.raises(ValueError, match=r"tray 'queue' must count up from 0, got \[0, 2\]"):
        with_places(A=Place("queue", 0), B=Place("queue", 2))


def test_a_tray_is_never_too_full() -> None:
    with pytest.raises(ValueError, match="'seats' holds at most 1 items, got 2"):
        with_places(A=Place("seats", 0), B=Place("seats", 1))


def test_trays_of_one_group_share_their_capacity() -> None:
    trays = (Tray("prefill", 2, "seats"), Tray("decode", 2, "seats"))
    places = {"A": Place("prefill", 0), "B": Place("decode", 0)}
    board = replace(BOARD, trays=trays, frames=(replace(FIRST, places=places),))
    places["C"] = Place("decode", 1)
    with pytest.raises(ValueError, match="'seats' holds at most 2 items, got 3"):
        replace(board, frames=(replace(FIRST, places=places),))
