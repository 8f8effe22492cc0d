"""Chapter 5, what the cache weighs: one memory cut into blocks of several sizes."""

from __future__ import annotations

from dataclasses import replace

from lab.executors.cost_model import CostModel
from lab.figures.block_pool import block_pool
from lab.figures.grid import Grid
from lab.ledgers.reuse import reuse
from lab.ledgers.words import counted
from lab.policy import Continuous
from lab.run import simulate
from lab.workload import Workload

SIZES = (1, 2, 4, 8)
"""Tokens in a block, as the choice offers them."""
SLOTS = 32
OWN = 3


def shared_beginning(shared: int, size: int) -> tuple[Grid]:
    """Memory for 32 tokens and two prompts: `shared` tokens are the same, 3 more are their own.

    `size` is the place of the block's size in 1, 2, 4, 8. B comes one step after A and finds what
    A has filled. With 6 shared tokens and blocks of 4 that is one block, and the two tokens behind
    it are computed and kept twice. The last frame is the last step in which both are there.
    """
    tokens = SIZES[size]
    start = tuple(range(shared))
    a, b = ((*start, *(place + i for i in range(OWN))) for place in (100, 200))
    rows = {"A": {"prompt": a, "output": 3}, "B": {"arrival": 1, "prompt": b, "output": 2}}
    work = Workload.given(rows)
    policy = Continuous(seats=2, blocks=SLOTS // tokens, block_tokens=tokens, prefix_cache=True)
    trace = simulate(work, policy, CostModel.equal_steps())
    grid = block_pool(trace, work, f"Blocks of {counted(tokens, 'token')}: what is kept once?")
    frames = grid.frames[:-1]
    used = [cell for cell in frames[-1].cells if cell.who]
    filled = sum(cell.filled for cell in used)
    finding = (
        f"Blocks of {counted(tokens, 'token')}: B finds {reuse(trace).cached_tokens} of "
        f"{counted(shared, 'shared token')}; {counted(len(used), 'block')} with "
        f"{counted(filled, 'filled slot')} and {len(used) * tokens - filled} empty."
    )
    return (replace(grid, finding=finding, frames=frames),)
