"""Trees: figures that grow downwards as values, and their text form."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lab.figures.scene import plain
from lab.figures.tree import Node, Tree, TreeFrame

FRAME = TreeFrame(
    *(0, "A", "half of it is found"),
    nodes=(
        Node(0, "root", "tenant B"),
        Node(1, "hit", "block 0", "0–3", "held by C"),
        Node(2, "miss", "block 2", "7 9"),
        Node(1, "evicted", "block 1"),
    ),
    walker="A",
)
TREE = Tree(
    title="How far?",
    finding="Half.",
    conditions="1 request",
    tag="given",
    unit="request",
    who=("A", "C"),
    frames=(FRAME, TreeFrame(1, "end", "nothing is left", ())),
)


def test_the_text_indents_each_node_below_the_one_it_follows() -> None:
    assert TREE.text().splitlines() == [
        "How far?",
        "1 request (given)",
        "",
        "  A  half of it is found",
        "     tenant B:",
        "       + block 0: 0–3 (held by C)",
        "         * block 2: 7 9",
        "       x block 1",
        "end  nothing is left",
        "",
        "+ found, * computed, x given up",
        "",
        "Half.",
    ]


def test_the_plain_form_lists_nodes_as_short_rows() -> None:
    values = json.loads(json.dumps(TREE.to_json()))
    assert values["kind"] == "tree"
    assert values["frames"][0]["nodes"][1] == [1, "hit", "block 0", "0–3", "held by C"]
    assert [frame["walker"] for frame in values["frames"]] == ["A", None]
    assert plain(TREE) == values


# What is no tree


def with_nodes(*nodes: Node) -> Tree:
    return replace(TREE, frames=(replace(FRAME, nodes=nodes),))


def test_a_node_follows_one_that_is_at_most_one_less_deep() -> None:
    with pytest.raises(
        ValueError, match="frame 'A': a node of depth 2 cannot follow one of depth 0"
    ):
        with_nodes(Node(0, "known", "a"), Node(2, "known", "b"))
    with pytest.raises(ValueError, match="a node of depth 1 cannot follow one of depth -1"):
        with_nodes(Node(1, "known", "a"))
    with pytest.raises(ValueError, match="a node of depth -1 cannot follow one of depth 0"):
        with_nodes(Node(0, "known", "a"), Node(-1, "known", "b"))


def test_roles_and_names_are_those_of_trees_and_of_this_one() -> None:
    with pytest.raises(ValueError, match=r"role must be one of root, .*, got 'leaf'"):
        with_nodes(Node(0, "leaf", "a"))
    with pytest.raises(ValueError, match="frame 'A': 'Z' is not among the names of the tree"):
        replace(TREE, frames=(replace(FRAME, walker="Z"),))
    with pytest.raises(ValueError, match="names must be unique, and 'A' stands twice"):
        replace(TREE, who=("A", "A"))
    with pytest.raises(ValueError, match="a tree must have at least 1 frame, got 0"):
        replace(TREE, frames=())
