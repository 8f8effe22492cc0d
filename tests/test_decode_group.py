"""The group of running decodes knows without counting who needs a block and who is done."""

from __future__ import annotations

import pytest
from drawn_runs import ask
from hypothesis import given
from hypothesis import strategies as st

from lab.decode_group import DecodeGroup
from lab.plan import Decode, Decodes
from lab.request import Sequence


def prefilled(name: str, prompt: int, max_tokens: int, seat: int) -> Sequence:
    """A sequence that has just delivered its first token."""
    sequence = Sequence(ask(name, prompt, max_tokens), number=seat, rank=(seat,))
    sequence.computed, sequence.tokens, sequence.seat = prompt, prompt + 1, seat
    return sequence


def test_members_stand_in_order_of_seats_and_their_paces_add_up() -> None:
    group = DecodeGroup(block_tokens=4)
    group.join(prefilled("B", 6, 5, seat=2), step=1)
    group.join(prefilled("A", 4, 5, seat=0), step=3)
    assert group.view() == Decodes((Decode("A", 0, 1), Decode("B", 2, 5)), pace=6)
    assert len(group) == 2


def test_the_view_is_the_same_object_until_somebody_joins_or_leaves() -> None:
    group = DecodeGroup(block_tokens=4)
    one, other = prefilled("A", 4, 5, seat=0), prefilled("B", 4, 5, seat=1)
    group.join(one, step=1)
    view = group.view()
    assert group.view() is view
    group.join(other, step=2)
    assert group.view() is not view
    group.leave(other, step=3)
    assert group.view() == view


def test_leaving_writes_down_how_far_a_member_has_come() -> None:
    group = DecodeGroup(block_tokens=4)
    sequence = prefilled("A", 4, 9, seat=0)
    group.join(sequence, step=10)
    assert (sequence.computed, sequence.tokens) == (4, 5)  # they stand still for a member
    group.leave(sequence, step=13)
    assert (sequence.computed, sequence.tokens, sequence.pace) == (7, 8, None)
    assert group.view() == Decodes()


@pytest.mark.parametrize("prompt", [3, 4, 5])
def test_a_member_begins_a_block_when_its_position_is_a_multiple_of_the_block(prompt: int) -> None:
    group = DecodeGroup(block_tokens=4)
    group.join(prefilled("A", prompt, 20, seat=0), step=7)
    needy = [step for step in range(7, 20) if group.in_need(step)]
    assert [prompt + step - 7 for step in needy] == [
        p for p in range(prompt, prompt + 13) if p % 4 == 0
    ]
    assert [step for step, _ in group.needs(7, 20)] == needy


def test_a_member_is_done_before_the_step_that_would_be_one_too_many() -> None:
    group = DecodeGroup(block_tokens=4)
    short, long = prefilled("A", 4, 3, seat=0), prefilled("B", 4, 5, seat=1)
    group.join(long, step=1)
    group.join(short, step=1)
    assert group.first_done() == 3
    assert (group.done(2), group.done(3), group.done(3)) == ([], [short], [])


def test_who_left_is_never_done() -> None:
    group = DecodeGroup(block_tokens=4)
    sequence = prefilled("A", 4, 3, seat=0)
    group.join(sequence, step=1)
    group.leave(sequence, step=2)
    assert group.first_done() is None
    assert group.done(99) == []


def test_who_comes_back_is_done_once_at_the_later_step() -> None:
    group = DecodeGroup(block_tokens=4)
    sequence = prefilled("A", 4, 5, seat=0)
    group.join(sequence, step=1)  # done before step 5
    group.leave(sequence, step=2)
    sequence.computed, sequence.tokens = 6, 7
    group.join(sequence, step=5)
    assert group.first_done() == 7
    assert (group.done(6), group.done(7)) == ([], [sequence])


def test_who_comes_back_at_the_same_pace_is_done_once() -> None:
    group = DecodeGroup(block_tokens=4)
    sequence = prefilled("A", 4, 5, seat=0)
    group.join(sequence, step=1)
    group.leave(sequence, step=2)
    sequence.computed, sequence.tokens = 6, 7
    group.join(sequence, step=3)
    assert group.done(9) == [sequence]


@given(
    block_tokens=st.sampled_from((1, 2, 3, 16)),
    members=st.lists(
        st.tuples(st.integers(1, 20), st.integers(2, 12), st.integers(0, 6)), min_size=1, max_size=6
    ),
    leaves=st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=6, max_size=6),
)
def test_the_group_agrees_with_members_that_are_counted_one_by_one(
    block_tokens: int, members: list[tuple[int, int, int]], leaves: list[int | None]
) -> None:
    group = DecodeGroup(block_tokens)
    sequences = [prefilled(f"r{i}", p, n, seat=i) for i, (p, n, _) in enumerate(members)]
    position: dict[Sequence, int] = {}
    for step in range(20):
        for sequence, (prompt, _, joins), leaves_at in zip(
            sequences, members, leaves, strict=False
        ):
            if step == joins:
                group.join(sequence, step)
                position[sequence] = prompt
            elif leaves_at == step and sequence in position:
                group.leave(sequence, step)
                assert sequence.computed == position.pop(sequence)
        done = group.done(step)
        assert set(done) == {s for s in position if position[s] == s.limit - 1}
        for sequence in done:
            group.leave(sequence, step)
            del position[sequence]
        here = sorted(position, key=sequences.index)
        assert group.in_need(step) == [s for s in here if position[s] % block_tokens == 0]
        view = group.view()
        assert [pace + step for _, _, pace in view.members] == [position[s] for s in here]
        assert view.pace + len(group) * step == sum(position.values())
        for sequence in here:
            position[sequence] += 1
