"""The player: scenes that a reader steps through, in JupyterLab and on a page without a kernel."""

from __future__ import annotations

from typing import Any, TypeAlias

import anywidget
import traitlets

from lab.figures.board import Board
from lab.figures.cards import Cards
from lab.figures.grid import Grid
from lab.figures.scene import Scene
from lab.figures.tree import Tree
from lab.widgets.modules import module, style

Stepped: TypeAlias = Board | Cards | Grid | Scene | Tree
"""A figure with frames."""


class Player(anywidget.AnyWidget):
    """Plays one scene, or several below each other on one clock.

    `step` is the number of the moment that is shown, from 0; it may be set from Python.
    """

    _esm = module("player")
    _css = style()

    scenes: Any = traitlets.List(read_only=True).tag(sync=True)
    step: Any = traitlets.Int(0).tag(sync=True)

    def __init__(self, *scenes: Stepped) -> None:
        if not scenes:
            raise ValueError("a player needs at least 1 scene, got 0")
        if len({scene.unit for scene in scenes}) > 1:
            units = ", ".join(sorted({scene.unit for scene in scenes}))
            raise ValueError(f"scenes on one clock must have one unit, got {units}")
        super().__init__()
        self._texts = "\n\n".join(scene.text() for scene in scenes)
        self.num_steps = len({frame.at for scene in scenes for frame in scene.frames})
        self.set_trait("scenes", [scene.to_json() for scene in scenes])

    @traitlets.validate("step")
    def _keep_in_range(self, proposal: dict[str, Any]) -> int:
        return min(max(int(proposal["value"]), 0), self.num_steps - 1)

    def __repr__(self) -> str:
        """The text form: what nbval compares, GitHub shows and a screen reader can say."""
        return self._texts


def play(*scenes: Stepped) -> Player:
    """A player for scenes such as `lab.timeline(trace)`; several share one clock."""
    return Player(*scenes)
