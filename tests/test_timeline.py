"""The timeline: golden texts, and rules that hold for the figure of every run."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from drawn_runs import Scripted, ask, served

import lab
from lab.figures.scene import Scene
from lab.figures.timeline import MOST_STEPS
from lab.policy import Policy
from lab.trace import Trace

STEPS = lab.CostModel.equal_steps()
TWO_SEATS = {"A": (0, 2, 2), "B": (0, 2, 4), "C": (0, 2, 2)}


def run(rows: dict[str, Any], policy: Policy, cost: lab.CostModel = STEPS) -> Trace:
    return lab.simulate(lab.Workload.given(rows), policy, cost)


def given_table() -> Trace:
    work = lab.Workload.given({"A": (0, 4, 3), "B": (20, 4, 2), "C": (40, 2, 1)})
    return lab.given({"A": [100, 150, 200], "B": [150, 200], "C": [180]}, work)


STATIC = """\
Who sits where, and who waits?
3 requests, static batching, 2 seats, equal steps (derived)

step    1   2  3   4   5   6
seat 1  A*  A  A.  A.  C*  C
seat 2  B*  B  B   B   .   .
queue   C   C  C   C

* prefill, . idle seat (and whose it still is)

1  prefill done: A token 1 of 2, B token 1 of 4; waiting: C
2  decode: A token 2 of 2, B token 2 of 4; A finished; waiting: C
3  decode: B token 3 of 4; idle: seat 1 (still A's); waiting: C
4  decode: B token 4 of 4; B finished; idle: seat 1 (still A's); waiting: C
5  prefill done: C token 1 of 2; idle: seat 2
6  decode: C token 2 of 2; C finished; idle: seat 2

ends: A step 2, B step 4, C step 6"""

CONTINUOUS = """\
Who sits where, and who waits?
3 requests, continuous batching, 2 seats, equal steps (derived)

step    1   2  3   4
seat 1  A*  A  C*  C
seat 2  B*  B  B   B
queue   C   C

* prefill

1  prefill done: A token 1 of 2, B token 1 of 4; waiting: C
2  decode: A token 2 of 2, B token 2 of 4; A finished; waiting: C
3  prefill done: C token 1 of 2; decode: B token 3 of 4
4  decode: C token 2 of 2, B token 4 of 4; B finished; C finished

ends: A step 2, B step 4, C step 4"""

GIVEN = """\
When does each token come?
3 requests, every delivery time as the table has it (given)

ms  0  20  40  100  150  180  200
A   >  .   .   1    2    .    3
B      >   .   .    1    .    2
C          >   .    .    1

. waits, > arrives

  0  A arrives
 20  B arrives
 40  C arrives
100  A gets token 1 of 3
150  A gets token 2 of 3; B gets token 1 of 2
180  C gets token 1 of 1 and is done
200  A gets token 3 of 3 and is done; B gets token 2 of 2 and is done

ends: A 200 ms, B 200 ms, C 180 ms"""

CHUNKED = """\
Who sits where, and who waits?
2 requests, continuous batching, 2 seats, token budget 4, equal steps (derived)

step    1   2   3   4
seat 1  A*  A   A   A
seat 2  .   B*  B*  B*

step    5   6
seat 1  .   .
seat 2  B*  B

* prefill, . idle seat (and whose it still is)

1  prefill done: A token 1 of 4; idle: seat 2
2  decode: A token 2 of 4; prefill: B 3 of 10 prompt tokens
3  decode: A token 3 of 4; prefill: B 6 of 10 prompt tokens
4  decode: A token 4 of 4; prefill: B 9 of 10 prompt tokens; A finished
5  prefill done: B token 1 of 2; idle: seat 1
6  decode: B token 2 of 2; B finished; idle: seat 1

ends: A step 4, B step 6"""

PREEMPTED = """\
Who sits where, and who waits?
2 requests, continuous batching, 2 seats, token budget 4, 4 blocks, equal steps (derived)

step    1   2   3   4  5  6  7   8   9  10
seat 1  A*  A   A   A  A  A  B~  B~  B  B
seat 2  .   B*  B*  B  B  .  .   .   .  .
queue   B                 B

* prefill, ~ recompute, . idle seat (and whose it still is)

 1  prefill done: A token 1 of 6; idle: seat 2; waiting: B
 2  decode: A token 2 of 6; prefill: B 3 of 4 prompt tokens
 3  decode: A token 3 of 6; prefill done: B token 1 of 6
 4  decode: A token 4 of 6, B token 2 of 6
 5  decode: A token 5 of 6, B token 3 of 6
 6  decode: A token 6 of 6; A finished; B was preempted; idle: seat 2; waiting: B
 7  recompute: B 4 of 7 tokens; idle: seat 2
 8  recompute done: B token 4 of 6; idle: seat 2
 9  decode: B token 5 of 6; idle: seat 2
10  decode: B token 6 of 6; B finished; idle: seat 2

ends: A step 6, B step 10"""

STALLED = """\
step    1   2   3   4  5
seat 1  A*  A   A   A  B~
seat 2  B*  B.  B.  .  .
queue               B

* prefill, ~ recompute, . idle seat (and whose it still is)

1  prefill done: A token 1 of 4; prefill: B 2 of 4 prompt tokens
2  decode: A token 2 of 4; stalled: B; idle: seat 2 (still B's)
3  decode: A token 3 of 4; stalled: B; idle: seat 2 (still B's)
4  decode: A token 4 of 4; A finished; B was preempted; idle: seat 2; waiting: B
5  recompute done: B token 1 of 1; B finished; idle: seat 2"""

GIVEN_UP = """\
step    1   2    3  4
seat 1  A*  A    A  A
queue   D   D B  B

* prefill

1  prefill done: A token 1 of 4; C refused; waiting: D
2  decode: A token 2 of 4; D cancelled; waiting: D, B
3  decode: A token 3 of 4; B timed out; waiting: B
4  decode: A token 4 of 4; A finished

ends: A step 4, D cancelled step 2, B timed out step 3, C refused step 1"""


def preempted_run() -> Trace:
    policy = lab.Continuous(seats=2, blocks=4, block_tokens=4, token_budget=4)
    return run({"A": (0, 4, 6), "B": (0, 4, 6)}, policy)


def stalled_run() -> Trace:
    policy = lab.Continuous(seats=2, blocks=3, block_tokens=2, token_budget=4)
    return run({"A": (0, 2, 4), "B": (0, 4, 1)}, policy)


def chunked_run() -> Trace:
    return run({"A": (0, 3, 4), "B": (1, 10, 2)}, lab.Continuous(seats=2, token_budget=4))


def given_up_run() -> Trace:
    rows: dict[str, Any] = {
        "A": (0, 3, 4),
        "B": {"arrival": 1, "prompt": 1, "output": 9, "deadline": 3},
        "C": (1, 99, 1),
        "D": {"arrival": 0, "prompt": 1, "output": 9, "cancel_at": 2},
    }
    return run(rows, lab.Continuous(seats=1, blocks=4))


# Golden texts


def test_the_static_schedule_of_two_seats() -> None:
    assert lab.timeline(run(TWO_SEATS, lab.Static(seats=2))).text() == STATIC


def test_the_continuous_schedule_of_two_seats() -> None:
    assert lab.timeline(run(TWO_SEATS, lab.Continuous(seats=2))).text() == CONTINUOUS


def test_the_given_table_of_three_requests() -> None:
    assert lab.timeline(given_table()).text() == GIVEN


def test_a_chunked_prefill_broken_to_a_narrow_page() -> None:
    assert lab.timeline(chunked_run()).text(width=24) == CHUNKED


def test_a_preemption_and_what_is_computed_again() -> None:
    assert lab.timeline(preempted_run()).text() == PREEMPTED


def test_a_seat_that_stalls_keeps_its_owner_and_the_caption_says_so() -> None:
    assert STALLED in lab.timeline(stalled_run()).text()


def test_those_who_end_without_an_answer_are_told() -> None:
    assert lab.timeline(given_up_run()).text().endswith(GIVEN_UP)


def test_two_tokens_of_one_moment_are_both_told() -> None:
    work = lab.Workload.given({"A": (5, 1, 3)})
    scene = lab.timeline(lab.given({"A": [10, 10, 20]}, work))
    assert "A   >  2   3" in scene.text()
    assert scene.frames[1].caption == "A gets token 1 of 3; A gets token 2 of 3"


def test_a_clock_in_milliseconds_labels_its_steps_with_their_starts() -> None:
    cost = lab.CostModel.affine(10, 1, 2, unit="ms")
    scene = lab.timeline(run({"A": (0, 3, 4)}, lab.Continuous(seats=1), cost))
    assert [frame.label for frame in scene.frames] == ["0", "13", "25", "37"]
    assert scene.finding == "ends: A 49 ms"


def test_thirds_are_shown_as_thirds() -> None:
    cost = lab.CostModel.equal_steps(Fraction(1, 3), "s")
    scene = lab.timeline(run({"A": (0, 3, 3)}, lab.Continuous(seats=1), cost))
    assert [frame.label for frame in scene.frames] == ["0", "1/3", "2/3"]
    assert scene.finding == "ends: A 1 s"


def test_several_tokens_of_one_step_are_told_from_the_first_to_the_last() -> None:
    model = Scripted(accepts=lambda request_id, start: 2)
    asked = [ask("A", 2, 5)]
    trace = served(asked, lab.Continuous(seats=1, draft_tokens=2), model, repeats=False)
    assert [frame.caption for frame in lab.timeline(trace).frames] == [
        "prefill done: A token 1 of 5",
        "decode: A tokens 2 to 4 of 5",
        "decode: A token 5 of 5; A finished",
    ]


def test_thousands_are_told_apart() -> None:
    rows = {"A": {"prompt": 1900, "output": 1200, "cancel_at": 2}}
    trace = run(rows, lab.Continuous(seats=1, token_budget=1800))
    scene = lab.timeline(trace)
    assert "token budget 1,800" in scene.conditions
    assert [frame.caption for frame in scene.frames] == [
        "prefill: A 1,800 of 1,900 prompt tokens",
        "prefill done: A token 1 of 1,200; A cancelled",
    ]


def test_title_and_finding_may_be_given() -> None:
    scene = lab.timeline(given_table(), title="Who wins?", finding="B wins.")
    assert (scene.title, scene.finding) == ("Who wins?", "B wins.")


def test_a_trace_of_another_maker_with_steps_is_tagged_measured() -> None:
    trace = run(TWO_SEATS, lab.Static(seats=2))
    trace.settings["maker"] = "live"
    assert lab.timeline(trace).tag == "measured"


# Too long


def test_a_timeline_of_the_most_steps_is_drawn_and_one_more_is_refused() -> None:
    assert len(lab.timeline(run({"A": (0, 1, MOST_STEPS)}, lab.Continuous())).frames) == MOST_STEPS
    with pytest.raises(
        ValueError, match="at most 400 steps, and this trace has 401: draw its load"
    ):
        lab.timeline(run({"A": (0, 1, MOST_STEPS + 1)}, lab.Continuous()))


def test_a_given_table_may_be_too_long_as_well() -> None:
    work = lab.Workload.given({"A": (0, 1, 500)})
    with pytest.raises(ValueError, match="this trace has 501"):
        lab.timeline(lab.given({"A": list(range(500))}, work))


# Rules for every figure


def many_runs() -> Iterator[Trace]:
    yield from (preempted_run(), stalled_run(), chunked_run(), given_up_run())
    rows: dict[str, Any] = {f"r{i}": (i * 2 % 5, 1 + i * 5 % 9, 1 + i * 3 % 7) for i in range(9)}
    rows["r3"] = {"arrival": 1, "prompt": 3, "output": 6, "cancel_at": 5}
    rows["r6"] = {"arrival": 2, "prompt": 2, "output": 6, "deadline": 12}
    for seats in (1, 2, 3):
        yield run(rows, lab.Static(seats=seats, timeout=2))
        yield run(rows, lab.Continuous(seats=seats))
        yield run(rows, lab.Continuous(seats=seats, token_budget=seats + 1))
        yield run(rows, lab.Continuous(seats=seats, blocks=8, block_tokens=2, order="priority"))
        cost = lab.CostModel.affine(5, Fraction(1, 3), 1, unit="ms")
        yield run(rows, lab.Continuous(seats=seats, blocks=8, block_tokens=2), cost)


RUNS = list(many_runs())
PARTS = (
    r"(prefill|recompute)( done)?: |decode: ",
    r"\w+ (finished|cancelled|timed out|refused)$",
    r"\w+ was preempted$",
    "stalled: ",
    "idle: ",
    "waiting: ",
)


def seats_of(scene: Scene) -> list[str]:
    return [lane for lane in scene.lanes if lane.startswith("seat")]


@pytest.mark.parametrize("trace", [*RUNS, given_table()])
def test_ids_of_marks_are_unique(trace: Trace) -> None:
    ids = [mark.id for mark in lab.timeline(trace).marks]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("trace", RUNS)
def test_marks_cover_every_seat_in_every_step(trace: Trace) -> None:
    scene = lab.timeline(trace)
    places = [(m.lane, m.start, m.stop) for m in scene.marks if m.lane != "queue"]
    want = [(lane, step.start, step.end) for lane in seats_of(scene) for step in trace.steps()]
    assert sorted(places) == sorted(want)
    assert len(scene.frames) == trace.num_steps


@pytest.mark.parametrize("trace", RUNS)
def test_a_mark_is_a_chunk_and_an_idle_seat_is_none(trace: Trace) -> None:
    scene = lab.timeline(trace)
    seats = seats_of(scene)
    for step in trace.steps():
        there = {lane: scene.at(lane, step.start) for lane in seats}
        busy = {lane: mark.who for lane, mark in there.items() if mark and mark.role != "idle"}
        assert busy == {seats[chunk.seat]: chunk.request_id for chunk in step.chunks}


@pytest.mark.parametrize("trace", RUNS)
def test_every_caption_names_who_waits(trace: Trace) -> None:
    scene = lab.timeline(trace)
    for step, frame in zip(trace.steps(), scene.frames, strict=True):
        waiting = [
            record.id
            for record in trace.requests
            if record.arrival <= step.start
            and (record.end or 0) > step.start
            and not any(s.first <= step.number < (s.stop or 0) for s in record.stays)
        ]
        said = [part for part in frame.caption.split("; ") if part.startswith("waiting: ")]
        assert said == ([f"waiting: {', '.join(waiting)}"] if waiting else [])
        queue = scene.at("queue", step.start)
        assert (queue.label if queue else "") == " ".join(waiting)


@pytest.mark.parametrize("trace", RUNS)
def test_every_caption_names_the_idle_seats_of_its_step_and_whose_they_still_are(
    trace: Trace,
) -> None:
    scene = lab.timeline(trace)
    for step, frame in zip(trace.steps(), scene.frames, strict=True):
        busy = {chunk.seat for chunk in step.chunks}
        owners = {
            stay.seat: record.id
            for record in trace.requests
            for stay in record.stays
            if stay.first <= step.number < (stay.stop or 0)
        }
        idle = [
            lane + (f" (still {owners[seat]}'s)" if seat in owners else "")
            for seat, lane in enumerate(seats_of(scene))
            if seat not in busy
        ]
        said = [part for part in frame.caption.split("; ") if part.startswith("idle: ")]
        assert said == ([f"idle: {', '.join(idle)}"] if idle else [])


@pytest.mark.parametrize("trace", RUNS)
def test_the_parts_of_a_caption_keep_their_order(trace: Trace) -> None:
    for frame in lab.timeline(trace).frames:
        parts = frame.caption.split("; ")
        order = [i for part in parts for i, known in enumerate(PARTS) if re.match(known, part)]
        assert order == sorted(order)
        assert len(order) == len(parts)


@pytest.mark.parametrize("trace", RUNS)
def test_every_caption_tells_who_was_computed_and_nobody_twice(trace: Trace) -> None:
    for step, frame in zip(trace.steps(), lab.timeline(trace).frames, strict=True):
        deeds = ("prefill", "decode", "recompute")
        told = [part for part in frame.caption.split("; ") if part.startswith(deeds)]
        names = [who.split()[0] for part in told for who in part.split(": ")[1].split(", ")]
        assert sorted(names) == sorted(chunk.request_id for chunk in step.chunks)


@pytest.mark.parametrize("trace", RUNS)
def test_every_end_is_told_in_one_caption_or_happened_outside_the_steps(trace: Trace) -> None:
    captions = [frame.caption.split("; ") for frame in lab.timeline(trace).frames]
    steps = list(trace.steps())
    for record in trace.requests:
        told = sum(f"{record.id} {record.status}" in parts for parts in captions)
        within = any(s.start < (record.end or 0) <= s.end for s in steps)
        assert told == within
        assert within or record.status != "finished"


def test_a_further_answer_has_its_seat_and_waits_there_for_the_prompt() -> None:
    rows: dict[str, Any] = {"A": {"prompt": 9, "output": 2, "n": 2}, "B": (0, 1, 1)}
    work = lab.Workload.given(rows)
    policy = lab.Continuous(seats=2, token_budget=4)
    scene = lab.timeline(lab.simulate(work, policy, lab.CostModel.equal_steps()))
    there = [scene.at("seat 2", step) for step in range(4)]
    assert [mark.sign for mark in there if mark] == ["A#2&", "A#2&", "A#2*", "A#2"]
    assert scene.frames[0].caption == (
        "prefill: A 4 of 9 prompt tokens; waiting for the prompt that they share: A#2; waiting: B"
    )
    assert [mark.label for mark in scene.marks if mark.role == "queued"] == ["B"] * 4


def test_a_further_answer_that_never_begins_has_a_seat_that_nobody_knows() -> None:
    rows: dict[str, Any] = {"A": {"prompt": 9, "output": 2, "n": 2, "cancel_at": 1}}
    policy = lab.Continuous(seats=2, token_budget=4)
    work = lab.Workload.given(rows)
    scene = lab.timeline(lab.simulate(work, policy, lab.CostModel.equal_steps()))
    assert scene.lanes == ("seat 1",)
    assert "waiting for the prompt that they share: A#2" in scene.frames[0].caption


def test_who_is_swapped_out_is_preempted_and_the_caption_says_where_the_blocks_are() -> None:
    work = lab.Workload.given({"A": (0, 4, 3), "B": (0, 4, 3)})
    policy = lab.Continuous(blocks=3, block_tokens=4, preemption="swap")
    scene = lab.timeline(lab.simulate(work, policy, lab.CostModel.equal_steps()))
    assert "B was preempted, its blocks moved to host memory" in scene.frames[1].caption
