"""Pipelines: timetables of small runs, and bubbles by running against bubbles by formula."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ledgers.pipeline import bubble_of_all, bubble_of_work, pipeline
from lab.worked_numbers import entry, worked

GPIPE, TURNING = "all-forward", "one-forward-one-backward"
counts = st.integers(1, 6)
times = st.lists(st.integers(0, 7), min_size=1, max_size=5)
trained = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=5)


def board(run):
    """What a teacher writes down: a line a stage, a letter a unit of time."""
    lines = []
    for stage in range(run.stages):
        line = ["."] * run.end
        for task, start, stop in run.of_stage(stage):
            letter = str(task.microbatch) if task.kind == "forward" else "abcdef"[task.microbatch]
            line[start:stop] = letter * (stop - start)
        lines.append("".join(line))
    return lines


def test_microbatches_pass_the_stages_one_behind_the_other():
    assert board(pipeline([1, 1, 1], 4)) == ["0123..", ".0123.", "..0123"]


def test_all_go_forward_before_the_first_comes_back():
    run = pipeline([1, 1, 1], 3, backward=[2, 2, 2], schedule=GPIPE)
    assert board(run) == ["012......aabbcc", ".012...aabbcc..", "..012aabbcc...."]


def test_backwards_as_soon_as_the_pipeline_is_full():
    run = pipeline([1, 1, 1], 4, backward=[1, 1, 1], schedule=TURNING)
    assert board(run) == ["012..a3b.c.d", ".01.a2b3c.d.", "..0a1b2c3d.."]


def test_one_sequence_crosses_all_stages_for_every_token():
    alone = pipeline([1, 1], 1, tokens=3)
    assert board(alone) == ["0.0.0.", ".0.0.0"]
    assert alone.bubble_of_all == Fraction(1, 2)
    assert board(pipeline([1, 1], 2, tokens=3)) == ["010101.", ".010101"]


def test_the_fast_stage_waits_for_the_slow_one():
    run = pipeline([1, 3], 3)
    assert board(run) == ["012.......", ".000111222"]
    assert [run.idle(stage) for stage in (0, 1)] == [7, 1]


def test_what_lies_between_stages_overlaps_with_their_work():
    assert board(pipeline([1, 1], 2, transfer=2)) == ["01...", "...01"]


def test_a_stage_needs_no_transfer_from_itself():
    run = pipeline([1, 1], 1, backward=[1, 1], schedule=GPIPE, transfer=2)
    assert board(run) == ["0......a", "...0a..."]


@given(counts, counts, st.integers(1, 9), st.integers(0, 9), st.sampled_from((GPIPE, TURNING)))
def test_bubbles_by_running_are_bubbles_by_formula(stages, microbatches, ahead, back, schedule):
    run = pipeline([ahead] * stages, microbatches, backward=[back] * stages, schedule=schedule)
    assert run.end == (microbatches + stages - 1) * (ahead + back)
    assert run.bubble_of_all == bubble_of_all(stages, microbatches)
    assert run.bubble_of_work == bubble_of_work(stages, microbatches)
    forward = pipeline([ahead] * stages, microbatches)
    assert forward.bubble_of_all == bubble_of_all(stages, microbatches)
    assert forward.bubble_of_work == bubble_of_work(stages, microbatches)


@given(counts, counts)
def test_the_two_denominators_say_the_same(stages, microbatches):
    of_all, of_work = bubble_of_all(stages, microbatches), bubble_of_work(stages, microbatches)
    assert of_work == of_all / (1 - of_all)
    assert of_all <= of_work


@given(counts, counts)
def test_turning_early_keeps_less_in_flight_in_the_same_time(stages, microbatches):
    runs = [
        pipeline([1] * stages, microbatches, backward=[2] * stages, schedule=schedule)
        for schedule in (GPIPE, TURNING)
    ]
    for stage in range(stages):
        kept = [run.in_flight(stage) for run in runs]
        assert kept == [microbatches, min(microbatches, stages - stage)]


@given(times, counts, st.integers(1, 3), st.integers(0, 3))
def test_nobody_works_twice_at_once_or_before_its_turn(forward, microbatches, tokens, transfer):
    run = pipeline(forward, microbatches, tokens=tokens, transfer=transfer)
    assert len(run.spans) == len(forward) * microbatches * tokens
    done = {span.task: span for span in run.spans}
    for task, start, stop in run.spans:
        assert stop - start == forward[task.stage]
        if task.stage:
            before = done[task._replace(stage=task.stage - 1)]
            assert start >= before.stop + transfer
        elif task.token:
            last = done[task._replace(stage=len(forward) - 1, token=task.token - 1)]
            assert start >= last.stop + (transfer if len(forward) > 1 else 0)
    for stage in range(len(forward)):
        mine = run.of_stage(stage)
        assert all(a.stop <= b.start for a, b in pairwise(mine))


@given(trained, counts, st.sampled_from((GPIPE, TURNING)))
def test_backward_passes_need_their_forward_ones_and_the_stage_behind(both, microbatches, schedule):
    forward, back = zip(*both, strict=True)
    run = pipeline(forward, microbatches, backward=back, schedule=schedule)
    done = defaultdict(dict)
    for task, start, stop in run.spans:
        done[task.kind][task.stage, task.microbatch] = (start, stop)
    assert len(done["forward"]) == len(done["backward"]) == len(forward) * microbatches
    for (stage, m), (start, _) in done["backward"].items():
        assert start >= done["forward"][stage, m][1]
        if stage + 1 < len(forward):
            assert start >= done["backward"][stage + 1, m][1]


def test_four_times_the_stages_leave_a_fifth_and_not_nothing():
    for stages in range(2, 40):
        of_all, of_work = bubble_of_all(stages, 4 * stages), bubble_of_work(stages, 4 * stages)
        assert of_all == Fraction(stages - 1, 5 * stages - 1) < Fraction(1, 5)
        assert of_work == Fraction(stages - 1, 4 * stages) < Fraction(1, 4)
    assert bubble_of_all(2, 8) == Fraction(1, 9)
    assert bubble_of_all(39, 156) > Fraction(19, 100)


def test_the_ledgers_bubble_is_run():
    inputs = entry("parallel-pp-bubble-count").inputs
    runs = [pipeline([1] * inputs["stages"], m) for m in inputs["micro_batches"]]
    worked(
        "parallel-pp-bubble-count",
        {
            "makespan": [run.end for run in runs],
            "idle_stage_slots": [sum(map(run.idle, (0, 1))) for run in runs],
            "occupancy": [1 - run.bubble_of_all for run in runs],
        },
    )


def test_the_table_counts_each_stage():
    text = repr(pipeline([1, 1], 4, backward=[1, 1], schedule=TURNING))
    assert text.splitlines() == [
        "2 stages, 4 microbatches, done after 10",
        "stage  busy  idle  in flight",
        "-----  ----  ----  ---------",
        "    0     8     2          2",
        "    1     8     2          1",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pipeline([1], 1, backward=[1], schedule="1f1b"), "inference, all-.*got '1f1b'"),
        (lambda: bubble_of_all(0, 4), "stages must be at least 1, got 0"),
        (lambda: bubble_of_work(4, 0), "microbatches must be at least 1, got 0"),
        (lambda: pipeline([], 1), "stages must be at least 1, got 0"),
        (lambda: pipeline([1], 0), "microbatches must be at least 1, got 0"),
        (lambda: pipeline([1], 1, tokens=0), "tokens must be at least 1, got 0"),
        (lambda: pipeline([1], 1, schedule=GPIPE), "needs 1 backward times, got 0"),
        (lambda: pipeline([1], 1, backward=[1]), "inference needs 0 backward times, got 1"),
        (lambda: pipeline([1, -1], 1), "must not be negative"),
        (
            lambda: pipeline([1], 1, backward=[1], schedule=GPIPE, tokens=2),
            "a schedule with backward passes has 1 token, got 2",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
