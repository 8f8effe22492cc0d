"""A trace that is broken in one place is an error that names the place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from drawn_runs import Scripted, ask, served
from golden_runs import shared

from lab.policy import Continuous
from lab.record import Run, Stay
from lab.run import given as given_times
from lab.trace import Trace, TraceError
from lab.workload import Workload


def sound() -> Trace:
    """A runs on; B is preempted after step 0 and comes back in step 3; C is too large.

    0-1  A[0:4) B[0:4)
    1-2  A[4:5)
    2-3  A[5:6)
    3-4  B[0:5)
    4-5  B[5:6)
    """
    asked = [ask("A", 4, 3), ask("B", 4, 3), ask("C", 40, 1)]
    policy = Continuous(seats=2, token_budget=8, blocks=3, block_tokens=4)
    return served(asked, policy, Scripted(), repeats=False)


def run_of(trace: Trace, name: str, number: int) -> Run:
    return trace[name].runs[number]


def put(target: object, **values: object) -> object:
    for name, value in values.items():
        setattr(target, name, value)
    return target


def stay(trace: Trace, name: str, number: int, **values: object) -> object:
    stays = trace[name].stays
    stays[number] = stays[number]._replace(**values)  # type: ignore[arg-type]
    return stays


BROKEN: dict[str, tuple[Callable[[Trace], object], str]] = {
    "more tokens than asked for": (
        lambda t: put(t["A"], max_tokens=2),
        "request 'A': 3 tokens were delivered, and the limit is 2",
    ),
    "an id too few": (
        lambda t: t["A"].output.pop(),
        "request 'A': 2 token ids for 3 delivered tokens",
    ),
    "finished without a token": (
        lambda t: put(t["C"], status="finished"),
        "request 'C': finished without a token",
    ),
    "refused and computed": (
        lambda t: put(t["A"], status="refused"),
        "request 'A': refused, and yet 3 tokens were delivered",
    ),
    "a status without an end": (
        lambda t: put(t["A"], end=None),
        "request 'A': its status is finished and its end None",
    ),
    "an end without a status": (
        lambda t: put(t["A"], status=None),
        "request 'A': its status is None and its end 3",
    ),
    "an end before the arrival": (
        lambda t: put(t["C"], arrival=7),
        "request 'C': arrival, deliveries and end must not go back in time: [7, 0]",
    ),
    "a step that starts too early": (
        lambda t: put(t, starts=[0, 0.5, 2, 3, 4]),
        "step 1 lasts from 0.5 to 2, and the one before it ended at 1",
    ),
    "a step that ends before it starts": (
        lambda t: put(t, ends=[1, 2, 3, 4, 3.5]),
        "step 4 lasts from 4 to 3.5, and the one before it ended at 4",
    ),
    "a step without an end": (
        lambda t: put(t, ends=[1, 2, 3, 4]),
        "5 steps start and 4 end",
    ),
    "two runs at once": (
        lambda t: put(run_of(t, "B", 2), first=3),
        "request 'B': steps 3 to 4 of 5 come after step 4",
    ),
    "a run beyond the last step": (
        lambda t: put(run_of(t, "B", 2), count=2),
        "request 'B': steps 4 to 6 of 5 come after step 4",
    ),
    "a run of no step": (
        lambda t: put(run_of(t, "B", 2), count=0),
        "request 'B': steps 4 to 4 of 5 come after step 4",
    ),
    "a run before the first step": (
        lambda t: put(run_of(t, "A", 0), first=-1),
        "request 'A': steps -1 to 0 of 5 come after step 0",
    ),
    "computed without a seat": (
        lambda t: t["B"].stays.pop(),
        "request 'B': step 3 computed it while it had no seat",
    ),
    "never seated": (
        lambda t: t["A"].stays.clear(),
        "request 'A': step 0 computed it while it had no seat",
    ),
    "computed in another seat": (
        lambda t: put(run_of(t, "A", 0), seat=1),
        "request 'A': step 0 computed it in seat 1, and it sat in Stay(seat=0, first=0",
    ),
    "computed before it sat down": (
        lambda t: stay(t, "B", 1, first=4),
        "request 'B': step 3 computed it in seat 0, and it sat in Stay(seat=0, first=4",
    ),
    "a position left out": (
        lambda t: put(run_of(t, "A", 1), start=5),
        "request 'A': step 1 computes from position 5, and 4 are done",
    ),
    "a preemption that keeps what was computed": (
        lambda t: put(run_of(t, "B", 1), start=4, tokens=1),
        "request 'B': step 3 computes from position 4, and 0 are done",
    ),
    "a token before its prefill": (
        lambda t: put(run_of(t, "B", 0), tokens=3),
        "request 'B': step 0 delivers a token after position 3, and 4 tokens were known",
    ),
    "a token that is kept back": (
        lambda t: put(run_of(t, "B", 1), delivered=0),
        "request 'B': step 3 reaches the end, 5 tokens, and delivers none",
    ),
    "a long run of chunks": (
        lambda t: put(run_of(t, "A", 1), tokens=2),
        "request 'A': a run over 2 steps must be of plain decodes",
    ),
    "an end at another moment than the last token": (
        lambda t: put(t["A"], end=5),
        "request 'A': it ended at 5, and its last token came at another moment",
    ),
    "computed before it arrived": (
        lambda t: put(t["A"], arrival=2),
        "request 'A': it was computed before it arrived",
    ),
    "a seat that does not exist": (
        lambda t: (stay(t, "B", 0, seat=2), put(run_of(t, "B", 0), seat=2)),
        "request 'B': there are 2 seats, and it sat in seat 2",
    ),
    "two in one seat": (
        lambda t: (stay(t, "B", 0, seat=0), put(run_of(t, "B", 0), seat=0)),
        "requests 'A' and 'B' both sat in seat 0 in step 0",
    ),
    "two in one seat for ever": (
        lambda t: (
            stay(t, "A", 0, stop=None),
            put(run_of(t, "B", 0), seat=0),
            put(t["B"], stays=[Stay(0, 0, None)], runs=t["B"].runs[:1], output=[4]),
            put(t["B"], status=None, end=None),
        ),
        "requests 'A' and 'B' both sat in seat 0 in step 0",
    ),
    "a step that computes nothing": (
        lambda t: put(t, starts=[0, 1, 2, 3, 4, 5], ends=[1, 2, 3, 4, 5, 6]),
        "step 5 computes nothing",
    ),
    "more tokens than the budget": (
        lambda t: t.settings.update(token_budget=7),
        "step 0 computes 8 tokens, and the budget is 7",
    ),
    "a block too few": (
        lambda t: run_of(t, "B", 1).blocks.pop(),
        "request 'B': from step 3 on it needs 2 more blocks, and took 1",
    ),
    "a block too many": (
        lambda t: run_of(t, "B", 2).blocks.append(2),
        "request 'B': from step 4 on it needs 0 more blocks, and took 1",
    ),
    "a block in two tables": (
        lambda t: put(run_of(t, "B", 0), blocks=[0]),
        "step 0 hands out block 0, which is in use",
    ),
    "a block twice in one table": (
        lambda t: put(run_of(t, "B", 1), blocks=[1, 1]),
        "step 3 hands out block 1, which is in use",
    ),
    "a block that does not exist": (
        lambda t: put(run_of(t, "B", 1), blocks=[1, 3]),
        "step 3 hands out block 3, and the pool ends at 2",
    ),
    "a negative block": (
        lambda t: put(run_of(t, "B", 1), blocks=[1, -1]),
        "step 3 hands out block -1, and the pool ends at 2",
    ),
}


def test_the_trace_that_is_broken_below_is_sound() -> None:
    trace = sound()
    trace.check()
    assert trace.timeline() == [line.strip() for line in (sound.__doc__ or "").splitlines()[2:7]]
    assert [record.status for record in trace.requests] == ["finished", "finished", "refused"]


@pytest.mark.parametrize(("break_it", "message"), BROKEN.values(), ids=BROKEN)
def test_a_trace_that_is_broken_in_one_place_is_refused(
    break_it: Callable[[Trace], object], message: str
) -> None:
    trace = sound()
    break_it(trace)
    with pytest.raises(TraceError) as caught:
        trace.check()
    assert str(caught.value).startswith("the trace contradicts itself:\n")
    assert message in str(caught.value)


SHARING: dict[str, tuple[Callable[[Trace], object], str]] = {
    "a hit without a cache": (
        lambda t: t.settings.update(prefix_cache=False),
        "request 'B': step 1 takes 4 tokens from a cache in the midst of it",
    ),
    "a hit in the middle": (
        lambda t: put(run_of(t, "A", 2), cached=4),
        "request 'A': step 2 takes 4 tokens from a cache in the midst of it",
    ),
    "a hit of half a block": (
        lambda t: put(run_of(t, "B", 0), cached=3, start=3, tokens=7),
        "request 'B': step 1 takes 3 of 10 tokens from the cache: whole blocks of 4",
    ),
    "a hit of the last token": (
        lambda t: put(t["B"], prompt_tokens=4),
        "request 'B': step 1 takes 4 of 4 tokens from the cache: whole blocks of 4, and never",
    ),
    "a hit on a block that was not full": (
        lambda t: put(run_of(t, "B", 0), blocks=[1, 3, 4]),
        "step 1 takes block 1 from the cache, and it was not full",
    ),
    "a hit on a block that nobody had": (
        lambda t: put(run_of(t, "B", 0), blocks=[2, 3, 4]),
        "step 1 takes block 2 from the cache, and it was not full",
    ),
    "a fork of nobody": (
        lambda t: put(t["A#2"], fork_of=None),
        "request 'A#2': step 0 computes from position 7, and 0 are done",
    ),
    "a fork of a stranger": (
        lambda t: put(t["A#2"], fork_of="B"),
        "request 'A#2': step 0 computes nothing of it, and no prompt ends there that it could",
    ),
    "a fork with other blocks": (
        lambda t: put(run_of(t, "A#2", 0), blocks=[0, 2]),
        "request 'A#2': it forks in step 0 with the blocks [0, 2], and 'A' has [0, 1]",
    ),
    "a write into a block that others hold": (
        lambda t: put(run_of(t, "A", 1), copy=None),
        "request 'A#2': step 1 writes into block 1, which 'A' holds too",
    ),
    "a copy of a block that nobody shares": (
        lambda t: put(run_of(t, "A#2", 1), copy=(3, 2)),
        "request 'A#2': step 1 copies block 3 to write position 7, and",
    ),
    "more back from host memory than went there": (
        lambda t: stay(t, "B", 0, swapped_out=2),
        "request 'B': step 3 brings 3 blocks back from host memory, and 2 moved there",
    ),
    "swapped out and not brought back": (
        lambda t: put(run_of(t, "B", 1), restored=0),
        "request 'B': step 3 brings 0 blocks back from host memory, and 3 moved there",
    ),
    "swapped out without being preempted": (
        lambda t: stay(t, "B", 0, preempted=False),
        "request 'B': 3 blocks moved to host memory, and it was not preempted",
    ),
    "as many blocks as it never had": (
        lambda t: (stay(t, "B", 0, swapped_out=2), put(run_of(t, "B", 1), restored=2)),
        "request 'B': step 3 brings 2 blocks back from host memory for 10 positions",
    ),
    "more than host memory holds": (
        lambda t: t.settings.update(host_blocks=2),
        "step 2 leaves 3 blocks in host memory, which has 2",
    ),
    "a block given up for nobody": (
        lambda t: t.evictions.append((2, 1)),
        "step 2 gives up block 1, and hands it to nobody",
    ),
    "a shared block handed out again": (
        lambda t: put(run_of(t, "C", 0), blocks=[1, 0]),
        "step 3 hands out block 1, which is in use",
    ),
}


def test_the_trace_of_much_that_is_shared_is_sound() -> None:
    shared().check()


@pytest.mark.parametrize(("break_it", "message"), SHARING.values(), ids=SHARING)
def test_what_is_shared_or_moved_wrongly_is_refused(
    break_it: Callable[[Trace], object], message: str
) -> None:
    trace = shared()
    break_it(trace)
    with pytest.raises(TraceError) as caught:
        trace.check()
    assert message in str(caught.value)


def test_given_times_must_not_go_back() -> None:
    trace = given_times({"A": [3, 5]}, Workload.given({"A": (1, 4, 2)}))
    trace["A"].times = [5, 3]
    with pytest.raises(TraceError, match=r"must not go back in time: \[1, 5, 3, 5\]"):
        trace.check()


def test_what_a_trace_does_not_have_is_not_checked() -> None:
    trace = sound()
    trace.settings.clear()
    trace.check()
    trace["B"].runs[1].blocks.pop()
    trace.check()  # without a pool nobody knows how many blocks it takes


def test_many_contradictions_are_counted_and_eight_are_shown() -> None:
    trace = sound()
    for number in range(11):
        trace._records[f"r{number}"] = replace(trace["C"], id=f"r{number}", end=None)
    with pytest.raises(TraceError, match=r"and 3 more$") as caught:
        trace.check()
    assert len(str(caught.value).splitlines()) == 1 + 8 + 1


def test_a_failed_request_may_end_without_the_token_of_its_last_step() -> None:
    executor = Scripted(fails=lambda request_id, start: "NaN" if start == 5 else "")
    trace = served([ask("A", 4, 5)], Continuous(), executor, repeats=False)
    assert [run.delivered for run in trace["A"].runs] == [1, 1, 0]
    trace["A"].status = "cancelled"
    with pytest.raises(TraceError, match="reaches the end, 6 tokens, and delivers none"):
        trace.check()


def test_rejected_drafts_that_stay_are_a_contradiction() -> None:
    executor = Scripted(accepts=lambda request_id, start: 1)
    policy = Continuous(draft_tokens=3, blocks=6, block_tokens=2)
    trace = served([ask("A", 4, 6)], policy, executor, repeats=False)
    assert [run.reached for run in trace["A"].runs] == [4, 6, 8, 9]
    trace["A"].runs[1].drafts = 1
    with pytest.raises(TraceError, match="step 1 delivers a token after position 7, and 5 tokens"):
        trace.check()


def test_a_stay_is_a_value_with_a_name() -> None:
    assert Stay(0, 1, None) == Stay(seat=0, first=1, stop=None, preempted=False)
