"""The phases of a request, against timetables; their sums are tested with the latency ledger."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

from drawn_runs import cost_models, policies, scripted, served, workloads
from hypothesis import given

import lab
from lab.ledgers.latency import SPANS
from lab.ledgers.phases import held, phases
from lab.policy import Policy
from lab.record import Record, Run, Stay
from lab.trace import Trace


def run(rows: dict[str, Any], policy: Policy) -> Trace:
    return lab.simulate(lab.Workload.given(rows), policy, lab.CostModel.equal_steps())


def told(trace: Trace, who: str) -> list[str]:
    return [f"{cause} {start}-{stop}" for cause, start, stop in phases(trace[who], trace)]


def preempted() -> Trace:
    policy = lab.Continuous(seats=2, blocks=4, block_tokens=4, token_budget=4)
    return run({"A": (0, 4, 6), "B": (0, 4, 6)}, policy)


def test_waiting_prefill_and_decode_follow_one_another() -> None:
    trace = run({"A": (0, 2, 3), "B": (1, 2, 2)}, lab.Continuous(seats=1))
    assert told(trace, "A") == ["prefill 0-1", "decode 1-3"]
    assert told(trace, "B") == ["queue 1-3", "prefill 3-4", "decode 4-5"]


def test_chunks_of_a_prompt_are_one_phase() -> None:
    trace = run({"A": (0, 7, 2)}, lab.Continuous(seats=1, token_budget=3))
    assert told(trace, "A") == ["prefill 0-3", "decode 3-4"]


def test_a_preemption_is_a_phase_of_its_own_and_so_is_the_recompute() -> None:
    want = ["queue 0-1", "prefill 1-3", "decode 3-5", "preempted 5-6", "recompute 6-8"]
    assert told(preempted(), "B") == [*want, "decode 8-10"]


def test_a_seat_in_which_nothing_is_computed_is_stalled() -> None:
    policy = lab.Continuous(seats=2, blocks=3, block_tokens=2, token_budget=4)
    trace = run({"A": (0, 2, 4), "B": (0, 4, 1)}, policy)
    assert told(trace, "B") == ["prefill 0-1", "stalled 1-3", "preempted 3-4", "recompute 4-5"]


def with_pauses(trace: Trace) -> Trace:
    """The same steps, each begun a moment late, as a real engine begins them: it plans first."""
    starts = [start + Fraction(1, 10) for start in trace.starts or ()]
    return Trace("step", trace.settings, trace.requests, starts, trace.ends)


def test_what_passes_between_two_steps_counts_to_the_later_one() -> None:
    trace = with_pauses(run({"A": (0, 7, 3)}, lab.Continuous(seats=1, token_budget=4)))
    assert told(trace, "A") == ["queue 0-1/10", "prefill 1/10-2", "decode 2-4"]


def test_a_pause_after_a_step_for_others_is_none_of_it() -> None:
    policy = lab.Continuous(seats=2, blocks=3, block_tokens=2, token_budget=4)
    trace = with_pauses(run({"A": (0, 2, 4), "B": (0, 4, 1)}, policy))
    want = ["queue 0-1/10", "prefill 1/10-1", "stalled 1-3", "preempted 3-41/10"]
    assert told(trace, "B") == [*want, "recompute 41/10-5"]


FORKED: dict[str, Any] = {"B": (0, 2, 1), "A": {"prompt": 9, "output": 3, "n": 2}}


def test_a_further_answer_waits_for_the_prompt_and_not_in_the_queue() -> None:
    trace = run(FORKED, lab.Continuous(seats=2, token_budget=4))
    assert told(trace, "A") == ["queue 0-1", "prefill 1-4", "decode 4-6"]
    assert told(trace, "A#2") == ["queue 0-1", "shared prefill 1-3", "prefill 3-4", "decode 4-6"]


def test_a_further_answer_that_never_begins_has_waited_for_the_prompt_to_the_end() -> None:
    rows = {"A": {**FORKED["A"], "cancel_at": 2}}
    assert told(run(rows, lab.Continuous(seats=2, token_budget=4)), "A#2") == ["shared prefill 0-2"]


def test_who_is_refused_has_no_phase() -> None:
    assert told(run({"A": (3, 99, 1), "B": (3, 1, 1)}, lab.Continuous(blocks=1)), "A") == []


def test_who_gave_up_in_the_queue_has_waited_and_nothing_else() -> None:
    rows: dict[str, Any] = {"A": (0, 1, 5), "B": {"prompt": 1, "output": 9, "cancel_at": 2}}
    assert told(run(rows, lab.Continuous(seats=1)), "B") == ["queue 0-2"]


def test_who_gave_up_after_a_preemption_had_lost_the_seat_before() -> None:
    policy = lab.Continuous(seats=2, blocks=4, block_tokens=4, token_budget=4)
    rows: dict[str, Any] = {
        "A": (0, 4, 6),
        "B": {"prompt": 4, "output": 6, "cancel_at": 6},
    }
    assert told(run(rows, policy), "B")[-2:] == ["decode 3-5", "preempted 5-6"]


def test_who_still_runs_does_so_up_to_the_last_moment_of_the_trace() -> None:
    record = Record("A", 0, 1, 5, runs=[Run("prefill", 0, 0, 1, 0, 1, 1)], stays=[Stay(0, 0, None)])
    trace = Trace("step", {}, [record], [0, 1], [1, 2])
    assert told(trace, "A") == ["prefill 0-1", "stalled 1-2"]


def test_of_given_times_only_deliveries_are_known() -> None:
    work = lab.Workload.given({"A": (10, 4, 3), "B": (0, 1, 1)})
    trace = lab.given({"A": [100, 140, 180], "B": [50]}, work)
    assert told(trace, "A") == ["until the first token 10-100", "between tokens 100-180"]
    assert told(trace, "B") == ["until the first token 0-50"]


def test_an_observed_request_without_a_token_waited_for_its_first() -> None:
    trace = Trace("ms", {}, [Record("A", 5, 1, 5, status="cancelled", end=9, times=[])])
    assert told(trace, "A") == ["until the first token 5-9"]
    trace = Trace("ms", {}, [Record("A", 5, 1, 5, status="cancelled", end=9, times=[6])])
    assert told(trace, "A") == ["until the first token 5-6", "after the last token 6-9"]


def test_a_static_batch_holds_a_seat_for_those_who_have_ended() -> None:
    rows = {"A": (0, 2, 2), "B": (0, 2, 6)}
    trace = run(rows, lab.Static(seats=2))
    assert held(trace["A"], trace) == ("idle", 2, 6)
    assert held(trace["B"], trace) is None
    trace = run(rows, lab.Continuous(seats=2))
    assert [held(record, trace) for record in trace.requests] == [None, None]


def check(trace: Trace) -> None:
    for record in trace.requests:
        found = phases(record, trace)
        assert {phase.cause for phase in found} <= set(SPANS)
        assert all(left.stop == right.start for left, right in pairwise(found))
        assert all(left.cause != right.cause for left, right in pairwise(found))
        assert all(phase.stop > phase.start for phase in found)
        if found:
            assert (found[0].start, found[-1].stop) == (record.arrival, record.end)
        else:
            assert record.end == record.arrival


@given(workloads(), policies(), cost_models)
def test_phases_join_from_arrival_to_end(requests: Any, policy: Any, cost: Any) -> None:
    check(served(requests, policy, cost))


@given(workloads(), policies(drafts=True), scripted(failing=True))
def test_they_do_so_with_drafts_and_failures(asked: Any, policy: Any, model: Any) -> None:
    check(served(asked, policy, model, repeats=False))
