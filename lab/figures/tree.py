"""A figure of a tree that grows downwards: a line a node, indented below the one it follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from lab.figures.scene import Figure, Frame, check_unique

ROLES = {
    "root": "{}:",
    "known": "  {}",
    "hit": "+ {}",
    "miss": "* {}",
    "tail": ". {}",
    "evicted": "x {}",
}
"""What a node may be, and how it is written in the text form."""

_MEANINGS = {
    "hit": "+ found",
    "miss": "* computed",
    "tail": ". computed, and no full block",
    "evicted": "x given up",
}


class Node(NamedTuple):
    """One line: `depth` says how far it is indented, `note` what more there is to say of it."""

    depth: int
    role: str
    label: str
    text: str = ""
    note: str = ""

    @property
    def sign(self) -> str:
        """The node in the text form."""
        told = f"{self.label}: {self.text}" if self.text else self.label
        note = f" ({self.note})" if self.note else ""
        return "  " * self.depth + ROLES[self.role].format(told) + note


@dataclass(frozen=True, slots=True)
class TreeFrame(Frame):
    """A frame: all nodes, each after the one it follows; and whose way through them it is."""

    nodes: tuple[Node, ...]
    walker: str | None = None


@dataclass(frozen=True, repr=False)
class Tree(Figure):
    """A tree in each frame, and somebody's way down through it.

    Its plain form has the fields of every figure with `kind` "tree", then

    - who: the names of those who walk; each keeps one colour;
    - frames: [{at, label, caption, nodes, walker}], where nodes are [depth, role, label, text,
      note].
    """

    kind = "tree"

    who: tuple[str, ...]
    frames: tuple[TreeFrame, ...]

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a tree must have at least 1 frame, got 0")
        check_unique("names", self.who)
        for frame in self.frames:
            self._check(frame)

    def _check(self, frame: TreeFrame) -> None:
        where = f"frame {frame.label!r}"
        if frame.walker is not None and frame.walker not in self.who:
            raise ValueError(f"{where}: {frame.walker!r} is not among the names of the tree")
        for node in frame.nodes:
            if node.role not in ROLES:
                raise ValueError(f"role must be one of {', '.join(ROLES)}, got {node.role!r}")
        depths = [-1, *(node.depth for node in frame.nodes)]
        for above, below in pairwise(depths):
            if not 0 <= below <= above + 1:
                raise ValueError(
                    f"{where}: a node of depth {below} cannot follow one of depth {above}"
                )

    def _lines(self, width: int) -> Iterator[str]:
        """One block a frame: the caption, and below it the tree."""
        head = max(len(frame.label) for frame in self.frames)
        for frame in self.frames:
            yield f"{frame.label.rjust(head)}  {frame.caption}".rstrip()
            yield from (f"{' ' * head}  {node.sign}" for node in frame.nodes)
        roles = {node.role for frame in self.frames for node in frame.nodes}
        if signs := [text for role, text in _MEANINGS.items() if role in roles]:
            yield from ("", ", ".join(signs))
