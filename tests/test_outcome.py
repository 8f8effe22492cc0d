"""An outcome counts as far as the answers go: what ends them, and what is dropped behind it."""

from __future__ import annotations

import pytest
from drawn_runs import Scripted, ask, served

from lab.outcome import carried_out, counted
from lab.plan import Chunk, StepOutcome, StepPlan
from lab.policy import Continuous
from lab.request import Request
from lab.scheduler import Scheduler


def ends(trace: object, name: str) -> tuple[str, str, list[int]]:
    record = trace[name]  # type: ignore[index]
    return record.status, record.reason, record.output


@pytest.mark.parametrize(
    ("more", "status", "output"),
    [
        ({"stop_ids": (6,)}, "stop", [4, 5, 6]),
        ({"end_ids": (6,)}, "end of text", [4, 5, 6]),
        ({"stop_ids": (6,), "end_ids": (5,)}, "end of text", [4, 5]),
        ({"stop_ids": (4,)}, "stop", [4]),
        ({"stop_ids": (8,)}, "stop", [4, 5, 6, 7, 8]),
        ({"stop_ids": (9,)}, "length", [4, 5, 6, 7, 8]),
        ({}, "length", [4, 5, 6, 7, 8]),
    ],
)
@pytest.mark.parametrize("drafts", [0, 1, 2, 9])
def test_an_answer_ends_with_the_token_that_stops_it_wherever_steps_end(
    more: dict[str, tuple[int, ...]], status: str, output: list[int], drafts: int
) -> None:
    """The answers are 4, 5, 6, 7 and 8; all guesses are right."""
    executor = Scripted(accepts=lambda who, start: 9)
    policy = Continuous(draft_tokens=drafts, blocks=4, block_tokens=3)
    trace = served([ask("A", 4, 5, **more)], policy, executor, repeats=False)
    assert ends(trace, "A") == ("finished", status, output)
    assert trace["A"].output_tokens == len(output), "what was dropped is not counted"


def test_guesses_behind_a_stop_leave_no_positions_behind() -> None:
    executor = Scripted(accepts=lambda who, start: 9)
    trace = served([ask("A", 4, 9, stop_ids=(5,))], Continuous(draft_tokens=4), executor)
    assert [run.reached for run in trace["A"].runs] == [4, 5]


def test_the_others_go_on_when_one_stops() -> None:
    asked = [ask("A", 4, 5, stop_ids=(5,)), ask("B", 4, 5)]
    trace = served(asked, Continuous(), Scripted(), repeats=False)
    assert ends(trace, "A") == ("finished", "stop", [4, 5])
    assert ends(trace, "B") == ("finished", "length", [4, 5, 6, 7, 8])


def test_one_of_several_answers_stops_alone() -> None:
    class Two(Scripted):
        def run(self, plan, now, until):  # type: ignore[no-untyped-def]
            outcome = super().run(plan, now, until)
            tokens = {who: (99,) if who == "A#2" else t for who, t in outcome.tokens.items()}
            return outcome._replace(tokens=tokens)

    trace = served([ask("A", 4, 3, n=2, stop_ids=(99,))], Continuous(), Two(), repeats=False)
    assert ends(trace, "A") == ("finished", "length", [4, 5, 6])
    assert ends(trace, "A#2") == ("finished", "stop", [99])


def test_an_executor_that_reads_text_says_itself_that_an_answer_is_over() -> None:
    scheduler = Scheduler(Continuous(), repeats=False)
    scheduler.add(ask("A", 4, 9))
    plan = scheduler.plan(0)
    _, outcome, events = scheduler.commit(
        plan, StepOutcome((1,), {"A": (7,)}, stops={"A": "stop string"})
    )
    assert outcome.tokens == {"A": (7,)}
    assert [(event.kind, event.reason) for event in events] == [
        ("finished", "stop string"),
        ("left", ""),
    ]


def test_who_brings_no_token_cannot_stop() -> None:
    scheduler = Scheduler(Continuous(seats=2, token_budget=2), repeats=False)
    scheduler.add(ask("A", 4, 9))
    plan = scheduler.plan(0)
    for outcome, message in (
        (StepOutcome((1,), {}, stops={"A": "x"}), "request 'A': it cannot stop in a step that"),
        (StepOutcome((1,), {}, stops={"Z": "x"}), "request 'Z': the outcome speaks of it"),
    ):
        with pytest.raises(ValueError, match=message):
            scheduler.commit(plan, outcome)


def test_nobody_forks_from_a_sequence_that_failed() -> None:
    plan = StepPlan(
        written=(Chunk("A", 0, 0, 4, True), Chunk("A#2", 1, 4, 4, True, fork_of="A")),
    )
    outcome = StepOutcome((1,), {}, {}, {"A": "NaN"})
    assert counted(plan, outcome, {}).failures == {"A": "NaN", "A#2": "NaN"}


def test_what_stops_nobody_counts_as_it_is() -> None:
    request = Request(id="A", prompt=range(4), max_tokens=5)
    scheduler = Scheduler(Continuous(), repeats=False)
    scheduler.add(request)
    plan = scheduler.plan(0)
    outcome = StepOutcome((1,), {"A": (4,)})
    assert scheduler.commit(plan, outcome)[1] == outcome


def test_fewer_guesses_make_a_chunk_shorter_and_give_back_its_blocks() -> None:
    plan = StepPlan(
        written=(Chunk("A", 0, 9, 14, True, (7, 8), drafts=4), Chunk("B", 1, 3, 4, True, (9,))),
    )
    for drafted, stop, blocks in ((4, 14, (7, 8)), (3, 13, (7, 8)), (2, 12, (7,)), (0, 10, (7,))):
        found = carried_out(plan, StepOutcome((1,), {}, drafted={"A": drafted}), 4)
        first, second = found.written
        assert first == Chunk("A", 0, 9, stop, True, blocks, drafts=drafted)
        assert second == plan.written[1]
    assert carried_out(plan, StepOutcome((1,), {}), 4) == plan


def test_who_guesses_less_than_the_plan_had_room_for_gets_the_rest_back() -> None:
    """Room for 3 guesses; nobody guesses at first, then 2 of which 1 stands."""
    executor = Scripted(
        accepts=lambda who, start: 1, guesses=lambda who, start: 0 if start < 5 else 2
    )
    policy = Continuous(draft_tokens=3, blocks=9, block_tokens=1)
    trace = served([ask("A", 4, 6)], policy, executor, repeats=False)
    assert trace.timeline() == [
        "0-1  A[0:4)",
        "1-2  A[4:5)",
        "2-3  A[5:8)",
        "3-4  A[7:9)",
    ]
    assert [(run.drafts, run.delivered) for run in trace["A"].runs] == [
        *((0, 1), (0, 1), (2, 2), (1, 2)),
    ]


@pytest.mark.parametrize(
    ("drafted", "accepted", "words"),
    [
        (4, 0, "drafted must be 0 to 3 drafts, got 4"),
        (-1, 0, "drafted must be 0 to 3 drafts, got -1"),
        (1, 2, "accepted must be 0 to 1 drafts, got 2"),
    ],
)
def test_more_guesses_than_planned_or_than_there_were_are_refused(
    drafted: int, accepted: int, words: str
) -> None:
    scheduler = Scheduler(Continuous(draft_tokens=3), repeats=False)
    scheduler.add(ask("A", 4, 9))
    scheduler.commit(scheduler.plan(0), StepOutcome((1,), {"A": (4,)}))
    plan = scheduler.plan(1)
    tokens = {"A": tuple(range(5, 6 + accepted))}
    with pytest.raises(ValueError, match=f"request 'A': {words}"):
        scheduler.commit(plan, StepOutcome((2,), tokens, {"A": accepted}, drafted={"A": drafted}))
    with pytest.raises(ValueError, match="request 'Z': the outcome speaks of it"):
        scheduler.commit(plan, StepOutcome((2,), {"A": (5,)}, drafted={"Z": 0}))
