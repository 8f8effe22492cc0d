"""What the queries of a step may look at, and the groups in which torch computes it."""

from __future__ import annotations

import pytest
import torch

from kernels.context import PADDED, Context

CACHE = torch.zeros(40, 4, 2, 1, 2)


def seen(mask: torch.Tensor) -> list[str]:
    """A mask as a picture: one line a query, # where it looks."""
    return ["".join("#" if x == 0 else "." for x in row) for row in mask.flatten(0, -2).tolist()]


def test_a_decode_a_chunk_and_a_draft_check_on_the_board() -> None:
    context = Context.of([(7, 3), (9, 2), (5,)], [1, 3, 2], [6, 5, 2], CACHE)
    assert context.starts_Z.tolist() == [0, 1, 4, 6]
    assert context.tables_SN.tolist() == [[7, 3], [9, 2], [5, 0]]
    assert [group.rows for group in context.groups] == [slice(0, 1), slice(1, 4), slice(4, 6)]
    assert [seen(group.mask_SQL) for group in context.groups] == [
        ["######.."],
        ["###.....", "####....", "#####..."],
        ["#...", "##.."],
    ]
    assert [group.tables_SN.tolist() for group in context.groups] == [[[7, 3]], [[9, 2]], [[5]]]


def test_all_queries_see_all_positions_where_nothing_is_causal() -> None:
    context = Context.of([(7, 3)], [3], [5], CACHE, causal=False)
    (group,) = context.groups
    assert seen(group.mask_SQL) == ["#####..."] * 3


def test_neighbours_of_one_kind_are_computed_together() -> None:
    tables = [(1, 2, 3, 4), (5, 6, 7, 8, 9), (3, 4, 5, 6, 7)]
    (group,) = Context.of(tables, [1, 1, 1], [13, 14, 17], CACHE).groups
    assert group.tables_SN.tolist() == [[1, 2, 3, 4, 0], [5, 6, 7, 8, 0], [3, 4, 5, 6, 7]]
    assert seen(group.mask_SQL) == ["#" * n + "." * (20 - n) for n in (13, 14, 17)]


def test_a_group_ends_where_padding_would_cost_too_much() -> None:
    lengths = [4, 4, 5, 100]
    context = Context.of([range(-(-n // 4)) for n in lengths], [1] * 4, lengths, CACHE)
    assert [group.rows for group in context.groups] == [slice(0, 2), slice(2, 3), slice(3, 4)]
    for group in context.groups:
        held = sum(-(-length // 4) for length in lengths[group.rows])
        assert group.tables_SN.numel() <= PADDED * held


def test_who_has_no_queries_is_read_by_nobody() -> None:
    context = Context.of([(1,), (2, 3), (4,)], [0, 2, 0], [4, 8, 1], CACHE)
    assert [group.rows for group in context.groups if group.rows.stop > group.rows.start] == [
        slice(0, 2)
    ]
    assert Context.of([], [], [], CACHE).groups == ()


def test_faults_are_named_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="a sequence of 3 positions cannot have 4 queries"):
        Context.of([[0]], [4], [3], CACHE)
    with pytest.raises(ValueError, match="9 positions need 3 blocks, and the table has 2"):
        Context.of([[0, 1]], [1], [9], CACHE)
