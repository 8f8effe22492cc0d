"""The ranks of a run as one of them sees them: its number, its groups along the mesh, its account.

A file of one's own is run by torchrun or by `lab.launch` alike when it begins with
`world = World.join(Mesh(tp=2))`.
"""

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torch.distributed as dist

from lab.parallel.collectives import Account, Group
from lab.parallel.launch import PLANS, Calls
from lab.parallel.mesh import AXES, Mesh, Place

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class World:
    """All ranks of a mesh. `held` takes down the bytes that this one holds, by what they are."""

    def __init__(self, mesh: Mesh, rank: int, device: torch.device, timeout_s: float = 120) -> None:
        self._patience = timedelta(seconds=timeout_s)
        self.mesh, self.rank, self.device = mesh, rank, device
        self.place: Place = mesh.place(rank)
        self.held: dict[str, int] = {}
        self._account: Account = {}
        self._groups = {axis: self._group(axis) for axis in AXES}
        self.everyone = Group(PLANS, range(mesh.ranks), rank, None, self._account, device)

    @classmethod
    def join(cls, mesh: Mesh, timeout_s: float = 120) -> World:
        """Meet the other ranks: nccl where every rank of this machine has a GPU, else gloo. Whoever
        waits for another one for more than `timeout_s` gives up.

        RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT are read from
        the environment. ValueError if one of them is not there, and if the mesh has another number
        of ranks.
        """
        if absent := [name for name in _NEEDED if name not in os.environ]:
            raise ValueError(
                f"{', '.join(absent)} must be set: start this file with torchrun or lab.launch"
            )
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if mesh.ranks != size:
            raise ValueError(f"the mesh has {mesh.ranks} ranks, and {size} processes were started")
        local = int(os.environ.get("LOCAL_RANK", rank))
        has_gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", size))
        device = torch.device("cuda", local) if has_gpus else torch.device("cpu")
        if has_gpus:
            torch.cuda.set_device(device)
        dist.init_process_group(
            "nccl" if has_gpus else "gloo",
            timeout=timedelta(seconds=timeout_s),
            rank=rank,
            world_size=size,
        )
        return cls(mesh, rank, device, timeout_s)

    def along(self, axis: str) -> Group:
        """The ranks that differ from this one in their place on `axis` only, and itself."""
        return self._groups[axis]

    @property
    def calls(self) -> tuple[Calls, ...]:
        """What this rank has called until now, in the order of first calls."""
        return tuple(
            Calls(axis, kind, algorithm, tally.times, tally.payload_bytes, tally.sent_bytes)
            for (axis, kind, algorithm), tally in self._account.items()
        )

    def meet(self) -> None:
        """Wait until all ranks are here."""
        dist.barrier()

    def leave(self) -> None:
        """Wait for the others, then part from them."""
        self.meet()
        dist.destroy_process_group()

    def _group(self, axis: str) -> Group:
        mine = self.mesh.group(axis, self.rank)
        handle = None
        if 1 < len(mine) < self.mesh.ranks:
            made = {
                ranks: dist.new_group(list(ranks), self._patience)
                for ranks in self.mesh.groups(axis)
            }
            handle = made[mine]  # everybody has to make all of them, in one order
        return Group(axis, mine, self.rank, handle, self._account, self.device)
