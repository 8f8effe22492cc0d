"""One log as a figure: what stands where, and captions that say when a metric begins and ends."""

from itertools import product

import pytest

from lab.figures.one_log import one_log
from lab.ledgers.definitions import DEFINITIONS, call_log
from lab.what_ifs.one_request import example_log, one_request

FIRST = [found[0] for found in DEFINITIONS.values()]


def test_a_reader_who_sees_nothing_can_follow_the_log():
    assert one_log(example_log(), FIRST).text().split("\n\n")[4].splitlines() == [
        "  0  the user asks",
        " 60  the client sends the request",
        " 70  the server has it, and it queues; TTFT begins; E2E begins",
        "110  its first step starts",
        "190  token 1 is made; TTFT ends; TPOT begins",
        "200  the client has token 1",
        "210  token 2 is made",
        "230  token 3 is made",
        "240  the client has tokens 2 and 3",
        "250  token 4 is made; TPOT ends; E2E ends",
        "260  the client has token 4",
    ]


def test_a_bracket_covers_its_stretch_and_says_what_is_divided():
    scene = one_log(example_log(), FIRST)
    spans = {m.lane: (m.start, m.stop, m.label) for m in scene.marks if m.role == "span"}
    assert spans == {
        "TTFT": (70, 190, "TTFT 120"),
        "TPOT": (190, 250, "TPOT 60 / 3 = 20"),
        "E2E": (70, 250, "E2E 180"),
    }


def test_tokens_of_one_message_come_together():
    scene = one_log(example_log(), FIRST)
    came = [(m.start, m.label) for m in scene.marks if m.lane == "client" and m.role == "token"]
    assert came == [(200, "1"), (240, "2–3"), (260, "4")]


def test_the_log_stays_where_it_is_whatever_is_measured():
    drawn = [
        {m for m in one_log(example_log(), chosen).marks if m.role != "span"}
        for chosen in product(*DEFINITIONS.values())
    ]
    assert len(drawn) == 3 * 7 * 3
    assert all(marks == drawn[0] for marks in drawn)


def test_every_definition_is_said_with_what_it_hides():
    for chosen in product(*DEFINITIONS.values()):
        finding = one_log(example_log(), chosen).finding
        assert all(f"it hides {one.hides}." in finding for one in chosen)


def test_a_definition_without_a_value_has_no_bracket():
    alone = one_log(call_log(one_request(outputs=1), "A"), FIRST)
    assert "TPOT does not exist" in alone.finding
    assert [mark.lane for mark in alone.marks if mark.role == "span"] == ["TTFT", "E2E"]


def test_two_definitions_of_one_metric_are_refused():
    with pytest.raises(ValueError, match="one definition a metric can be shown, got 2 for 1"):
        one_log(example_log(), DEFINITIONS["TTFT"][:2])
