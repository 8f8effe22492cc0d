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

    def stream(self) -> TextStream:
        """Text token by token, for one answer."""
        return TextStream(self)

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

    A token may end inside a character; its text is held back until the rest has come.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._before: list[int] = []
        """The tokens of the last piece: how a token is written may depend on them."""
        self._held: list[int] = []

    def push(self, token: int) -> str:
        """The text that is certain now: what the token adds, or nothing yet."""
        self._held.append(token)
        added = self._added()
        if not added or added.endswith(HALF):
            return ""
        self._before, self._held = self._held, []
        return added

    def flush(self) -> str:
        """What is still held back, at the end of the answer."""
        added = self._added()
        self._before, self._held = [], []
        return added

    def _added(self) -> str:
        """What the held tokens add to the text of those before."""
        shown = self._tokenizer.decode(self._before)
        return self._tokenizer.decode([*self._before, *self._held])[len(shown) :]


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
