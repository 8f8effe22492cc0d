"""The pool read from a trace is the pool that the scheduler really had, block by block."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace

import pytest
from drawn_runs import Scripted, ask, crowded, policies, scripted, served, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

import lab
from lab.clock import VirtualClock
from lab.engine import Engine
from lab.figures import pool_states as module
from lab.figures.pool_states import PoolState, pool_states
from lab.plan import Executor, StepOutcome, StepPlan
from lab.policy import Continuous, Policy, Static
from lab.prefix import PrefixIndex
from lab.request import Request, Time
from lab.scheduler import Scheduler
from lab.trace import Trace

MATCHING = {"prefix_cache": True, "blocks": 8, "block_tokens": 4}


@dataclass
class Books:
    """An executor that writes down, before each step, what the real pool says."""

    inner: Executor
    scheduler: Scheduler
    tables: list[dict[str, tuple[int, ...]]] = field(default_factory=list)
    holders: list[Counter[int]] = field(default_factory=list)
    counts: list[tuple[int, int, int]] = field(default_factory=list)
    kept: list[set[int]] = field(default_factory=list)
    host: list[int] = field(default_factory=list)

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        pool = self.scheduler.pool
        assert pool is not None
        forks = {c.request_id: c.blocks for c in plan.written if c.fork_of}  # share when it is over
        self.tables.append({s.request.id: tuple(s.blocks) for s in self.scheduler.running} | forks)
        held = Counter({b: pool.holders(b) for b in range(pool.num_blocks) if pool.holders(b)})
        self.holders.append(held + Counter(b for blocks in forks.values() for b in blocks))
        self.counts.append((pool.free, pool.used, pool.cached))
        self.kept.append(set(pool._cached))
        back = sum(chunk.restored for chunk in plan.written)  # on its way: counted in both places
        self.host.append(self.scheduler.tables.host_used - back)
        return self.inner.run(plan, now, until)


def assert_same(state: PoolState, books: Books, step: int, blocks: int) -> None:
    held = {block: len(who) for block, who in state.holders.items()}
    assert dict(state.tables) == books.tables[step]
    assert held == books.holders[step]
    assert set(state.cached) == books.kept[step]
    counts = (blocks - len(held) - len(state.cached), len(held), len(state.cached))
    assert counts == books.counts[step]
    assert sum(state.host.values()) == books.host[step]


def assert_filled_alike(state: PoolState, size: int) -> None:
    """Whoever shares a block has filled as much of it."""
    filled: dict[int, set[int]] = {}
    for who, table in state.tables.items():
        for place, block in enumerate(table):
            filled.setdefault(block, set()).add(min(size, state.reached[who] - place * size))
    assert all(len(amounts) == 1 for amounts in filled.values())


def watched(requests: list[Request], policy: Policy, executor: Executor) -> tuple[Trace, Books]:
    scheduler = Scheduler(policy, repeats=False)
    books = Books(executor, scheduler)
    engine = Engine(
        scheduler, books, VirtualClock(), Trace("step", asdict(policy), starts=[], ends=[])
    )
    return engine.run(requests), books


any_run = st.one_of(
    crowded(),
    crowded(drafts=True),
    st.tuples(workloads(), policies().filter(lambda policy: policy.blocks is not None)),
)


def compare(drawn: tuple[list[Request], Policy], executor: Executor) -> None:
    asked, policy = drawn
    trace, books = watched(asked, policy, executor)
    if trace.num_steps > module.MOST_STEPS:
        return
    states = pool_states(trace, asked)
    assert len(states) == trace.num_steps + 1 == len(books.counts) + 1
    assert policy.blocks is not None
    for step, state in enumerate(states[:-1]):
        assert_same(state, books, step, policy.blocks)
        for who, table in state.tables.items():
            assert len(table) == -(-state.reached[who] // policy.block_tokens)
        assert_filled_alike(state, policy.block_tokens)
    pool = books.scheduler.pool
    assert pool is not None
    assert (states[-1].tables, set(states[-1].cached)) == ({}, set(pool._cached))
    assert [len(state.holders) for state in states[:-1]] == trace.blocks_used()


@settings(max_examples=120, deadline=None)
@given(any_run, scripted(failing=True, all_guesses=True))  # no trace has blocks of unmade guesses
def test_every_step_has_the_blocks_of_the_real_pool(drawn, executor):
    compare(drawn, executor)


@settings(max_examples=60, deadline=None)
@given(any_run)
def test_where_nobody_names_tokens_only_prompts_are_known(drawn):
    compare(drawn, lab.CostModel.equal_steps())


def test_a_wrong_rule_of_publication_would_be_noticed(monkeypatch):
    """Two prompts that are equal and computed at once fill two blocks, and one of them is kept."""
    asked = [ask("A", 8, 1), ask("B", 8, 1), ask("C", 4, 1, 3)]
    policy = Continuous(seats=2, **MATCHING)
    compare((asked, policy), Scripted())
    end = pool_states(served(asked, policy), asked)[-1]
    assert end.cached == (0, 1)

    class Silent(PrefixIndex):
        def publish(self, *told):
            return []

    monkeypatch.setattr(module, "PrefixIndex", Silent)
    with pytest.raises(AssertionError):
        compare((asked, policy), Scripted())


def test_answers_of_a_live_run_are_known_as_well():
    """6 prompt tokens and 2 of the 3 that follow fill 2 blocks of 4: the last has no K and V."""
    asked = [ask("A", 6, 3)]
    named = served(asked, Continuous(seats=1, **MATCHING), Scripted(), repeats=False)
    assert pool_states(named, asked)[-1].cached == (0, 1)
    simulated = served(asked, Continuous(seats=1, **MATCHING))
    assert pool_states(simulated, asked)[-1].cached == (0,)


def test_with_and_without_equal_steps_taken_at_once_the_pool_is_the_same():
    asked = [ask("A", 5, 9), ask("B", 5, 9, 2)]
    policy = Continuous(seats=2, blocks=6, block_tokens=3)
    runs = [served(asked, policy, repeats=repeats) for repeats in (True, False)]
    assert pool_states(runs[0]) == pool_states(runs[1])


# What cannot be read


def test_a_trace_without_steps_or_pool_is_refused():
    work = lab.Workload.given({"A": (0, 4, 2)})
    with pytest.raises(ValueError, match="this trace has only deliveries"):
        pool_states(lab.given({"A": [5, 6]}, work))
    with pytest.raises(ValueError, match="this trace has no limit of memory"):
        pool_states(served(work, Static(seats=1)))


def test_a_pool_or_a_run_too_large_to_look_at_is_refused():
    policy = Continuous(seats=1, blocks=65, block_tokens=1)
    trace = served([ask("A", 3, 201)], replace(policy, blocks=64, block_tokens=4))
    with pytest.raises(ValueError, match=r"at most 64 blocks and 200 steps, .* has 65 and 2"):
        pool_states(served([ask("A", 3, 2)], policy))
    with pytest.raises(ValueError, match=r"at most 64 blocks and 200 steps, .* has 64 and 201"):
        pool_states(trace)


def test_a_trace_that_has_forgotten_somebody_is_refused():
    trace = served([ask("A", 3, 2)], Continuous(seats=1, blocks=4))
    trace.settings["forgotten"] = 2
    with pytest.raises(ValueError, match="all requests, and this trace has forgotten 2"):
        pool_states(trace)


def test_a_prefix_cache_needs_the_prompts():
    asked = [ask("A", 9, 2)]
    trace = served(asked, Continuous(seats=1, **MATCHING))
    with pytest.raises(ValueError, match="depends on the prompts' ids"):
        pool_states(trace)
    with pytest.raises(ValueError, match=r"'A': the trace has a prompt of 9 .* workload has none"):
        pool_states(trace, [ask("B", 9, 2)])
    with pytest.raises(ValueError, match="workload has one of 8 tokens"):
        pool_states(trace, [ask("A", 8, 2)])
