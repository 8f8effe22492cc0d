"""What ranks do in the tests: processes of their own import it from this file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lab.parallel.context import attend
from lab.parallel.expert import Mixed, drawn_mixture, mix, mixture
from lab.parallel.launch import Calls
from lab.parallel.mesh import Mesh
from lab.parallel.serving import _logits, serve_part
from lab.parallel.world import World
from lab.parallel.zero import train
from lab.policy import Policy
from lab.request import Request
from lab.trace import Trace


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def collectives(world: World, lengths: tuple[int, ...]) -> dict[str, Any]:
    """Every collective by the library and by our ring, and what each was counted as."""
    group, found = world.along("dp"), dict[str, Any]()
    for length in lengths:
        mine = drawn(world.rank, length)
        for by in ("library", "ring"):
            found["all-reduce", by, length] = group.all_reduce(mine.clone(), by)
            found["all-gather", by, length] = group.all_gather(mine, by)
            pieces = drawn(100 + world.rank, group.size, length)
            found["reduce-scatter", by, length] = group.reduce_scatter(pieces, by)
    return found


def exchanges(world: World, rows: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    """What is sent from one to another: `rows[a][b]` rows from a to b."""
    group, n = world.along("dp"), world.rank
    mine = torch.full((sum(rows[n]), 2), float(n))
    coming = [row[n] for row in rows]
    into = torch.empty(3)
    group.send(torch.full((4,), float(n)), (n + 1) % group.size)
    received = group.receive(torch.empty(4), (n - 1) % group.size)
    return {
        "all-to-all": group.all_to_all(mine, rows[n], coming),
        "send": received,
        "shift": group.shift(torch.full((3,), float(n)), into),
        "tell": world.everyone.tell({"from": n, "text": "ä"} if n == 1 else None, source=1),
        "nothing": group.all_reduce(torch.empty(0, 3)),
    }


def along_axes(world: World) -> dict[str, Any]:
    """Who stands where, and a sum along each axis."""
    return {
        axis: (world.along(axis).ranks, int(world.along(axis).all_reduce(torch.tensor(world.rank))))
        for axis in ("tp", "pp")
    }


def killed(world: World, pids: str) -> None:
    """Rank 1 is killed in the middle of a sum; the others wait for it."""
    with open(f"{pids}/{world.rank}", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    print(f"rank {world.rank} begins")
    for round in range(1000):
        world.everyone.all_reduce(torch.ones(10))
        if world.rank == 1 and round == 5:
            with open(f"{pids}/killed at", "w", encoding="ascii") as file:
                file.write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)


def wrong(world: World) -> None:
    if world.rank == 1:
        raise ValueError("seats must be at least 1, got 0")
    world.everyone.all_reduce(torch.ones(10))


def busy(world: World, pids: str) -> None:
    """Rank 0 has started a process of its own when rank 1 fails."""
    if world.rank == 0:
        child = subprocess.Popen(["sleep", "600"])
        with open(f"{pids}/child", "w", encoding="ascii") as file:
            file.write(str(child.pid))
    world.meet()
    wrong(world)


def hung(world: World, pids: str | None = None) -> None:
    if pids is not None:
        with open(f"{pids}/{world.rank}", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    if world.rank == 0:
        world.everyone.all_reduce(torch.ones(10))
    else:
        signal.pause()


def quiet(world: World) -> None:
    """Ends without a report."""
    os._exit(0)


def serving(
    world: World,
    model: str,
    dtype: str,
    work: list[Request],
    ways: dict[str, Policy],
    microbatches: int = 1,
) -> tuple[dict[str, Trace | None], tuple[Tensor, ...]]:
    """The same work under several policies, and the logits of its prompts."""
    traces = {
        way: serve_part(world, work, policy, model, dtype=dtype, microbatches=microbatches)
        for way, policy in ways.items()
    }
    return traces, _logits(world, model, [request.prompt for request in work], dtype)


def evenly(world: World) -> Mixed:
    """Six tokens of each rank go to six experts: the first to the first and the second, ..."""
    group, one_TX = world.along("ep"), torch.eye(6)
    weights = drawn_mixture(6, 4, 6, here=group.shares(6)[group.index])
    return mixture(one_TX, weights._replace(router_XD=one_TX + one_TX.roll(1, 0)), 2, group)


class Counted(NamedTuple):
    """What one method found, and what it alone held and called."""

    value: Any
    held: dict[str, int]
    calls: dict[tuple[str, str], Calls]


def methods(
    world: World,
    sequences: dict[str, dict[str, Any]],
    mixtures: dict[str, dict[str, Any]],
    trainings: dict[str, dict[str, Any]],
) -> dict[str, Counted]:
    """Attention round a ring, mixtures of experts and trainings, one after the other."""
    ranks = world.mesh.ranks
    jobs = [
        *((name, attend, Mesh(cp=ranks), how) for name, how in sequences.items()),
        *((name, mix, Mesh(ep=ranks), how) for name, how in mixtures.items()),
        ("evenly", evenly, Mesh(ep=ranks), {}),
        *((name, train, Mesh(dp=ranks), how) for name, how in trainings.items()),
    ]
    found = {}
    for name, method, mesh, how in jobs:
        alone = World(mesh, world.rank, world.device)
        value = method(alone, **how)
        calls = {(calls.axis, calls.kind): calls for calls in alone.calls}
        found[name] = Counted(value, alone.held, calls)
    return found
