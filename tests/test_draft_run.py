"""The draft run: read from traces, call by call."""

from __future__ import annotations

import pytest
from drawn_runs import Scripted, ask, served
from hypothesis import given, settings
from hypothesis import strategies as st

import lab
from lab.figures.draft_run import draft_run
from lab.policy import Continuous
from lab.request import Request

RUN = """\
Which guesses stand, and what becomes of the others?
request A of: 1 request, 256 seats, 9 blocks; at most 3 guesses; × falls, – is thrown away (given)

step     1        2         3         4   5
read     prompt*  t1        t3        t4  t8
guess 1           t2        × falls   t5
guess 2           × falls   – thrown  t6
guess 3           – thrown  – thrown  t7
next     t1       t3        t4        t8  t9
cache    2        6→4       8→5       9   10
blocks   1        2→1       2         3   3

* prefill

1  2 tokens of the prompt computed; the target says t1
2  t1 is read and 3 guesses checked; t2 stands; guess 2 falls, and t3 comes in its place; 1 guess \
behind it thrown away; the cache goes back from 6 positions to 4; 1 block given back
3  t3 is read and 3 guesses checked; guess 1 falls, and t4 comes in its place; 2 guesses behind \
it thrown away; the cache goes back from 8 positions to 5
4  t4 is read and 3 guesses checked; t5, t6 and t7 stand; the target adds t8
5  t8 is read, and nothing is guessed; the target says t9

5 calls of the target bring 9 tokens; 5 guesses fall or are thrown away."""


def run(accepts, drafts=3, tokens=9, blocks=None, **more):
    executor = Scripted(accepts=lambda who, start: accepts[start % len(accepts)])
    asked = Request(id="A", prompt=range(2), max_tokens=tokens, **more)
    policy = Continuous(draft_tokens=drafts, blocks=blocks, block_tokens=4)
    return served([asked], policy, executor, repeats=False)


def test_a_run_in_words():
    trace = run([9, 9, 1, 9, 0, 3, 9, 9, 9, 9], blocks=9)
    assert draft_run(trace, "A").text() == RUN


def test_without_a_pool_there_is_no_lane_for_blocks():
    assert "blocks" not in draft_run(run([1]), "A").lanes


def test_tokens_are_said_where_their_ids_are_known():
    figure = draft_run(run([3]), "A", said=lambda token: f"<{token}>")
    assert figure.at("guess 1", 1).label == "<3>"


def test_an_answer_that_ends_inside_a_run():
    figure = draft_run(run([3], stop_ids=(4,)), "A")
    assert [figure.at(f"guess {place}", 1).label for place in (1, 2, 3)] == [
        "t2",
        "– thrown",
        "– thrown",
    ]
    assert "the answer ends with t3; 2 guesses thrown away" in figure.frames[1].caption


def test_what_has_no_draft_run():
    plain = served([ask("A", 2, 4)], Continuous(), Scripted(), repeats=False)
    with pytest.raises(ValueError, match="no guesses were checked for request 'A'"):
        draft_run(plain, "A")
    delivered = lab.given({"A": [1, 2]}, lab.Workload.given({"A": (0, 2, 2)}))
    with pytest.raises(ValueError, match="only deliveries"):
        draft_run(delivered, "A")
    long = run([0], tokens=60)
    with pytest.raises(ValueError, match="at most 40 calls, and request 'A' has 60"):
        draft_run(long, "A")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(3, 25),
)
def test_every_guess_has_a_fate_and_all_tokens_are_there(accepts, drafts, tokens):
    trace = run(accepts, drafts, tokens)
    figure, found = draft_run(trace, "A"), lab.acceptance(trace)
    fates = [mark.role for mark in figure.marks if mark.lane.startswith("guess")]
    assert len(fates) == found.drafted
    assert fates.count("decode") == found.accepted
    assert fates.count("rejected") + fates.count("skipped") == found.thrown_away
    calls = found.checks + found.plain + 1
    assert len(figure.frames) == calls
    named = [mark for mark in figure.marks if mark.role in ("decode", "kept")]
    order = sorted(named, key=lambda mark: (mark.start, figure.lanes.index(mark.lane)))
    assert [mark.label for mark in order] == [f"t{number}" for number in range(1, tokens + 1)]
    caches = [mark.label.split("→")[-1] for mark in figure.marks if mark.lane == "cache"]
    assert caches[-1] == str(trace["A"].reached)


def test_a_request_that_decoded_plainly_for_a_while():
    asked = [ask("A", 1, 9), ask("B", 6, 1, arrival=1)]
    policy = Continuous(seats=2, token_budget=5, draft_tokens=3)
    executor = Scripted(accepts=lambda who, start: 9)
    figure = draft_run(served(asked, policy, executor, repeats=False), "A")
    assert figure.frames[1].caption == "t1 is read, and nothing is guessed; the target says t2"
    assert [figure.at("cache", call).label for call in range(4)] == ["1", "2", "5", "9"]


def test_a_prompt_that_is_computed_again_or_was_computed_for_another_answer():
    executor = Scripted(accepts=lambda who, start: 9)
    policy = Continuous(seats=2, blocks=6, block_tokens=2, draft_tokens=1)
    asked = [ask("A", 4, 6), ask("B", 4, 6)]
    figure = draft_run(served(asked, policy, executor, repeats=False), "B")
    again = next(mark for mark in figure.marks if mark.label == "again")
    assert again.role == "prefill"
    assert figure.frames[again.start].caption.startswith(
        "7 tokens of prompt and answer computed again; the target says t4"
    )
    asked = [Request(id="A", prompt=range(3), max_tokens=6, n=2)]
    policy = Continuous(seats=2, draft_tokens=1)
    figure = draft_run(served(asked, policy, executor, repeats=False), "A#2")
    assert (figure.at("read", 0).role, figure.at("read", 0).label) == ("read", "prompt")
    assert figure.frames[0].caption == (
        "the prompt is computed once, for another answer; the target says t1"
    )
