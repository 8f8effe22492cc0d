"""Figures of cards: the small network cut in two, as golden text and as data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.figures.cards import CardFrame, Cards, Cell, Message
from lab.figures.layout import four_ways, layout_figure
from lab.figures.scene import plain
from lab.parallel.sketch import WAYS, Sketch
from lab.what_ifs.parallel import cut_in_two

STAGES = """\
Pipeline parallel: does it fit, and who works?
4 layers of 100 MB of weights, 2 devices with 300 MB each, one user (given)

device 0  200 of 300 MB  all of layer 1, layer 2
device 1  200 of 300 MB  all of layer 3, layer 4

1  4 layers of 100 MB each: 400 MB, once
2  PP: the layers are cut in order, and each device gets a run of them; 200 MB each, on cards of \
300 MB: it fits
3  layer 1: device 0 works; device 1 is idle
4  layer 2: device 0 works; device 1 is idle
5  send after layer 2: the next layer lies on the other device; 1 message, the first
6  layer 3: device 1 works; device 0 is idle
7  layer 4: device 1 works; device 0 is idle
8  the token is through, after 1 message

1 message sent

Pipeline parallel fits: 200 MB each on cards of 300 MB. While one token is computed, each device \
works for 50 % of the time; 1 message sent."""

sketches = st.builds(
    Sketch,
    way=st.sampled_from(WAYS),
    layers=st.integers(3, 5),
    devices=st.integers(1, 3),
    layer_mb=st.sampled_from((25, 90)),
)


def test_a_pipeline_in_words():
    assert layout_figure(Sketch(way="PP")).text() == STAGES


def test_columns_rows_and_copies_are_told_apart():
    copies, columns, rows, _ = (figure.text() for figure in four_ways())
    names = "layer 1, layer 2, layer 3, layer 4"
    assert copies.count(f"400 of 300 MB: too much  all of {names}") == 2
    assert f"device 1  200 of 300 MB  column 2 of {names}" in columns
    assert f"device 0  200 of 300 MB  row 1 of {names}" in rows
    assert "device 0 works for 100 % and device 1 for 0 % of the time; 0 messages" in copies
    assert "all-gather after layer 4" in columns
    assert "all-reduce after layer 4" in rows
    assert "2 messages, 8 so far" in rows


@given(sketches, st.integers(50, 400))
def test_meters_and_messages_are_those_of_the_sketch(sketch, limit):
    figure = layout_figure(sketch, limit)
    last = figure.frames[-1]
    held = tuple(figure.held(last, card) for card in figure.cards)
    assert held == sketch.per_device_mb
    assert (max(held) <= limit) == sketch.fits(limit)
    assert last.sent == sketch.messages == sum(len(frame.messages) for frame in figure.frames)
    working = [frame for frame in figure.frames if frame.busy]
    for device, card in enumerate(figure.cards):
        share = sum(card in frame.busy for frame in working) / len(working)
        assert share == pytest.approx(float(sketch.busy[device]))


@given(sketches)
def test_a_cell_keeps_its_place_and_every_square_is_worked_on_once(sketch):
    figure = layout_figure(sketch)
    place = {cell.id: (cell.block, cell.row, cell.column) for cell in figure.cells}
    worked = [place[id] for frame in figure.frames for id in frame.at_work]
    assert sorted(worked) == sorted(sketch.cells)
    whole, *others = figure.frames
    assert set(whole.cells.values()) == {""}
    assert {place[id] for id in whole.cells} == set(sketch.cells)
    assert all(set(frame.cells) == set(whole.cells) for frame in others)


def test_ways_share_their_cells_so_that_one_becomes_the_other():
    ids = [[cell.id for cell in figure.cells] for figure in four_ways()]
    assert ids == [ids[0]] * 4
    (found,) = cut_in_two(3, 150)
    assert found.finding.startswith("Pipeline parallel does not fit: 200 MB each on cards of 150")


def test_a_what_if_and_a_player_take_cards():
    menu = lab.Knob.choice("Cut", *WAYS)
    widget = lab.what_if(cut_in_two, way=menu, limit=lab.Knob(300, 100, 500, 50, "a card", "MB"))
    assert len(widget.baked["results"]) == 4 * 9
    assert repr(lab.play(layout_figure(Sketch(way="PP")))) == STAGES
    as_json = json.loads(json.dumps(plain(layout_figure(Sketch(way="PP")))))
    assert as_json["kind"] == "cards"
    assert as_json["frames"][4]["messages"] == [["device 0", "device 1"]]


def test_the_guess_of_the_chapter_opens_the_ways():
    asked = lab.guess("parallel-fits-and-busy", *four_ways())
    assert [scene["kind"] for scene in asked.scenes] == ["cards"] * 4
    assert "messages" not in repr(asked)


SMALL = Cards(
    title="What?",
    finding="That.",
    conditions="1 cell",
    tag="given",
    unit="step",
    cards=("one", "two"),
    blocks=("layer 1",),
    cells=(Cell("a", 0, 0, 0),),
    limit=1,
    most=2,
    cell_size=2,
    size_unit="MB",
    frames=(CardFrame(0, "1", "there", {"a": "two"}, busy=("two",), at_work=("a",)),),
)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"frames": ()}, "at least 1 frame, got 0"),
        ({"cards": ("two", "two")}, "names of cards must be unique, and 'two' stands twice"),
        ({"cells": (SMALL.cells * 2)}, "ids of cells must be unique, and 'a' stands twice"),
        ({"cells": ()}, r"frame '1' places cells that the network does not have: \['a'\]"),
        ({"cards": ("one",)}, r"frame '1' uses cards that are not there: \['two'\]"),
        (
            {"frames": (replace(SMALL.frames[0], messages=(Message("one", "three"),)),)},
            r"uses cards that are not there: \['three'\]",
        ),
        (
            {"frames": (replace(SMALL.frames[0], busy=()),)},
            "cell 'a' is worked on, and its card is not busy",
        ),
    ],
)
def test_a_figure_of_cards_has_its_limits(changed, message):
    assert "two  2 of 1 MB: too much  all of layer 1" in SMALL.text()
    assert "one  0 of 1 MB  nothing" in SMALL.text()
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changed)
