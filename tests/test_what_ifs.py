"""What a reader may change in chapters 0, 1, 5 and 8: any values, and what they make."""

from __future__ import annotations

import json
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.figures.scene import Scene
from lab.ledgers.definitions import DEFINITIONS
from lab.what_ifs.attention import VALUES, WEIGHTS, merged_tiles
from lab.what_ifs.blocks import OWN, SIZES, SLOTS, shared_beginning
from lab.what_ifs.one_request import (
    example_log,
    one_log_many_definitions,
    one_request,
    one_task,
)
from lab.what_ifs.reading import side_by_side
from lab.worked_numbers import entry

times = st.integers(1, 500)


def lengths(scene: Scene) -> dict[str, int]:
    return {mark.id: mark.stop - mark.start for mark in scene.marks if mark.role != "span"}


@given(st.integers(0, 500), times, times, st.integers(1, 9), st.booleans())
def test_one_request_takes_the_times_that_it_is_given(queue, prefill, step, outputs, own_step):
    trace = one_request(queue, prefill, step, outputs, own_step)
    trace.check()
    row = lab.latency(trace)["A"]
    assert row.spans["queue"] == queue
    assert row.ttft == queue + prefill + own_step * step
    assert row.itl == (step,) * (outputs - 1)
    assert row.e2e == row.ttft + (outputs - 1) * step


@given(st.integers(0, 80), times, times, st.integers(0, 800))
def test_the_marks_of_a_task_are_its_parts_and_keep_their_ids(queue, prefill, step, database):
    (scene,) = one_task(queue, prefill, step, database)
    wanted = {"queue": queue, "prefill": prefill + step, "decode": 3 * step, "database": database}
    assert lengths(scene) == {part: time for part, time in wanted.items() if time}
    assert f"the user waits {sum(wanted.values())} ms" in scene.finding


def test_time_that_is_moved_from_queue_to_prompt_changes_no_metric():
    before, after = (one_task(*values, 20, 800)[0] for values in ((40, 60), (20, 80)))
    spans = [[m for m in scene.marks if m.role == "span"] for scene in (before, after)]
    assert spans[0] == spans[1]
    assert before.finding == after.finding


def test_every_choice_of_definitions_shows_the_value_of_the_ledger():
    for first_token in (0, 1):
        log = example_log(own_step=first_token == 0)
        for place, one in enumerate(DEFINITIONS["TPOT"]):
            (scene,) = one_log_many_definitions(first_token, 0, place, 0)
            assert f"TPOT {one.value(log)} ms: {one.name}" in scene.finding


def test_120_ms_are_reached_in_two_ways():
    own, fused = example_log(own_step=True), example_log(own_step=False)
    assert DEFINITIONS["TTFT"][0].value(own) == DEFINITIONS["TTFT"][1].value(fused) == 120


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6))
def test_two_workers_take_as_long_as_the_ledger_says(second, third, coordination):
    serial, parallel = side_by_side(second, third, coordination)
    job = lab.split([2, second, third, 1], together=(1, 2), coordination=coordination)
    ends = [max(mark.stop for mark in scene.marks) for scene in (serial, parallel)]
    assert ends == [job.serial, job.wait]
    work = sum(m.stop - m.start for m in parallel.marks if m.role != "idle")
    assert work == job.work
    assert f"a tie where coordination takes {job.breakeven} ms" in parallel.finding


@given(st.integers(1, 8), st.integers(2, 6), st.integers(1, 3), st.integers(0, 1))
def test_tiles_are_merged_to_the_plain_mean_and_their_mean_is_told_apart(weight, keys, tile, order):
    (scene,) = merged_tiles(weight, keys, tile, order)
    weights, values = [weight, *WEIGHTS[1:keys]], VALUES[:keys]
    whole = Fraction(sum(w * v for w, v in zip(weights, values, strict=True)), sum(weights))
    last = scene.marks[-1]
    assert (last.lane, last.label) == ("output", str(whole))
    assert f"merged: {whole}." in scene.finding or f"{whole}, is the answer" in scene.finding
    assert len(scene.frames) == -(-keys // tile)
    lanes = [[mark for mark in scene.marks if mark.lane == lane] for lane in scene.lanes]
    assert {len(lane) for lane in lanes} == {len(scene.frames)}
    first = "1" if tile == 1 or keys == 1 else f"1–{min(tile, keys)}"
    assert scene.marks[0 if order == 0 else len(scene.frames) - 1].label == first


def test_the_chapters_tiles_are_those_of_the_ledger():
    (scene,) = merged_tiles(4, 4, 2, 0)
    found = entry("flash-wrong-average-of-blocks")
    assert found.inputs["w"] == list(WEIGHTS[:4])
    assert found.inputs["v"] == list(VALUES[:4])
    wrong = found.wrong["equal_average"].value
    assert f"the mean of those is {wrong}, and is wrong" in scene.finding


@given(st.integers(0, 8), st.sampled_from(range(len(SIZES))))
def test_what_two_prompts_share_is_kept_once_as_far_as_it_fills_blocks(shared, size):
    (grid,) = shared_beginning(shared, size)
    tokens, last = SIZES[size], grid.frames[-1]
    assert len(last.cells) * tokens == SLOTS
    whole = shared // tokens
    assert [cell.role for cell in last.cells].count("shared") == whole
    positions = [shared + OWN + steps for steps in (2, 1)]  # B has had one step less
    assert [len(last.rows[who]) for who in "AB"] == [-(-n // tokens) for n in positions]
    filled = sum(positions) - whole * tokens
    used = sum(-(-n // tokens) for n in positions) - whole
    assert f"B finds {whole * tokens} of {shared} shared token" in grid.finding
    assert grid.finding.endswith(f"with {filled} filled slots and {used * tokens - filled} empty.")


def test_the_size_of_a_block_can_be_changed_on_a_page_without_python():
    widget = lab.what_if(
        shared_beginning,
        shared=lab.Knob(6, 0, 8, 1, "shared tokens", "tokens", kind="count"),
        size=lab.Knob.choice("tokens in a block", *map(str, SIZES), value=2),
    )
    assert len(widget.baked["results"]) == 9 * len(SIZES)
    assert len(json.dumps(widget.baked)) < 80_000
    assert "B finds 4 of 6 shared tokens" in repr(widget)
