"""What a step sends between the ranks of a layout: by which collective, how often, how much.

Counted is the forward pass of inference, of one step that computes the same number of tokens in
every replica. Weights and requests themselves are not sent: they were placed before. Activations
take `bytes_per_element`; what attention merges along cp is kept in 4 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.ledgers.communication import Collective, Link, collective, fastest
from lab.ledgers.latency import exact_ratio
from lab.ledgers.roofline import Bounds, StepWork, bounds
from lab.ledgers.sizes import Device, Number
from lab.parallel.layout import Layout, Mesh

STATISTIC_BYTES = 4
"""Partial results of attention, their largest score and their denominator stay in float32."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One kind of message of a step: where it happens, along which axis, `times` a step, and the
    payload of each: what a rank has before it (all-gather: after it)."""

    where: str
    collective: str
    axis: str
    ranks: int
    times: int
    payload_bytes: Number

    @property
    def sent_bytes(self) -> Number:
        """What a rank sends in a step, by the algorithm with the fewest bytes."""
        return self.times * self.over(_ANY).sent_bytes

    def over(self, link: Link, algorithm: str | None = None) -> Collective:
        """One of them as a collective over a link, with its time."""
        return collective(self.collective, self.payload_bytes, self.ranks, link, algorithm)

    def fastest(self, link: Link, chosen: Mapping[str, str] | None = None) -> Collective:
        """One of them by the fastest algorithm, or by that which is `chosen` for its collective."""
        if algorithm := (chosen or {}).get(self.collective):
            return self.over(link, algorithm)
        return fastest(self.collective, self.payload_bytes, self.ranks, link)


_ANY = Link(name="any", bytes_per_s=1, latency_s=0, source="none: only bytes are counted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How ranks are joined: `inside` a machine of `ranks_per_machine` neighbours, and `between`
    machines. A group that spans machines runs at the pace of the link between them."""

    inside: Link
    between: Link
    ranks_per_machine: int = 8

    def link(self, mesh: Mesh, axis: str) -> Link:
        """The link that the messages along an axis need. Llama on 16 ranks in machines of 8, tp 8
        and pp 2: tp stays inside, pp goes between."""
        groups = mesh.groups(axis)
        machines = ({rank // self.ranks_per_machine for rank in group} for group in groups)
        return self.between if any(len(used) > 1 for used in machines) else self.inside


def exchanges(
    layout: Layout,
    rank: int,
    tokens: int,
    *,
    context: int = 0,
    sampled: int = 0,
    decode: bool = False,
    bytes_per_element: Number = 2,
) -> tuple[Exchange, ...]:
    """What a rank sends in a step of `tokens` tokens of its replica; axes of 1 are left out.

        tp   all-reduce of tokens x hidden, after the embedding, and after attention and the MLP of
             every layer; on the last stage an all-gather of the logits of `sampled` positions
        pp   send of tokens x hidden to the next stage; the last one sends nothing
        ep   all-to-all of tokens x active x hidden, to the experts and back, in every layer
        cp   prefill: send of a part's K and V to the next rank, cp - 1 times a layer;
             decode: all-gather of every rank's output, largest score and denominator of each head
        dp   nothing: each replica serves its own requests

    In a prefill `tokens` and their `context` are cut along cp. In a decode only the context is, and
    all ranks of cp compute the linear layers. Experts are taken to be equally busy: a hot one
    receives more, and all wait for it.

    Llama-3-8B, tp 2, one decode token: 65 all-reduces of 8,192 bytes. ValueError for less than 1
    token and for a negative count.
    """
    if tokens < 1:
        raise ValueError(f"a step must compute at least 1 token, got {tokens}")
    for name, count in {"context": context, "sampled": sampled}.items():
        if count < 0:
            raise ValueError(f"{name} must be at least 0, got {count}")
    cp = 1 if decode else layout.mesh.cp
    activations = -(-tokens // cp) * layout.model.hidden * bytes_per_element
    found = (
        *_tensor(layout, rank, activations, sampled * bytes_per_element),
        *_experts(layout, rank, activations),
        _merging(layout, rank, tokens)
        if decode
        else _ring(layout, rank, (tokens + context) * bytes_per_element),
        *_next_stage(layout, rank, activations),
    )
    return tuple(exchange for exchange in found if exchange.ranks > 1 and exchange.times)


def _tensor(layout: Layout, rank: int, activations: Number, sampled: Number) -> Iterator[Exchange]:
    here, tp = layout.ranks[rank], layout.mesh.tp
    if here.has_embedding:
        yield Exchange("after the embedding", "all-reduce", "tp", tp, 1, activations)
    for where in ("after attention", "after the MLP"):
        yield Exchange(where, "all-reduce", "tp", tp, len(here.layers), activations)
    if here.has_head and sampled:
        # a vocabulary that does not divide is padded on the way, so that all send as much
        logits = -(-layout.model.vocab // tp) * tp * sampled
        yield Exchange("the logits", "all-gather", "tp", tp, 1, logits)


def _experts(layout: Layout, rank: int, activations: Number) -> Iterator[Exchange]:
    if layout.experts is None:
        return
    ep, times = layout.mesh.ep, len(layout.ranks[rank].layers)
    for where in ("to the experts", "back from the experts"):
        payload = activations * layout.experts.active
        yield Exchange(where, "all-to-all", "ep", ep, times, payload)


def _merging(layout: Layout, rank: int, tokens: int) -> Exchange:
    here, cp = layout.ranks[rank], layout.mesh.cp
    statistics = len(here.heads) * (layout.model.head_dim + 2) * STATISTIC_BYTES
    where, times = "merging attention", len(here.layers)
    return Exchange(where, "all-gather", "cp", cp, times, cp * tokens * statistics)


def _ring(layout: Layout, rank: int, position_bytes: Number) -> Exchange:
    here, cp = layout.ranks[rank], layout.mesh.cp
    part = here.kv_elements() // len(here.layers) * exact_ratio(position_bytes, cp)
    where, times = "keys and values, round the ring", len(here.layers) * (cp - 1)
    return Exchange(where, "send", "cp", 2, times, part)


def _next_stage(layout: Layout, rank: int, activations: Number) -> Iterator[Exchange]:
    if not layout.ranks[rank].has_head:
        yield Exchange("to the next stage", "send", "pp", 2, 1, activations)


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
    here, model = layout.ranks[rank], layout.model
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
    ValueError for less than 1 sequence, and for a mesh with ep or cp.
    """
    mesh = layout.mesh
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
    rounds = 0
    latency: Number = 0
    path: Number = 0
    transfer: Number = 0
    for rank in slowest:
        for exchange in exchanges(
            layout, rank, most, sampled=most, decode=True, bytes_per_element=bytes_per_element
        ):
            over = exchange.fastest(wiring.link(mesh, exchange.axis), algorithms)
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
