"""What it costs to talk: collectives over a link, in rounds, bytes and seconds.

A message of n bytes takes latency + n / bandwidth (Hockney 1994). All links work at once and both
ways, a rank sends one message a round, and adding numbers takes no time. The counts of rounds and
bytes are those of Thakur, Rabenseifner, Gropp (2005); that the ring's all-reduce moves the fewest
bytes is shown by Patarasuk, Yuan (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from lab.ledgers.latency import exact_ratio
from lab.ledgers.links import Link
from lab.ledgers.sizes import Number


class Counts(NamedTuple):
    """What an algorithm needs among some ranks, in parts of the payload n.

    `rounds` follow one another, and `path` is the sum of their largest messages: it decides the
    time. `sent` is what the busiest rank sends, `wire` what all ranks send together.
    """

    rounds: int
    path: Fraction
    sent: Fraction
    wire: Fraction


def _shares(ranks: int, rounds: int, times: int = 1) -> Counts:
    """Every rank sends its n / ranks to each other rank, `times` over: (p - 1) / p of n."""
    share = times * Fraction(ranks - 1, ranks)
    return Counts(times * rounds, share, share, ranks * share)


def _ring(ranks: int) -> Counts:
    return _shares(ranks, ranks - 1)


def _both_rings(ranks: int) -> Counts:
    return _shares(ranks, ranks - 1, times=2)


def _halving(ranks: int) -> Counts:
    return _shares(ranks, _doublings(ranks))


def _both_halvings(ranks: int) -> Counts:
    return _shares(ranks, _doublings(ranks), times=2)


def _doubling(ranks: int) -> Counts:
    rounds = _doublings(ranks)
    return Counts(rounds, Fraction(rounds), Fraction(rounds), Fraction(ranks * rounds))


def _tree(ranks: int) -> Counts:
    """Up to one rank and down again: 2 (p - 1) messages, of which the root sends log p."""
    depth = (ranks - 1).bit_length()
    return Counts(2 * depth, Fraction(2 * depth), Fraction(depth), Fraction(2 * (ranks - 1)))


def _bruck(ranks: int) -> Counts:
    half = Fraction(_doublings(ranks), 2)
    return Counts(_doublings(ranks), half, half, ranks * half)


def _one_way(ranks: int) -> Counts:
    if ranks != 2:
        raise ValueError(f"a send has 2 ranks, got {ranks}")
    return Counts(1, Fraction(1), Fraction(1), Fraction(1))


def _doublings(ranks: int) -> int:
    """How often 1 must be doubled to make `ranks`."""
    return ranks.bit_length() - 1


_ALGORITHMS: Mapping[str, Mapping[str, Callable[[int], Counts]]] = {
    "all-reduce": {
        "ring": _both_rings,
        "tree": _tree,
        "doubling": _doubling,
        "halving": _both_halvings,
    },
    "all-gather": {"ring": _ring, "doubling": _halving},
    "reduce-scatter": {"ring": _ring, "halving": _halving},
    "all-to-all": {"pairwise": _ring, "bruck": _bruck},
    "send": {"direct": _one_way},
}
"""The algorithms of each collective; the first is one that moves the fewest bytes."""
_POWERS_OF_TWO = ("doubling", "halving", "bruck")
"""Those that pair all ranks in every round; they are counted for such numbers of ranks only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective among `ranks`, with a payload of `payload_bytes`, over one kind of link.

    The payload is what a rank has before (all-reduce, reduce-scatter, all-to-all, send) or after
    it (all-gather).
    """

    name: str
    algorithm: str
    ranks: int
    payload_bytes: Number
    counts: Counts
    over: Link

    @property
    def sent_bytes(self) -> Number:
        """What the busiest rank sends. Ring, all-reduce of 8 KiB among 4: 3/2 of it, 12 KiB."""
        return _whole(self.counts.sent * self.payload_bytes)

    @property
    def wire_bytes(self) -> Number:
        """What all ranks send together. Ring, all-reduce of 8 KiB among 4: 48 KiB."""
        return _whole(self.counts.wire * self.payload_bytes)

    @property
    def latency_s(self) -> Number:
        """The part of the time that no bandwidth shortens: rounds x latency."""
        return self.counts.rounds * self.over.latency_s

    @property
    def transfer_s(self) -> Number:
        """The part that bytes take: those of the longest message of each round / bandwidth."""
        return exact_ratio(self.counts.path * self.payload_bytes, self.over.bytes_per_s)

    @property
    def seconds(self) -> Number:
        """Latency and transfer together."""
        return self.latency_s + self.transfer_s


def collective(
    name: str, payload_bytes: Number, ranks: int, over: Link, algorithm: str | None = None
) -> Collective:
    """A collective of `payload_bytes` among `ranks`, by the algorithm with the fewest bytes.

        all-reduce       ring      2 (p - 1) rounds of n / p bytes
                         halving   2 log p rounds, as many bytes as the ring
                         doubling  log p rounds of n bytes
                         tree      2 ceil(log p) rounds of n bytes, up and down
        all-gather       ring      p - 1 rounds of n / p;    doubling  log p rounds, as many bytes
        reduce-scatter   ring      p - 1 rounds of n / p;    halving   log p rounds, as many bytes
        all-to-all       pairwise  p - 1 rounds of n / p;    bruck     log p rounds of n / 2
        send             direct    1 round of n, among 2

    Halving, doubling and Bruck's algorithm are counted for powers of two only. Among 4 ranks over
    NVLink 4, 8 KiB, all-reduce: ring 12.03 µs, doubling 4.04 µs. One rank sends nothing.
    ValueError for less than 1 rank, a negative payload, and an unknown name.
    """
    known = _algorithms(name)
    chosen = algorithm or next(iter(known))
    if chosen not in known:
        raise ValueError(f"unknown algorithm {chosen!r} for {name}; known: {', '.join(known)}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, got {ranks}")
    if chosen not in known_algorithms(name, ranks):
        raise ValueError(f"{chosen} needs a power of two of ranks, got {ranks}")
    if payload_bytes < 0:
        raise ValueError(f"payload_bytes must be at least 0, got {payload_bytes}")
    return Collective(
        name=name,
        algorithm=chosen,
        ranks=ranks,
        payload_bytes=payload_bytes,
        counts=known[chosen](ranks),
        over=over,
    )


def known_algorithms(name: str, ranks: int = 2) -> tuple[str, ...]:
    """The algorithms of a collective that are counted for so many ranks:
    `known_algorithms("all-gather")` is ("ring", "doubling"), and for 3 ranks ("ring",). ValueError
    for an unknown name."""
    power = ranks & (ranks - 1) == 0
    return tuple(one for one in _algorithms(name) if power or one not in _POWERS_OF_TWO)


def _algorithms(name: str) -> Mapping[str, Callable[[int], Counts]]:
    if name not in _ALGORITHMS:
        raise ValueError(f"unknown collective {name!r}; known: {', '.join(_ALGORITHMS)}")
    return _ALGORITHMS[name]


def fastest(name: str, payload_bytes: Number, ranks: int, over: Link) -> Collective:
    """The collective by the algorithm that takes the least time, as a library would choose it.

    All-reduce of 8 KiB among 8 over NVLink 4: doubling, 3 rounds, 6.05 µs; the ring needs 28.03.
    """
    found = (
        collective(name, payload_bytes, ranks, over, algorithm)
        for algorithm in known_algorithms(name, ranks)
    )
    return min(found, key=lambda one: one.seconds)


def tie_bytes(name: str, ranks: int, over: Link, one: str, other: str) -> Number | None:
    """The payload at which two algorithms take equally long; None where one always wins.

    All-reduce among 8 over NVLink 4, ring against tree: 8 rounds more against 4 1/4 payloads less:
    8 x 2 µs x 450 GB/s / 4.25 = 1.7 MB. Below it the tree is faster, above it the ring.
    """
    a, b = (collective(name, 0, ranks, over, algorithm).counts for algorithm in (one, other))
    rounds, path = a.rounds - b.rounds, b.path - a.path
    if rounds * path <= 0:
        return None
    return exact_ratio(rounds * over.latency_s * over.bytes_per_s, path)


def _whole(count: Number) -> Number:
    """A count as an int where it is whole."""
    return ceil(count) if isinstance(count, Fraction) and count.denominator == 1 else count
