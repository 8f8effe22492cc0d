"""Readers of a live engine: what they get as it comes, that every end reaches them, and that
whoever leaves takes nothing along."""

from __future__ import annotations

import asyncio
import gc
import io
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from own_thread import in_own_thread
from test_tokenizer import BYTES, plain

import lab
from lab.deliveries import Delivery, EngineDead, Stream
from lab.live import LiveEngine, live_engine
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.folder import Model
from lab.model.weights import Weights
from lab.plan import StepOutcome, StepPlan
from lab.request import Request
from lab.sampling import Sampling
from lab.scheduler import Refused

CONFIG = ModelConfig(
    layers=1, hidden=16, ffn=24, heads=4, kv_heads=2, head_dim=4, vocab=258, max_positions=96,
    end_ids=(257,),
)  # fmt: skip
DECODER = Decoder(CONFIG, Weights.random(CONFIG, seed=1, dtype=torch.float64))
MODEL = Model("random", CONFIG, DECODER, BYTES)
POLICY = lab.Continuous(seats=4, blocks=60, block_tokens=4)
DRAWN = Sampling(temperature=1.5)


def ask(name: str, prompt: Sequence[int], tokens: int, **more: Any) -> Request:
    return Request(id=name, prompt=tuple(prompt), max_tokens=tokens, **more)


@cache
def alone(request: Request) -> list[int]:
    """What the request gives by itself and without stop texts."""
    single = replace(request, stop=(), stop_ids=(), end_ids=(), cancel_at=None, deadline=None)
    return lab.serve([single], lab.Continuous(seats=1, block_tokens=4), MODEL)[request.id].output


def tokens_of(deliveries: Sequence[Delivery]) -> list[int]:
    return [token for delivery in deliveries for token in delivery.tokens]


def text_of(deliveries: Sequence[Delivery]) -> str:
    return "".join(delivery.text for delivery in deliveries)


def by_hand(policy: lab.Static | lab.Continuous = POLICY) -> LiveEngine:
    """An engine that is open, and whose steps this thread makes."""
    engine = live_engine(MODEL, policy)
    engine._is_open = True
    return engine


def finish(engine: LiveEngine) -> None:
    for _ in range(500):
        engine.close()
        if not (engine._inbox or engine.scheduler.has_work):
            return
        engine.step()
    raise AssertionError("the engine did not come to an end")


def assert_at_rest(engine: LiveEngine) -> None:
    engine.trace.check()
    assert engine._mailboxes == {}
    assert engine._readers_of_text == set()
    assert engine.scheduler.pool is not None
    assert engine.scheduler.pool.used == 0
    assert all(record.status for record in engine.trace.requests)


# What comes


def test_the_pieces_are_the_answer_whoever_reads_and_from_wherever() -> None:
    asked = [ask(f"r{n}", range(n + 1), 9, sampling=replace(DRAWN, seed=n)) for n in range(12)]

    async def read(engine: LiveEngine, request: Request) -> list[Delivery]:
        return [delivery async for delivery in engine.generate(request)]

    async def all_at_once(engine: LiveEngine) -> list[list[Delivery]]:
        return await asyncio.gather(*(read(engine, request) for request in asked[6:]))

    with live_engine(MODEL, POLICY) as engine, ThreadPoolExecutor(6) as threads:
        others = threads.map(lambda request: list(engine.generate(request)), asked[:6])
        found = in_own_thread(asyncio.run, all_at_once(engine))
        found = [*others, *found]
    for request, deliveries in zip(asked, found, strict=True):
        assert tokens_of(deliveries) == alone(request)
        assert text_of(deliveries) == BYTES.decode(alone(request))
        assert [d.status for d in deliveries] == [None] * 8 + ["finished"]
        assert deliveries[-1].reason == "length"
    assert_at_rest(engine)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 15), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 3)), min_size=1))
def test_a_text_ends_before_its_stop_text_and_the_tokens_with_it(
    seed: int, places: list[tuple[int, int]]
) -> None:
    request = ask("A", [7], 25, sampling=replace(DRAWN, seed=seed))
    whole = alone(request)
    letters = BYTES.decode(whole).replace("\ufffd", "")
    at = [(place % (len(letters) + 1), length) for place, length in places[:3]]
    stop = tuple(letters[place : place + length] or "none" for place, length in at)
    engine = by_hand()
    stream = engine.generate(replace(request, stop=stop))
    finish(engine)
    deliveries = list(stream)
    want, count = plain(BYTES, whole, stop)
    assert text_of(deliveries) == want
    assert tokens_of(deliveries) == whole[:count] == engine.trace["A"].output
    assert deliveries[-1].reason == engine.trace["A"].reason == ("stop" if count else "length")
    assert_at_rest(engine)


def test_a_token_that_ends_an_answer_is_delivered_and_is_none_of_its_text() -> None:
    whole = alone(ask("A", range(40, 46), 12))
    last = next(place for place in range(1, 12) if whole[place] not in whole[:place])
    for field, reason in (("stop_ids", "stop"), ("end_ids", "end of text")):
        with live_engine(MODEL, POLICY) as engine:
            request = ask("A", range(40, 46), 12, **{field: (whole[last],)})
            deliveries = list(engine.generate(request))
        assert tokens_of(deliveries) == whole[: last + 1]
        assert text_of(deliveries) == BYTES.decode(whole[:last])
        assert (deliveries[-1].status, deliveries[-1].reason) == ("finished", reason)


def test_several_answers_come_in_one_stream_under_their_names() -> None:
    request = ask("A", range(5), 8, n=3, sampling=DRAWN)
    with live_engine(MODEL, POLICY) as engine:
        deliveries = list(engine.generate(request))
    for answer in request.answers:
        own = [delivery for delivery in deliveries if delivery.request_id == answer.id]
        assert tokens_of(own) == alone(answer)
        assert text_of(own) == BYTES.decode(alone(answer))
        assert own[-1].status == "finished"
    assert sum(delivery.status is not None for delivery in deliveries) == 3


def test_log_probabilities_come_with_their_tokens_where_they_are_asked_for() -> None:
    with live_engine(MODEL, POLICY) as engine:
        asked = Sampling(temperature=0, logprobs=2, logprobs_of="logits")
        for delivery in engine.generate(ask("A", range(5), 4, sampling=asked)):
            (said,), (token,) = delivery.logprobs, delivery.tokens
            assert said.top[0] == (token, said.chosen)
        assert all(not d.logprobs for d in engine.generate(ask("B", range(5), 4)))


def test_a_request_made_of_a_text_arrives_now_and_listens_to_the_model() -> None:
    engine = live_engine(MODEL, POLICY)
    first = engine.request("It is", 7, stop="x", timeout=5, sampling=DRAWN)
    assert first.prompt == tuple(BYTES.encode("It is"))
    assert (first.max_tokens, first.stop, first.end_ids) == (7, ("x",), (257,))
    assert first.deadline == first.arrival + 5
    assert 0 < first.arrival < engine.clock.now()
    second = engine.request([1, 2], id="B", end_ids=(), stop=["a", "b"])
    assert (second.id, second.prompt, second.end_ids) == ("B", (1, 2), ())
    assert (second.stop, second.deadline) == (("a", "b"), None)
    assert engine.request([1]).id != first.id


def test_nothing_is_done_for_texts_that_nobody_reads() -> None:
    engine = by_hand()
    streams = [engine.generate(ask("A", [1], 3), text=False), engine.generate(ask("B", [1], 3))]
    engine.add(ask("C", [1], 3))
    engine.add(ask("D", [1], 3, stop=("no",)))
    engine.step()
    texts = {who: answer.text is not None for who, answer in engine.executor.answers.items()}
    assert texts == {"A": False, "B": True, "C": False, "D": True}
    finish(engine)
    assert [text_of(list(stream)) != "" for stream in streams] == [False, True]


def test_a_reader_who_never_reads_does_not_hold_the_engine_up() -> None:
    with live_engine(MODEL, POLICY) as engine:
        stream = engine.generate(ask("A", [1], 50))
    assert engine.trace["A"].status == "finished"
    assert len(list(stream)) == 50


# Every end


def ends(streams: dict[str, Stream]) -> dict[str, tuple[object, str]]:
    found = {who: list(stream)[-1] for who, stream in streams.items()}
    return {who: (last.status, last.reason) for who, last in found.items()}


def test_cancelled_late_and_finished_are_told_from_each_other() -> None:
    engine = by_hand(lab.Continuous(seats=2, blocks=60, block_tokens=4))
    now = engine.clock.now()
    streams = {
        request.id: engine.generate(request)
        for request in (
            ask("running", [1], 50),
            ask("finished", [1], 3),
            ask("waiting", [1], 50),
            ask("late", [1], 50, deadline=now + 1e-6),
            ask("never", [1], 50),
        )
    }
    assert engine.cancel("never")
    for _ in range(2):
        engine.step()
    for who in ("running", "waiting"):
        assert engine.cancel(who)
        assert engine.cancel(who)
    finish(engine)
    assert not engine.cancel("running")
    assert ends(streams) == {
        "running": ("cancelled", "by request"),
        "finished": ("finished", "length"),
        "waiting": ("cancelled", "by request"),
        "late": ("timed out", f"at {now + 1e-6}"),
        "never": ("cancelled", "by request"),
    }
    assert_at_rest(engine)


def test_what_was_held_back_comes_when_an_answer_is_cancelled() -> None:
    request = ask("A", [7], 30, sampling=replace(DRAWN, seed=3))
    whole = alone(request)
    engine = by_hand()
    stream = engine.generate(replace(request, stop=(BYTES.decode(whole[:20]) + "never",)))
    for _ in range(12):
        engine.step()
    engine.cancel("A")
    finish(engine)
    deliveries = list(stream)
    assert [delivery.text for delivery in deliveries[:-1]] == [""] * 12
    assert deliveries[-1].text == BYTES.decode(whole[:12])


def test_an_answer_that_fails_says_so_and_its_neighbour_goes_on() -> None:
    weights = Weights.random(CONFIG, seed=1, dtype=torch.float64)
    weights.embed_VD[22] = math.nan
    broken = replace(MODEL, decoder=Decoder(CONFIG, weights))
    with live_engine(broken, POLICY) as engine:
        bad, good = engine.generate(ask("bad", [22], 4)), engine.generate(ask("good", [5], 4))
        (failed,) = bad
        assert (failed.status, failed.tokens) == ("failed", ())
        assert failed.reason == "the model's logits are not finite"
        assert len(tokens_of(list(good))) == 4


def test_who_can_never_run_is_refused_at_once() -> None:
    with live_engine(MODEL, POLICY) as engine:
        with pytest.raises(Refused, match="may need 100 positions, and the model has 96"):
            engine.generate(ask("A", [1], 100))
        with pytest.raises(Refused, match="a stop text must hold at least 1 character, got ''"):
            engine.generate(ask("A", [1], 5, stop=("",)))
        stream = engine.generate(ask("A", [1], 5))
        with pytest.raises(ValueError, match="request 'A' was added already"):
            engine.generate(ask("A", [1], 5))
        assert len(list(stream)) == 5
    assert_at_rest(engine)


def test_an_error_within_the_block_cancels_who_is_still_there() -> None:
    streams: list[Stream] = []
    with suppress(ZeroDivisionError), live_engine(MODEL, POLICY) as engine:
        streams += [engine.generate(ask(f"r{n}", [1], 90, n=2)) for n in range(9)]
        _ = 1 // 0
    for stream in streams:
        last = {delivery.request_id: delivery.status for delivery in stream}
        assert len(last) == 2
        assert set(last.values()) <= {"cancelled", "finished"}
    assert "cancelled" in {record.status for record in engine.trace.requests}
    assert_at_rest(engine)


def test_without_an_engine_that_serves_nobody_waits() -> None:
    engine = live_engine(MODEL, POLICY)
    with pytest.raises(EngineDead, match="nobody serves here"):
        engine.generate(ask("A", [1], 5))
    with engine, pytest.raises(ValueError, match="the engine serves already"):
        engine.start()
    with pytest.raises(EngineDead, match="nobody serves here"):
        engine.generate(ask("A", [1], 5))
    with engine:
        assert len(list(engine.generate(ask("A", [1], 5)))) == 5
    assert_at_rest(engine)


def test_whoever_asks_while_the_engine_is_closed_is_answered_or_turned_away() -> None:
    answered = 0

    def asks(name: str) -> int:
        for number in range(10_000):
            try:
                stream = engine.generate(ask(f"{name}{number}", [1], 1 + number % 3))
            except EngineDead:
                return number
            assert list(stream)[-1].status == "finished"
        return 10_000

    for _ in range(5):
        engine = live_engine(MODEL, POLICY)
        with ThreadPoolExecutor(3) as threads:
            engine.start()
            users = [threads.submit(asks, name) for name in "abc"]
            while engine.trace.num_steps < 5:
                list(engine.generate(ask(f"x{engine.trace.num_steps}", [1], 1)))
            engine.stop()
            answered += sum(user.result(20) for user in users)
        assert_at_rest(engine)
    assert answered > 0


# An error in the engine's thread


class Broke(RuntimeError):
    """What goes wrong in these tests."""


def breaking(engine: LiveEngine, when: int) -> None:
    """Let the model break in the step with this number."""
    compute = engine.executor.run
    number = iter(range(1000))

    def run(plan: StepPlan, now: Any, until: Any) -> StepOutcome:
        if next(number) == when:
            raise Broke(f"step {when}")
        return compute(plan, now, until)

    engine.executor.run = run  # type: ignore[method-assign]


@pytest.mark.parametrize("when", [0, 1, 4])
def test_an_error_of_the_engine_reaches_every_reader(when: int) -> None:
    async def read(stream: Stream) -> BaseException | None:
        with pytest.raises(EngineDead, match="the engine has stopped: Broke") as dead:
            async for _ in stream:
                pass
        return dead.value.__cause__

    async def all_of(streams: list[Stream]) -> list[BaseException | None]:
        return await asyncio.gather(*map(read, streams))

    def read_here(stream: Stream) -> BaseException | None:
        with pytest.raises(EngineDead, match="the engine has stopped: Broke") as dead:
            list(stream)
        return dead.value.__cause__

    engine = live_engine(MODEL, POLICY)
    breaking(engine, when)
    engine._is_open = True  # so that all have asked when it starts
    streams = [engine.generate(ask(f"r{n}", [1], 50, n=1 + n % 2)) for n in range(8)]
    with ThreadPoolExecutor(4) as threads:
        causes = threads.map(read_here, streams[:4])
        engine.start()
        causes = [*in_own_thread(asyncio.run, all_of(streams[4:])), *causes]
    assert {type(cause) for cause in causes} == {Broke}
    with pytest.raises(EngineDead, match="nobody serves here") as dead:
        engine.generate(ask("A", [1], 5))
    assert isinstance(dead.value.__cause__, Broke)
    with pytest.raises(EngineDead, match=r"the engine has stopped: Broke\('step"):
        engine.stop()
    assert engine._mailboxes == {}


def test_a_block_whose_engine_breaks_ends_with_that_error_and_hides_no_other() -> None:
    def run(error: type[BaseException] | None) -> None:
        with live_engine(MODEL, POLICY) as engine:
            breaking(engine, 0)
            engine.add(ask("A", [1], 5))
            if error:
                raise error

    with pytest.raises(EngineDead, match="Broke"):
        run(None)
    with pytest.raises(ZeroDivisionError):
        run(ZeroDivisionError)


# Whoever leaves


def by_close(stream: Stream) -> None:
    next(stream)
    stream.close()


def by_with(stream: Stream) -> None:
    with stream:
        next(stream)


def by_another_thread(stream: Stream) -> None:
    thread = threading.Thread(target=stream.close)
    thread.start()
    thread.join()


async def read_all(stream: Stream) -> None:
    async for _ in stream:
        pass


def by_cancelling_the_task(stream: Stream) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(read_all(stream))
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    in_own_thread(asyncio.run, cancel())


def by_timeout(stream: Stream) -> None:
    with suppress(TimeoutError):
        in_own_thread(asyncio.run, asyncio.wait_for(read_all(stream), 0.01))


def by_dropping_it(stream: Stream) -> None:
    """Nothing to do: it goes with its name."""


@pytest.mark.parametrize(
    "leave",
    [by_close, by_with, by_another_thread, by_cancelling_the_task, by_timeout, by_dropping_it],
)
def test_one_step_after_a_reader_has_left_its_blocks_are_free(
    leave: Callable[[Stream], None],
) -> None:
    engine = by_hand()
    stream = engine.generate(ask("A", range(9), 50))
    for _ in range(3):
        engine.step()
    pool = engine.scheduler.pool
    assert pool is not None
    assert pool.used == 3
    leave(stream)
    del stream
    engine.close()
    engine.step()
    assert pool.used == 0
    assert engine.trace["A"].status == "cancelled"
    assert engine.trace["A"].output_tokens == 3
    assert_at_rest(engine)


def test_whoever_breaks_out_of_a_loop_is_cancelled() -> None:
    async def break_out(engine: LiveEngine) -> None:
        async for _ in engine.generate(ask("B", [2], 90)):
            break

    with live_engine(MODEL, POLICY) as engine:
        for _ in engine.generate(ask("A", [1], 90)):
            break
        in_own_thread(asyncio.run, break_out(engine))
        list(engine.generate(ask("C", [3], 2)))
    assert {record.id: record.status for record in engine.trace.requests} == {
        "A": "cancelled",
        "B": "cancelled",
        "C": "finished",
    }
    assert_at_rest(engine)


def test_to_leave_takes_no_lock_since_garbage_may_be_collected_anywhere() -> None:
    engine = by_hand()
    circle: list[object] = [engine.generate(ask("A", [1], 50))]
    circle.append(circle)
    engine.step()
    del circle
    with engine._door:
        gc.collect()
    finish(engine)
    assert engine.trace["A"].status == "cancelled"
    assert_at_rest(engine)


SMALL: dict[str, Any] = {"seats": 3, "block_tokens": 4, "token_budget": 6}
CROWDED = [
    lab.Static(seats=3, blocks=30, block_tokens=4),
    lab.Continuous(**SMALL, blocks=11, preemption="never"),
    lab.Continuous(**SMALL, blocks=7, preemption="recompute"),
    lab.Continuous(**SMALL, blocks=7, preemption="swap"),
    lab.Continuous(**SMALL, blocks=6, preemption="swap", prefix_cache=True),
]
ASKED = [
    ask("A", range(9), 8, sampling=DRAWN),
    ask("B", [*range(8), 1], 9, sampling=DRAWN),
    ask("C", range(11), 7, n=2, sampling=DRAWN),
    ask("D", range(5), 8, sampling=DRAWN),
]


def cancelled_after(
    steps: int, who: str, policy: lab.Static | lab.Continuous, leaves: bool
) -> tuple[LiveEngine, dict[str, list[Delivery]]]:
    """The engine at rest, and what came of each answer, when the reader of `who` has left, or
    somebody has cancelled it, after so many steps."""
    engine = by_hand(policy)
    streams = {request.id: engine.generate(request) for request in ASKED}
    for _ in range(steps):
        if engine.scheduler.has_work or engine._inbox:
            engine.step()
    act = streams[who].close if leaves else partial(engine.cancel, who)
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    finish(engine)
    assert_at_rest(engine)
    found: dict[str, list[Delivery]] = {answer.id: [] for r in ASKED for answer in r.answers}
    for stream in streams.values():
        for delivery in stream:
            found[delivery.request_id].append(delivery)
    return engine, found


@pytest.mark.parametrize("policy", CROWDED)
@pytest.mark.parametrize("leaves", [True, False])
def test_a_cancellation_in_every_state_ends_the_stream_and_changes_no_other_answer(
    policy: lab.Static | lab.Continuous, leaves: bool
) -> None:
    """In the inbox, waiting, in a chunk of the prompt, decoding, forked, preempted, at the end."""
    seen: set[object] = set()
    whole = {answer.id: alone(answer) for request in ASKED for answer in request.answers}
    for steps in range(0, 36, 3):
        for who in "BC":
            engine, found = cancelled_after(steps, who, policy, leaves)
            seen.add(engine.trace[who].status)
            last = engine.trace[who].stays[-1:]
            seen.update("left while preempted" for stay in last if stay.preempted)
            for name, deliveries in found.items():
                if name[0] != who:
                    assert tokens_of(deliveries) == whole[name]
                if name[0] != who or not leaves:
                    assert deliveries[-1].status == engine.trace[name].status
                    assert tokens_of(deliveries) == engine.trace[name].output
    assert seen >= {"cancelled", "finished"}
    assert ("left while preempted" in seen) == (policy.preemption != "never")


# For a long time


def test_after_thousands_of_requests_an_engine_is_as_small_as_before() -> None:
    def things() -> int:
        gc.collect()
        return len(gc.get_objects())

    def asks(engine: LiveEngine, count: int) -> None:
        for _ in range(count // 20):
            streams = [engine.generate(engine.request([1], 1 + n % 3)) for n in range(20)]
            for number, stream in enumerate(streams):
                if number % 7:
                    list(stream)

    policy = lab.Continuous(seats=20, blocks=40, block_tokens=4, prefix_cache=True)
    with live_engine(MODEL, policy, keep=50) as engine:
        asks(engine, 400)
        before, much = things(), 20 * 50
        asks(engine, 2000)
        assert things() < before + much
        assert len(engine.trace) <= 2 * 50 + 20 + 1
        assert engine.trace.num_steps <= 3 * len(engine.trace)
        assert engine.clock._bell.qsize() <= 1
    assert len(engine.executor.answers) <= 20
    assert engine.trace.settings["forgotten"] > 2200
    assert_at_rest(engine)


# In one line


def test_one_line_gives_a_text_and_writes_it_as_it_comes() -> None:
    paper = io.StringIO()
    text = lab.generate("It is", MODEL, max_tokens=20, sampling=DRAWN, to=paper)
    request = live_engine(MODEL, POLICY).request("It is", 20, sampling=DRAWN, end_ids=())
    assert text == paper.getvalue() == BYTES.decode(alone(request))
    assert lab.generate("It is", MODEL, max_tokens=20, sampling=DRAWN, stop=text[5]) in text
    with pytest.raises(Refused, match="may need 1000000005 positions, and the model has 96"):
        lab.generate("It is", MODEL, max_tokens=10**9)


def test_one_line_says_when_the_model_has_failed() -> None:
    weights = Weights.random(CONFIG, seed=1, dtype=torch.float64)
    weights.embed_VD[:] = math.nan
    broken = replace(MODEL, decoder=Decoder(CONFIG, weights))
    with pytest.raises(RuntimeError, match="the answer is failed: the model's logits are not fin"):
        lab.generate("It is", broken)


def test_to_deliver_before_the_end_is_known_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The negative control: an engine that tells its readers of tokens only."""
    hear = LiveEngine.hear
    monkeypatch.setattr(LiveEngine, "hear", lambda self, outcome, events: hear(self, outcome, ()))
    engine = by_hand()
    stream = engine.generate(ask("A", [1], 3))
    finish(engine)
    assert [next(stream).status for _ in range(3)] == [None] * 3
    assert stream._mailbox._mail.empty()
