"""The live engine on several processes: one decides, and all compute their part of every step.

The engine runs on the rank where the logits appear: the first one of the last stage. It tells the
others who has come, what the plan is and which tokens were chosen; each keeps the same books of ids
and block tables, and the K and V of its own heads and layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lab.clock import WallClock
from lab.executors.live import LiveExecutor
from lab.ledgers.table import Shown, Table
from lab.live import live_engine, with_blocks
from lab.model.decoder import last_logits
from lab.model.flat_batch import Span
from lab.parallel.launch import Launch, launch
from lab.parallel.mesh import Mesh, share
from lab.parallel.pipeline import layout_of, load_part
from lab.parallel.world import World
from lab.plan import StepOutcome, StepPlan
from lab.policy import Policy
from lab.request import Request, Time
from lab.trace import Trace

DTYPES = ("float32", "float64", "bfloat16", "float16")


class Told(NamedTuple):
    """What the engine tells the other ranks before a step."""

    taken: tuple[Request, ...]
    """Who was taken in since the last step."""
    said: Mapping[str, tuple[int, ...]]
    """The tokens of the last step."""
    plan: StepPlan


class PartExecutor(LiveExecutor):
    """Computes plans with a part of a decoder, in `microbatches` pieces a step."""

    def __init__(self, *given: Any, world: World, microbatches: int = 1, **more: Any) -> None:
        super().__init__(*given, **more)
        self.world, self.microbatches = world, microbatches
        world.held["KV"] = self.kv.num_bytes

    def _forward(self, ids: Sequence[int], spans: Sequence[Span]) -> Tensor:
        """As of a whole step. Sequences stay whole: none reads what another one writes."""
        ends = [0, *accumulate(span.tokens for span in spans)]
        rows = []
        for number in range(min(self.microbatches, len(spans))):
            run = share(len(spans), self.microbatches, number)
            own = ids[ends[run.start] : ends[run.stop]]
            rows.append(super()._forward(own, spans[run.start : run.stop]))
        return torch.cat(rows)


class Leader(PartExecutor):
    """The executor of the engine: it computes its part, and chooses the tokens."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._taken: list[Request] = []
        self._said: Mapping[str, tuple[int, ...]] = {}

    def take(self, request: Request, *, text: bool = False) -> None:
        super().take(request, text=text)
        self._taken.append(request)

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        """As of one process; the others hear of it first."""
        told = Told(tuple(self._taken), self._said, plan)
        self.world.everyone.tell(told, source=self.world.everyone.index)
        outcome = super().run(plan, now, until)
        self._taken, self._said = [], dict(outcome.tokens or {})
        return outcome


class Follower(PartExecutor):
    """Computes its part of every step that the leader tells of, until there is none."""

    def follow(self, leader: int) -> None:
        """Listen to the rank `leader` until the end of the run."""
        while (told := self.world.everyone.tell(source=leader)) is not None:
            for request in told.taken:
                self.take(request)
            for who, tokens in told.said.items():
                self.answers[who].output += tokens
            self.run(told.plan, 0, None)

    def _outcome(self, *_: object) -> StepOutcome:
        """The leader chooses; its tokens come with the next plan."""
        return StepOutcome(())


@dataclass(frozen=True, slots=True, repr=False)
class ShardedRun(Shown):
    """A workload served by several processes: what happened, and what each of them held and
    sent."""

    trace: Trace
    launch: Launch

    def table(self) -> Table:
        """A row a rank."""
        return self.launch.table()


def serve_sharded(
    workload: Iterable[Request],
    policy: Policy,
    mesh: Mesh,
    model: str = "tiny",
    *,
    dtype: str = "float32",
    microbatches: int = 1,
    timeout_s: float = 120,
) -> ShardedRun:
    """Serve a workload with a model cut along tp and pp: `lab.serve` on `mesh.ranks` processes.

        run = lab.serve_sharded(work, lab.Continuous(seats=4), lab.Mesh(tp=2))
        run.trace       as of one process; run.launch.table() has the bytes that each rank held

    The same scheduler, the same trace; the clock starts when all ranks have loaded their part. A
    step is cut into `microbatches` of whole sequences, so that stages of pp overlap. ValueError
    before anything starts for a model that cannot be cut so, for another dtype, for a number in the
    place of a mesh, and for drafts, which have no decoder here; then as of `lab.launch`.
    """
    if not isinstance(mesh, Mesh):
        raise ValueError(f"a mesh says what is cut, such as lab.Mesh(tp=2); got {mesh!r}")
    if policy.draft_tokens:
        raise ValueError(f"nobody guesses here: draft_tokens must be 0, got {policy.draft_tokens}")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if microbatches < 1:
        raise ValueError(f"microbatches must be at least 1, got {microbatches}")
    layout_of(model, mesh)
    run = launch(
        serve_part,
        mesh,
        timeout_s=timeout_s,
        workload=list(workload),
        policy=policy,
        model=model,
        dtype=dtype,
        microbatches=microbatches,
    )
    return ShardedRun(run.values[_leader(mesh)], run)


def serve_part(
    world: World,
    workload: Iterable[Request],
    policy: Policy,
    model: str = "tiny",
    *,
    dtype: str = "float32",
    microbatches: int = 1,
) -> Trace | None:
    """One rank's part of `serve_sharded`, in a file of one's own: torchrun may start it on several
    hosts, each with the model's folder.

        world = World.join(Mesh(tp=2))
        trace = serve_part(world, work, lab.Continuous(seats=4))
        world.leave()

    Every rank calls it with the same workload and settings. The first rank of the last stage gets
    the trace, the others None.
    """
    requests = list(workload)
    policy = with_blocks(policy, requests)
    torch.set_num_threads(1)
    part = load_part(model, world, getattr(torch, dtype))
    leader = _leader(world.mesh)
    world.meet()
    if world.rank != leader:
        follower = Follower(
            part.decoder, policy, WallClock(), world=world, microbatches=microbatches
        )
        follower.follow(leader)
        return None
    leads = partial(Leader, world=world, microbatches=microbatches)
    engine = live_engine(part, policy, keep=None, threads=1, executes=leads)
    axes = {axis: getattr(world.mesh, axis) for axis in ("tp", "pp")}
    engine.trace.settings |= {"maker": "distributed", **axes, "microbatches": microbatches}
    trace = engine.run(requests)
    world.everyone.tell(None, source=leader)
    return trace


def sharded_logits(
    model: str, mesh: Mesh, prompts: Sequence[Sequence[int]], *, dtype: str = "float32"
) -> tuple[Tensor, ...]:
    """The logits_TV after every token of each prompt, computed alone by the ranks of `mesh`: what
    one device's are compared with."""
    layout_of(model, mesh)
    run = launch(_logits, mesh, model=model, prompts=[list(ids) for ids in prompts], dtype=dtype)
    found: tuple[Tensor, ...] = run.values[_leader(mesh)]
    return found


def _leader(mesh: Mesh) -> int:
    """The first rank of the last stage."""
    return mesh.group("pp", 0)[-1]


def _logits(
    world: World, model: str, prompts: Sequence[Sequence[int]], dtype: str
) -> tuple[Tensor, ...]:
    """One rank's part of `sharded_logits`."""
    decoder = load_part(model, world, getattr(torch, dtype)).decoder
    return tuple(last_logits(decoder, ids, len(ids)).cpu() for ids in prompts)
