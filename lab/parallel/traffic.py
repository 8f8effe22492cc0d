"""What a step sends between the ranks of a layout: by which collective, how often, how much.

Counted is the forward pass of inference, of one step that computes the same number of tokens in
every replica. Weights and requests themselves are not sent: they were placed before. Activations
take `bytes_per_element`; what attention merges along cp is kept in 4 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from lab.ledgers.communication import Collective, collective, fastest
from lab.ledgers.latency import exact_ratio
from lab.ledgers.links import Link
from lab.ledgers.sizes import Number
from lab.ledgers.table import Table, show
from lab.parallel.layout import Layout, Rank
from lab.parallel.mesh import Mesh

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
    machines. A group that spans machines runs at the pace of the link between them. ValueError for
    a machine without ranks."""

    inside: Link
    between: Link
    ranks_per_machine: int = 8

    def __post_init__(self) -> None:
        if self.ranks_per_machine < 1:
            raise ValueError(f"ranks_per_machine must be at least 1, got {self.ranks_per_machine}")

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
    sampled: int | None = None,
    decode: bool = False,
    bytes_per_element: Number = 2,
) -> tuple[Exchange, ...]:
    """What a rank sends in a step of `tokens` tokens of its replica; axes of 1 are left out.

        tp   all-reduce of tokens x hidden, after the embedding, and after attention and the MLP of
             every layer; on the last stage an all-gather of the logits of `sampled` positions,
             and behind the attention of the last layer nothing of others than these
        pp   send of tokens x hidden to the next stage; the last one sends nothing
        ep   all-to-all of tokens x active x hidden, to the experts and back, in every layer;
             in the last one as tp
        cp   prefill: send of a part's K and V to the next rank, cp - 1 times a layer;
             decode: all-gather of every rank's output, largest score and denominator of each head
        dp   nothing: each replica serves its own requests

    In a prefill `tokens` and their `context` are cut along cp. In a decode only the context is, and
    all ranks of cp compute the linear layers. Experts are taken to be equally busy: a hot one
    receives more, and all wait for it. What ranks of ep tell one another beforehand, how many rows
    go to each expert, is left out. Without `sampled` all tokens go through the whole last layer,
    and logits are left out.

    Llama-3-8B, tp 2, one decode token: 65 all-reduces of 8,192 bytes. ValueError for less than 1
    token, for a negative count, and for a rank that is not there.
    """
    if tokens < 1:
        raise ValueError(f"a step must compute at least 1 token, got {tokens}")
    for name, count in {"context": context, "sampled": sampled or 0}.items():
        if count < 0:
            raise ValueError(f"{name} must be at least 0, got {count}")
    cp = 1 if decode else layout.mesh.cp
    here, row = layout.rank(rank), layout.model.hidden * bytes_per_element
    activations = -(-tokens // cp) * row
    at_last = activations
    if here.has_head and sampled is not None:
        at_last = min(sampled * row, activations)
    found = (
        *_tensor(layout, rank, activations, at_last, (sampled or 0) * bytes_per_element),
        *_experts(layout, rank, activations, at_last),
        _merging(layout, rank, tokens)
        if decode
        else _ring(layout, rank, (tokens + context) * bytes_per_element),
        *_next_stage(layout, rank, activations),
    )
    return tuple(one for one in found if one.ranks > 1 and one.times and one.payload_bytes)


def exchange_table(sent: Sequence[Exchange]) -> Table:
    """What `exchanges` found, in rows: where, how often, how much, and what the rank sends."""
    columns = ("where", "collective", "axis", "ranks", "times", "payload bytes", "sent bytes")
    rows = tuple((*astuple(exchange), exchange.sent_bytes) for exchange in sent)
    total = sum(exchange.sent_bytes for exchange in sent)
    return Table(columns, rows, f"a rank sends {show(total)} bytes in this step")


def _tensor(
    layout: Layout, rank: int, activations: Number, at_last: Number, sampled: Number
) -> Iterator[Exchange]:
    here, tp = layout.rank(rank), layout.mesh.tp
    if here.has_embedding:
        yield Exchange("after the embedding", "all-reduce", "tp", tp, 1, activations)
    for where in ("after attention", "after the MLP"):
        for times, payload, which in _layers(here, activations, at_last):
            yield Exchange(where + which, "all-reduce", "tp", tp, times, payload)
    if here.has_head and sampled:
        # a vocabulary that does not divide is padded on the way, so that all send as much
        logits = -(-layout.model.vocab // tp) * tp * sampled
        yield Exchange("the logits", "all-gather", "tp", tp, 1, logits)


def _experts(layout: Layout, rank: int, activations: Number, at_last: Number) -> Iterator[Exchange]:
    if layout.experts is None:
        return
    for where in ("to the experts", "back from the experts"):
        for times, payload, which in _layers(layout.rank(rank), activations, at_last):
            payload *= layout.experts.active
            yield Exchange(where + which, "all-to-all", "ep", layout.mesh.ep, times, payload)


def _layers(here: Rank, activations: Number, at_last: Number) -> Iterator[tuple[int, Number, str]]:
    """How many layers of a rank exchange how much: all alike, or the last of them less."""
    if at_last == activations:
        yield len(here.layers), activations, ""
    else:
        yield len(here.layers) - 1, activations, ""
        yield 1, at_last, " of the last layer"


def _merging(layout: Layout, rank: int, tokens: int) -> Exchange:
    here, cp = layout.rank(rank), layout.mesh.cp
    statistics = len(here.heads) * (layout.model.head_dim + 2) * STATISTIC_BYTES
    where, times = "merging attention", len(here.layers)
    return Exchange(where, "all-gather", "cp", cp, times, cp * tokens * statistics)


def _ring(layout: Layout, rank: int, position_bytes: Number) -> Exchange:
    here, cp = layout.rank(rank), layout.mesh.cp
    part = here.kv_elements() // len(here.layers) * exact_ratio(position_bytes, cp)
    where, times = "keys and values, round the ring", len(here.layers) * (cp - 1)
    return Exchange(where, "send", "cp", 2, times, part)


def _next_stage(layout: Layout, rank: int, activations: Number) -> Iterator[Exchange]:
    if not layout.rank(rank).has_head:
        yield Exchange("to the next stage", "send", "pp", 2, 1, activations)
