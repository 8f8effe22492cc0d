"""The request state machine: golden texts, and the rules that every run keeps."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from drawn_runs import Scripted, ask, cost_models, policies, scripted, served, workloads
from hypothesis import given

import lab
from lab.figures.board import Board
from lab.figures.states import _ORDERS, ENDINGS, SEATED
from lab.figures.timeline import MOST_STEPS
from lab.policy import RANKS, Policy
from lab.request import Request
from lab.trace import Trace

GOLDEN = Path(__file__).parent / "golden"
STEPS = lab.CostModel.equal_steps()


def run(rows: dict[str, Any], policy: Policy) -> Trace:
    return lab.simulate(lab.Workload.given(rows), policy, STEPS)


def captions(board: Board) -> list[str]:
    return [frame.caption for frame in board.frames]


def trays(board: Board, who: str) -> list[str | None]:
    places = [frame.places.get(who) for frame in board.frames]
    return [place.tray if place else None for place in places]


# Golden texts

PREEMPTED = """\
Where is each request, and why?
3 requests, continuous batching, 2 seats, token budget 8, 3 blocks, equal steps (derived)

  1  prefill: A[1] B[1]
     seated, prefill: A, B; A and B hold 1 block each
  2  waiting: B C | decode: A[2]
     prompt done, decodes: A; preempted since blocks ran out: B; arrived, waits: C; \
B gives back 1 block; A holds 2 blocks
  3  waiting: B | prefill: C[1] | decode: A[2]
     seated, prefill: C; does not fit, and C passes: B; C holds 1 block
  4  prefill: B[2] | finished: A C
     finished: A, C; seated again, computes all anew: B; A gives back 2 blocks; \
C gives back 1 block; B holds 2 blocks
  5  decode: B[2] | finished: A C
     caught up, decodes on: B
end  finished: A C B
     finished: B; B gives back 2 blocks

[2] carries 2 cache blocks

ends: A step 3, B step 5, C step 3"""

STATIC = """\
  1  prefill: A[1] B[1]
     seated, prefill: A, B; A and B hold 1 block each
  2  waiting: C | decode: A[1] B[1]
     prompt done, decodes: A, B; arrived, waits: C
  3  waiting: C | decode: B[1] | idle seat: A[1]
     finished, keeps its seat: A
  4  waiting: C | decode: B[1] | idle seat: A[1]
     nobody moves
  5  prefill: C[1] | finished: A B
     batch over, seat free: A; finished: B; seated, prefill: C; A and B give back 1 block each; \
C holds 1 block
end  finished: A B C
     finished: C; C gives back 1 block"""

OVERTAKEN = """\
  1  waiting: B | prefill: A[1]
     seated, prefill: A; arrived, waits: B; A holds 1 block
  2  waiting: C B | decode: A[1] | refused: D
     prompt done, decodes: A; arrived, waits: C; refused (request 'D' may need 26 blocks for 101 \
positions, and the pool has 10): D; slips back behind C: B
  3  waiting: B | prefill: C[1] | finished: A | refused: D
     finished: A; seated, prefill: C; A gives back 1 block; C holds 1 block
end  finished: A C | cancelled: B | refused: D
     cancelled (at 3): B; finished: C; C gives back 1 block"""


def test_a_preemption_empties_the_stack_and_the_prefill_fills_it_again() -> None:
    trace = lab.load(GOLDEN / "trace_preempted.json")
    assert lab.request_states(trace).text() == PREEMPTED


def test_a_static_batch_keeps_seat_and_blocks_of_those_who_have_ended() -> None:
    trace = run({"A": (0, 4, 2), "B": (0, 4, 4), "C": (1, 2, 1)}, lab.Static(seats=2))
    assert STATIC in lab.request_states(trace).text()


def test_being_overtaken_is_slipping_back() -> None:
    rows: dict[str, Any] = {
        "A": (0, 2, 2),
        "B": {"arrival": 0, "prompt": 2, "output": 2, "cancel_at": 3},
        "C": {"arrival": 1, "prompt": 2, "output": 1, "priority": 5},
        "D": {"arrival": 1, "prompt": 99, "output": 3},
    }
    policy = lab.Continuous(seats=1, order="priority", blocks=10, block_tokens=4)
    board = lab.request_states(run(rows, policy))
    assert OVERTAKEN in board.text()
    positions = [frame.places["B"].position for frame in board.frames[:3]]
    assert positions == [0, 1, 0]


def test_a_prefill_that_gets_no_blocks_is_stalled() -> None:
    policy = lab.Continuous(seats=2, blocks=3, block_tokens=2, token_budget=4)
    board = lab.request_states(run({"A": (0, 2, 4), "B": (0, 4, 1)}, policy))
    assert captions(board)[1].endswith("stalled, no blocks or budget left: B; A holds 2 blocks")
    assert trays(board, "B")[:4] == ["prefill", "prefill", "prefill", "waiting"]


def test_steps_that_take_no_time_are_told_apart_by_their_numbers() -> None:
    trace = served([ask("A", 2, 3)], lab.Continuous(seats=1), Scripted(duration=0), repeats=False)
    assert trays(lab.request_states(trace), "A") == ["prefill", "decode", "decode", "finished"]


def test_the_seats_are_one_group_and_so_are_the_ends() -> None:
    board = lab.request_states(run({"A": (0, 4, 2), "B": (0, 99, 4)}, lab.Continuous(blocks=1)))
    found = [(tray.name, tray.capacity, tray.group) for tray in board.trays]
    assert found == [
        ("waiting", None, ""),
        ("prefill", 256, "seats"),
        ("decode", 256, "seats"),
        ("finished", None, "ended"),
        ("refused", None, "ended"),
    ]


def test_title_and_finding_may_be_given() -> None:
    board = lab.request_states(run({"A": (0, 1, 1)}, lab.Continuous()), "Who?", "A.")
    assert (board.title, board.finding) == ("Who?", "A.")


def test_who_was_swapped_out_goes_on_with_its_blocks() -> None:
    policy = lab.Continuous(blocks=3, block_tokens=4, preemption="swap")
    board = lab.request_states(run({"A": (0, 4, 3), "B": (0, 4, 3)}, policy))
    assert trays(board, "B") == [
        *("prefill", "host memory", "host memory", "decode", "decode", "finished"),
    ]
    assert [frame.places["B"].stack for frame in board.frames] == [1, 1, 1, 2, 2, 0]
    assert "preempted since blocks ran out, moved to host memory: B" in board.frames[1].caption
    assert "goes on with its blocks from host memory: B" in board.frames[3].caption
    assert [tray.name for tray in board.trays] == [
        *("waiting", "prefill", "decode", "host memory", "finished"),
    ]


def test_a_further_answer_has_its_seat_while_its_prompt_is_computed() -> None:
    policy = lab.Continuous(seats=3, token_budget=4, blocks=20, block_tokens=4)
    board = lab.request_states(run({"A": {"prompt": 9, "output": 2, "n": 3}}, policy))
    assert trays(board, "A#2") == ["prefill", "prefill", "prefill", "decode", "finished"]
    assert [frame.places["A#3"].stack for frame in board.frames] == [0, 0, 3, 3, 0]
    assert "seated, waits for the prompt that it shares: A#2, A#3" in board.frames[0].caption
    assert "stalled" not in board.text()


# What has no board


def test_given_times_have_no_states() -> None:
    trace = lab.given({"A": [9]}, lab.Workload.given({"A": (0, 4, 1)}))
    with pytest.raises(ValueError, match="need steps, and this trace has only deliveries"):
        lab.request_states(trace)


def test_a_board_of_the_most_steps_is_drawn_and_one_more_is_refused() -> None:
    longest = run({"A": (0, 1, MOST_STEPS)}, lab.Continuous())
    assert len(lab.request_states(longest).frames) == MOST_STEPS + 1
    with pytest.raises(ValueError, match="at most 400 steps, and this trace has 401"):
        lab.request_states(run({"A": (0, 1, MOST_STEPS + 1)}, lab.Continuous()))


# Rules for every run

MOVES: dict[str | None, set[str]] = {
    None: {"waiting", "prefill", "refused", "cancelled", "timed out", "failed"},
    "waiting": {"prefill", "decode", "cancelled", "timed out", "failed"},
    "prefill": {
        *("decode", "waiting", "host memory", "idle seat"),
        *("finished", "cancelled", "timed out", "failed"),
    },
    "decode": {
        *("waiting", "host memory", "idle seat", "finished", "cancelled", "timed out", "failed"),
    },
    "host memory": {"waiting", "prefill", "decode", "cancelled", "timed out", "failed"},
    "idle seat": {"finished", "cancelled", "timed out"},
}


def check(trace: Trace) -> None:
    board = lab.request_states(trace)
    order = RANKS[trace.settings["order"]]
    numbers = {record.id: i for i, record in enumerate(trace.requests)}
    for record in trace.requests:
        way = trays(board, record.id)
        assert way[-1] == record.status
        for before, after in pairwise([None, *way]):
            assert after == before or after in MOVES.get(before, set())
    stacks = [{who: place.stack for who, place in f.places.items()} for f in board.frames]
    for frame, before, now in zip(board.frames, [{}, *stacks], stacks, strict=False):
        assert told_of_blocks(frame.caption) == changed_blocks(before, now)
    for step, frame in zip(trace.steps(), board.frames, strict=False):
        arrived = {record.id for record in trace.requests if record.arrival <= step.start}
        assert set(frame.places) == arrived
        lying = board.lying(frame)
        seated = [who for tray in SEATED for who in lying.get(tray, ())]
        assert {chunk.request_id for chunk in step.chunks} <= set(seated)
        carry = {*seated, *lying.get("host memory", ())}
        assert not any(place.stack for who, place in frame.places.items() if who not in carry)
        assert lying.get("waiting", []) == sorted(
            lying.get("waiting", []), key=lambda who: order(as_request(trace, who), numbers[who])
        )
        if trace.settings["blocks"]:
            stacked = sum(frame.places[who].stack for who in seated)
            assert stacked >= step.blocks_used, "what is shared counts for each who holds it"
            if not any(run.shares for record in trace.requests for run in record.runs):
                assert stacked == step.blocks_used


def told_of_blocks(caption: str) -> dict[str, tuple[bool, int]]:
    """Who gives back (True) how many blocks, or holds how many, as a caption tells it."""
    found = {}
    for part in caption.split("; "):
        if said := re.fullmatch(r"(.+) (gives?|holds?)( back)? (\d+) blocks?( each)?", part):
            names = re.split(", | and ", said[1])
            assert (len(names) > 1) == bool(said[5]) == (not said[2].endswith("s"))
            found.update(dict.fromkeys(names, (bool(said[3]), int(said[4]))))
    return found


def changed_blocks(before: dict[str, int], now: dict[str, int]) -> dict[str, tuple[bool, int]]:
    changes = {who: (stack, stack - before.get(who, 0)) for who, stack in now.items()}
    return {who: (by < 0, -by if by < 0 else to) for who, (to, by) in changes.items() if by}


def as_request(trace: Trace, who: str) -> Request:
    record = trace[who]
    return Request(
        id=who,
        prompt=range(record.prompt_tokens),
        max_tokens=record.max_tokens,
        arrival=record.arrival,
        priority=record.priority,
    )


@given(workloads(), policies(), cost_models)
def test_moves_follow_the_state_machine_and_stacks_the_pool(
    asked: Any, policy: Any, cost: Any
) -> None:
    check(served(asked, policy, cost))


@given(workloads(), policies(drafts=True), scripted(failing=True))
def test_they_do_so_with_drafts_and_failures(asked: Any, policy: Any, model: Any) -> None:
    check(served(asked, policy, model, repeats=False))


def test_every_order_of_the_policies_is_known() -> None:
    assert set(_ORDERS) == set(RANKS)


def test_the_trays_of_the_ends_are_the_ways_to_end() -> None:
    assert set(ENDINGS) == {"finished", "cancelled", "timed out", "refused", "failed"}
