"""The game "You are the scheduler": the reader seats the requests, then rules play the same."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from lab.figures.hands import Hands, hands
from lab.trace import Trace
from lab.widgets.modules import module, style


class Hand(anywidget.AnyWidget):
    """A hand of work for the reader. `onward` is where a link leads: what it asks, and an address.

    Nothing is computed while it is played: the hand holds every state.
    """

    _esm = module("hand")
    _css = style()

    hand: Any = traitlets.Dict(read_only=True).tag(sync=True)
    onward: Any = traitlets.List(read_only=True).tag(sync=True)

    def __init__(self, game: Hands, onward: tuple[str, str] | None = None) -> None:
        super().__init__()
        self._text = "\n\n".join([game.text(), *([": ".join(onward)] if onward else [])])
        self.set_trait("hand", game.to_json())
        self.set_trait("onward", list(onward or ()))

    def __repr__(self) -> str:
        """The text form: how to play, and not what comes of it."""
        return self._text


def hand(*traces: Trace, onward: tuple[str, str] | None = None) -> Hand:
    """The game behind runs of one workload, such as `lab.hand(static, continuous)`.

    The reader plays first; then each run is shown beside the reader's own. `onward` is the next
    question and its address. ValueErrors are those of `lab.figures.hands.hands`.
    """
    return Hand(hands(*traces), onward)
