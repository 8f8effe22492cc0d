"""A real model behind the scheduler: whatever the schedule, the tokens are those of the request
computed alone, without a cache, in float64."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_folders import hf_model, save
from test_tokenizer import bytes_tokenizer

import lab
from lab.live import live_engine
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder, greedy_oracle
from lab.model.folder import Model, load
from lab.model.weights import Weights
from lab.policy import Policy
from lab.request import Request
from lab.sampling import Sampling
from lab.scheduler import Refused
from lab.trace import Trace

CONFIG = ModelConfig(
    layers=2, hidden=16, ffn=24, heads=4, kv_heads=2, head_dim=4, vocab=23, max_positions=96
)
DECODER = Decoder(CONFIG, Weights.random(CONFIG, seed=1, dtype=torch.float64))
MODEL = Model("random", CONFIG, DECODER, None)  # type: ignore[arg-type]


@cache
def alone(prompt: tuple[int, ...], tokens: int) -> list[int]:
    return greedy_oracle(DECODER, prompt, tokens)


def ask(name: str, prompt: Any, tokens: int, **more: Any) -> Request:
    return Request(id=name, prompt=tuple(prompt), max_tokens=tokens, **more)


def outputs(trace: Trace) -> dict[str, list[int]]:
    trace.check()
    return {record.id: record.output for record in trace.requests}


@st.composite
def prompts(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Prompts around the edges of blocks of 4, many with a common beginning."""
    lengths = st.sampled_from((1, 3, 4, 5, 7, 8, 9, 12, 17))
    common = draw(st.lists(st.integers(0, 22), min_size=12, max_size=12))
    found = []
    for _ in range(draw(st.integers(1, 6))):
        length, shared = draw(lengths), draw(st.sampled_from((0, 0, 4, 8, 12)))
        own = draw(st.lists(st.integers(0, 22), min_size=length, max_size=length))
        found.append((*common[:shared], *own))
    return found


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    order: Any = draw(st.sampled_from(("first-come", "shortest-first")))
    blocks = draw(st.integers(11, 16))  # the longest request alone needs 11
    if draw(st.integers(0, 4)) == 0:
        return lab.Static(seats=draw(st.integers(1, 3)), blocks=40, block_tokens=4, order=order)
    seats = draw(st.integers(1, 4))
    return lab.Continuous(
        seats=seats,
        blocks=blocks,
        block_tokens=4,
        order=order,
        token_budget=draw(st.one_of(st.none(), st.integers(seats, seats + 9))),
        preemption=draw(st.sampled_from(("recompute", "swap", "never"))),
        prefix_cache=draw(st.booleans()),
    )


@settings(max_examples=60, deadline=None)
@given(prompts(), policies(), st.data())
def test_greedy_tokens_are_those_of_the_request_alone(asked, policy, data) -> None:
    requests = [
        ask(f"r{i}", prompt, data.draw(st.integers(1, 14))) for i, prompt in enumerate(asked)
    ]
    found = outputs(lab.serve(requests, policy, MODEL))
    for request in requests:
        assert found[request.id] == alone(request.prompt, request.max_tokens), request


@settings(max_examples=20, deadline=None)
@given(prompts(), policies(), st.integers(0, 3))
def test_sampled_tokens_are_those_of_the_request_alone(asked, policy, seed) -> None:
    chosen = Sampling(
        temperature=1.3, top_p=0.95, top_k=15, repetition_penalty=1.2, presence_penalty=0.3
    )
    requests = [
        ask(f"r{i}", prompt, 9, sampling=replace(chosen, seed=seed + i))
        for i, prompt in enumerate(asked)
    ]
    together = outputs(lab.serve(requests, policy, MODEL))
    for request in requests:
        by_itself = lab.serve([request], lab.Continuous(seats=1, block_tokens=4), MODEL)
        assert together[request.id] == outputs(by_itself)[request.id]


def test_all_ways_were_taken_in_one_run_with_little_memory() -> None:
    requests = [ask(f"r{i}", [*range(8), i], 12) for i in range(5)]
    for preemption in ("recompute", "swap"):
        policy = lab.Continuous(
            seats=4, blocks=9, block_tokens=4, token_budget=8, preemption=preemption,
            prefix_cache=True,
        )  # fmt: skip
        trace = lab.serve(requests, policy, MODEL)
        assert any(stay.preempted for record in trace.requests for stay in record.stays)
        assert outputs(trace) == {r.id: alone(r.prompt, 12) for r in requests}


def test_several_answers_share_the_prompt_and_each_is_that_of_its_own_seed() -> None:
    chosen = Sampling(temperature=1.5, seed=7)
    policy = lab.Continuous(seats=3, blocks=20, block_tokens=4)
    many = outputs(lab.serve([ask("A", range(10), 8, n=3, sampling=chosen)], policy, MODEL))
    assert list(many) == ["A", "A#2", "A#3"]
    for number, name in enumerate(many, 1):
        single = ask("A", range(10), 8, sampling=chosen.of_answer(number))
        assert outputs(lab.serve([single], policy, MODEL))["A"] == many[name]
    assert len({tuple(tokens) for tokens in many.values()}) == 3


def test_an_answer_ends_with_a_token_that_stops_it() -> None:
    whole = alone(tuple(range(6)), 12)
    stop = whole[4]
    first = whole.index(stop)
    policy = lab.Continuous(seats=1, blocks=9, block_tokens=4)
    for field, reason in (("stop_ids", "stop"), ("end_ids", "end of text")):
        trace = lab.serve([ask("A", range(6), 12, **{field: (stop,)})], policy, MODEL)
        assert outputs(trace)["A"] == whole[: first + 1]
        assert trace["A"].reason == reason


def test_who_cannot_be_computed_is_refused_with_the_reason_and_harms_nobody() -> None:
    bad = {
        "token": (ask("token", [1, 99], 2), "token 99 is none of the model's 23"),
        "long": (ask("long", range(20), 90), "may need 109 positions, and the model has 96"),
        "stop": (ask("stop", [1], 2, stop=("x",)), "stop texts need a tokenizer"),
        "empty": (ask("empty", [1], 2, stop=("",)), "stop texts need a tokenizer"),
    }
    good = ask("good", range(7), 5)
    policy = lab.Continuous(seats=4, blocks=40, block_tokens=4)
    trace = lab.serve([good, *(request for request, _ in bad.values())], policy, MODEL)
    assert outputs(trace)["good"] == alone(good.prompt, 5)
    for name, (request, words) in bad.items():
        assert trace[name].status == "refused"
        assert words in trace[name].reason
        with pytest.raises(Refused):
            live_engine(MODEL, policy).add(request)


def test_logits_that_are_no_numbers_fail_one_request_and_not_its_neighbours() -> None:
    weights = Weights.random(CONFIG, seed=1, dtype=torch.float64)
    weights.embed_VD[22] = math.nan
    broken = replace(MODEL, decoder=Decoder(CONFIG, weights))
    policy = lab.Continuous(seats=2, blocks=20, block_tokens=4)
    trace = lab.serve([ask("bad", [1, 22], 4), ask("good", range(5), 4)], policy, broken)
    assert (trace["bad"].status, trace["bad"].reason) == (
        "failed",
        "the model's logits are not finite",
    )
    assert len(trace["good"].output) == 4


def test_whoever_gets_the_blocks_of_a_failed_request_is_unharmed() -> None:
    """Masked positions count as nothing only while they hold numbers."""
    weights = Weights.random(CONFIG, seed=1, dtype=torch.float64)
    weights.embed_VD[22] = math.nan
    broken = replace(
        MODEL, decoder=Decoder(CONFIG, replace(weights, head_VD=DECODER.weights.head_VD))
    )
    requests = [ask("bad", [1, 22, *[3] * 5], 2), ask("good", range(5), 4)]
    trace = lab.serve(requests, lab.Continuous(seats=1, blocks=2, block_tokens=4), broken)
    assert trace["bad"].status == "failed"
    assert trace["good"].output == alone(tuple(range(5)), 4)


def test_log_probabilities_are_kept_and_name_the_chosen_token() -> None:
    policy = lab.Continuous(seats=1, blocks=9, block_tokens=4)
    engine = live_engine(MODEL, policy)
    asked = Sampling(temperature=0, logprobs=2, logprobs_of="logits")
    engine.add(ask("A", range(5), 3, sampling=asked))
    while engine.scheduler.has_work:
        engine.step()
    answer = engine.executor.answers["A"]
    for token, said in zip(answer.output, answer.logprobs, strict=True):
        assert said is not None
        assert said.top[0] == (token, said.chosen)
        assert said.chosen < 0


def test_threads_may_ask_and_cancel_while_it_runs() -> None:
    engine = live_engine(MODEL, lab.Continuous(seats=3, blocks=30, block_tokens=4))
    server = threading.Thread(target=engine.serve)
    server.start()
    requests = [ask(f"r{i}", range(i + 1), 6) for i in range(8)]

    def add(some: list[Request]) -> None:
        for request in some:
            engine.add(request)

    askers = [threading.Thread(target=add, args=(requests[i::2],)) for i in range(2)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    engine.add(ask("long", range(3), 60))
    engine.cancel("long")
    engine.close()
    server.join(30)
    assert not server.is_alive()
    found = outputs(engine.trace)
    assert engine.trace["long"].status == "cancelled"
    for request in requests:
        assert found[request.id] == alone(request.prompt, 6)
    assert engine.scheduler.pool.free == 30


def test_a_folder_is_served_and_a_stop_text_ends_an_answer(tmp_path: Path) -> None:
    save(hf_model("qwen3", vocab_size=258), tmp_path)
    bytes_tokenizer().save(str(tmp_path / "tokenizer.json"))
    model = load(tmp_path)
    prompt = model.tokenizer.encode("Is it so?")
    policy = lab.Continuous(seats=2, block_tokens=4)
    whole = outputs(lab.serve([ask("A", prompt, 12)], policy, str(tmp_path)))["A"]
    assert whole == greedy_oracle(model.decoder, prompt, 12)
    end = next(n for n in range(1, 13) if model.tokenizer.decode(whole[:n]))
    stop = model.tokenizer.decode(whole[:end])
    trace = lab.serve([ask("A", prompt, 12, stop=(stop,))], policy, model)
    assert (trace["A"].output, trace["A"].reason) == (whole[:end], "stop")


def test_a_live_trace_is_read_by_every_ledger_and_figure() -> None:
    requests = [ask(f"r{i}", range(4 + i), 5) for i in range(3)]
    trace = lab.serve(requests, lab.Continuous(seats=2), MODEL)
    row = lab.latency(trace)["r2"]
    assert sum(row.spans.values()) == pytest.approx(row.e2e)
    assert "measured" in lab.timeline(trace).text()
    assert trace.settings["maker"] == "live"


def test_a_wrong_block_table_would_be_noticed(monkeypatch: Any) -> None:
    """The negative control: from the second chunk on, the first block is taken for another."""
    from_plan = lab.executors.live.Answer.take

    def mistaken(self: Any, chunk: Any, block_tokens: int) -> None:
        from_plan(self, chunk, block_tokens)
        if chunk.start:
            self.table[0] = self.table[1]

    monkeypatch.setattr(lab.executors.live.Answer, "take", mistaken)
    prompt = tuple(range(12))
    trace = lab.serve([ask("A", prompt, 12)], lab.Continuous(seats=1, block_tokens=4), MODEL)
    assert trace["A"].output != alone(prompt, 12)


def test_a_narrow_model_computes_with_one_thread_and_leaves_the_others_as_they_were() -> None:
    before, policy = torch.get_num_threads(), lab.Continuous(seats=1, block_tokens=4)
    torch.set_num_threads(2)
    try:
        used: list[int] = []

        def wrong(*_: Any) -> Any:
            used.append(torch.get_num_threads())
            raise KeyError("on purpose")

        for threads in (None, 2):
            engine = live_engine(MODEL, replace(policy, blocks=9), threads=threads)
            engine.executor.run = wrong  # type: ignore[method-assign]
            with pytest.raises(KeyError, match="on purpose"):
                engine.run([ask("A", [1], 2)])
            assert torch.get_num_threads() == 2
        assert used == [1, 2]
        assert lab.serve([ask("A", [1], 2)], policy, MODEL).settings["threads"] == 1
    finally:
        torch.set_num_threads(before)
