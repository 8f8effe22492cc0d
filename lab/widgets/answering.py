"""Widgets that answer from the kernel what their page asks; `engine.js` is who asks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import anywidget

from lab.figures.scene import plain


class Answering(anywidget.AnyWidget):
    """Takes questions `{id, parameters}` and sends `{id, result}` back, or `{id, error}`."""

    def __init__(self) -> None:
        super().__init__()
        self.on_msg(self._hear)

    @abstractmethod
    def answer(self, **parameters: Any) -> object:
        """The result for these parameters; ValueError says why there is none."""

    def _hear(self, _: object, question: dict[str, Any], __: object) -> None:
        try:
            told = {"result": plain(self.answer(**question["parameters"]))}
        except ValueError as error:
            told = {"error": str(error)}
        self.send({"id": question["id"], **told})
