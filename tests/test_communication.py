"""Collectives: the counts are those of the algorithms, run here message by message."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ledgers.communication import (
    collective,
    fastest,
    known_algorithms,
    tie_bytes,
)
from lab.ledgers.links import Link, known_links, link

UNIT = Link(name="unit", bytes_per_s=1, latency_s=100, source="given")
ranks = st.integers(1, 9)
powers = st.sampled_from((1, 2, 4, 8))


class Wire:
    """Counts what is sent, round by round."""

    def __init__(self, ranks):
        self.sent = [0] * ranks
        self.rounds = self.path = 0

    def round(self, messages):
        """Send {from: (to, numbers)} all at once."""
        if messages:
            self.rounds += 1
            self.path += max(len(numbers) for _, numbers in messages.values())
        for source, (_, numbers) in messages.items():
            self.sent[source] += len(numbers)

    def agrees(self, found):
        assert found.counts.rounds == self.rounds
        assert found.sent_bytes == max(self.sent)
        assert found.wire_bytes == sum(self.sent)
        assert found.seconds == 100 * self.rounds + self.path


def chunk(p, part, block=2):
    return slice(part * block, (part + 1) * block)


def ring_reduce_scatter(data, wire):
    """After it rank r holds the sum of chunk r + 1."""
    p = len(data)
    for step in range(p - 1):
        parts = {r: (r - step) % p for r in range(p)}
        wire.round({r: ((r + 1) % p, data[r][chunk(p, part)]) for r, part in parts.items()})
        sent = {r: list(data[r][chunk(p, part)]) for r, part in parts.items()}
        for r, part in parts.items():
            there = data[(r + 1) % p]
            there[chunk(p, part)] = [
                a + b for a, b in zip(there[chunk(p, part)], sent[r], strict=True)
            ]


def ring_all_gather(data, wire):
    """From chunk r + 1 on each rank r to all chunks everywhere."""
    p = len(data)
    for step in range(p - 1):
        parts = {r: (r + 1 - step) % p for r in range(p)}
        wire.round({r: ((r + 1) % p, data[r][chunk(p, part)]) for r, part in parts.items()})
        sent = {r: list(data[r][chunk(p, part)]) for r, part in parts.items()}
        for r, part in parts.items():
            data[(r + 1) % p][chunk(p, part)] = sent[r]


def numbers(p):
    return [[100 * rank + place for place in range(2 * p)] for rank in range(p)]


@given(ranks)
def test_the_ring_adds_up_with_the_counted_messages(p):
    data, wire = numbers(p), Wire(p)
    wanted = [sum(column) for column in zip(*data, strict=True)]
    ring_reduce_scatter(data, wire)
    wire.agrees(collective("reduce-scatter", 2 * p, p, UNIT))
    ring_all_gather(data, wire)
    assert data == [wanted] * p
    wire.agrees(collective("all-reduce", 2 * p, p, UNIT, "ring"))


@given(ranks)
def test_the_ring_gathers_with_the_counted_messages(p):
    data, wire = numbers(p), Wire(p)
    ring_all_gather(data, wire)
    assert all(row == data[0] for row in data)
    wire.agrees(collective("all-gather", 2 * p, p, UNIT))


@given(ranks)
def test_pairs_exchange_with_the_counted_messages(p):
    wire, got = Wire(p), [[None] * p for _ in range(p)]
    for step in range(1, p):
        wire.round({r: ((r + step) % p, (r, r)) for r in range(p)})
        for r in range(p):
            got[(r + step) % p][r] = r
    assert all(row[rank] is None and row.count(None) == 1 for rank, row in enumerate(got))
    wire.agrees(collective("all-to-all", 2 * p, p, UNIT))


@given(powers)
def test_doubling_adds_up_in_few_rounds(p):
    data, wire, distance = numbers(p), Wire(p), 1
    wanted = [sum(column) for column in zip(*data, strict=True)]
    while distance < p:
        wire.round({r: (r ^ distance, data[r]) for r in range(p)})
        data = [[a + b for a, b in zip(data[r], data[r ^ distance], strict=True)] for r in range(p)]
        distance *= 2
    assert data == [wanted] * p
    wire.agrees(collective("all-reduce", 2 * p, p, UNIT, "doubling"))


@given(powers)
def test_halving_scatters_sums_in_few_rounds(p):
    data, wire, distance = [dict(enumerate(row)) for row in numbers(p)], Wire(p), p // 2
    wanted = [sum(column) for column in zip(*numbers(p), strict=True)]
    while distance:
        kept = [
            {k: v for k, v in data[r].items() if (k // 2) & distance == r & distance}
            for r in range(p)
        ]
        sent = [{k: v for k, v in data[r].items() if k not in kept[r]} for r in range(p)]
        wire.round({r: (r ^ distance, list(sent[r])) for r in range(p)})
        data = [{k: v + sent[r ^ distance][k] for k, v in kept[r].items()} for r in range(p)]
        distance //= 2
    assert [data[r] for r in range(p)] == [
        {k: wanted[k] for k in (2 * r, 2 * r + 1)} for r in range(p)
    ]
    wire.agrees(collective("reduce-scatter", 2 * p, p, UNIT, "halving"))


@given(ranks)
def test_the_tree_goes_up_and_down(p):
    data, wire, edges, distance = numbers(p), Wire(p), [], 1
    wanted = [sum(column) for column in zip(*data, strict=True)]
    while distance < p:
        edges.append([(r + distance, r) for r in range(0, p - distance, 2 * distance)])
        distance *= 2
    for level in edges:
        wire.round({child: (root, data[child]) for child, root in level})
        for child, root in level:
            data[root] = [a + b for a, b in zip(data[root], data[child], strict=True)]
    for level in reversed(edges):
        wire.round({root: (child, data[root]) for child, root in level})
        for child, root in level:
            data[child] = data[root]
    assert data == [wanted] * p
    wire.agrees(collective("all-reduce", 2 * p, p, UNIT, "tree"))


@given(powers)
def test_bruck_sends_half_of_everything_each_round(p):
    held, wire, distance = [[(r, (r + k) % p) for k in range(p)] for r in range(p)], Wire(p), 1
    while distance < p:
        moved = [k for k in range(p) if k & distance]
        wire.round({r: ((r + distance) % p, [held[r][k] for k in moved] * 2) for r in range(p)})
        before = [list(row) for row in held]
        for r in range(p):
            for k in moved:
                held[(r + distance) % p][k] = before[r][k]
        distance *= 2
    assert all({to for _, to in row} == {r} for r, row in enumerate(held))
    assert all({source for source, _ in row} == set(range(p)) for row in held)
    wire.agrees(collective("all-to-all", 2 * p, p, UNIT, "bruck"))


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    whole = collective("all-reduce", 12, 4, UNIT)
    parts = [collective(name, 12, 4, UNIT) for name in ("reduce-scatter", "all-gather")]
    assert whole.seconds == sum(part.seconds for part in parts)
    assert whole.sent_bytes == sum(part.sent_bytes for part in parts) == 18


@given(st.integers(2, 64))
def test_no_all_reduce_moves_fewer_bytes_than_the_ring(p):
    ring = collective("all-reduce", p, p, UNIT)
    assert ring.sent_bytes == 2 * (p - 1)
    for name in known_algorithms("all-reduce", p):
        assert collective("all-reduce", p, p, UNIT, name).wire_bytes >= ring.wire_bytes


def test_latency_rules_small_messages_and_bandwidth_large_ones():
    over = link("nvlink-4")
    tie = tie_bytes("all-reduce", 8, over, "ring", "tree")
    assert tie == Fraction(8 * 2 * 450_000 * 4, 17)
    for payload, faster in ((tie / 2, "tree"), (tie * 2, "ring")):
        times = {a: collective("all-reduce", payload, 8, over, a).seconds for a in ("ring", "tree")}
        assert min(times, key=times.__getitem__) == faster
    ring, tree = (collective("all-reduce", tie, 8, over, a).seconds for a in ("ring", "tree"))
    assert ring == tree
    assert tie_bytes("all-reduce", 8, over, "ring", "halving") is None


def test_the_docstrings_have_their_numbers():
    over = link("NVLink-4")
    times = {
        name: float(collective("all-reduce", 8192, 4, over, name).seconds * 10**6)
        for name in ("ring", "doubling")
    }
    assert times == pytest.approx({"ring": 12.03, "doubling": 4.04}, abs=0.005)
    assert collective("all-reduce", 8192, 4, over).sent_bytes == 12 * 1024
    assert collective("all-reduce", 8192, 4, over).wire_bytes == 48 * 1024
    slow = Link(name="x", bytes_per_s=10**9, latency_s=Fraction(10, 10**6), source="given")
    assert slow.send_s(8192) == Fraction(18192, 10**9)


def test_the_fastest_is_a_short_way_for_few_bytes_and_a_narrow_one_for_many():
    over = link("nvlink-4")
    small, large = (fastest("all-reduce", payload, 8, over) for payload in (8192, 10**8))
    assert (small.algorithm, large.algorithm) == ("doubling", "halving")
    assert float(small.seconds * 10**6) == pytest.approx(6.05, abs=0.005)
    assert fastest("all-reduce", 10**8, 6, over).algorithm == "ring"
    assert fastest("all-reduce", 8, 6, over).algorithm == "tree"


def test_one_rank_sends_nothing():
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        for algorithm in known_algorithms(name):
            alone = collective(name, 1000, 1, UNIT, algorithm)
            assert (alone.seconds, alone.sent_bytes, alone.wire_bytes) == (0, 0, 0)


def test_every_link_has_a_source_and_half_of_what_both_ways_carry():
    assert all(link(name).source for name in known_links())
    assert link("nvlink-4").bytes_per_s == 450 * 10**9
    assert link("pcie-5").bytes_per_s == 64 * 10**9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: link("usb"), "unknown link 'usb'; known: nvlink-3"),
        (lambda: collective("broadcast", 1, 2, UNIT), "unknown collective 'broadcast'"),
        (lambda: fastest("broadcast", 1, 2, UNIT), "unknown collective 'broadcast'; known: all-re"),
        (lambda: collective("all-reduce", 1, 2, UNIT, "best"), "unknown algorithm 'best'"),
        (lambda: collective("all-reduce", 1, 0, UNIT), "ranks must be at least 1, got 0"),
        (lambda: collective("all-reduce", -1, 2, UNIT), "payload_bytes must be at least 0, got -1"),
        (
            lambda: collective("all-reduce", 1, 6, UNIT, "doubling"),
            "doubling needs a power of two of ranks, got 6",
        ),
        (lambda: collective("send", 1, 3, UNIT), "a send has 2 ranks, got 3"),
        (lambda: Link(name="x", bytes_per_s=0, latency_s=0, source="x"), "must be above 0, got 0"),
        (lambda: Link(name="x", bytes_per_s=1, latency_s=-1, source="x"), "at least 0, got -1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
