"""What a reader gets of an answer while it is made, and the way from the engine's thread to there.

One stream is read by a loop or by an asynchronous one. The engine never waits for a reader: at most
as many deliveries lie in a mailbox as the answers have tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from lab.model.sampling import Logprobs
from lab.plan import Ending


class EngineDead(RuntimeError):
    """The engine has stopped with an error, which is the cause of this one; or it does not run."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is new of one answer."""

    request_id: str
    """Of several answers, which one ("A#2")."""
    tokens: tuple[int, ...] = ()
    """Ids of the new tokens, those of a stop text included."""
    text: str = ""
    """The new text that is certain: half a character, and what may be the beginning of a stop text,
    come later. It ends before whatever ends the answer."""
    logprobs: tuple[Logprobs, ...] = ()
    """One for each token, where they were asked for."""
    status: Ending | None = None
    """How the answer has ended, as in the trace; None while it goes on."""
    reason: str = ""
    """Why: of one that has finished "stop", "length" or "end of text"."""


class Mailbox:
    """Where the engine's thread leaves deliveries, for one reader in any other."""

    def __init__(self) -> None:
        self._mail: SimpleQueue[Delivery | BaseException] = SimpleQueue()
        self._bell: Callable[[], object] | None = None

    def put(self, item: Delivery | BaseException) -> None:
        """Leave a delivery, or the error after which nothing comes; never waits."""
        self._mail.put(item)
        if bell := self._bell:
            with suppress(RuntimeError):  # the reader's event loop is closed
                bell()

    def get(self) -> Delivery | BaseException:
        """The next, as soon as it is there."""
        return self._mail.get()

    async def get_async(self) -> Delivery | BaseException:
        """The next, as soon as it is there; meanwhile the event loop goes on."""
        if self._mail.empty():
            there = asyncio.Event()
            self._bell = partial(asyncio.get_running_loop().call_soon_threadsafe, there.set)
            try:
                if self._mail.empty():  # nothing came before the bell was there
                    await there.wait()
            finally:
                self._bell = None
        return self._mail.get_nowait()


Leave: TypeAlias = Callable[[], object]


class Stream:
    """The deliveries of one request, as they come: `for delivery in stream`, or `async for`.

    The last of each answer has a status. Whoever leaves early (by `close`, at the end of a `with`
    block, or by dropping the stream, as `break` and errors do where it has no name) cancels the
    request. If the engine breaks, `EngineDead` is raised.
    """

    def __init__(self, mailbox: Mailbox, answers: Iterable[str], leave: Leave) -> None:
        self._mailbox, self._leave = mailbox, leave
        self._going_on = set(answers)

    def __iter__(self) -> Stream:
        return self

    def __aiter__(self) -> Stream:
        return self

    def __next__(self) -> Delivery:
        if not self._going_on:
            raise StopIteration
        try:
            item = self._mailbox.get()
        except BaseException:
            self.close()
            raise
        return self._read(item)

    async def __anext__(self) -> Delivery:
        if not self._going_on:
            raise StopAsyncIteration
        try:
            item = await self._mailbox.get_async()
        except BaseException:  # the task was cancelled
            self.close()
            raise
        return self._read(item)

    def close(self) -> None:
        """Cancel what goes on, and read no further."""
        if self._going_on:
            self._going_on.clear()
            self._leave()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _read(self, item: Delivery | BaseException) -> Delivery:
        if isinstance(item, BaseException):
            self._going_on.clear()
            raise EngineDead(f"the engine has stopped: {item!r}") from item
        if item.status:
            self._going_on.discard(item.request_id)
        return item
