"""What a step costs, by its shape: tables, lines and rooflines, exact where they can be."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from drawn_runs import Watched, ask, cost_models, policies, served, workloads
from hypothesis import given
from hypothesis import strategies as st

from lab.executors.cost_model import CostModel, StepShape, shape_of
from lab.ledgers.sizes import GB, device, model_size
from lab.plan import Chunk, Decode, Decodes, StepPlan, Swap
from lab.policy import Continuous, Policy, Static
from lab.request import Request

PLAN = StepPlan(
    step=10,
    written=(Chunk("A", 0, 4, 8, False), Chunk("B", 1, 6, 7, True), Chunk("C", 2, 0, 3, True)),
    decodes=Decodes((Decode("D", 3, pace=2), Decode("E", 5, pace=-3)), pace=-1),
    idle_seats=(4, 6),
)


def test_the_shape_of_a_step_is_counted_by_hand() -> None:
    assert shape_of(PLAN) == StepShape(
        prefill_tokens=4 + 3,
        decode_sequences=1 + 2,  # B, D and E
        context_tokens=4 + 6 + 0 + 12 + 7,
        attention_pairs=(5 + 6 + 7 + 8) + 7 + (1 + 2 + 3) + 13 + 8,
        samples=2 + 2,
    )
    assert shape_of(PLAN).tokens == PLAN.num_tokens == 10


def test_in_a_padded_batch_idle_seats_count_as_decodes_and_read_nothing() -> None:
    plain, padded = shape_of(PLAN), shape_of(PLAN, padded=True)
    assert padded == plain._replace(decode_sequences=5)


@given(asked=workloads(), policy=policies())
def test_the_shape_is_the_sum_over_the_chunks(asked: list[Request], policy: Policy) -> None:
    watched = Watched(CostModel.equal_steps())
    served(asked, policy, watched)
    for _, plan, _ in watched.seen:
        shape = shape_of(plan)
        pairs = sum(p + 1 for c in plan.chunks for p in range(c.start, c.stop))
        assert shape.tokens == plan.num_tokens
        computing = [chunk for chunk in plan.chunks if chunk.fork_of is None]
        assert shape.context_tokens == sum(chunk.start for chunk in computing)
        assert shape.attention_pairs == pairs
        assert shape.samples == sum(chunk.samples for chunk in plan.chunks)
        assert shape.prefill_tokens == sum(c.num_tokens for c in plan.chunks if c.num_tokens > 1)


def test_equal_steps_read_one_position_more_a_decode_each_time() -> None:
    plan = StepPlan(3, decodes=PLAN.decodes, repeat=4)
    assert CostModel.affine(0, 0, 0, 1).run(plan, 0, None).ends == (5, 12, 21, 32)


def test_equal_steps_end_with_the_first_end_at_or_after_until() -> None:
    plan = StepPlan(3, decodes=PLAN.decodes, repeat=9)
    cost = CostModel.equal_steps(2)
    assert cost.run(plan, 1, None).ends == tuple(range(3, 20, 2))
    assert cost.run(plan, 1, 5).ends == (3, 5)
    assert cost.run(plan, 1, 4).ends == (3, 5)
    assert cost.run(plan, 1, 0).ends == (3,)


@given(cost=cost_models, until=st.one_of(st.none(), st.integers(0, 40)))
def test_equal_steps_are_added_up_as_single_ones(cost: CostModel, until: int | None) -> None:
    plan = StepPlan(3, decodes=PLAN.decodes, repeat=7, idle_seats=(0,))
    ends = []
    now: Any = 0.1
    for step in range(3, 10):
        (now,) = cost.run(plan._replace(step=step, repeat=1), now, None).ends
        ends.append(now)
        if until is not None and now >= until:
            break
    assert cost.run(plan, 0.1, until).ends == tuple(ends)


def test_a_simulation_names_no_token_and_fails_nobody() -> None:
    outcome = CostModel.equal_steps().run(PLAN, 0, None)
    assert (outcome.tokens, outcome.accepted, outcome.failures) == (None, {}, {})


# Kinds of models


def test_the_worked_number_of_the_affine_model() -> None:
    cost = CostModel.affine(10, Fraction("0.05"), Fraction("0.2"), unit="ms")
    assert cost.duration(StepShape(200, 10, 5000, 0, 11)) == 22
    assert CostModel.affine(1, 2, 3, 4).duration(StepShape(5, 6, 7, 8, 9)) == 1 + 10 + 18 + 28
    assert cost.unit == "ms"


def test_a_table_is_exact_on_its_rows_linear_between_them_and_flat_below() -> None:
    cost = CostModel.table({8: 20, 1: 10, 4: 12})
    times = [cost.duration(StepShape(tokens, 0, 0, 0, 0)) for tokens in (0, 1, 2, 4, 6, 8)]
    assert times == [10, 10, pytest.approx(10 + 2 / 3), 12, 16, 20]
    assert type(cost.duration(StepShape(4, 0, 0, 0, 0))) is int


def test_a_table_of_fractions_stays_exact() -> None:
    cost = CostModel.table({1: Fraction(1, 3), 4: Fraction(1, 2)})
    assert cost.duration(StepShape(2, 0, 0, 0, 0)) == Fraction(1, 3) + Fraction(1, 18)


@pytest.mark.parametrize(
    ("by", "size"), [("tokens", 7), ("decode_sequences", 2), ("prefill_tokens", 5)]
)
def test_a_table_goes_by_tokens_decodes_or_prefill(by: Any, size: int) -> None:
    cost = CostModel.table({0: 0, 10: 10}, by=by)
    assert cost.duration(StepShape(5, 2, 99, 99, 99)) == size


def test_padding_is_what_an_idle_seat_costs() -> None:
    asked = [ask("A", 1, 1), ask("B", 1, 3)]
    table = {1: 10, 2: 15}
    plain = served(asked, Static(seats=2), CostModel.table(table))
    padded = served(asked, Static(seats=2), CostModel.table(table, padded=True))
    assert plain.token_times("B") == [15, 25, 35]
    assert padded.token_times("B") == [15, 30, 45]


def test_the_roofline_is_the_longer_of_compute_and_memory_or_their_sum() -> None:
    longer = CostModel.roofline("Llama-3-8B", "h100")
    added = CostModel.roofline("Llama-3-8B", "h100", overlap=False)
    for shape in (StepShape(0, 1, 100, 101, 1), StepShape(8192, 0, 0, 8192 * 4096, 1)):
        low, high = longer.duration(shape), added.duration(shape)
        assert low < high <= 2 * low
    assert longer.unit == "s"


def test_a_roofline_may_be_of_names_or_of_sizes() -> None:
    named = CostModel.roofline("Llama-3-8B", "h100")
    sized = CostModel.roofline(model_size("Llama-3-8B"), device("h100"))
    shape = StepShape(100, 3, 999, 99_999, 4)
    assert named.duration(shape) == sized.duration(shape)
    assert named.settings == sized.settings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CostModel.equal_steps(-1), "duration must not be negative, got -1"),
        (lambda: CostModel.affine(1, -0.5, 0), "b must not be negative, got -0.5"),
        (lambda: CostModel.affine(1, 0, 0, -2), "d must not be negative, got -2"),
        (lambda: CostModel.table({}), "a table of step times needs at least 1 row, got 0"),
        (
            lambda: CostModel.table({1: 1, 4: -3}),
            "the time of a step of 4 tokens must not be negative, got -3",
        ),
        (
            lambda: CostModel.table({1: 1}, by="weight"),  # type: ignore[arg-type]
            "by must be tokens, decode_sequences or prefill_tokens, got 'weight'",
        ),
        (
            lambda: CostModel.table({1: 1, 8: 2}).duration(StepShape(9, 0, 0, 0, 0)),
            "the table of step times ends at 8 tokens, and a step has 9",
        ),
    ],
    ids=["equal", "affine b", "affine d", "no rows", "negative row", "by", "too large"],
)
def test_a_cost_that_makes_no_sense_is_refused_with_its_number(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_a_step_that_the_table_does_not_know_leaves_nothing_reserved() -> None:
    with pytest.raises(
        ValueError, match="the table of step times ends at 4 tokens, and a step has 5"
    ):
        served([ask("A", 5, 1)], Continuous(blocks=9), CostModel.table({4: 1}))


def test_blocks_that_move_to_host_memory_and_back_take_their_time_before_the_step() -> None:
    plan = StepPlan(
        written=(Chunk("A", 0, 5, 6, True, (1, 2, 3), restored=2),),
        swap_out=(Swap("B", (4, 5, 6)),),
    )
    cost = CostModel.equal_steps(1, "ms").swapping(Fraction(1, 4))
    assert cost.run(plan, 10, None).ends == (10 + Fraction(5, 4) + 1,)
    assert CostModel.equal_steps(1, "ms").run(plan, 10, None).ends == (11,)
    assert cost.settings["swap_per_block"] == Fraction(1, 4)


def test_a_roofline_knows_how_long_a_block_takes_over_the_link() -> None:
    cost = CostModel.roofline("llama-3-8b", "h100")
    assert cost.swap_per_block == pytest.approx(16 * 131_072 / 64e9)
    half = CostModel.roofline("llama-3-8b", "h100", block_tokens=8, link_bytes_per_s=32 * GB)
    assert half.swap_per_block == pytest.approx(cost.swap_per_block)


def test_a_negative_time_for_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^per_block must not be negative, got -1$"):
        CostModel.equal_steps().swapping(-1)
