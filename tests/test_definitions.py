"""One log and its definitions: every number by hand from the moments, and what does not exist."""

import re
from dataclasses import astuple
from typing import Any

import pytest
from drawn_runs import cost_models, policies, served, workloads
from hypothesis import given

import lab
from lab.ledgers.definitions import DEFINITIONS, call_log, definitions
from lab.what_ifs.one_request import one_request

LOG = call_log(one_request(), "A", before=60, network=10, messages=(1, 2, 1))


def test_a_log_has_the_moments_of_everybody_on_one_clock():
    assert astuple(LOG) == (0, 60, 70, 110, (190, 210, 230, 250), (200, 240, 240, 260), "ms")
    assert LOG.messages == (200, 240, 260)


def test_one_log_gives_as_many_numbers_as_there_are_definitions():
    found = definitions(LOG)
    assert found["TTFT"] == [190 - 70, 200 - 60, 190 - 110]
    assert found["TPOT"] == [60 / 3, 60 / 4, 180 / 4, 140 / 4, (260 - 200) / 2, 240 - 200, 20]
    assert found["E2E"] == [250 - 70, 260 - 60, 260 - 0]


def test_the_first_definition_of_each_metric_is_the_one_of_the_latency_ledger():
    row = lab.latency(one_request())["A"]
    first = {
        metric: values[0] for metric, values in ((m, definitions(LOG)[m]) for m in DEFINITIONS)
    }
    assert first == {"TTFT": row.ttft, "TPOT": row.tpot, "E2E": row.e2e}


@given(workloads(), policies(), cost_models)
def test_it_is_so_for_every_request_that_finishes(asked: Any, policy: Any, cost: Any):
    trace = served(asked, policy, cost)
    for row in lab.latency(trace):
        if row.status == "finished":
            found = definitions(call_log(trace, row.id, before=5, network=2))
            assert found["TTFT"][0] == pytest.approx(row.ttft)
            assert (found["TPOT"][0] is None) == (row.tpot is None)
            assert found["TPOT"][0] == (None if row.tpot is None else pytest.approx(row.tpot))
            assert found["E2E"][0] == pytest.approx(row.e2e)


def test_one_token_has_no_gap_and_no_pause_and_yet_some_definitions_give_a_number():
    alone = definitions(call_log(one_request(outputs=1), "A"))
    assert alone["TPOT"] == [None, 0, 120, 80, None, None, None]


def test_every_definition_says_what_it_hides_and_no_two_have_one_name():
    all_of = [one for found in DEFINITIONS.values() for one in found]
    assert all(one.hides for one in all_of)
    assert len({(one.metric, one.name) for one in all_of}) == len(all_of)
    assert all(one.metric == metric for metric, found in DEFINITIONS.items() for one in found)


def test_a_burst_is_a_long_pause_or_none_at_all():
    whole = call_log(one_request(), "A", messages=(1, 3))
    longest, spread = definitions(whole)["TPOT"][5:]
    assert (longest, spread) == (60, 20)


def test_by_default_a_message_holds_one_token_and_the_network_takes_no_time():
    log = call_log(one_request(), "A")
    assert log.received == log.made == (120, 140, 160, 180)
    assert (log.asked, log.sent, log.arrived) == (0, 0, 0)


def test_what_makes_no_log_is_refused():
    work = lab.Workload.given({"A": (0, 1, 2)}, unit="ms")
    without_steps = lab.given({"A": [10, 20]}, work)
    with pytest.raises(ValueError, match="must be finished and have steps to make a log"):
        call_log(without_steps, "A")
    for options, words in (
        ({"network": -1}, "network must not be negative, got -1"),
        ({"messages": (1, 2)}, "messages must hold 4 tokens, at least 1 each, got (1, 2)"),
        ({"messages": (4, 0)}, "messages must hold 4 tokens, at least 1 each, got (4, 0)"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            call_log(one_request(), "A", **options)
