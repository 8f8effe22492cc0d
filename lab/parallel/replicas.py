"""Copies of one model that each serve their own requests: nothing is sent between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.ledgers.table import Shown, Table
from lab.live import serve
from lab.model.folder import load, where
from lab.parallel.launch import Launch, launch
from lab.parallel.mesh import Mesh
from lab.parallel.router import Router
from lab.parallel.world import World
from lab.policy import Policy
from lab.request import Request
from lab.trace import Trace


@dataclass(frozen=True, slots=True, repr=False)
class ReplicatedRun(Shown):
    """A workload that several replicas have served."""

    traces: tuple[Trace, ...]
    """Of each replica, on clocks that started together."""
    homes: dict[str, int]
    """Which replica got which request."""
    launch: Launch

    def table(self) -> Table:
        """A row a replica."""
        rows = tuple(
            (
                replica,
                len(trace),
                sum(record.prompt_tokens for record in trace.requests),
                sum(chunk.cached for step in trace.steps() for chunk in step.chunks),
                sum(record.output_tokens for record in trace.requests),
                report.held["parameters"],
                report.sent_bytes,
            )
            for replica, (trace, report) in enumerate(
                zip(self.traces, self.launch.reports, strict=True)
            )
        )
        counts = ("requests", "prompt tokens", "cached", "output tokens")
        columns = ("replica", *counts, "parameters (bytes)", "sent (bytes)")
        return Table(columns, rows, f"{len(self.traces)} replicas")


def serve_replicas(
    workload: Iterable[Request],
    policy: Policy,
    replicas: int,
    model: str = "tiny",
    *,
    router: Router | None = None,
    timeout_s: float = 120,
) -> ReplicatedRun:
    """Serve a workload with `replicas` processes that each hold the whole model.

    A `router` (None: one that looks at the first block of the policy's size) decides in the order
    of arrivals, before anybody begins: what is open counts as it would if nobody finished.
    ValueError before anything starts for a router of another number of replicas, for a model that
    is not there, and for drafts, since no replica has a draft model; then as of `lab.launch`.
    """
    if policy.draft_tokens:
        raise ValueError(f"nobody guesses here: draft_tokens must be 0, got {policy.draft_tokens}")
    where(model)
    router = router or Router(replicas, block_tokens=policy.block_tokens)
    if len(router.open_tokens) != replicas:
        raise ValueError(
            f"the router knows {len(router.open_tokens)} replicas, and there are {replicas}"
        )
    requests = sorted(workload, key=lambda request: request.arrival)
    homes = {request.id: router.route(request) for request in requests}
    shares = [[r for r in requests if homes[r.id] == replica] for replica in range(replicas)]
    run = launch(
        _serve, Mesh(dp=replicas), timeout_s=timeout_s, shares=shares, policy=policy, model=model
    )
    return ReplicatedRun(run.values, homes, run)


def _serve(world: World, shares: Sequence[Sequence[Request]], policy: Policy, model: str) -> Trace:
    """One replica's part of `serve_replicas`."""
    loaded = load(model, device=world.device)
    world.held["parameters"] = loaded.decoder.weights.num_bytes
    world.meet()
    return serve(shares[world.rank], policy, loaded)
