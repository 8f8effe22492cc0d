"""How long a decode step takes on a layout: the work of the slowest rank, and what it sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.ledgers.communication import collective
from lab.ledgers.latency import exact_ratio
from lab.ledgers.roofline import Bounds, StepWork, bounds
from lab.ledgers.sizes import Device, Number
from lab.parallel.layout import Layout
from lab.parallel.traffic import Wiring, exchanges


def rank_work(
    layout: Layout,
    rank: int,
    *,
    tokens: int,
    context_tokens: int,
    attention_pairs: int,
    sampled_tokens: int,
    bytes_per_element: Number = 2,
) -> StepWork:
    """FLOPs and bytes of one step on one rank: `step_work` of `lab.ledgers.roofline`, for what the
    rank holds. `context_tokens` and `attention_pairs` are those of its own positions.

    On a mesh of 1 both are the same. Llama-3-8B, tp 2, 8 decodes with 1,024 tokens each: 8.04 GB of
    16.08. Dense models only: ValueError for experts, since which are read depends on the tokens.
    """
    if layout.experts is not None:
        raise ValueError("the work of a rank with experts depends on where the tokens go")
    here, model = layout.rank(rank), layout.model
    matrices = norms = 0
    for piece in here.pieces():
        if piece.name.startswith("model.layers") and piece.of[0] > 1:
            matrices += piece.elements
        elif piece.of[0] == 1:
            norms += piece.elements
    logits = len(here.vocab) * model.hidden if here.has_head and sampled_tokens else 0
    pairs = 2 * len(here.layers) * len(here.heads) * model.head_dim * attention_pairs
    macs = tokens * matrices + pairs + sampled_tokens * logits
    read = matrices + norms + logits + (tokens * model.hidden if here.has_embedding else 0)
    kv = here.kv_elements(tokens + context_tokens)
    return StepWork(2 * macs, (read + kv) * bytes_per_element)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long one decode step takes: the work of the slowest rank, and what it sends.

    Neither overlaps with the other: a layer needs what was sent before it can go on. `rounds` of
    messages follow one another and wait `latency_s` in all; their largest messages are
    `path_bytes` in all and take `transfer_s`.
    """

    work: Bounds
    rounds: int
    latency_s: Number
    path_bytes: Number
    transfer_s: Number

    @property
    def exchange_s(self) -> Number:
        """What is sent, latency and transfer."""
        return self.latency_s + self.transfer_s

    @property
    def seconds(self) -> Number:
        """The lower bound of the work, and the exchanges."""
        return self.work.low_s + self.exchange_s

    def tie_latency_s(self, alone: StepTime) -> Number | None:
        """The latency of one message at which this step takes as long as another that sends
        nothing, over a link of the same bandwidth. None where no latency makes it as fast.

        Llama-3-8B on two H100s against one, one sequence of 1,024 tokens, NVLink 4: 34.2 µs.
        """
        left = alone.seconds - self.work.low_s - self.transfer_s
        return exact_ratio(left, self.rounds) if self.rounds and left >= 0 else None

    def tie_bytes_per_s(self, alone: StepTime) -> Number | None:
        """The bandwidth at which it takes as long, at the same latency. None where none does.

        The same over 10-Gbit Ethernet, with its 30 µs a message: 2.36 GB/s, twice what it has.
        """
        left = alone.seconds - self.work.low_s - self.latency_s
        return exact_ratio(self.path_bytes, left) if left > 0 else None


def decode_step(
    layout: Layout,
    device: Device,
    wiring: Wiring,
    *,
    sequences: int,
    context_tokens: int,
    dtype: str = "bf16",
    bytes_per_element: Number = 2,
    algorithms: Mapping[str, str] | None = None,
) -> StepTime:
    """How long `sequences` wait for their next token, with `context_tokens` cached each.

    Along dp the sequences are shared out; along tp and pp all of them pass every rank, and along
    pp one stage after the other, so the work of the stages adds up. Each collective runs by
    its fastest algorithm, or by that of `algorithms`: `{"all-reduce": "ring"}`.

    Llama-3-8B on H100s, one sequence of 1,024 tokens: 4.52 ms on one; on two over NVLink 4 2.26 ms
    of work and 0.13 ms of exchanges; over 10-Gbit Ethernet 2.26 and 2.51 ms: slower than one.
    ValueError for less than 1 sequence, for a mesh with ep or cp, and for an unknown collective or
    algorithm.
    """
    mesh = layout.mesh
    for name, algorithm in (algorithms or {}).items():
        collective(name, 0, 2, wiring.inside, algorithm)  # refuses what is unknown, used or not
    if sequences < 1 or context_tokens < 0:
        raise ValueError(
            "sequences must be at least 1 and context_tokens at least 0, "
            f"got {sequences} and {context_tokens}"
        )
    if mesh.ep > 1 or mesh.cp > 1:
        raise ValueError(f"steps are timed for dp, tp and pp, got ep {mesh.ep} and cp {mesh.cp}")
    most = max(len(layout.requests(rank, sequences)) for rank in range(mesh.ranks))
    slowest = tuple(_slowest_of_each_stage(layout))
    parts = [
        bounds(
            *rank_work(
                layout,
                rank,
                tokens=most,
                context_tokens=most * context_tokens,
                attention_pairs=most * (context_tokens + 1),
                sampled_tokens=most,
                bytes_per_element=bytes_per_element,
            ),
            flops_per_s=device.peak_flops_per_s(dtype),
            bytes_per_s=device.memory_bytes_per_s,
        )
        for rank in slowest
    ]
    work = Bounds(sum(p.compute_s for p in parts), sum(p.memory_s for p in parts))
    links = {axis: wiring.link(mesh, axis) for axis in ("tp", "pp")}
    rounds = 0
    latency: Number = 0
    path: Number = 0
    transfer: Number = 0
    for rank in slowest:
        for exchange in exchanges(
            layout, rank, most, sampled=most, decode=True, bytes_per_element=bytes_per_element
        ):
            over = exchange.fastest(links[exchange.axis], algorithms)
            rounds += exchange.times * over.counts.rounds
            path += exchange.times * over.counts.path * over.payload_bytes
            latency += exchange.times * over.latency_s
            transfer += exchange.times * over.transfer_s
    return StepTime(
        work=work, rounds=rounds, latency_s=latency, path_bytes=path, transfer_s=transfer
    )


def _slowest_of_each_stage(layout: Layout) -> Iterator[int]:
    """Of the ranks of each stage, the one that holds the most."""
    for stage in range(layout.mesh.pp):
        mine = [rank for rank in layout.ranks if rank.place.pp == stage]
        yield max(mine, key=lambda rank: (rank.parameters, -rank.number)).number
