"""Tables share what they may and nothing else: whoever is computed reads its own K and V."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, replace
from fractions import Fraction

import pytest
from drawn_runs import (
    Scripted,
    ask,
    assert_at_rest,
    cost_models,
    crowded,
    engine_of,
    scripted,
    served,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from remembering import Remembering

from lab.clock import VirtualClock
from lab.engine import Engine
from lab.executors.cost_model import CostModel
from lab.ledgers.latency import latency
from lab.plan import Event, StepOutcome, StepPlan, Swap
from lab.policy import Continuous, Policy, Static
from lab.request import Request, Time
from lab.scheduler import Refused, Scheduler
from lab.trace import Trace


def started(trace: Trace) -> list[str]:
    """Names in the order of first chunks."""
    return [c.request_id for step in trace.steps() for c in step.chunks if c.start == 0]


class Broke(RuntimeError):
    """What goes wrong in these tests."""


@dataclass
class Breaking:
    """Raises in the turns that are named, before anything was done or after blocks were moved."""

    inner: Remembering
    before: set[int]
    after: set[int]
    turn: int = -1

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        self.turn += 1
        if self.turn in self.before:
            raise Broke
        if self.turn in self.after:
            self.inner.move(plan)
            raise Broke
        return self.inner.run(plan, now, until)


def take(engine: Engine, request: Request) -> None:
    try:
        engine.add(request)
    except Refused as reason:
        engine.trace.refuse(request, str(reason))


def run_with_memory(
    asked: list[Request],
    policy: Policy,
    inner: Scripted,
    before: set[int] = frozenset(),  # type: ignore[assignment]
    after: set[int] = frozenset(),  # type: ignore[assignment]
) -> Engine:
    memory = Remembering(policy.block_tokens, inner)
    trace = Trace("step", asdict(policy), starts=[], ends=[])
    scheduler = Scheduler(policy, repeats=False)
    engine = Engine(scheduler, Breaking(memory, before, after), VirtualClock(), trace)
    for request in asked:
        memory.take(request)
    coming = deque(sorted(asked, key=lambda request: request.arrival))
    for _ in range(3000):
        while coming and coming[0].arrival <= engine.clock.now():
            take(engine, coming.popleft())
        if not (coming or scheduler.has_work):
            break
        try:
            engine.step(coming[0].arrival if coming else None)
        except Broke:
            trace.check()
    trace.check()
    assert_at_rest(scheduler)
    for record in trace.requests:
        assert record.output == memory.output[record.id]
    return engine


# The prefix cache

CACHE = Continuous(blocks=9, block_tokens=4, prefix_cache=True)


def cached(trace: Trace) -> dict[str, list[int]]:
    return {r.id: [run.cached for run in r.runs if run.cached] for r in trace.requests}


@pytest.mark.parametrize(
    ("prompt", "hit"), [(3, 0), (4, 0), (5, 4), (7, 4), (8, 4), (9, 8), (12, 8), (13, 12)]
)
def test_whole_blocks_are_used_again_and_the_last_token_is_always_computed(
    prompt: int, hit: int
) -> None:
    trace = served([ask("A", prompt, 1), ask("B", prompt, 1, arrival=1)], CACHE)
    assert trace.timeline() == [f"0-1  A[0:{prompt})", f"1-2  B[{hit}:{prompt})"]
    assert hit == (prompt - 1) // 4 * 4
    assert [run.cached for run in trace["B"].runs] == [hit]
    assert trace["B"].runs[0].blocks[: hit // 4] == trace["A"].runs[0].blocks[: hit // 4]


def test_what_is_computed_in_this_step_is_known_in_the_next() -> None:
    asked = [ask("A", 9, 3), ask("B", 9, 1), ask("C", 9, 1, arrival=1)]
    trace = served(asked, CACHE)
    assert trace.timeline()[:2] == ["0-1  A[0:9) B[0:9)", "1-2  A[9:10) C[8:9)"]
    assert trace["C"].runs[0].blocks[:2] == trace["A"].runs[0].blocks[:2], "the first one's"
    assert trace.blocks_used() == [6, 4, 3], "what A and C share counts once"


def test_a_prompt_in_chunks_is_known_block_by_block() -> None:
    policy = replace(CACHE, seats=2, token_budget=5)
    trace = served([ask("A", 13, 1), ask("B", 9, 1, arrival=1)], policy)
    assert trace.timeline() == [
        "0-1  A[0:5)",
        "1-2  A[5:10)",
        "2-3  A[10:13) B[8:9)",
    ]


@pytest.mark.parametrize("other", [{"tenant": "x"}, {"adapter": "law@2"}])
def test_nobody_is_given_what_was_computed_for_another_tenant_or_with_another_adapter(
    other: dict[str, str],
) -> None:
    asked = [ask("A", 9, 1), ask("B", 9, 1, 1, **other), ask("C", 9, 1, 2, **other)]
    assert cached(served(asked, CACHE)) == {"A": [], "B": [], "C": [8]}


def test_the_least_recently_used_block_goes_first_and_no_block_before_those_behind_it() -> None:
    asked = [
        ask("A", range(9), 1),  # blocks 0 and 1 stay, cached
        ask("B", range(100, 109), 1, arrival=1),  # 2 and 3
        ask("C", range(200, 213), 1, arrival=2),  # takes 4 and 5, which are free, then 1 and 0
        ask("D", range(100, 109), 1, arrival=3),
    ]
    trace = served(asked, Continuous(blocks=6, block_tokens=4, prefix_cache=True))
    assert trace["C"].runs[0].blocks == [4, 5, 1, 0]
    assert trace.evictions == [(2, 1), (2, 0)]
    assert cached(trace)["D"] == [8]


def test_a_block_that_was_used_again_is_younger() -> None:
    asked = [
        ask("A", range(9), 1),
        ask("B", range(100, 109), 1, arrival=1),
        ask("A again", range(9), 1, arrival=2),
        ask("C", range(200, 213), 1, arrival=3),
        ask("D", range(9), 1, arrival=4),
    ]
    trace = served(asked, Continuous(blocks=6, block_tokens=4, prefix_cache=True))
    assert cached(trace) == {"A": [], "B": [], "A again": [8], "C": [], "D": [8]}


def test_cached_blocks_keep_nobody_out() -> None:
    asked = [ask("A", range(9), 4), ask("B", range(100, 109), 4, arrival=5)]
    for preemption in ("recompute", "swap", "never"):
        policy = Continuous(blocks=3, block_tokens=4, prefix_cache=True, preemption=preemption)  # type: ignore[arg-type]
        trace = served(asked, policy)
        assert trace["B"].runs[0].first == 4


def test_a_shared_beginning_lets_two_run_where_one_would_fit() -> None:
    asked = [ask("A", 9, 3), ask("B", 9, 3, arrival=1)]
    for preemption in ("recompute", "never"):
        policy = Continuous(blocks=4, block_tokens=4, preemption=preemption)  # type: ignore[arg-type]
        assert served(asked, policy)["B"].runs[0].first == 3
        trace = served(asked, replace(policy, prefix_cache=True))
        assert trace.timeline()[1] == "1-2  A[9:10) B[8:9)"
        assert max(trace.blocks_used()) == 4


def test_who_is_preempted_finds_its_own_blocks_again_and_that_is_no_hit_of_its_first_time() -> None:
    asked = [ask("A", 8, 3), ask("B", range(100, 108), 3)]
    trace = served(asked, Continuous(seats=8, blocks=5, block_tokens=4, prefix_cache=True))
    assert trace.timeline() == [
        "0-1  A[0:8) B[0:8)",
        "1-2  A[8:9)",
        "2-3  A[9:10)",
        "3-4  B[8:9)",  # nobody needed its two blocks meanwhile
        "4-5  B[9:10)",
    ]
    assert [run.cached for run in trace["B"].runs] == [0, 8, 0]


def test_with_named_tokens_an_answer_is_known_too_as_the_beginning_of_the_next_question() -> None:
    asked = [ask("A", 6, 4), ask("B", range(13), 1, arrival=5)]  # Scripted answers 6, 7, 8, 9
    trace = served(asked, CACHE, Scripted(), repeats=False)
    assert cached(trace)["B"] == [8], "position 9 was never computed"
    assert cached(served(asked, CACHE))["B"] == [4], "a simulation does not know the answer"


def test_what_failed_is_not_known() -> None:
    executor = Scripted(fails=lambda who, start: "NaN" if who == "A" else "")
    asked = [ask("A", 9, 1), ask("B", 9, 1, arrival=1)]
    assert cached(served(asked, CACHE, executor, repeats=False))["B"] == []


def test_a_prompt_that_fits_the_budget_only_thanks_to_the_cache_is_admitted() -> None:
    policy = replace(CACHE, seats=2, token_budget=11, chunked_prefill=False)
    asked = [ask("A", 9, 3), ask("B", 11, 1, arrival=1)]
    assert served(asked, policy).timeline()[1] == "1-2  A[9:10) B[8:11)"
    without = served(asked, replace(policy, prefix_cache=False))
    assert without["B"].runs[0].first == 3


# Forks


@pytest.mark.parametrize(
    ("prompt", "copies", "used"),
    [(3, [(0, 1), (0, 2)], [1, 3, 6]), (4, [], [1, 4, 4]), (5, [(1, 2), (1, 3)], [2, 4, 4])],
)
def test_the_first_write_into_a_shared_block_copies_it_and_the_last_sharer_keeps_it(
    prompt: int, copies: list[tuple[int, int]], used: list[int]
) -> None:
    executor = Scripted()
    policy = Continuous(seats=3, blocks=9, block_tokens=4)
    trace = served([ask("A", prompt, 3, n=3)], policy, executor, repeats=False)
    p = prompt
    assert trace.timeline() == [
        f"0-1  A[0:{p}) A#2[{p}:{p}) A#3[{p}:{p})",
        f"1-2  A[{p}:{p + 1}) A#2[{p}:{p + 1}) A#3[{p}:{p + 1})",
        f"2-3  A[{p + 1}:{p + 2}) A#2[{p + 1}:{p + 2}) A#3[{p + 1}:{p + 2})",
    ]
    plans = [plan for _, plan in executor.plans]
    assert [list(plan.copies) for plan in plans] == [[], copies, []]
    assert [chunk.fork_of for chunk in plans[0].written] == [None, "A", "A"]
    assert trace.blocks_used() == used
    assert [record.fork_of for record in trace.requests] == [None, "A", "A"]
    assert [record.output for record in trace.requests] == [[*range(p, p + 3)]] * 3


def test_a_request_waits_until_there_is_a_seat_for_each_of_its_answers() -> None:
    asked = [ask("A", 4, 3), ask("B", 2, 2, arrival=1, n=2), ask("C", 2, 1, arrival=1)]
    policy = Continuous(seats=2, patience=0)
    assert served(asked, policy).timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5)",
        "2-3  A[5:6)",
        "3-4  B[0:2) B#2[2:2)",
        "4-5  B[2:3) B#2[2:3)",
        "5-6  C[0:2)",
    ]
    assert started(served(asked, replace(policy, patience=1))) == ["A", "C", "B"]


def test_while_its_prompt_is_computed_nobody_takes_the_seats_of_the_others() -> None:
    asked = [ask("A", 9, 2, n=2), ask("B", 1, 1)]
    trace = served(asked, Continuous(seats=2, token_budget=4))
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:8)",
        "2-3  A[8:9) A#2[9:9)",
        "3-4  A[9:10) A#2[9:10)",
        "4-5  B[0:1)",
    ]


def test_a_pool_for_one_answer_serves_two_one_after_the_other() -> None:
    trace = served([ask("A", 5, 3, n=2)], Continuous(seats=2, blocks=2, block_tokens=4))
    assert trace.timeline() == [
        "0-1  A[0:5) A#2[5:5)",
        "1-2  A[5:6)",  # no block for a copy: A#2 is preempted, and keeps its first token
        "2-3  A[6:7)",
        "3-4  A#2[0:6)",
        "4-5  A#2[6:7)",
    ]
    assert trace.token_times("A#2") == [1, 4, 5]


def test_a_pool_of_three_holds_both_answers_at_once() -> None:
    trace = served([ask("A", 5, 3, n=2)], Continuous(seats=2, blocks=3, block_tokens=4))
    assert trace.num_steps == 3
    assert trace.blocks_used() == [2, 3, 3]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            Continuous(seats=2),
            "request 'A' asks for 3 answers, each needs a seat, and there are 2",
        ),
        (
            Continuous(seats=3, blocks=4, block_tokens=4, preemption="never"),
            "request 'A' may need 7 blocks for 9 positions in each of 3 answers, "
            "and the pool has 4",
        ),
        (
            Static(seats=3, blocks=6, block_tokens=4),
            "request 'A' may need 7 blocks for 9 positions in each of 3 answers, "
            "and the pool has 6",
        ),
        (
            Continuous(seats=3, blocks=2, block_tokens=4),
            "request 'A' may need 3 blocks for 9 positions, and the pool has 2",
        ),
    ],
)
def test_answers_that_can_never_run_are_refused_together(policy: Policy, message: str) -> None:
    trace = served([ask("A", 6, 4, n=3)], policy)
    assert [(r.id, r.status, r.reason) for r in trace.requests] == [
        (name, "refused", message) for name in ("A", "A#2", "A#3")
    ]


@pytest.mark.parametrize(
    "policy",
    [
        Continuous(seats=3, blocks=7, block_tokens=4, preemption="never"),
        Static(seats=3, blocks=7, block_tokens=4),
        Continuous(seats=3, blocks=3, block_tokens=4),
        Continuous(seats=3, blocks=3, block_tokens=4, preemption="swap"),
    ],
)
def test_a_pool_that_just_holds_them_serves_them(policy: Policy) -> None:
    trace = served([ask("A", 6, 4, n=3)], policy)
    assert [record.output_tokens for record in trace.requests] == [4, 4, 4]


def test_the_answers_of_a_static_batch_leave_together() -> None:
    asked = [ask("A", 3, 2, n=2), ask("B", 3, 3), ask("C", 1, 1)]
    trace = served(asked, Static(seats=3, blocks=9, block_tokens=4))
    assert trace.timeline()[-1] == "3-4  C[0:1)"
    assert [(s.first, s.stop) for name in ("A", "A#2") for s in trace[name].stays] == [(0, 3)] * 2


@pytest.mark.parametrize("steps", range(6))
def test_with_the_id_of_the_request_all_answers_are_cancelled_and_with_its_own_one(
    steps: int,
) -> None:
    for who, gone in (("A", {"A", "A#2", "A#3"}), ("A#2", {"A#2"})):
        policy = Continuous(seats=3, token_budget=4, blocks=9, block_tokens=4)
        engine = engine_of(policy)
        engine.add(ask("A", 9, 4, n=3))
        while engine.clock.now() < steps:
            engine.step(steps)
        assert engine.cancel(who)
        trace = engine.run([ask("B", 4, 1, arrival=9)])
        trace.check()
        assert_at_rest(engine.scheduler)
        ended = {record.id for record in trace.requests if record.status == "cancelled"}
        assert ended == gone


def test_when_the_prompt_fails_all_answers_fail_with_it() -> None:
    for start in (0, 4, 8):
        executor = Scripted(fails=lambda who, at, start=start: "NaN" if at == start else "")  # type: ignore[misc]
        policy = Continuous(seats=3, token_budget=4, blocks=9, block_tokens=4)
        trace = served([ask("A", 9, 4, n=3)], policy, executor, repeats=False)
        assert {(r.status, r.reason, r.output_tokens) for r in trace.requests} == {
            ("failed", "NaN", 0)
        }


def test_the_id_of_an_answer_is_taken() -> None:
    engine = engine_of(Continuous())
    engine.add(ask("A#2", 1, 1))
    with pytest.raises(ValueError, match="request 'A#2' was added already; ids must be unique"):
        engine.add(ask("A", 1, 1, n=2))
    engine.add(ask("A", 1, 1))


# Swap

QUARTER = CostModel.equal_steps().swapping(Fraction(1, 4))
SWAP = Continuous(seats=8, blocks=3, block_tokens=4, preemption="swap")


def test_who_is_swapped_out_goes_on_where_it_was_and_each_block_takes_its_time() -> None:
    asked = [ask("A", 4, 3), ask("B", 4, 3)]
    trace = served(asked, SWAP, QUARTER)
    assert trace.timeline() == [
        "0-1  A[0:4) B[0:4)",
        "1-9/4  A[4:5)",  # the block of B moves out
        "9/4-13/4  A[5:6)",
        "13/4-9/2  B[4:5)",  # and comes back
        "9/2-11/2  B[5:6)",
    ]
    assert [(s.preempted, s.swapped_out) for s in trace["B"].stays] == [(True, 1), (False, 0)]
    assert [(run.kind, run.restored) for run in trace["B"].runs] == [
        ("prefill", 0),
        ("decode", 1),
        ("decode", 0),
    ]
    spans = latency(trace)["B"].spans
    assert spans is not None
    assert (spans["swapped"], spans["preempted"], spans["recompute"]) == (Fraction(9, 4), 0, 0)
    assert sum(spans.values()) == latency(trace)["B"].e2e


def test_a_plan_says_which_blocks_move() -> None:
    executor = Scripted()
    served([ask("A", 4, 3), ask("B", 4, 3)], SWAP, executor, repeats=False)
    plans = [plan for _, plan in executor.plans]
    assert plans[1].events == (Event("B", "preempted", "swapped out"),)
    assert [plan.swap_out for plan in plans] == [(), (Swap("B", (1,)),), (), (), ()]
    assert [plan.swap_in for plan in plans] == [(), (), (), (Swap("B", (0,)),), ()]
    assert plans[3].written[0].blocks == (0, 1), "one comes back, and one is new"
    assert [plan.swapped_blocks for plan in plans] == [0, 1, 0, 1, 0]
    assert plans[3].ended == ("A",)


@pytest.mark.parametrize(
    ("host", "reason", "kind"),
    [
        (2, "swapped out", "decode"),
        (1, "2 blocks do not fit in host memory, 0 of 1 are used", "recompute"),
    ],
)
def test_who_does_not_fit_in_host_memory_starts_over(host: int, reason: str, kind: str) -> None:
    executor = Scripted()
    policy = replace(SWAP, blocks=4, host_blocks=host)
    trace = served([ask("A", 7, 5), ask("B", 7, 5)], policy, executor, repeats=False)
    told = [e for _, plan in executor.plans for e in plan.events if e.kind == "preempted"]
    assert told == [Event("B", "preempted", reason)]
    assert trace["B"].runs[-1 if kind == "recompute" else 2].kind in (kind, "decode")
    assert any(run.kind == "recompute" for run in trace["B"].runs) == (kind == "recompute")
    assert trace["B"].output == [*range(7, 12)]


def test_host_memory_is_free_again_when_who_lies_there_is_cancelled() -> None:
    engine = engine_of(replace(SWAP, host_blocks=1))
    for request in (ask("A", 4, 5), ask("B", 4, 5, cancel_at=2)):
        engine.add(request)
    engine.step(1)
    engine.step(2)
    assert engine.scheduler.tables.host_used == 1
    engine.run([])
    assert_at_rest(engine.scheduler)
    engine.trace.check()
    assert engine.trace["B"].status == "cancelled"


def test_a_prompt_in_chunks_is_swapped_out_in_the_middle_and_goes_on() -> None:
    asked = [ask("A", 3, 9), ask("B", 12, 1, arrival=1)]
    policy = replace(SWAP, seats=2, token_budget=5, blocks=4)
    assert served(asked, policy).timeline()[-3:] == [
        "7-8  A[9:10)",
        "8-9  A[10:11)",
        "9-10  B[8:12)",
    ]


def test_the_memory_of_a_fork_moves_as_a_whole() -> None:
    policy = replace(SWAP, seats=2, blocks=2)
    trace = served([ask("A", 5, 3, n=2)], policy)
    assert trace.timeline()[3:] == ["3-4  A#2[5:6)", "4-5  A#2[6:7)"]
    assert [stay.swapped_out for stay in trace["A#2"].stays] == [2, 0]


# Everything together

turns = st.sets(st.integers(0, 30), max_size=6)
any_crowd = st.one_of(crowded(), crowded(drafts=True))


@settings(max_examples=200, deadline=None)
@given(crowd=any_crowd, executor=scripted(failing=True))
def test_every_sequence_reads_the_k_and_v_that_were_computed_for_its_own_history(
    crowd: tuple[list[Request], Policy], executor: Scripted
) -> None:
    run_with_memory(*crowd, executor)


@settings(max_examples=200, deadline=None)
@given(crowd=any_crowd, executor=scripted(failing=True), before=turns, after=turns)
def test_so_it_is_after_plans_that_broke_before_or_after_blocks_were_moved(
    crowd: tuple[list[Request], Policy], executor: Scripted, before: set[int], after: set[int]
) -> None:
    run_with_memory(*crowd, executor, before, after)


@settings(max_examples=200, deadline=None)
@given(crowd=crowded(), cost=cost_models)
def test_in_a_crowd_too_equal_steps_at_once_give_the_same_trace_bit_for_bit(
    crowd: tuple[list[Request], Policy], cost: CostModel
) -> None:
    at_once = served(*crowd, cost, repeats=True)
    one_by_one = served(*crowd, cost, repeats=False)
    assert (at_once.starts, at_once.ends) == (one_by_one.starts, one_by_one.ends)
    assert list(at_once.requests) == list(one_by_one.requests)
    assert at_once.evictions == one_by_one.evictions
