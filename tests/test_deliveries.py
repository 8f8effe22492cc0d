"""The way of a delivery from the engine's thread to a loop that reads, and the way back."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest
from own_thread import in_own_thread

from lab.deliveries import Delivery, EngineDead, Mailbox, Stream

PIECES = [Delivery("A", (1,), "one"), Delivery("A", (2,), ""), Delivery("A", (3,), " two")]
END = Delivery("A", (), "", (), "finished", "length")


class Desk:
    """A stream, its mailbox, and how often its reader has left."""

    def __init__(self, *answers: str) -> None:
        self.mailbox, self.left = Mailbox(), 0
        self.stream = Stream(self.mailbox, answers or ("A",), self.leave)

    def leave(self) -> None:
        self.left += 1

    def put(self, *items: Delivery | BaseException) -> None:
        for item in items:
            self.mailbox.put(item)

    def later(self, *items: Delivery | BaseException) -> Thread:
        thread = Thread(target=self.put, args=items)
        thread.start()
        return thread


def drop(desk: Desk) -> Stream:
    """The stream, which then nobody else holds."""
    stream = desk.stream
    del desk.stream
    return stream


def test_a_loop_reads_what_comes_from_another_thread_to_the_end() -> None:
    desk = Desk()
    thread = desk.later(*PIECES, END)
    assert list(desk.stream) == [*PIECES, END]
    thread.join()
    assert list(desk.stream) == []
    desk.stream.close()
    assert desk.left == 0


def test_an_asynchronous_loop_reads_the_same_and_others_go_on_meanwhile() -> None:
    async def read() -> list[Delivery]:
        return [delivery async for delivery in desk.stream]

    async def bring() -> None:
        for item in (*PIECES, END):
            thread = desk.later(item)
            await asyncio.sleep(0)
            thread.join()

    async def both() -> list[Delivery]:
        found, _ = await asyncio.gather(read(), bring())
        return found

    desk = Desk()
    assert in_own_thread(asyncio.run, both()) == [*PIECES, END]
    assert desk.left == 0


def test_one_stream_may_be_read_by_a_loop_and_then_by_an_asynchronous_one() -> None:
    async def rest() -> list[Delivery]:
        return [delivery async for delivery in desk.stream]

    desk = Desk()
    desk.put(*PIECES, END)
    assert next(desk.stream) == PIECES[0]
    assert in_own_thread(asyncio.run, rest()) == [*PIECES[1:], END]


def test_several_answers_end_one_by_one() -> None:
    desk = Desk("A", "A#2")
    other = Delivery("A#2", (4,), "", (), "cancelled", "by request")
    desk.put(PIECES[0], other, END)
    assert list(desk.stream) == [PIECES[0], other, END]


def test_an_error_is_raised_with_its_cause_and_ends_the_stream() -> None:
    desk, cause = Desk(), ValueError("broken")
    desk.put(PIECES[0], cause)
    assert next(desk.stream) == PIECES[0]
    with pytest.raises(EngineDead, match=r"the engine has stopped: ValueError\('broken'\)") as dead:
        next(desk.stream)
    assert dead.value.__cause__ is cause
    assert list(desk.stream) == []
    assert desk.left == 0


def test_who_closes_or_leaves_a_with_block_leaves_once() -> None:
    desk = Desk()
    with desk.stream as stream:
        desk.put(*PIECES)
        next(stream)
    assert desk.left == 1
    desk.stream.close()
    assert list(desk.stream) == []
    assert desk.left == 1


def test_break_and_errors_leave_where_the_stream_has_no_name() -> None:
    desk = Desk()
    desk.put(*PIECES)
    for _ in drop(desk):
        break
    assert desk.left == 1
    desk = Desk()
    desk.put(*PIECES)
    with suppress(ZeroDivisionError):
        for _ in drop(desk):
            _ = 1 // 0
    assert desk.left == 1


def test_who_never_reads_leaves_by_dropping_the_stream_even_in_a_circle() -> None:
    desk = Desk()
    drop(desk)
    assert desk.left == 1
    desk = Desk()
    circle: list[object] = [drop(desk)]
    circle.append(circle)
    del circle
    gc.collect()
    assert desk.left == 1


def test_an_asynchronous_loop_that_breaks_or_is_cancelled_leaves() -> None:
    async def breaks(desk: Desk) -> None:
        async for _ in drop(desk):
            break
        assert desk.left == 1

    async def waits(stream: Stream) -> None:
        async for _ in stream:
            raise AssertionError("nothing came")

    async def cancels(desk: Desk) -> None:
        task = asyncio.create_task(waits(desk.stream))
        await asyncio.sleep(0)
        assert desk.left == 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert desk.left == 1
        async with Desk().stream as stream:
            assert aiter(stream) is stream

    desk = Desk()
    desk.put(*PIECES)
    in_own_thread(asyncio.run, breaks(desk))
    in_own_thread(asyncio.run, cancels(Desk()))


def test_a_loop_that_is_interrupted_while_it_waits_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Mailbox) -> Delivery:
        raise KeyboardInterrupt

    monkeypatch.setattr(Mailbox, "get", interrupted)
    desk = Desk()
    with pytest.raises(KeyboardInterrupt):
        next(desk.stream)
    assert desk.left == 1


def test_a_reader_whose_event_loop_is_closed_does_not_stop_the_engine() -> None:
    def wait_a_moment() -> None:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(desk.mailbox.get_async())
        loop.run_until_complete(asyncio.sleep(0))
        bells.append(desk.mailbox._bell)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(waiting)
        loop.close()

    desk, bells = Desk(), list[Any]()
    in_own_thread(wait_a_moment)
    (desk.mailbox._bell,) = bells
    desk.put(*PIECES)
    assert next(desk.stream) == PIECES[0]


class Late:
    """A queue into which the end comes just after the look with the number `place`."""

    def __init__(self, mailbox: Mailbox, place: int) -> None:
        self.inner, self.mailbox, self.places = mailbox._mail, mailbox, iter(range(place, -9, -1))

    def empty(self) -> bool:
        was_empty = self.inner.empty()
        if next(self.places) == 0:
            self.mailbox.put(END)
        return was_empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("place", [0, 1])
def test_nothing_is_lost_between_the_look_into_the_box_and_the_wait(place: int) -> None:
    async def read() -> list[Delivery]:
        return [delivery async for delivery in desk.stream]

    desk = Desk()
    desk.mailbox._mail = Late(desk.mailbox, place)  # type: ignore[assignment]
    assert in_own_thread(asyncio.run, asyncio.wait_for(read(), 10)) == [END]
