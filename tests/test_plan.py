"""Plans and outcomes are values that can be printed, compared and written by hand."""

from __future__ import annotations

from lab.plan import Chunk, Decode, Decodes, StepOutcome, StepPlan, Swap

PLAN = StepPlan(
    step=5,
    written=(Chunk("C", 2, 0, 6, True, (7, 8)), Chunk("A", 0, 4, 8, False, (3,))),
    decodes=Decodes((Decode("B", 1, pace=3), Decode("D", 3, pace=-1)), pace=2),
    blocks=((5, "D", 9),),
)


def test_an_empty_plan_computes_nothing() -> None:
    assert StepPlan().is_empty
    assert StepPlan().num_tokens == 0
    assert StepPlan().chunks == ()
    assert StepPlan(wake_at=7).is_empty


def test_chunks_show_decodes_like_everything_else_in_order_of_seats() -> None:
    assert PLAN.chunks == (
        Chunk("A", 0, 4, 8, False, (3,)),
        Chunk("B", 1, 8, 9, True),
        Chunk("C", 2, 0, 6, True, (7, 8)),
        Chunk("D", 3, 4, 5, True, (9,)),
    )


def test_a_step_counts_the_tokens_of_chunks_and_decodes() -> None:
    assert PLAN.num_tokens == 2 + 6 + 4
    assert PLAN.num_tokens == sum(chunk.num_tokens for chunk in PLAN.chunks)
    assert not PLAN.is_empty
    assert not StepPlan(decodes=PLAN.decodes).is_empty
    assert not StepPlan(written=PLAN.written).is_empty


def test_a_block_of_a_later_step_is_not_shown_in_the_first() -> None:
    later = StepPlan(5, (), PLAN.decodes, blocks=((6, "B", 4), (5, "D", 9)), repeat=2)
    assert [chunk.blocks for chunk in later.chunks] == [(), (9,)]


def test_equal_plans_are_equal_and_print_their_content() -> None:
    assert StepPlan(1, PLAN.written) == StepPlan(1, PLAN.written)
    assert StepPlan(1, PLAN.written) != StepPlan(2, PLAN.written)
    assert "start=4, stop=8" in repr(PLAN)
    assert StepOutcome((3,)) == StepOutcome((3,), None, {}, {})


def test_a_chunk_begins_where_its_blocks_are_the_whole_table() -> None:
    assert Chunk("A", 0, 0, 4, False, (1,)).begins
    assert Chunk("A", 0, 8, 9, True, (1, 2, 3), cached=8).begins
    assert Chunk("A", 0, 5, 6, True, (1, 2), restored=2).begins
    assert Chunk("A#2", 1, 4, 4, True, (1,), fork_of="A").begins
    assert not Chunk("A", 0, 4, 8, True, (1,)).begins


def test_a_plan_says_what_moves_before_it_computes() -> None:
    plan = StepPlan(
        written=(
            Chunk("A", 0, 5, 6, True, (1, 2, 3), restored=2),
            Chunk("B", 1, 7, 8, True, copy=(4, 9)),
        ),
        swap_out=(Swap("C", (5, 6, 7)),),
    )
    assert plan.swap_in == (Swap("A", (1, 2)),)
    assert plan.copies == ((4, 9),)
    assert plan.swapped_blocks == 3 + 2
    assert (PLAN.swap_in, PLAN.copies, PLAN.swapped_blocks) == ((), (), 0)
