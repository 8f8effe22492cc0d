"""The figure of a pipeline, and what-ifs of chapter 11 that are drawn on lanes."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.figures.pipeline import name_of, pipeline_figure
from lab.ledgers.pipeline import SCHEDULES, pipeline
from lab.what_ifs.parallel import BATCHES, DEVICES, LINKS, MODELS, microbatches, more_devices

TURNING = """\
Which stage works, and which waits?
2 stages, 3 microbatches, forward and backward (derived)

step     1  2  3   4   5   6   7   8
stage 0  A  B  .   A'  C   B'  .   C'
stage 1  .  A  A'  B   B'  C   C'  .

' backward, . bubble: a stage waits

1  stage 0 A; idle: stage 1; bubble so far: 1
2  stage 0 B, stage 1 A; bubble so far: 1
3  stage 1 A back; idle: stage 0; bubble so far: 2
4  stage 0 A back, stage 1 B; bubble so far: 2
5  stage 0 C, stage 1 B back; bubble so far: 2
6  stage 0 B back, stage 1 C; bubble so far: 2
7  stage 1 C back; idle: stage 0; bubble so far: 3
8  stage 0 C back; idle: stage 1; bubble so far: 4

Done after 8 steps; 4 of 16 steps of all stages are idle. The bubble is 1/4 of all time, and 1/3 \
of the time at work."""

TOKENS = """\
step     1   2   3   4
stage 0  A1  .   A2  .
stage 1  .   A1  .   A2"""


def test_a_pipeline_in_words():
    run = pipeline([1, 1], 3, backward=[1, 1], schedule="one-forward-one-backward")
    assert pipeline_figure(run).text() == TURNING


def test_a_sequence_comes_round_for_every_token():
    assert TOKENS in pipeline_figure(pipeline([1, 1], 1, tokens=2)).text()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from(SCHEDULES),
)
def test_work_and_bubbles_fill_every_lane_to_the_end(times, count, schedule):
    back = None if schedule == "inference" else times
    run = pipeline(times, count, backward=back, schedule=schedule)
    scene = pipeline_figure(run)
    for stage, lane in enumerate(scene.lanes):
        mine = sorted((m for m in scene.marks if m.lane == lane), key=lambda mark: mark.start)
        assert [mark.start for mark in mine] == [0, *(mark.stop for mark in mine[:-1])]
        assert mine[-1].stop == run.end
        idle = sum(m.stop - m.start for m in mine if m.role == "bubble")
        assert idle == run.idle(stage)
    total = sum(run.idle(stage) for stage in range(run.stages))
    assert scene.frames[-1].caption.endswith(f"bubble so far: {total}")
    waits = [mark for mark in scene.marks if mark.role == "bubble"]
    ends = [*(frame.at for frame in scene.frames[1:]), run.end]
    for frame, end in zip(scene.frames, ends, strict=True):
        so_far = sum(max(0, min(mark.stop, end) - mark.start) for mark in waits)
        assert frame.caption.endswith(f"bubble so far: {so_far}")


def test_microbatches_have_names():
    assert [name_of(number) for number in (0, 25, 26)] == ["A", "Z", "27"]


def test_a_way_back_takes_the_time_of_the_way_forward():
    ahead, both, turning = (microbatches(2, 4, schedule)[0] for schedule in range(3))
    assert ahead.finding.startswith("Done after 5 steps; 2 of 10")
    assert both.finding.startswith("Done after 10 steps; 4 of 20")
    assert turning.finding == both.finding
    assert turning.marks != both.marks


def test_a_slow_last_stage_makes_the_others_wait():
    slow = pipeline_figure(pipeline([1, 2], 4))
    assert slow.finding.startswith("Done after 9 steps; 6 of 18")


@pytest.mark.parametrize("at", list(product(range(3), range(4), range(4))), ids=str)
def test_the_bars_of_more_devices_end_with_the_token(at):
    (scene,) = more_devices(*at)
    ends = {lane: max(m.stop for m in scene.marks if m.lane == lane) for lane in scene.lanes}
    assert len(ends) == len(DEVICES)
    assert [frame.at for frame in scene.frames[1:]] == pytest.approx(sorted(ends.values()))
    first = min(ends, key=ends.__getitem__)
    assert scene.finding.startswith(f"First {first} after ")
    assert not [m for m in scene.marks if m.lane == "1 device" and m.role != "decode"]


def test_more_devices_win_or_lose_by_model_link_and_batch():
    firsts = {
        (MODELS[m], LINKS[w], BATCHES[b]): more_devices(m, w, b)[0].finding.split()[1]
        for m, w, b in product(range(3), range(4), (0, 3))
    }
    assert firsts["llama-3-8b", "nvlink-4", 1] == "8"
    assert firsts["llama-3.2-1b", "pcie-5", 1] == "4"
    assert firsts["llama-3-8b", "ethernet-100g", 1] == "4"
    assert firsts["llama-3-8b", "ethernet-100g", 512] == "1"
    assert firsts["llama-3-8b", "ethernet-10g", 1] == "1"
    assert firsts["llama-3-70b", "ethernet-10g", 1] == "4"
