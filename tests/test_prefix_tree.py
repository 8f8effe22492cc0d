"""The prefix tree as a figure: a golden text, every reason to stop, and what holds in every run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from drawn_runs import Scripted, ask, crowded, scripted, served
from hypothesis import given, settings

import lab
from lab.figures.pool_states import MOST_STEPS
from lab.figures.prefix_tree import _told, prefix_tree
from lab.figures.tree import Tree
from lab.policy import Continuous
from lab.request import Request

EQUAL = lab.CostModel.equal_steps()
EIGHT = tuple(range(8))


def tree(
    rows: dict[str, Any], *, seats: int = 3, blocks: int = 12, budget: int | None = None
) -> Tree:
    work = lab.Workload.given(rows)
    policy = Continuous(
        seats=seats, blocks=blocks, block_tokens=4, prefix_cache=True, token_budget=budget
    )
    return lab.prefix_tree(lab.simulate(work, policy, EQUAL), work)


def signs(figure: Tree, frame: int) -> list[str]:
    return [node.sign.strip() for node in figure.frames[frame].nodes]


# Golden text

WALKS = """\
How far is each beginning known?
8 requests, continuous batching, 3 seats, 6 blocks, equal steps, 4 tokens in a block (derived)

  A  9 tokens at step 0, none of them found; nothing known begins like it; 9 to compute
     * block 0: ids 0–3
       * block 1: ids 4–7
         . not full: id 8
  B  10 tokens at step 1, 8 of them in blocks 0 1; what is left fills no block; 2 to compute
     + block 0: ids 0–3 (held by A)
       + block 1: ids 4–7 (held by A)
         . not full: ids 20 21
  C  8 tokens at step 5, 4 of them in block 0; there it branches off; 4 to compute
     + block 0: ids 0–3
         block 1: ids 4–7
       * block 3: ids 30–33
  D  10 tokens at step 6, none of them found; nothing known begins like it; 10 to compute
       block 0: ids 0–3
         block 1: ids 4–7
         block 3: ids 30–33
     * block 2: ids 34–37
       * block 4: ids 38–41
         . not full: ids 42 43
  E  given up by now, in this order: 1; 8 tokens at step 9, 4 of them in block 0; \
block 1 had the rest, but the last token's logits are needed; 4 to compute
     + block 0: ids 0–3 (held by F)
         block 3: ids 30–33
       x block 1: ids 4–7
       * block 5: ids 4–7
       block 2: ids 34–37
         block 4: ids 38–41
  F  8 tokens at step 9, 4 of them in block 0; \
block 1 had the rest, but the last token's logits are needed; 4 to compute
     + block 0: ids 0–3 (held by E)
         block 3: ids 30–33
       * block 1: ids 4–7
       block 2: ids 34–37
         block 4: ids 38–41
  G  given up by now, in this order: 3 4; 8 tokens at step 11, none of them found; \
the next block is known, but only for requests with no tenant; 8 to compute
     no tenant:
         block 0: ids 0–3 (held by H)
           block 5: ids 4–7
         x block 3: ids 30–33
         block 2: ids 34–37
         x block 4: ids 38–41
     tenant B:
       * block 1: ids 0–3
         * block 3: ids 4–7
  H  8 tokens at step 11, 4 of them in block 0; \
block 5 had the rest, but the last token's logits are needed; 4 to compute
     + block 0: ids 0–3
         block 5: ids 4–7
       * block 4: ids 4–7
       block 2: ids 34–37
end  5 blocks known
     no tenant:
         block 0: ids 0–3
           block 5: ids 4–7
         block 2: ids 34–37
     tenant B:
         block 1: ids 0–3
           block 3: ids 4–7

+ found, * computed, . computed, and no full block, x given up

24 of 69 prompt tokens found: hit rate 8/23"""


def test_hits_misses_branches_and_evictions_read_as_a_tree() -> None:
    rows = {
        "A": (0, (*EIGHT, 8), 2),
        "B": (1, (*EIGHT, 20, 21), 2),
        "C": (5, (*EIGHT[:4], 30, 31, 32, 33), 1),
        "D": (6, 10, 1),
        "E": (9, EIGHT, 1),
        "F": (9, EIGHT, 1),
        "G": {"arrival": 11, "prompt": EIGHT, "output": 1, "tenant": "B"},
        "H": (11, EIGHT, 1),
    }
    assert tree(rows, blocks=6).text() == WALKS


# Why it goes no farther


def reason(figure: Tree, who: str) -> str:
    caption = next(frame.caption for frame in figure.frames if frame.label == who)
    return caption.split("; ")[-2]


def test_the_last_token_is_computed_though_all_of_it_is_known() -> None:
    figure = tree({"A": (0, EIGHT, 1), "B": (1, EIGHT, 1)})
    assert reason(figure, "B") == "block 1 had the rest, but the last token's logits are needed"
    assert signs(figure, 1) == ["+ block 0: ids 0–3", "block 1: ids 4–7", "* block 2: ids 4–7"]


def test_what_fills_no_block_is_never_known() -> None:
    figure = tree({"A": (0, (*EIGHT, 8), 1), "B": (1, (*EIGHT, 8), 1)})
    assert reason(figure, "B") == "what is left fills no block"
    assert signs(figure, 1) == ["+ block 0: ids 0–3", "+ block 1: ids 4–7", ". not full: id 8"]


def test_a_beginning_that_goes_on_otherwise_branches_off() -> None:
    other = (*EIGHT[:4], 90, 91, 92, 93, 94)
    figure = tree({"A": (0, EIGHT, 1), "B": (1, other, 1), "C": (2, (*EIGHT, *other), 1)})
    assert reason(figure, "A") == "nothing known begins like it"
    assert reason(figure, "B") == "there it branches off"
    assert reason(figure, "C") == "nothing known goes on from there"


def test_a_block_that_is_just_being_computed_is_not_known_yet() -> None:
    figure = tree({"A": (0, (*EIGHT, 8), 1), "B": (0, (*EIGHT, 8), 1)})
    assert reason(figure, "A") == "nothing known begins like it"
    assert reason(figure, "B") == "A is just computing the next block"
    assert len(figure.frames[-1].nodes) == 2  # of four full blocks, two hold what is known already
    pieces = tree({"A": (0, (*EIGHT, 8), 1), "B": (1, (*EIGHT, 8), 1)}, budget=6)
    assert reason(pieces, "B") == "A is just computing the next block"
    assert signs(pieces, 1)[0] == "+ block 0: ids 0–3 (held by A)"


def test_a_block_that_was_given_up_is_not_known_any_more() -> None:
    figure = tree({"A": (0, (*EIGHT, 8), 1), "B": (1, 9, 1), "C": (2, (*EIGHT, 8), 1)}, blocks=4)
    assert reason(figure, "C") == "the next block was given up at step 2"
    assert figure.frames[1].caption.startswith("given up by now, in this order: 1; 9 tokens")
    assert "x block 1: ids 4–7" in signs(figure, 1)
    assert "x block 1: ids 4–7" not in signs(figure, 2)


def test_a_block_may_be_given_up_for_somebody_who_comes_in_the_same_step() -> None:
    rows = {"A": (0, (*EIGHT, 8), 1), "D": (1, 9, 1), "B": (3, 17, 1), "C": (3, (*EIGHT, 8), 1)}
    figure = tree(rows, blocks=8)
    assert reason(figure, "C") == "the next block was given up at step 3"
    assert "given up by now, in this order: 1 3 2" in figure.frames[2].caption


@pytest.mark.parametrize("name", ["tenant", "adapter"])
def test_what_is_known_for_others_is_not_used(name: str) -> None:
    own = {"arrival": 1, "prompt": EIGHT, "output": 1, name: "B"}
    figure = tree({"A": (0, EIGHT, 1), "B": own, "C": own | {"arrival": 2}, "D": (3, EIGHT, 1)})
    nobody = "the next block is known, but only for requests with no tenant"
    assert reason(figure, "B") == nobody
    assert signs(figure, 1)[0] == "no tenant:"
    assert f"{name} B:" in signs(figure, 1)
    assert signs(figure, 2)[-4:] == [
        f"{name} B:",
        "+ block 2: ids 0–3",
        "block 3: ids 4–7",
        "* block 4: ids 4–7",
    ]
    assert reason(figure, "D") == "block 1 had the rest, but the last token's logits are needed"


# What else comes in


def test_who_was_preempted_is_admitted_again_and_finds_what_it_left() -> None:
    asked = [ask("A", range(8), 8), ask("B", range(100, 108), 8)]
    policy = Continuous(seats=2, blocks=6, block_tokens=4, prefix_cache=True)
    figure = prefix_tree(served(asked, policy, Scripted(), repeats=False), asked)
    assert [frame.label for frame in figure.frames] == ["A", "B", "B again", "end"]
    assert "13 tokens at step 9, 8 of them in blocks 2 3" in figure.frames[2].caption
    assert reason(figure, "B again") == "the next block was given up at step 6"
    way = [
        "+ block 2: ids 100–103",
        "+ block 3: ids 104–107",
        "x block 5: ids 8–11",
        "* block 5: ids 8–11",
    ]
    assert signs(figure, 2)[-5:] == [*way, ". not full: id 12"]
    unnamed = prefix_tree(served(asked, policy), asked)
    assert reason(unnamed, "B again") == "its answer's tokens have no ids here"


def test_answers_are_nodes_where_their_tokens_have_names() -> None:
    asked = [ask("A", EIGHT[:6], 4), ask("B", (*EIGHT[:6], 6, 7, 9), 1, 9)]
    policy = Continuous(seats=1, blocks=6, block_tokens=4, prefix_cache=True)
    named = prefix_tree(served(asked, policy, Scripted(), repeats=False), asked)
    assert signs(named, 1)[:2] == ["+ block 0: ids 0–3", "+ block 1: ids 4–7"]
    unnamed = prefix_tree(served(asked, policy), asked)
    assert signs(unnamed, 1)[:2] == ["+ block 0: ids 0–3", "* block 1: ids 4–7"]


def test_ids_are_told_in_short() -> None:
    assert _told(range(16)) == "ids 0–15"
    assert _told((5, 6)) == "ids 5 6"
    assert _told((1, 2, 4)) == "ids 1 2 4"
    assert _told(tuple(range(0, 20, 2))) == "ids 0 2 4 6 8 10 12 14 …"
    assert _told(("a", "b")) == "ids a b"
    assert _told(((77, 0),)) == "id 77+0"


def test_a_run_without_a_prefix_cache_has_no_tree() -> None:
    asked = [ask("A", 9, 2)]
    with pytest.raises(ValueError, match="needs a run with a prefix cache, and this one has none"):
        prefix_tree(served(asked, Continuous(seats=1, blocks=4)), asked)


# Every run


@settings(max_examples=60, deadline=None)
@given(crowded(), scripted(failing=True))
def test_the_found_blocks_are_those_of_the_trace(
    drawn: tuple[list[Request], Continuous], executor: Scripted
) -> None:
    asked, policy = drawn
    trace = served(asked, policy, executor, repeats=False)
    if trace.num_steps > MOST_STEPS or not policy.prefix_cache:
        return
    figure = prefix_tree(trace, asked)
    begins = [
        chunk
        for step in trace.steps()
        for chunk in step.chunks
        if chunk.begins and not chunk.fork_of and not chunk.restored
    ]
    assert [frame.walker for frame in figure.frames] == [*(c.request_id for c in begins), None]
    for chunk, frame in zip(begins, figure.frames, strict=False):
        hits = [node for node in frame.nodes if node.role == "hit"]
        assert len(hits) * policy.block_tokens == chunk.cached
        assert [h.label for h in hits] == [f"block {b}" for b in chunk.blocks[: len(hits)]]
        assert [b.depth - a.depth for a, b in pairwise(hits)] == [1] * (len(hits) - 1)
    lost = [n.label for frame in figure.frames for n in frame.nodes if n.role == "evicted"]
    assert len(lost) <= len(trace.evictions)
