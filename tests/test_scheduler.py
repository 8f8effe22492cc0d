"""Schedules that can be checked by hand: the expected value is the timetable on the board."""

from __future__ import annotations

import re
from typing import Any

import pytest
from drawn_runs import Scripted, ask, assert_at_rest, engine_of, served

from lab.engine import Stuck
from lab.plan import Chunk, Event, StepOutcome, StepPlan
from lab.policy import Continuous, Static
from lab.request import Request
from lab.scheduler import Refused, Scheduler

INFINITY = float("inf")


def ending(trace: Any, name: str) -> tuple[str, str, object]:
    record = trace[name]
    return record.status, record.reason, record.end


def three() -> list[Request]:
    return [ask("A", 1, 2), ask("B", 1, 4), ask("C", 1, 2)]


# Batching


def test_a_static_batch_leaves_when_its_last_member_is_done() -> None:
    trace = served(three(), Static(seats=2))
    assert trace.timeline() == [
        "0-1  A[0:1) B[0:1)",
        "1-2  A[1:2) B[1:2)",
        "2-3  B[2:3)",  # the seat of A is kept
        "3-4  B[3:4)",
        "4-5  C[0:1)",
        "5-6  C[1:2)",
    ]


def test_in_continuous_batching_a_free_seat_is_taken_at_once() -> None:
    trace = served(three(), Continuous(seats=2))
    assert trace.timeline() == [
        "0-1  A[0:1) B[0:1)",
        "1-2  A[1:2) B[1:2)",
        "2-3  C[0:1) B[2:3)",
        "3-4  C[1:2) B[3:4)",
    ]


def test_a_newcomer_joins_the_running_batch() -> None:
    trace = served([ask("A", 4, 3), ask("B", 2, 2, arrival=1)], Continuous(seats=4))
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5) B[0:2)",
        "2-3  A[5:6) B[2:3)",
    ]


def test_a_newcomer_in_the_middle_of_a_step_waits_for_its_end() -> None:
    trace = served([ask("A", 4, 4), ask("B", 2, 1, arrival=1.5)], Continuous(seats=4))
    assert trace.timeline() == ["0-1  A[0:4)", "1-2  A[4:5)", "2-3  A[5:6) B[0:2)", "3-4  A[6:7)"]


def test_the_machine_waits_idle_for_the_next_arrival() -> None:
    trace = served([ask("A", 1, 1), ask("B", 1, 1, arrival=5)], Continuous(seats=4))
    assert trace.timeline() == ["0-1  A[0:1)", "5-6  B[0:1)"]


def test_a_static_batch_waits_until_it_is_full() -> None:
    asked = [ask("A", 1, 1), ask("B", 1, 1, arrival=3)]
    assert served(asked, Static(seats=2, timeout=10)).timeline() == ["3-4  A[0:1) B[0:1)"]


def test_a_static_batch_waits_no_longer_than_its_timeout() -> None:
    asked = [ask("A", 1, 1), ask("B", 1, 1, arrival=3)]
    trace = served(asked, Static(seats=2, timeout=2))
    assert trace.timeline() == ["2-3  A[0:1)", "5-6  B[0:1)"]


def test_the_timeout_counts_from_the_oldest_arrival_even_under_another_order() -> None:
    asked = [ask("A", 1, 1), ask("B", 1, 1, arrival=1, priority=9)]
    trace = served(asked, Static(seats=3, timeout=4, order="priority"))
    assert trace.timeline() == ["4-5  B[0:1) A[0:1)"]


def test_a_timeout_that_ran_out_while_a_batch_ran_opens_the_next_at_once() -> None:
    asked = [ask("A", 1, 6), ask("B", 1, 1, arrival=2)]
    trace = served(asked, Static(seats=2, timeout=1))
    assert trace.timeline()[-1] == "7-8  B[0:1)"


def test_a_batch_that_can_never_be_full_is_an_error_that_names_who_waits() -> None:
    engine = engine_of(Static(seats=3, timeout=INFINITY))
    with pytest.raises(Stuck, match=r"2 requests wait \(A, B\), nothing runs, and neither"):
        engine.run([ask("A", 1, 1), ask("B", 1, 1)])
    assert engine.clock.now() == 0


def test_an_endless_timeout_waits_for_the_batch_to_be_full() -> None:
    asked = [ask("A", 1, 1), ask("B", 1, 1, arrival=50)]
    assert served(asked, Static(seats=2, timeout=INFINITY)).timeline() == ["50-51  A[0:1) B[0:1)"]


def test_a_request_that_waits_for_its_batch_can_be_given_up() -> None:
    trace = served([ask("A", 1, 1, deadline=7)], Static(seats=2, timeout=INFINITY))
    assert trace.timeline() == []
    assert ending(trace, "A") == ("timed out", "at 7", 7)


def test_finished_seats_are_idle_in_the_plan_and_stay_in_the_trace() -> None:
    executor = Scripted()
    trace = served(three(), Static(seats=2), executor, repeats=False)
    assert [plan.idle_seats for _, plan in executor.plans] == [(), (), (0,), (0,), (), ()]
    assert [(s.seat, s.first, s.stop) for s in trace["A"].stays] == [(0, 0, 4)]
    assert trace["A"].end == 2
    assert [(s.seat, s.first, s.stop) for s in trace["C"].stays] == [(0, 4, 6)]


def test_idle_seats_keep_their_blocks() -> None:
    trace = served(three(), Static(seats=2, blocks=9, block_tokens=1))
    assert trace.blocks_used() == [2, 4, 5, 6, 1, 2]


def test_a_static_batch_takes_only_whose_longest_answer_fits() -> None:
    asked = [ask("A", 4, 5), ask("B", 4, 5)]  # 8 positions, 2 blocks each
    assert len(served(asked, Static(blocks=4, block_tokens=4)).timeline()) == 5
    assert len(served(asked, Static(blocks=3, block_tokens=4)).timeline()) == 10


# Token budget and chunks


def test_a_long_prompt_is_cut_into_chunks_and_does_not_stop_the_others() -> None:
    asked = [ask("A", 4, 4), ask("B", 10, 1, arrival=1)]
    trace = served(asked, Continuous(seats=4, token_budget=5))
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5) B[0:4)",
        "2-3  A[5:6) B[4:8)",
        "3-4  A[6:7) B[8:10)",
    ]


def test_a_last_chunk_of_one_token_is_reserved_like_a_decode() -> None:
    asked = [ask("A", 5, 2), ask("B", 9, 1)]
    trace = served(asked, Continuous(seats=4, token_budget=4))
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5) B[0:3)",
        "2-3  A[5:6) B[3:6)",
        "3-4  B[6:9)",
    ]
    assert trace.token_times("A") == [2, 3]


def test_without_chunks_a_prompt_waits_until_it_fits_whole_beside_the_decodes() -> None:
    asked = [ask("A", 4, 4), ask("B", 8, 1, arrival=1)]
    trace = served(asked, Continuous(seats=4, token_budget=8, chunked_prefill=False))
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5)",
        "2-3  A[5:6)",
        "3-4  A[6:7)",
        "4-5  B[0:8)",
    ]


def test_without_chunks_a_prompt_that_just_fits_is_computed_beside_the_decodes() -> None:
    asked = [ask("A", 4, 3), ask("B", 7, 1, arrival=1)]
    trace = served(asked, Continuous(seats=4, token_budget=8, chunked_prefill=False))
    assert trace.timeline() == ["0-1  A[0:4)", "1-2  A[4:5) B[0:7)", "2-3  A[5:6)"]


def test_without_a_token_budget_every_prompt_is_computed_at_once() -> None:
    trace = served([ask("A", 5000, 1), ask("B", 3000, 1)], Continuous(seats=2))
    assert trace.timeline() == ["0-1  A[0:5000) B[0:3000)"]


def test_a_budget_of_the_seats_is_filled_by_decodes_alone() -> None:
    asked = [ask("A", 1, 3), ask("B", 1, 3), ask("C", 6, 1)]
    trace = served(asked, Continuous(seats=3, token_budget=3))
    assert trace.timeline() == [
        "0-1  A[0:1) B[0:1) C[0:1)",
        "1-2  A[1:2) B[1:2) C[1:2)",
        "2-3  A[2:3) B[2:3) C[2:3)",
        "3-4  C[3:6)",
    ]


# Orders


def started(trace: Any) -> list[str]:
    """Names in the order of first chunks."""
    return [c.request_id for step in trace.steps() for c in step.chunks if c.start == 0]


@pytest.mark.parametrize(
    ("order", "names"),
    [("first-come", "ABCD"), ("priority", "ADBC"), ("shortest-first", "ACDB")],
)
def test_an_order_says_who_is_admitted_first(order: Any, names: str) -> None:
    asked = [
        ask("A", 2, 3),
        ask("B", 2, 3, arrival=1),
        ask("C", 2, 1, arrival=1),
        ask("D", 2, 2, arrival=1, priority=1),
    ]
    assert started(served(asked, Continuous(seats=1, order=order))) == [*names]


def test_equal_priorities_keep_the_order_of_arrival() -> None:
    asked = [ask(name, 2, 2, priority=7) for name in "DBCA"]
    assert started(served(asked, Continuous(seats=1, order="priority"))) == [*"DBCA"]


def test_an_order_says_whose_prompt_is_computed_first() -> None:
    asked = [ask("A", 8, 1), ask("B", 8, 1, arrival=1, priority=1)]
    trace = served(asked, Continuous(seats=2, token_budget=4, order="priority"))
    assert trace.timeline() == ["0-1  A[0:4)", "1-2  A[4:8)", "2-3  B[0:4)", "3-4  B[4:8)"]
    trace = served(
        [ask("A", 12, 1), ask("B", 3, 2, arrival=1), ask("C", 8, 1, arrival=2, priority=1)],
        Continuous(seats=3, token_budget=4, order="priority"),
    )
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:8)",
        "2-3  A[8:12)",
        "3-4  C[0:4)",
        "4-5  C[4:8)",
        "5-6  B[0:3)",
        "6-7  B[3:4)",
    ]


def test_a_running_prefill_goes_on_before_anybody_is_admitted() -> None:
    asked = [ask("A", 6, 1), ask("B", 6, 1, arrival=1, priority=1)]
    trace = served(asked, Continuous(seats=2, token_budget=4, order="priority"))
    assert trace.timeline() == ["0-1  A[0:4)", "1-2  A[4:6) B[0:2)", "2-3  B[2:6)"]


def test_a_higher_priority_takes_the_memory_of_a_lower_one() -> None:
    asked = [ask("low", 4, 6), ask("high", 4, 6, arrival=1, priority=1)]
    trace = served(asked, Continuous(seats=2, blocks=3, block_tokens=4, order="priority"))
    assert trace.timeline() == [
        "0-1  low[0:4)",
        "1-2  low[4:5) high[0:4)",
        "2-3  high[4:5)",  # the third block goes to high, and low starts over when high has left
        "3-4  high[5:6)",
        "4-5  high[6:7)",
        "5-6  high[7:8)",
        "6-7  high[8:9)",
        "7-8  low[0:6)",
        "8-9  low[6:7)",
        "9-10  low[7:8)",
        "10-11  low[8:9)",
    ]
    assert [stay.preempted for stay in trace["low"].stays] == [True, False]


def test_priority_decides_who_is_preempted_although_it_came_first() -> None:
    asked = [ask("low", 4, 3), ask("high", 4, 3, priority=1)]
    trace = served(asked, Continuous(seats=2, blocks=3, block_tokens=4, order="priority"))
    assert trace.timeline() == [
        "0-1  high[0:4) low[0:4)",
        "1-2  high[4:5)",
        "2-3  high[5:6)",
        "3-4  low[0:5)",
        "4-5  low[5:6)",
    ]
    assert [stay.preempted for stay in trace["low"].stays] == [True, False]
    assert [stay.preempted for stay in trace["high"].stays] == [False]


# Memory and preemption


def test_when_memory_is_short_the_youngest_starts_over() -> None:
    executor = Scripted()
    trace = served(
        [ask("A", 4, 3), ask("B", 4, 3)],
        Continuous(seats=8, token_budget=8, blocks=3, block_tokens=4),
        executor,
        repeats=False,
    )
    assert trace.timeline() == [
        "0-1  A[0:4) B[0:4)",
        "1-2  A[4:5)",  # the third block goes to A; B is preempted and keeps its token
        "2-3  A[5:6)",
        "3-4  B[0:5)",  # its four prompt tokens again, and the one it had made
        "4-5  B[5:6)",
    ]
    assert executor.plans[1][1].events == (Event("B", "preempted"),)
    assert trace.token_times("B") == [1, 4, 5], "the time of the first token stays"
    assert trace["B"].output == [4, 5, 6], "tokens that were delivered are not delivered again"
    assert [run.kind for run in trace["B"].runs] == ["prefill", "recompute", "decode"]


def test_a_step_that_preempts_admits_nobody() -> None:
    trace = served(
        [ask("A", 4, 3), ask("B", 4, 3)],
        Continuous(seats=4, token_budget=5, blocks=3, block_tokens=4),
    )
    assert trace.timeline() == [
        "0-1  A[0:4) B[0:1)",
        "1-2  A[4:5) B[1:4)",
        "2-3  A[5:6)",  # B finds no block; the one it gives back stays empty for a step
        "3-4  B[0:5)",
        "4-5  B[5:6)",
    ]


def test_the_preempted_one_comes_back_before_those_who_came_later() -> None:
    asked = [ask("A", 4, 3), ask("B", 4, 3), ask("C", 4, 1, arrival=1)]
    trace = served(asked, Continuous(seats=4, blocks=3, block_tokens=4, patience=0))
    assert started(trace) == [*"ABBC"]


def test_a_preempted_one_that_does_not_fit_yet_has_patience_too() -> None:
    asked = [ask("A", 4, 3), ask("B", 4, 3), ask("C", 4, 1, arrival=1)]
    trace = served(asked, Continuous(seats=4, blocks=3, block_tokens=4, patience=1))
    assert trace.timeline() == [
        "0-1  A[0:4) B[0:4)",
        "1-2  A[4:5)",
        "2-3  A[5:6) C[0:4)",  # B needs two blocks now, and one is free
        "3-4  B[0:5)",
        "4-5  B[5:6)",
    ]


def test_a_long_restart_is_cut_into_chunks_like_a_prompt() -> None:
    trace = served(
        [ask("A", 4, 4), ask("B", 7, 3)],
        Continuous(seats=4, token_budget=8, blocks=4, block_tokens=3),
    )
    # three blocks are needed for 7 positions, so B waits until A has left
    assert trace.timeline()[4:] == ["4-5  B[0:7)", "5-6  B[7:8)", "6-7  B[8:9)"]
    trace = served(
        [ask("A", 4, 8), ask("B", 4, 6)],
        Continuous(seats=2, token_budget=3, blocks=5, block_tokens=3),
    )
    assert [f"{r.kind} {r.start}:{r.reached}" for r in trace["B"].runs] == [
        "prefill 0:2",
        "prefill 2:4",
        "decode 4:6",
        "recompute 0:3",
        "recompute 3:6",
        "decode 6:9",
    ]


def test_a_prefill_whose_blocks_the_decodes_took_stands_still_and_then_starts_over() -> None:
    asked = [ask("A", 3, 9), ask("B", 12, 1, arrival=1)]
    trace = served(asked, Continuous(seats=2, token_budget=5, blocks=4, block_tokens=4))
    assert trace.timeline() == [
        "0-1  A[0:3)",
        "1-2  A[3:4) B[0:4)",
        "2-3  A[4:5) B[4:8)",  # that was the last block
        "3-4  A[5:6)",
        "4-5  A[6:7)",
        "5-6  A[7:8)",
        "6-7  A[8:9)",  # A needs a third block, and B gives back two
        "7-8  A[9:10)",
        "8-9  A[10:11)",
        "9-10  B[0:5)",
        "10-11  B[5:10)",
        "11-12  B[10:12)",
    ]


def test_with_preemption_never_a_request_waits_for_room_for_its_longest_answer() -> None:
    policy = Continuous(seats=4, blocks=3, block_tokens=4, preemption="never")
    trace = served([ask("A", 4, 3), ask("B", 4, 3)], policy)
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5)",
        "2-3  A[5:6)",
        "3-4  B[0:4)",
        "4-5  B[4:5)",
        "5-6  B[5:6)",
    ]


def test_with_preemption_never_blocks_are_kept_for_those_who_run() -> None:
    policy = Continuous(seats=4, blocks=4, block_tokens=4, preemption="never")
    asked = [ask("A", 4, 6), ask("B", 4, 5, arrival=1)]
    trace = served(asked, policy)  # two blocks are free in step 1, and one of them is for A
    assert trace["B"].runs[0].first == 6
    assert not any(stay.preempted for record in trace.requests for stay in record.stays)


def big_and_small() -> list[Request]:
    """A runs in 2 of 4 blocks; L needs 3; small ones need 1."""
    small = [ask(f"s{number}", 4, 1, arrival=1) for number in range(3)]
    return [ask("A", 5, 4), ask("L", 12, 1, arrival=1), *small]


@pytest.mark.parametrize(
    ("patience", "names"),
    [
        (0, ["A", "L", "s0", "s1", "s2"]),
        (1, ["A", "s0", "L", "s1", "s2"]),
        (2, ["A", "s0", "s1", "L", "s2"]),
        (9, ["A", "s0", "s1", "s2", "L"]),
    ],
)
def test_a_request_that_does_not_fit_lets_at_most_patience_others_past(
    patience: int, names: list[str]
) -> None:
    policy = Continuous(seats=9, blocks=4, block_tokens=4, patience=patience)
    assert started(served(big_and_small(), policy)) == names


def test_a_request_that_has_taken_a_seat_begins_its_patience_anew() -> None:
    engine = engine_of(Continuous(seats=9, blocks=4, block_tokens=4, patience=2))
    for request in (ask("A", 5, 4), ask("L", 11, 2), *[ask(f"s{n}", 4, 1) for n in range(3)]):
        engine.add(request)
    (large,) = (s for s in engine.scheduler.waiting if s.request.id == "L")
    passed = []
    for _ in range(5):
        engine.step(engine.clock.now())
        passed.append(large.passed_over)
    assert passed == [2, 2, 2, 2, 0]
    assert [sequence.request.id for sequence in engine.scheduler.running] == ["L"]


@pytest.mark.parametrize(("patience", "names"), [(1, "ALsM"), (2, "AsLM")])
def test_one_step_looks_past_at_most_patience_requests_that_do_not_fit(
    patience: int, names: str
) -> None:
    asked = [ask("A", 5, 4), *[ask(name, 12, 1, arrival=1) for name in "LM"], ask("s", 4, 1, 1)]
    policy = Continuous(seats=9, blocks=4, block_tokens=4, patience=patience)
    assert started(served(asked, policy)) == [*names]


def test_patience_is_counted_over_many_steps_until_the_door_is_barred() -> None:
    stream = [ask(f"s{number}", 4, 2, arrival=number) for number in range(20)]
    asked = [ask("L", 12, 1, arrival=1), *stream]
    trace = served(asked, Continuous(seats=9, blocks=3, block_tokens=4, patience=3))
    names = started(trace)
    assert names.index("L") == 4, "s0 came before L, and three others may pass it"


def test_a_prompt_that_does_not_fit_the_budget_lets_smaller_ones_past_but_not_for_ever() -> None:
    asked = [
        ask("A", 2, 7),
        ask("L", 8, 1, arrival=1),
        *[ask(f"s{number}", 2, 1, arrival=number) for number in range(1, 8)],
    ]
    policy = Continuous(seats=4, token_budget=8, chunked_prefill=False, patience=2)
    names = started(served(asked, policy))
    assert names[:4] == ["A", "s1", "s2", "L"]


@pytest.mark.parametrize("end", [3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize(
    "policy",
    [
        Continuous(seats=2, blocks=3, block_tokens=4),
        Continuous(seats=2, blocks=3, block_tokens=4, token_budget=2),
        Continuous(seats=2, blocks=3, block_tokens=4, token_budget=12, chunked_prefill=False),
        Continuous(seats=2, blocks=3, block_tokens=4, preemption="never"),
        Continuous(seats=2, blocks=3, block_tokens=4, draft_tokens=2),
        Static(seats=2, blocks=3, block_tokens=4),
    ],
    ids=["plain", "chunks", "whole prompts", "never", "drafts", "static"],
)
def test_blocks_are_those_of_the_computed_tokens_at_every_boundary(
    policy: Continuous | Static, end: int
) -> None:
    """The last position computed is `end - 1`, just before, at and after a multiple of 4."""
    for prompt in range(1, end + 1):
        executor = Scripted(accepts=lambda request_id, start: start % 3)
        asked = [ask("A", prompt, end + 1 - prompt)]
        trace = served(asked, policy, executor, repeats=False)
        for step in trace.steps():
            assert step.blocks_used == -(-step.chunks[0].stop // 4)
        assert trace["A"].runs[-1].reached == end
        assert trace["A"].output == [*range(prompt, end + 1)]


# Refusals


@pytest.mark.parametrize(
    ("policy", "request_", "message"),
    [
        (
            Continuous(blocks=2, block_tokens=4),
            ask("A", 6, 4),
            "request 'A' may need 3 blocks for 9 positions, and the pool has 2",
        ),
        (
            Static(blocks=2, block_tokens=4),
            ask("A", 9, 1),
            "request 'A' may need 3 blocks for 9 positions, and the pool has 2",
        ),
        (
            Continuous(seats=4, token_budget=8, chunked_prefill=False),
            ask("A", 6, 4),
            "request 'A' may need 9 tokens in one step, since prompts are not cut into chunks, and "
            "the token budget is 8",
        ),
    ],
    ids=["pool", "pool of a static batch", "token budget"],
)
def test_a_request_that_can_never_run_is_refused_with_limit_and_amount(
    policy: Continuous | Static, request_: Request, message: str
) -> None:
    scheduler = Scheduler(policy)
    with pytest.raises(Refused) as caught:
        scheduler.add(request_)
    assert str(caught.value) == message
    assert_at_rest(scheduler)


@pytest.mark.parametrize(
    ("policy", "positions"),
    [
        (Continuous(blocks=2, block_tokens=4), 8),
        (Static(blocks=2, block_tokens=4), 8),
        (Continuous(seats=4, token_budget=8, chunked_prefill=False), 8),
        (Continuous(seats=4, token_budget=8), 5000),
    ],
    ids=["pool", "pool of a static batch", "token budget", "chunks know no such limit"],
)
def test_a_request_that_fits_to_the_last_token_is_served(
    policy: Continuous | Static, positions: int
) -> None:
    for prompt in (1, 4, positions):
        trace = served([ask("A", prompt, positions + 1 - prompt)], policy)
        assert ending(trace, "A")[:2] == ("finished", "length")
        assert trace["A"].reached == positions


def test_an_id_that_is_taken_is_an_error_even_after_its_request_has_ended() -> None:
    engine = engine_of(Continuous())
    engine.run([ask("A", 1, 1)])
    with pytest.raises(ValueError, match="request 'A' was added already; ids must be unique"):
        engine.scheduler.add(ask("A", 1, 1))


# Cancelling and deadlines


def seat_of_each(scheduler: Scheduler) -> dict[str, int]:
    return {sequence.request.id: sequence.seat for sequence in scheduler.running}


@pytest.mark.parametrize("way", ["Engine.cancel", "cancel_at", "deadline"])
@pytest.mark.parametrize(
    ("steps", "state"),
    [(0, "waiting"), (1, "prefilling"), (2, "decoding"), (4, "preempted"), (5, "restarting")],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("repeats", [True, False])
def test_a_request_is_given_up_in_every_state(
    way: str, steps: int, state: str, repeats: bool
) -> None:
    """B is cancelled at the moment `steps`; A and C get what they would have got."""
    policy = Continuous(seats=2, token_budget=8, blocks=4, block_tokens=3)
    moment = None if way == "Engine.cancel" else steps
    asked = [
        ask("A", 4, 6),
        ask("B", 5, 5, **({} if moment is None else {way: moment})),
        ask("C", 2, 2, arrival=steps),
    ]
    engine = engine_of(policy, repeats=repeats)
    for request in asked[:2]:
        engine.add(request)
    while engine.clock.now() < steps:
        engine.step(steps)
    sequence = engine.scheduler._sequences["B"]
    found = {
        "waiting": sequence not in engine.scheduler.running and sequence.tokens == 5,
        "prefilling": sequence in engine.scheduler.running and 0 < sequence.computed < 5,
        "decoding": sequence in engine.scheduler.running and sequence.tokens == 6,
        "preempted": sequence not in engine.scheduler.running and sequence.tokens > 5,
        "restarting": sequence.computed == 0,
    }
    assert found[state], f"B is not {state} at {steps}"
    if way == "Engine.cancel":
        assert engine.cancel("B")
        assert engine.cancel("B"), "twice is allowed"
    trace = engine.run(asked[2:])
    trace.check()
    assert_at_rest(engine.scheduler)
    status, reason = (
        ("timed out", f"at {steps}") if way == "deadline" else ("cancelled", f"at {steps}")
    )
    if way == "Engine.cancel":
        reason = "by request"
    assert ending(trace, "B") == (status, reason, steps)
    assert ending(trace, "A")[:2] == ending(trace, "C")[:2] == ("finished", "length")
    assert len(trace.token_times("A")) == 6
    assert not engine.cancel("B"), "it has ended already"
    assert ending(trace, "B") == (status, reason, steps)


def test_a_request_that_has_ended_cannot_be_cancelled_and_its_end_stays() -> None:
    engine = engine_of(Continuous())
    trace = engine.run([ask("A", 1, 1, cancel_at=1, deadline=1)])
    assert ending(trace, "A") == ("finished", "length", 1)
    assert not engine.cancel("A")
    engine.run([ask("B", 1, 1, arrival=3)])
    assert ending(trace, "A") == ("finished", "length", 1)


def test_nobody_can_cancel_what_was_never_added() -> None:
    with pytest.raises(ValueError, match="there is no request 'Z' to cancel"):
        Scheduler(Continuous()).cancel("Z")


def test_the_earlier_of_deadline_and_hanging_up_ends_a_request() -> None:
    asked = [ask("A", 1, 9, cancel_at=2, deadline=3), ask("B", 1, 9, cancel_at=3, deadline=2)]
    trace = served(asked, Continuous())
    assert ending(trace, "A") == ("cancelled", "at 2", 2)
    assert ending(trace, "B") == ("timed out", "at 2", 2)


def test_a_deadline_inside_a_step_takes_effect_at_its_end() -> None:
    trace = served([ask("A", 1, 9, deadline=2.5)], Continuous())
    assert ending(trace, "A") == ("timed out", "at 2.5", 3)
    assert len(trace.token_times("A")) == 3


def test_a_member_of_a_static_batch_that_was_cancelled_keeps_its_seat() -> None:
    asked = [ask("A", 1, 3), ask("B", 1, 4, cancel_at=2), ask("C", 1, 1)]
    trace = served(asked, Static(seats=2, blocks=9, block_tokens=1))
    assert trace.timeline() == [
        "0-1  A[0:1) B[0:1)",
        "1-2  A[1:2) B[1:2)",
        "2-3  A[2:3)",
        "3-4  C[0:1)",
    ]
    assert [(s.seat, s.first, s.stop) for s in trace["B"].stays] == [(1, 0, 3)]
    assert trace.blocks_used() == [2, 4, 5, 1]


def test_when_the_last_members_of_a_static_batch_are_cancelled_the_next_forms_at_once() -> None:
    asked = [ask("A", 1, 1), ask("B", 1, 9, cancel_at=2), ask("C", 1, 1)]
    trace = served(asked, Static(seats=2))
    assert trace.timeline() == ["0-1  A[0:1) B[0:1)", "1-2  B[1:2)", "2-3  C[0:1)"]


def test_a_higher_priority_does_not_save_from_a_deadline() -> None:
    asked = [ask("A", 1, 9), ask("B", 1, 9, priority=3, deadline=4)]
    trace = served(asked, Continuous(seats=1, order="priority"))
    assert ending(trace, "B") == ("timed out", "at 4", 4)
    assert trace.timeline()[4] == "4-5  A[0:1)"


# Drafts


def test_accepted_drafts_bring_several_tokens_in_one_step() -> None:
    executor = Scripted(accepts=lambda request_id, start: 2)
    trace = served([ask("A", 4, 8)], Continuous(draft_tokens=2), executor, repeats=False)
    assert trace.timeline() == [
        "0-1  A[0:4)",  # a prompt is not drafted
        "1-2  A[4:7)",
        "2-3  A[7:10)",
        "3-4  A[10:11)",  # one token remains: nothing to guess
    ]
    assert trace.token_times("A") == [1, 2, 2, 2, 3, 3, 3, 4]
    assert trace["A"].output == [*range(4, 12)]


def test_rejected_drafts_leave_neither_tokens_nor_blocks_behind() -> None:
    executor = Scripted()
    policy = Continuous(draft_tokens=3, blocks=3, block_tokens=4)
    engine = engine_of(policy, executor, repeats=False)
    engine.add(ask("A", 3, 6))
    held = []
    while engine.scheduler.has_work:
        engine.step()
        for sequence in engine.scheduler.running:
            held.append((sequence.computed, sequence.tokens, len(sequence.blocks)))
    engine.trace.check()
    assert held == [(3, 4, 1), (4, 5, 1), (5, 6, 2), (6, 7, 2), (7, 8, 2)]
    assert engine.trace.timeline() == [
        "0-1  A[0:3)",
        "1-2  A[3:7)",  # one token and three guesses in two blocks; one block is given back
        "2-3  A[4:8)",
        "3-4  A[5:8)",  # three tokens remain: two guesses at most
        "4-5  A[6:8)",
        "5-6  A[7:8)",
    ]
    assert engine.trace.blocks_used() == [1, 2, 2, 2, 2, 2]
    assert_at_rest(engine.scheduler)


def test_some_drafts_accepted_leaves_the_rest_to_be_computed_again() -> None:
    executor = Scripted(accepts=lambda request_id, start: 1)
    trace = served([ask("A", 4, 7)], Continuous(draft_tokens=3), executor, repeats=False)
    assert trace.timeline() == ["0-1  A[0:4)", "1-2  A[4:8)", "2-3  A[6:10)", "3-4  A[8:10)"]
    assert [run.reached for run in trace["A"].runs] == [4, 6, 8, 10]
    assert trace["A"].output == [*range(4, 11)]


def test_drafts_take_only_the_budget_that_nobody_else_needs() -> None:
    executor = Scripted(accepts=lambda request_id, start: 9)
    asked = [ask("A", 1, 9), ask("B", 6, 1, arrival=1)]
    policy = Continuous(seats=2, token_budget=5, draft_tokens=3)
    trace = served(asked, policy, executor, repeats=False)
    assert trace.timeline() == [
        "0-1  A[0:1)",
        "1-2  A[1:2) B[0:4)",  # the prompt of B comes first
        "2-3  A[2:5) B[4:6)",  # two tokens of the budget are left for guesses
        "3-4  A[5:9)",
    ]


def test_drafts_take_only_blocks_that_are_free() -> None:
    executor = Scripted(accepts=lambda request_id, start: 9)
    asked = [ask("A", 2, 5), ask("B", 3, 2)]
    policy = Continuous(seats=2, blocks=4, block_tokens=2, draft_tokens=4)
    trace = served(asked, policy, executor, repeats=False)
    assert trace.timeline() == [
        "0-1  A[0:2) B[0:3)",
        "1-2  A[2:4) B[3:4)",  # the last free block has room for one guess
        "2-3  A[4:6)",
    ]


def test_with_drafts_decodes_are_written_out_even_with_repeats() -> None:
    executor = Scripted(accepts=lambda request_id, start: 1)
    policy = Continuous(draft_tokens=2)
    one = served([ask("A", 4, 9)], policy, executor, repeats=True)
    other = served([ask("A", 4, 9)], policy, executor, repeats=False)
    assert one.requests == other.requests


# Failures and executors that name tokens


def test_one_request_fails_and_its_batch_mates_finish() -> None:
    executor = Scripted(
        fails=lambda request_id, start: "no luck" if (request_id, start) == ("B", 5) else ""
    )
    asked = [ask("A", 4, 4), ask("B", 4, 4), ask("C", 4, 2, arrival=1)]
    policy = Continuous(seats=3, blocks=9, block_tokens=4)
    trace = served(asked, policy, executor, repeats=False)
    assert ending(trace, "B") == ("failed", "no luck", 3)
    assert trace["B"].output == [4, 5], "what was delivered before stays delivered"
    assert trace["B"].output_tokens == 2
    assert trace.token_times("B") == [1, 2], "a step that failed brings no token"
    assert trace["A"].output == [4, 5, 6, 7]
    assert ending(trace, "C")[:2] == ("finished", "length")


def test_a_prefill_that_fails_brings_no_token() -> None:
    executor = Scripted(fails=lambda request_id, start: "NaN" if request_id == "B" else "")
    asked = [ask("A", 2, 2), ask("B", 9, 4), ask("C", 3, 3)]
    policy = Continuous(seats=3, token_budget=6, blocks=9, block_tokens=4)
    trace = served(asked, policy, executor, repeats=False)
    assert ending(trace, "B") == ("failed", "NaN", 1)
    assert trace.token_times("B") == []
    executor = Scripted(fails=lambda request_id, start: "NaN" if request_id == "A" else "")
    trace = served(asked, policy, executor, repeats=False)
    assert trace.token_times("A") == []


def test_a_member_of_a_static_batch_that_failed_keeps_its_seat() -> None:
    executor = Scripted(fails=lambda request_id, start: "NaN" if request_id == "A" else "")
    trace = served([ask("A", 2, 5), ask("B", 2, 2)], Static(seats=2), executor, repeats=False)
    assert [(s.seat, s.first, s.stop) for s in trace["A"].stays] == [(0, 0, 2)]


def test_a_draft_check_that_fails_gives_everything_back() -> None:
    executor = Scripted(fails=lambda request_id, start: "NaN" if start == 4 else "")
    policy = Continuous(draft_tokens=3, blocks=6, block_tokens=2)
    trace = served([ask("A", 4, 8)], policy, executor, repeats=False)
    assert trace["A"].output == [4]
    assert trace.token_times("A") == [1]


def test_a_live_executor_names_every_token_once() -> None:
    executor = Scripted()
    asked = [ask("A", 4, 8), ask("B", 4, 6), ask("C", 3, 5, arrival=2)]
    policy = Continuous(seats=3, token_budget=6, blocks=6, block_tokens=3)
    trace = served(asked, policy, executor, repeats=False)
    for request in asked:
        first = request.prompt_tokens
        assert trace[request.id].output == [*range(first, first + request.max_tokens)]


# Outcomes


def planned(policy: Continuous, *asked: Request, steps: int = 0) -> tuple[Scheduler, StepPlan]:
    """A scheduler with a plan that waits for its outcome."""
    scheduler = Scheduler(policy, repeats=False)
    for request in asked:
        scheduler.add(request)
    for step in range(steps):
        plan = scheduler.plan(step)
        scheduler.commit(plan, Scripted().run(plan, step, None))
    return scheduler, scheduler.plan(steps)


A4 = ask("A", 4, 9)
STRANGER = (
    "request 'Z': the outcome speaks of it, and it is none of the chunks that the plan writes out"
)
WRONG_OUTCOMES = {
    "no end": (StepOutcome(()), "a plan of 1 equal steps needs 1 to 1 ends, got 0"),
    "two ends": (StepOutcome((1, 2)), "a plan of 1 equal steps needs 1 to 1 ends, got 2"),
    "no token": (StepOutcome((1,), {}), "request 'A': the step must bring 1 tokens, got 0"),
    "two tokens": (
        StepOutcome((1,), {"A": (5, 6)}),
        "request 'A': the step must bring 1 tokens, got 2",
    ),
    "too few for the drafts": (
        StepOutcome((1,), {"A": (5, 6)}, {"A": 2}),
        "request 'A': the step must bring 3 tokens, got 2",
    ),
    "too many accepted": (
        StepOutcome((1,), None, {"A": 4}),
        "request 'A': accepted must be 0 to 3 drafts, got 4",
    ),
    "fewer than none accepted": (
        StepOutcome((1,), None, {"A": -1}),
        "request 'A': accepted must be 0 to 3 drafts, got -1",
    ),
    "tokens for nobody": (
        StepOutcome((1,), {"A": (5,), "Z": (1,)}),
        STRANGER,
    ),
    "accepted for nobody": (
        StepOutcome((1,), None, {"Z": 0}),
        STRANGER,
    ),
    "failure of nobody": (
        StepOutcome((1,), None, {}, {"Z": "NaN"}),
        STRANGER,
    ),
}


@pytest.mark.parametrize(("outcome", "message"), WRONG_OUTCOMES.values(), ids=WRONG_OUTCOMES)
def test_an_outcome_that_does_not_answer_the_plan_raises_and_changes_nothing(
    outcome: StepOutcome, message: str
) -> None:
    scheduler, plan = planned(Continuous(draft_tokens=3, blocks=9, block_tokens=4), A4, steps=1)
    (sequence,) = scheduler.running
    before = (sequence.computed, sequence.tokens, [*sequence.output], [*sequence.blocks])
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        scheduler.commit(plan, outcome)
    after = (sequence.computed, sequence.tokens, [*sequence.output], [*sequence.blocks])
    assert after == before
    scheduler.commit(plan, Scripted().run(plan, 1, None))
    assert sequence.tokens == before[1] + 1, "the right outcome is still welcome"


def test_a_chunk_that_does_not_reach_the_end_brings_no_token() -> None:
    scheduler, plan = planned(Continuous(seats=2, token_budget=3), A4)
    with pytest.raises(ValueError, match="request 'A': the step must bring 0 tokens, got 1"):
        scheduler.commit(plan, StepOutcome((1,), {"A": (5,)}))


def test_a_member_of_the_group_can_neither_fail_nor_name_a_token() -> None:
    scheduler = Scheduler(Continuous())
    scheduler.add(A4)
    scheduler.commit(scheduler.plan(0), StepOutcome((1,)))
    plan = scheduler.plan(1)
    assert plan.repeat == 8
    for outcome in (
        StepOutcome((2,), {"A": (1,)}),
        StepOutcome((2,), None, {}, {"A": "NaN"}),
    ):
        with pytest.raises(ValueError, match="'A'"):
            scheduler.commit(plan, outcome)


def test_more_ends_than_equal_steps_are_refused() -> None:
    scheduler = Scheduler(Continuous())
    scheduler.add(A4)
    scheduler.commit(scheduler.plan(0), StepOutcome((1,)))
    plan = scheduler.plan(1)
    with pytest.raises(ValueError, match="a plan of 8 equal steps needs 1 to 8 ends, got 9"):
        scheduler.commit(plan, StepOutcome(tuple(range(2, 11))))


def test_a_plan_that_is_abandoned_gives_its_blocks_back_and_can_be_made_again() -> None:
    policy = Continuous(seats=3, token_budget=6, blocks=9, block_tokens=2, draft_tokens=2)
    for steps in range(5):
        scheduler, plan = planned(policy, A4, ask("B", 5, 7), ask("C", 2, 2), steps=steps)
        scheduler.abandon(plan)
        for sequence in scheduler.running:
            assert len(sequence.blocks) == -(-sequence.computed // 2)
        again = scheduler.plan(steps)
        assert [c._replace(blocks=()) for c in again.chunks] == [
            c._replace(blocks=()) for c in plan.chunks
        ]
        assert [len(c.blocks) for c in again.chunks] == [len(c.blocks) for c in plan.chunks]


def test_an_abandoned_plan_of_equal_steps_gives_its_blocks_back() -> None:
    scheduler = Scheduler(Continuous(seats=2, blocks=8, block_tokens=2))
    for request in (ask("A", 2, 5), ask("B", 1, 5)):
        scheduler.add(request)
    scheduler.commit(scheduler.plan(0), StepOutcome((1,)))
    used = scheduler.pool.used if scheduler.pool else None
    plan = scheduler.plan(1)
    scheduler.abandon(plan)
    assert scheduler.pool is not None
    assert scheduler.pool.used == used == 2
    assert scheduler.plan(1).repeat == plan.repeat


# Plans


def test_a_plan_says_everything_that_was_decided() -> None:
    policy = Continuous(seats=2, token_budget=4, blocks=9, block_tokens=2)
    scheduler, plan = planned(policy, ask("A", 3, 2, deadline=9), ask("B", 2, 2), ask("C", 1, 1))
    assert plan == StepPlan(
        step=0,
        written=(Chunk("A", 0, 0, 3, True, (0, 1)), Chunk("B", 1, 0, 1, False, (2,))),
        wake_at=9,
    )
    assert seat_of_each(scheduler) == {"A": 0, "B": 1}
    assert [sequence.request.id for sequence in scheduler.waiting] == ["C"]


def test_a_plan_of_equal_steps_ends_with_the_first_finish() -> None:
    scheduler = Scheduler(Continuous())
    for request in (ask("A", 2, 5), ask("B", 2, 9)):
        scheduler.add(request)
    scheduler.commit(scheduler.plan(0), StepOutcome((1,)))
    plan = scheduler.plan(1)
    assert (plan.repeat, plan.num_tokens, len(plan.chunks)) == (4, 2, 2)


def test_a_plan_of_equal_steps_ends_before_the_block_that_the_pool_does_not_have() -> None:
    scheduler = Scheduler(Continuous(blocks=5, block_tokens=4))
    for request in (ask("A", 4, 9), ask("B", 4, 9)):
        scheduler.add(request)
    scheduler.commit(scheduler.plan(0), StepOutcome((1,)))
    assert scheduler.plan(1).repeat == 4


def test_a_static_batch_that_waits_says_when_to_ask_again() -> None:
    scheduler = Scheduler(Static(seats=2, timeout=7))
    scheduler.add(ask("A", 1, 1, arrival=1, deadline=20))
    plan = scheduler.plan(1)
    assert (plan.is_empty, plan.wake_at) == (True, 8)
    scheduler.add(ask("B", 1, 1, arrival=2, cancel_at=5))
    assert scheduler.plan(2).wake_at == 5


def test_a_deadline_of_somebody_who_has_ended_wakes_nobody() -> None:
    engine = engine_of(Continuous())
    engine.run([ask("A", 1, 1, deadline=50)])
    assert engine.scheduler.plan(1).wake_at is None
    assert engine.clock.now() == 1
