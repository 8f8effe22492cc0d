"""Text to tokens and back, as `tokenizer.json` says; a stream that never shows half a character."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import tokenizers
from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HALF = "\ufffd"  # what bytes that are no character, or not yet one, are decoded to
_MOST_HALVES = 6  # that may yet become a character: 3 bytes of it, and 3 more if they follow one
_MOST_TOKENS = 48  # that are decoded again for each new one


class Tokenizer:
    """The vocabulary of a model folder and, where it has one, its chat template."""

    def __init__(self, inner: tokenizers.Tokenizer, settings: Mapping[str, Any]) -> None:
        self._inner, self._settings = inner, settings

    @classmethod
    def read(cls, folder: Path) -> Tokenizer:
        """From `tokenizer.json` and, where they are there, `tokenizer_config.json` and
        `chat_template.jinja`. ValueError if there is no `tokenizer.json`."""
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise ValueError(f"{file} is not there: text needs the vocabulary of the model")
        settings = {}
        if (beside := folder / "tokenizer_config.json").is_file():
            settings = json.loads(beside.read_text(encoding="utf-8"))
        if (beside := folder / "chat_template.jinja").is_file():
            settings["chat_template"] = beside.read_text(encoding="utf-8")
        return cls(tokenizers.Tokenizer.from_file(str(file)), settings)

    @property
    def size(self) -> int:
        """How many tokens there are, special ones included."""
        return int(self._inner.get_vocab_size())

    @property
    def table(self) -> Mapping[str, int]:
        """Every token and its id. Two models have one vocabulary if their tables are equal."""
        return dict(self._inner.get_vocab())

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The ids of `text`. With `special` a beginning is marked where the model wants it; a
        chat prompt already has its marks and is encoded without."""
        return list(self._inner.encode(text, add_special_tokens=special).ids)

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of `ids`; special tokens are shown only with `special`."""
        return str(self._inner.decode(list(ids), skip_special_tokens=not special))

    def stream(self, stop: Iterable[str] = ()) -> TextStream:
        """Text token by token, for one answer, up to the first of the texts in `stop`."""
        return StoppedText(self, tuple(stop)) if stop else TextStream(self)

    def chat(self, messages: Iterable[Mapping[str, Any]], *, answer: bool = True) -> str:
        """The prompt that the model's chat template makes of `messages` (role and content each);
        with `answer` it ends where the model is to begin.

        The template is a program from the folder: it runs in a sandbox. ValueError if there is
        none, or with what it says is wrong with the messages.
        """
        template = self._settings.get("chat_template")
        if isinstance(template, list):  # several by name, in an older form
            template = {t["name"]: t["template"] for t in template}.get("default")
        if not template:
            raise ValueError("this model has no chat template: give it a prompt, not messages")
        try:
            return (
                _sandbox()
                .from_string(template)
                .render(messages=list(messages), add_generation_prompt=answer, **self._marks())
            )
        except TemplateError as error:
            raise ValueError(f"the chat template refuses the messages: {error}") from error

    def _marks(self) -> dict[str, str]:
        """The special tokens that a template may name: their text, however it is written down."""
        marks = {}
        for name, value in self._settings.items():
            if name.endswith("_token") and value:
                marks[name] = value["content"] if isinstance(value, dict) else str(value)
        return marks


class TextStream:
    """Turns tokens into text as they come. The pieces together are the whole text.

    A token may end inside a character; what may be half of one is held back until the rest has
    come. The work for a token does not grow with the answer.
    """

    is_stopped = False
    """Whether a stop text was found. Nothing follows it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        """The last tokens: how a token is written may depend on those before it."""
        self._whole = 0  # of them end with a whole character
        self._text = ""  # of the window
        self._shown = 0  # characters of it that were given out

    def push(self, token: int) -> str:
        """The text that is certain now: what the token adds, or nothing yet."""
        text = self._tokenizer.decode([*self._window, token])
        if text and text == self._text and not self._tokenizer.decode([token]):
            return ""  # a special token, which is no text
        self._window.append(token)
        halves = min(len(text) - len(text.rstrip(HALF)), _MOST_HALVES)
        piece = text[self._shown : len(text) - halves]
        if piece and not halves:
            self._look_from(self._whole, 0)
            self._whole = len(self._window)
        elif len(self._window) > _MOST_TOKENS:
            self._look_from(_MOST_TOKENS // 2, halves)
            self._whole = max(0, self._whole - _MOST_TOKENS // 2)
        else:
            self._text, self._shown = text, max(self._shown, len(text) - halves)
        return piece

    def flush(self) -> str:
        """What is still held back, at the end of the answer."""
        piece = self._text[self._shown :]
        self._shown = len(self._text)
        return piece

    def _look_from(self, start: int, halves: int) -> None:
        """Forget the tokens before `start`; the last `halves` characters are not given out yet."""
        del self._window[:start]
        self._text = self._tokenizer.decode(self._window)
        self._shown = len(self._text) - halves


class StoppedText(TextStream):
    """A text that ends before the first stop text in it: the one that is complete first, and of
    those complete with one character the longest. So it does not depend on how the text is cut
    into tokens.

    What may be the beginning of a stop text is held back too. Nothing that was given out can be
    part of one, so only what is held back is searched.
    """

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...]) -> None:
        """Raises ValueError for a stop text without a character."""
        if "" in stop:
            raise ValueError("a stop text must hold at least 1 character, got ''")
        super().__init__(tokenizer)
        self._stop = stop
        self._beginnings = tuple({text[:n] for text in stop for n in range(1, len(text))})
        self._held = ""

    def push(self, token: int) -> str:
        return self._before_a_stop(super().push(token))

    def flush(self) -> str:
        piece = self._before_a_stop(super().flush())
        rest, self._held = self._held, ""
        return piece + rest

    def _before_a_stop(self, added: str) -> str:
        """What is certain of the text when `added` has come."""
        if self.is_stopped or not added:
            return ""
        text = self._held + added
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.is_stopped, self._held = True, ""
            return text[: min(found)[1]]
        certain = len(text)
        if text.endswith(self._beginnings):
            certain -= max(len(start) for start in self._beginnings if text.endswith(start))
        self._held = text[certain:]
        return text[:certain]


def _sandbox() -> ImmutableSandboxedEnvironment:
    """Jinja as chat templates expect it: no blank lines from blocks, break and continue, JSON,
    today's date, and a way to refuse."""
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    sandbox.filters["tojson"] = _to_json
    sandbox.globals["raise_exception"] = _refuse
    sandbox.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return sandbox


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(reason: str) -> NoReturn:
    raise TemplateError(reason)
