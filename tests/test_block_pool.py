"""The block pool as a figure: golden texts, and what every frame of every run must say."""

from __future__ import annotations

from typing import Any

import pytest
from drawn_runs import Scripted, ask, crowded, scripted, served, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

import lab
from lab.figures.grid import Grid
from lab.figures.pool_states import MOST_STEPS
from lab.policy import Continuous, Policy, Static
from lab.request import Request

EQUAL = lab.CostModel.equal_steps()


def pool(rows: dict[str, Any], policy: Policy, cost: lab.CostModel = EQUAL) -> Grid:
    work = lab.Workload.given(rows)
    trace = lab.simulate(work, policy, cost)
    trace.check()
    return lab.block_pool(trace, work)


def captions(grid: Grid) -> list[str]:
    return [frame.caption for frame in grid.frames]


def notes(grid: Grid, frame: int) -> list[str]:
    return [cell.note for cell in grid.frames[frame].cells]


# Golden texts

SHARED = """\
Which block belongs to whom?
3 requests, continuous batching, 3 seats, 6 blocks, equal steps, 4 tokens in a block (derived)

  1  A: 0& 1&[2/4] | A#2: 0& 1&[2/4] | free: 2 3 4 5
     2 used + 0 cached + 4 free = 6 blocks; 2 of 8 slots in used blocks empty
     A takes blocks 0 1 for 6 tokens; A#2 goes on from A's prompt and shares blocks 0 1
  2  A: 0& 2[3/4] | A#2: 0& 1[3/4] | B: 3 4[1/4] | free: 5
     5 used + 0 cached + 1 free = 6 blocks; 5 of 20 slots in used blocks empty
     A copies block 1 to block 2 and writes there, since A#2 held 1 too; \
B takes blocks 3 4 for 5 tokens
  3  A: 0& 2 | A#2: 0& 1 | B: 3 4[2/4] | free: 5
     5 used + 0 cached + 1 free = 6 blocks; 2 of 20 slots in used blocks empty
     A, A#2 and B write into blocks held already
  4  A: 0& 2 3[1/4] | A#2: 0& 1 4[1/4] | free: 5
     5 used + 0 cached + 1 free = 6 blocks; 6 of 20 slots in used blocks empty
     blocks ran out: B loses its seat and gives back blocks 3 4; A takes block 3 for 1 token; \
A#2 takes block 4 for 1 token
  5  A: 0& 2 3[2/4] | A#2: 0& 1 4[2/4] | free: 5
     5 used + 0 cached + 1 free = 6 blocks; 4 of 20 slots in used blocks empty
     A and A#2 write into blocks held already
  6  B: 0 1[3/4] | free: 2 3 4 5
     2 used + 0 cached + 4 free = 6 blocks; 1 of 8 slots in used blocks empty
     A, finished, gives back blocks 0 2 3; A#2, finished, gives back blocks 0 1 4; \
B takes blocks 0 1 for 7 tokens
  7  B: 0 1 | free: 2 3 4 5
     2 used + 0 cached + 4 free = 6 blocks; 0 of 8 slots in used blocks empty
     B writes into blocks held already
end  free: 0 1 2 3 4 5
     0 used + 0 cached + 6 free = 6 blocks
     B, finished, gives back blocks 0 1

3[1/4] is block 3 with 1 of its 4 slots filled, 3& is block 3, held by others too

at most 5 of 6 blocks in use at once, and at most 6 slots empty in last blocks; \
1 block copied before a write"""


def test_two_answers_share_their_prompt_until_one_writes() -> None:
    rows = {"A": {"prompt": 6, "output": 5, "n": 2}, "B": (1, 5, 4)}
    grid = pool(rows, Continuous(seats=3, blocks=6, block_tokens=4))
    assert grid.text() == SHARED
    assert notes(grid, 0) == ["forked", "forked", "", "", "", ""]
    assert notes(grid, 1) == ["", "copied to 2", "copy of 1", "new", "new", ""]
    assert notes(grid, 3) == ["", "", "", "new", "new", ""]


REUSED = [
    "A takes blocks 0 1 2 for 9 tokens",
    "B finds its first 8 tokens in blocks 0 1, held by A, and takes block 3 for 2 tokens",
    "A, finished, gives back blocks 0 1 2; blocks 0 1 stay with B",
    "B, finished, gives back blocks 0 1 3; blocks 0 1 stay cached; "
    "C finds its first 4 tokens in block 0, cached, and takes block 3 for 4 tokens",
    "C, finished, gives back blocks 0 3; blocks 0 3 stay cached; "
    "cached blocks 1 3 are given up for D, since none is free; D takes blocks 2 1 3 for 10 tokens",
    "D, finished, gives back blocks 2 1 3; blocks 2 1 stay cached",
]


def test_what_is_known_is_found_kept_and_given_up() -> None:
    start = tuple(range(8))
    rows = {
        "A": (0, (*start, 8), 2),
        "B": (1, (*start, 20, 21), 2),
        "C": (5, (*start[:4], 30, 31, 32, 33), 1),
        "D": (6, 10, 1),
    }
    work = lab.Workload.given(rows)
    policy = Continuous(seats=3, blocks=4, block_tokens=4, prefix_cache=True)
    grid = lab.block_pool(lab.simulate(work, policy, EQUAL), work)
    assert captions(grid) == REUSED
    assert notes(grid, 1) == ["hit", "hit", "", "new"]
    assert notes(grid, 2) == ["", "", "given back", ""]
    assert notes(grid, 3) == ["hit", "kept", "", "new"]
    assert notes(grid, 4) == ["kept", "evicted, new", "new", "evicted, new"]
    assert "2 cached blocks given up" in grid.finding


def test_blocks_move_to_host_memory_and_back() -> None:
    rows = {"A": (0, 4, 5), "B": (0, 4, 5)}
    policy = Continuous(seats=2, blocks=6, block_tokens=2, preemption="swap")
    grid = pool(rows, policy, EQUAL.swapping(1))
    told = captions(grid)
    out = next(i for i, text in enumerate(told) if "host memory" in text)
    assert told[out].startswith("blocks ran out: B moves 3 blocks to host memory and leaves blocks")
    assert grid.frames[out].aside == {"B": "3 blocks in host memory"}
    back = next(i for i, text in enumerate(told) if "back from host memory" in text)
    assert "B moves 3 blocks back from host memory into blocks" in told[back]
    assert notes(grid, back).count("moved in") == 3
    assert grid.frames[back].aside == {}


def test_a_guess_that_is_rejected_leaves_no_block() -> None:
    policy = Continuous(seats=1, blocks=6, block_tokens=2, draft_tokens=3)
    grid = lab.block_pool(served([ask("A", 3, 6)], policy, Scripted(lambda who, start: 1)))
    assert captions(grid)[1:3] == [
        "A takes blocks 2 3 for 4 tokens",
        "A gives back block 3: the guesses in it were rejected; A takes block 3 for 3 tokens",
    ]


def test_who_has_ended_keeps_its_blocks_in_a_static_batch() -> None:
    grid = pool({"A": (0, 3, 2), "B": (0, 5, 4)}, Static(seats=2, blocks=6, block_tokens=4))
    assert captions(grid)[2] == "A has ended and keeps its blocks, until its batch is over"
    assert captions(grid)[-1].startswith("A, finished, gives back block 0; B, finished, gives back")


# Every run


drawn = st.one_of(
    crowded(),
    crowded(drafts=True),
    st.tuples(workloads(), st.just(Static(seats=3, blocks=9, block_tokens=4))),
)


@settings(max_examples=60, deadline=None)
@given(drawn, scripted(failing=True))
def test_every_frame_says_what_changed(
    run: tuple[list[Request], Policy], executor: Scripted
) -> None:
    asked, policy = run
    trace = served(asked, policy, executor, repeats=False)
    if trace.num_steps > MOST_STEPS:
        return
    grid = lab.block_pool(trace, asked)  # which checks that cells and rows agree
    assert len(grid.frames) == trace.num_steps + 1
    before: tuple[Any, ...] = ()
    for frame in grid.frames:
        held = tuple((cell.role, cell.who) for cell in frame.cells)
        quiet = "held already" in frame.caption or frame.caption == "nobody holds a block"
        assert not quiet or not before or held == before
        before = held
    assert all(cell.role in ("free", "cached") for cell in grid.frames[-1].cells)
    copied = sum("copies block" in text for text in captions(grid))
    assert (copied > 0) == (lab.reuse(trace).copies > 0)


def test_titles_and_findings_can_be_given() -> None:
    trace = served([ask("A", 3, 2)], Continuous(seats=1, blocks=4))
    grid = lab.block_pool(trace, title="Whose?", finding="A's")
    assert (grid.title, grid.finding) == ("Whose?", "A's")


def test_a_prefix_cache_needs_the_workload() -> None:
    asked = [ask("A", 9, 2)]
    policy = Continuous(seats=1, blocks=4, block_tokens=4, prefix_cache=True)
    with pytest.raises(ValueError, match="give the workload too"):
        lab.block_pool(served(asked, policy))
