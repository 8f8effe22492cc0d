"""Guesses from the text itself and from a script; those of a model are tested behind the engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.executors.answer import Answer
from lab.plan import Chunk, StepPlan
from lab.request import Request
from lab.speculation.proposer import Guess, PromptLookup, Script


@pytest.mark.parametrize(
    ("ids", "count", "found"),
    [
        ([1, 2, 3, 1, 2], 2, [3, 1]),
        ([1, 2, 3, 1, 2], 5, [3, 1, 2, 3, 1]),  # guesses are read on
        ([7, 7], 3, [7, 7, 7]),
        ([1, 2, 3], 4, []),
        ([5], 4, []),
        ([1, 2, 9, 3, 2, 8, 1, 2], 1, [9]),  # two tokens that fit beat a later place where one does
        ([1, 2, 8, 1, 2, 9, 1, 2], 1, [9]),  # of equals the last place
        ([4, 1, 2, 3, 6, 1, 2, 3, 7, 4, 1, 2, 3], 1, [7]),  # four would fit; three are looked at
    ],
)
def test_the_text_goes_on_as_it_did(ids: list[int], count: int, found: list[int]) -> None:
    assert PromptLookup().continuation(ids, count) == found


def test_a_lookup_may_ask_for_longer_ends() -> None:
    assert PromptLookup(longest=4).continuation([4, 1, 2, 3, 6, 1, 2, 3, 7, 4, 1, 2, 3], 1) == [6]
    assert PromptLookup(shortest=2).continuation([7, 3, 7], 1) == []
    for wrong in ({"shortest": 0}, {"longest": 2, "shortest": 3}):
        with pytest.raises(ValueError, match="shortest must be from 1 to longest = "):
            PromptLookup(**wrong)


def by_trying(ids: Sequence[int], longest: int) -> int | None:
    """Where the continuation begins, by looking at every place for every length."""
    for length in range(longest, 0, -1):
        for start in range(len(ids) - length - 1, -1, -1):
            if ids[start : start + length] == ids[len(ids) - length :]:
                return start + length
    return None


@given(st.lists(st.integers(0, 3), min_size=1, max_size=14), st.integers(1, 5), st.integers(1, 6))
def test_the_longest_end_and_of_equals_the_last_place(
    ids: list[int], longest: int, count: int
) -> None:
    found, at = PromptLookup(longest).continuation(ids, count), by_trying(ids, longest)
    if at is None:
        assert found == []
    else:
        whole = [*ids, *found]
        assert found == [whole[at + k] for k in range(count)]


def test_a_lookup_reads_prompt_and_answer_and_a_script_only_counts_what_was_said() -> None:
    answers = {
        name: Answer(Request(id=name, prompt=(1, 2, 3), max_tokens=9), [1, 2, 3], output)
        for name, output in (("A", [1, 2]), ("B", [8]), ("C", [1]))
    }
    plan = StepPlan(
        written=(
            Chunk("A", 0, 4, 7, True, drafts=2),
            Chunk("B", 1, 3, 6, True, drafts=2),
            Chunk("C", 2, 3, 4, True),
        )
    )
    assert PromptLookup().propose(plan, answers) == {"A": Guess((3, 1)), "B": Guess(())}
    script = Script({"A": (7, 8, 9), "C": (1, 2)})
    assert script.propose(plan, answers) == {"A": Guess((9,)), "B": Guess(())}
