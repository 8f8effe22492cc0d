"""One workload under several rules, and the small engine beside the real scheduler."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.allocators import CITED, Contiguous, Filling, OnePiece, Pages, fill, paged
from lab.kv_blocks import BlockPool
from lab.ledgers.allocation import KINDS, allocation
from lab.policy import Continuous
from lab.request import Request
from lab.workload import Workload

STEPS = lab.CostModel.equal_steps()


class PageMemory:
    """Pages for the small engine, over the real pool: what the real scheduler must agree with."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = BlockPool(blocks, block_tokens)
        self.slots = blocks * block_tokens
        self.moved = 0
        self.tables: dict[str, list[int]] = {}

    def hold(self, request: Request, tokens: int) -> bool:
        table = self.tables.get(request.id, [])
        short = self.pool.blocks_for(tokens) - len(table)
        if short > self.pool.free:
            return False
        self.tables[request.id] = table + self.pool.allocate(short)
        return True

    def release(self, request: Request) -> None:
        self.pool.release(self.tables.pop(request.id))

    def held(self, request: Request) -> int:
        return len(self.tables[request.id]) * self.pool.block_tokens

    def is_broken(self, request: Request, tokens: int) -> bool:
        return False


def run(filling: Filling):
    while filling.goes_on:
        filling.step()
    return filling.account()


lengths = st.tuples(
    st.one_of(st.just(0), st.integers(0, 12), st.fractions(0, 9, max_denominator=4)),
    st.integers(1, 12),
    st.integers(1, 12),
)
works = st.lists(lengths, min_size=1, max_size=9).map(
    lambda rows: Workload.given({f"r{n}": row for n, row in enumerate(rows)})
)
rules = st.builds(
    lambda reserve, fit: Contiguous(reserve, 24 if reserve == "longest" else None, fit),
    st.sampled_from(("longest", "power of two", "exact", "doubling")),
    st.sampled_from(("first", "best", "buddy")),
)


@given(works, st.integers(0, 12), st.sampled_from((1, 2, 3, 4, 8)), st.integers(1, 5))
def test_with_pages_the_small_engine_does_what_the_real_scheduler_does(work, more, size, seats):
    blocks = max(-(-request.max_computed // size) for request in work) + more
    policy = Continuous(seats=seats, blocks=blocks, block_tokens=size, patience=0)
    trace = lab.simulate(work, policy, STEPS)
    mine = run(Filling(work, PageMemory(blocks, size), seats=seats))
    assert mine == allocation(trace)
    held = [step.used + step.reserved + step.internal for step in mine.steps]
    assert held == [used * size for used in trace.blocks_used()]


def test_an_engine_that_admits_the_last_first_would_be_found(monkeypatch):
    work = Workload.given({"A": (0, 6, 2), "B": (0, 1, 9), "C": (0, 3, 2)})
    pages = paged(work, Pages(1), 9)
    assert run(Filling(work, PageMemory(9, 1))) == allocation(pages)
    monkeypatch.setattr("lab.allocators.heapq.heappush", lambda heap, entry: heap.insert(0, entry))
    assert run(Filling(work, PageMemory(9, 1))) != allocation(pages)


@given(works, rules, st.integers(32, 64), st.integers(1, 5))
def test_whatever_the_rule_all_slots_are_told_and_all_come_back(work, rule, slots, seats):
    memory = OnePiece(rule, slots)
    filling = Filling(work, memory, seats=seats)
    while filling.goes_on:
        filling.step()
        regions = list(memory.regions.values())
        taken = [slot for region in regions for slot in region]
        assert len(set(taken)) == len(taken) == slots - memory.addresses.free
        assert len(regions) == len(filling.running) <= seats
        for sequence in filling.running:
            assert memory.held(sequence.request) >= sequence.computed
    account = filling.account()  # which refuses steps that do not add up
    assert memory.addresses.holes == [range(slots)]
    assert set(account.ends) == {request.id for request in work}
    assert all(step.external == 0 or step.waiting for step in account.steps)


@given(works, rules)
def test_where_memory_is_no_limit_no_rule_changes_when_anybody_ends(work, rule):
    free = lab.simulate(work, Continuous(seats=9), STEPS)
    account = fill(work, rule, 4096)
    assert account.ends == {record.id: record.end for record in free.requests}
    assert account.preemptions == 0
    assert account.pressed.steps == ()


@given(works, st.sampled_from(("first", "best")))
def test_what_a_rule_reserves_and_wastes(work, fit):
    exact = fill(work, Contiguous("exact", fit=fit), 64)
    assert {step.internal for step in exact.steps} == {0}
    longest = fill(work, Contiguous("longest", 24, fit), 64)
    held = {s.used + s.reserved + s.internal for s in longest.steps}
    assert held <= {24 * running for running in range(3)}
    for step in fill(work, Contiguous("doubling", fit=fit), 64).steps:
        assert 2 * step.used > step.used + step.reserved + step.internal
    assert exact.moved == longest.moved == 0


def test_one_request_in_eight_slots() -> None:
    account = fill(Workload.given({"A": (0, 4, 3)}), Contiguous("exact"), 8)
    assert [step[:5] for step in account.steps] == [
        (4, 2, 0, 0, 2),
        (5, 1, 0, 0, 2),
        (6, 0, 0, 0, 2),
    ]
    assert account.utilisation == Fraction(15, 24)
    assert account.ends == {"A": 3}


def test_enough_slots_in_two_holes_keep_a_request_out() -> None:
    """A, B and C lie side by side; A and C end, and D needs what they leave in one piece."""
    work = Workload.given({"A": (0, 3, 2), "B": (0, 3, 6), "C": (0, 3, 2), "D": (1, 7, 1)})
    account = fill(work, Contiguous("exact"), 16)
    assert account.ends == {"A": 2, "B": 6, "C": 2, "D": 7}
    told = [(s.used, s.reserved, s.external, s.free, s.waiting) for s in account.steps]
    assert told == [
        (9, 7, 0, 0, 0),
        (12, 4, 0, 0, 1),
        (5, 3, 8, 0, 1),  # holes from 0 to 3 and from 12 to 15
        (6, 2, 8, 0, 1),
        (7, 1, 8, 0, 1),
        (8, 0, 8, 0, 1),
        (7, 0, 0, 9, 0),
    ]
    assert fill(work, Pages(1), 16).ends["D"] == 3


def test_too_few_slots_are_free_and_not_external() -> None:
    work = Workload.given({"A": (0, 3, 2), "B": (0, 5, 1)})
    account = fill(work, Contiguous("exact"), 8)
    assert [(s.external, s.free) for s in account.steps] == [(0, 4), (0, 4), (0, 3)]


def test_a_region_that_doubles_grows_where_it_is_or_moves_with_its_tokens() -> None:
    alone = fill(Workload.given({"A": (0, 2, 8)}), Contiguous("doubling"), 16)
    assert (alone.moved, alone.ends) == (0, {"A": 8})
    between = Workload.given({"A": (0, 2, 4), "B": (0, 4, 1)})  # B is behind A, then gone
    assert fill(between, Contiguous("doubling"), 16).moved == 0
    beside = Workload.given({"A": (0, 2, 4), "B": (0, 3, 2)})
    assert fill(beside, Contiguous("doubling"), 16).moved == 2, "A moves behind B with 2 tokens"


def test_who_cannot_grow_makes_the_last_to_come_start_over() -> None:
    work = Workload.given({"A": (0, 4, 2), "B": (0, 4, 2)})
    account = fill(work, Contiguous("doubling"), 8)
    assert account.preemptions == 1
    assert account.ends == {"A": 2, "B": 3}
    assert [step.running for step in account.steps] == [2, 1, 1]


def test_in_a_step_in_which_somebody_gives_way_nobody_comes_in() -> None:
    """A needs 8 of 12 slots in step 2; the 4 behind them would do for B, and B comes in step 3."""
    work = Workload.given({"A": (0, 4, 2), "B": (0, 2, 3)})
    account = fill(work, Contiguous("doubling"), 12)
    assert account.ends == {"A": 2, "B": 4}
    assert [step.running for step in account.steps] == [2, 1, 1, 1]


def test_nobody_passes_who_waits_under_any_rule() -> None:
    work = Workload.given({"A": (0, 5, 4), "B": (0, 6, 1), "C": (0, 1, 1)})
    for rule in (Pages(1), Contiguous("exact")):
        assert fill(work, rule, 8).ends == {"A": 4, "B": 5, "C": 5}


def test_the_power_of_two_is_of_the_answer_and_not_of_the_prompt() -> None:
    rule = Contiguous("power of two")
    (request,) = Workload.given({"A": (0, 10, 26)})
    assert rule.slots(request, 10) == 10 + 32, "25 slots of the answer are written"
    (request,) = Workload.given({"A": (0, 10, 1)})
    assert rule.slots(request, 10) == 10


def test_a_buddy_system_rounds_the_whole_region() -> None:
    account = fill(Workload.given({"A": (0, 5, 2)}), Contiguous("exact", fit="buddy"), 16)
    assert [step[:3] for step in account.steps] == [(5, 1, 2), (6, 0, 2)]


CHATS = Workload.drawn(
    200,
    lab.Poisson(40),
    prompt=lab.LogNormal(70, p99=1000, high=1024),
    output=lab.LogNormal(190, p99=1024, high=1024),
    seed=5,
)
"""Chats in the shape of a public trace: short questions, longer answers, a few very long ones."""


def utilisations(fit):
    rules = {
        "maximum": Contiguous("longest", 2048, fit),
        "power of two": Contiguous("power of two", fit=fit),
        "oracle": Contiguous("exact", fit=fit),
        "paging": Pages(16),
    }
    return {
        name: fill(CHATS, rule, 15_728, step=Fraction(1, 40)).pressed.utilisation
        for name, rule in rules.items()
    }


@pytest.mark.parametrize("fit", ["first", "buddy"])
def test_chats_put_the_four_rules_in_the_papers_order(fit):
    shares = utilisations(fit)
    assert list(shares) == list(CITED)
    in_order = list(shares.values())
    assert in_order == sorted(in_order)
    assert in_order[0] < Fraction(1, 4) < Fraction(9, 10) < in_order[3]


def utilisation(output: int, rule: Contiguous):
    """Of 20 equal requests with prompts of 8 tokens in 160 slots."""
    work = Workload.given({f"r{n}": (0, 8, output) for n in range(20)})
    return fill(work, rule, 160).utilisation


def test_the_order_needs_answers_of_many_lengths():
    """25 tokens fill 24 slots, which is no power of two; 33 fill 32, which is one."""
    assert utilisation(25, Contiguous("power of two")) < utilisation(25, Contiguous("exact"))
    assert utilisation(33, Contiguous("power of two")) == utilisation(33, Contiguous("exact"))
    assert utilisation(33, Contiguous("longest", 40)) == utilisation(33, Contiguous("exact"))
    assert utilisation(25, Contiguous("longest", 32)) == utilisation(25, Contiguous("exact"))


def test_rules_side_by_side_are_one_table_and_rows_for_a_chart() -> None:
    work = Workload.given({"A": (0, 4, 3)})
    accounts = {"exact": fill(work, Contiguous("exact"), 8), "pages": fill(work, Pages(4), 8)}
    table = lab.compare(accounts, "allocator")
    assert [row["allocator"] for row in table] == ["exact", "pages"]
    rows = [row for name, account in accounts.items() for row in account.rows(name)]
    assert len(rows) == 2 * 3 * len(KINDS)
    assert rows[0] == {"allocator": "exact", "step": 0, "kind": "used", "share": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("rule", "slots", "message"),
    [
        (Contiguous("exact"), 5, "request 'A' may need a region of 6 slots, and the memory has 5"),
        (Contiguous("longest", 5), 64, "request 'A' may need 6 slots, and a request gets 5"),
        (Contiguous("longest", 9), 8, "request 'A' may need a region of 9 slots, and the memory"),
        (Contiguous("doubling"), 7, "request 'A' may need a region of 8 slots, and the memory has"),
        (Contiguous("exact", fit="buddy"), 7, "may need a region of 8 slots, and the memory has 7"),
        (Pages(4), 4, "request 'A' may need 2 blocks for 6 positions, and the pool has 1"),
        (Pages(3), 8, "8 slots are no whole number of blocks of 3"),
        (Pages(0), 8, "8 slots are no whole number of blocks of 0"),
    ],
)
def test_what_can_never_run_is_refused(rule, slots, message):
    with pytest.raises(ValueError, match=message):
        fill(Workload.given({"A": (0, 4, 3)}), rule, slots)


def test_requests_that_are_not_plain_are_refused() -> None:
    for more in ({"n": 2}, {"deadline": 9}, {"cancel_at": 9}):
        work = Workload.given({"A": {"prompt": 4, "output": 3, **more}})
        with pytest.raises(ValueError, match="request 'A' has"):
            fill(work, Pages(4), 64)


def test_rules_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reserve must be one of longest, .*, got 'least'"):
        Contiguous("least")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got None with 'longest'"):
        Contiguous("longest")
    with pytest.raises(ValueError, match="got 8 with 'exact'"):
        Contiguous("exact", 8)
