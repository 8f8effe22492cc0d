"""Guesses behind the scheduler: whatever is guessed, greedy answers are those without guesses, and
nothing of a guess that did not stand stays anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_live_streams import text_of, tokens_of
from test_tokenizer import BYTES
from torch import Tensor

import lab
from lab.__main__ import main
from lab.executors.answer import Answer
from lab.live import LiveEngine, live_engine
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder, last_logits
from lab.model.flat_batch import FlatBatch, Span
from lab.model.folder import Model
from lab.model.kv_tensors import KVTensors
from lab.model.tokenizer import Tokenizer
from lab.model.weights import Weights
from lab.plan import StepPlan
from lab.request import Request
from lab.sampling import GREEDY, Sampling
from lab.speculation.proposer import DraftModel, Guess, PromptLookup, Proposer, Script
from lab.trace import Trace

VOCAB = 23
WORDS = {f"w{number}": number for number in range(VOCAB)}


def words(table: Mapping[str, int] = WORDS) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(dict(table))), {})


CONFIG = ModelConfig(
    layers=2, hidden=16, ffn=24, heads=4, kv_heads=2, head_dim=4, vocab=VOCAB, max_positions=96
)
WEIGHTS = Weights.random(CONFIG, seed=1, dtype=torch.float64)
TARGET = Model("target", CONFIG, Decoder(CONFIG, WEIGHTS), words())


def half_of(model: Model, **changed: Any) -> Model:
    """The first of two layers: often right, and its K and V are its own."""
    config = replace(model.config, layers=1, **changed)
    weights = replace(model.decoder.weights, layers=model.decoder.weights.layers[:1])
    return Model("draft", config, Decoder(config, weights), model.tokenizer)


DRAFT = half_of(TARGET)
ROOM = lab.Continuous(seats=4, blocks=60, block_tokens=4, draft_tokens=3)


def ask(name: str, prompt: Any, tokens: int, **more: Any) -> Request:
    return Request(id=name, prompt=tuple(prompt), max_tokens=tokens, **more)


def outputs(trace: Trace) -> dict[str, list[int]]:
    trace.check()
    return {record.id: record.output for record in trace.requests}


def plainly(requests: Sequence[Request], model: Model = TARGET) -> dict[str, list[int]]:
    """The answers without guesses, in a batch that lacks nothing."""
    seats = sum(request.n for request in requests)
    return outputs(lab.serve(requests, lab.Continuous(seats=seats, block_tokens=4), model))


def with_guesses(
    requests: Sequence[Request], policy: lab.Continuous = ROOM, draft: Any = DRAFT
) -> Trace:
    trace = lab.serve(requests, policy, TARGET, draft=draft)
    trace.check()
    return trace


# What must hold after every step


def check_books(engine: LiveEngine) -> None:
    """Blocks held are those of the computed tokens, and the executor's tables say the same."""
    scheduler, size = engine.scheduler, engine.scheduler.policy.block_tokens
    pool = scheduler.pool
    assert pool is not None
    assert pool.free + pool.used + pool.cached == pool.num_blocks
    for sequence in scheduler.running:
        held = -(-sequence.computed // size)
        assert len(sequence.blocks) == held
        if sequence.begun:
            assert engine.executor.answers[sequence.request.id].table[:held] == sequence.blocks


def check_draft(engine: LiveEngine, draft: DraftModel) -> None:
    """What the draft remembers of a sequence is what it would compute for these tokens alone."""
    swapped = {s.request.id for _, s in engine.scheduler._waiting if s.swapped}
    running = {s.request.id: s for s in engine.scheduler.running if s.begun}
    gone = {*engine.scheduler._ended}
    assert {*draft.saved} <= swapped | running.keys() | gone
    for who, sequence in running.items():
        answer = engine.executor.answers[who]
        known = min(draft.num_known(sequence.blocks), sequence.computed)
        if known:
            alone = KVTensors(draft.decoder.config, 1, known, torch.float64)
            ids = alone.index(answer.ids(0, known))
            draft.decoder.forward(ids, FlatBatch.of([Span(known, known, (0,))], alone), alone)
            for layer, cache in enumerate(draft.kv.layers):
                slots = torch.cat([cache[block] for block in sequence.blocks])[:known]
                torch.testing.assert_close(slots, alone.layers[layer][0])


def calls_of_draft(engine: LiveEngine) -> list[Sequence[Span]]:
    """What the draft of an engine computes from now on, call by call."""
    draft: Any = engine.executor.proposer
    calls, forward = list[Sequence[Span]](), draft._forward

    def watched(ids: Any, spans: Sequence[Span]) -> Any:
        calls.append(spans)
        return forward(ids, spans)

    draft._forward = watched
    return calls


def most_read(calls: Sequence[Sequence[Span]]) -> int:
    """The most tokens that the draft had to read of a sequence before it could guess."""
    return max(span.tokens for spans in calls for span in spans if span.asked)


def run_by_hand(
    engine: LiveEngine, requests: Sequence[Request], cancel: tuple[int, str] | None = None
) -> Trace:
    """Step after step, with a look at the books after each."""
    for request in requests:
        engine.add(request)
    steps = 0
    while engine.scheduler.has_work:
        if cancel and cancel[0] == steps:
            engine.cancel(cancel[1])
        engine.step()
        steps += 1
        check_books(engine)
        if isinstance(engine.executor.proposer, DraftModel):
            check_draft(engine, engine.executor.proposer)
    assert engine.scheduler.pool is not None
    assert engine.scheduler.pool.used == 0
    engine.trace.check()
    return engine.trace


# Greedy answers


@st.composite
def prompts(draw: st.DrawFn) -> tuple[int, ...]:
    """Prompts around the edges of blocks, many with a common beginning, some that repeat."""
    length, shared = draw(st.sampled_from((1, 3, 4, 5, 7, 8, 9))), draw(st.sampled_from((0, 4, 8)))
    own = draw(st.lists(st.integers(0, VOCAB - 1), min_size=length, max_size=length))
    return (*(2, 3, 5, 7, 2, 3, 5, 7)[:shared], *own)


@st.composite
def crowds(draw: st.DrawFn) -> list[Request]:
    return [
        ask(
            f"r{number}",
            draw(prompts()),
            draw(st.integers(1, 12)),
            n=draw(st.sampled_from((1, 1, 1, 2))),
            stop_ids=draw(st.sampled_from(((), (), (4, 9, 11, 17)))),
            draft_tokens=draw(st.sampled_from((None, None, None, 0, 2))),
            sampling=draw(st.sampled_from((GREEDY, GREEDY, SHY))),
        )
        for number in range(draw(st.integers(1, 5)))
    ]


SHY = Sampling(temperature=0, repetition_penalty=1.3, presence_penalty=0.2)


@st.composite
def policies(draw: st.DrawFn) -> lab.Continuous:
    size = draw(st.sampled_from((1, 3, 4)))
    seats = draw(st.integers(2, 4))
    need = -(-28 // size)  # the longest request alone
    return lab.Continuous(
        seats=seats,
        block_tokens=size,
        blocks=need + draw(st.integers(0, need)),
        token_budget=draw(st.one_of(st.none(), st.integers(seats, seats + 9))),
        preemption=draw(st.sampled_from(("recompute", "swap"))),
        prefix_cache=draw(st.booleans()),
        draft_tokens=draw(st.integers(1, 5)),
        adaptive_drafts=draw(st.booleans()),
    )


def nearly(right: Mapping[str, Sequence[int]]) -> Script:
    """The right answers, but for every third token."""
    return Script(
        {
            who: [(token + (place % 3 == 2)) % VOCAB for place, token in enumerate(tokens)]
            for who, tokens in right.items()
        }
    )


@settings(max_examples=50, deadline=None)
@given(crowds(), policies(), st.sampled_from(("model", "model", "model", "lookup", "script")))
def test_greedy_answers_are_those_without_guesses(asked, policy, kind) -> None:
    right = plainly(asked)
    draft: Any = {"model": DRAFT, "lookup": PromptLookup(), "script": nearly(right)}[kind]
    found = outputs(run_by_hand(live_engine(TARGET, policy, draft=draft), asked))
    assert found == right


@settings(max_examples=15, deadline=None)
@given(crowds(), policies(), st.integers(0, 9), st.integers(0, 4))
def test_who_is_cancelled_leaves_nothing_and_harms_nobody(asked, policy, step, number) -> None:
    right, victim = plainly(asked), asked[number % len(asked)].id
    engine = live_engine(TARGET, policy, draft=DRAFT)
    trace = run_by_hand(engine, asked, (step, victim) if step else None)
    for record in trace.requests:
        if record.status == "finished":
            assert record.output == right[record.id]
        assert record.output == right[record.id][: len(record.output)]


def test_all_ways_were_taken_with_guesses() -> None:
    """Little memory: by recompute and by swap, with a cache and chunks; both have drafts that stood
    and drafts that did not, before and after they lost their seats."""
    requests = [ask(f"r{i}", [*range(8), i], 12) for i in range(5)]
    right = plainly(requests)
    for preemption in ("recompute", "swap"):
        policy = lab.Continuous(
            seats=4, blocks=11, block_tokens=4, token_budget=10, preemption=preemption,
            prefix_cache=True, draft_tokens=3,
        )  # fmt: skip
        trace = run_by_hand(live_engine(TARGET, policy, draft=DRAFT), requests)
        assert outputs(trace) == right
        runs = [run for record in trace.requests for run in record.runs if run.drafts]
        accepted = sum(run.delivered - 1 for run in runs)
        assert 0 < accepted < sum(run.drafts for run in runs)
        assert any(stay.preempted for record in trace.requests for stay in record.stays)
        assert any(run.cached for record in trace.requests for run in record.runs)


def test_a_swapped_draft_goes_on_where_it_was() -> None:
    """Its K and V come back with the target's: the first guess afterwards computes one token, or
    two where all had stood."""
    requests = [ask(f"r{i}", [*range(7), i], 14) for i in range(3)]
    policy = lab.Continuous(seats=3, blocks=12, block_tokens=4, preemption="swap", draft_tokens=2)
    engine = live_engine(TARGET, policy, draft=DRAFT)
    calls = calls_of_draft(engine)
    trace = run_by_hand(engine, requests)
    assert any(stay.swapped_out for record in trace.requests for stay in record.stays)
    assert outputs(trace) == plainly(requests)
    assert most_read(calls) <= 2


def test_what_the_draft_moves_is_counted_for_the_link_too() -> None:
    requests = [ask(f"r{i}", [*range(7), i], 14) for i in range(3)]
    policy = lab.Continuous(seats=3, blocks=12, block_tokens=4, preemption="swap", draft_tokens=2)
    engine = live_engine(TARGET, policy, draft=DRAFT, link_bytes_per_s=2e4)
    waited: list[float] = []
    wait_until = engine.clock.wait_until

    def watched(moment: float) -> None:
        waited.append(moment - engine.clock.now())
        wait_until(moment)

    engine.clock.wait_until = watched  # type: ignore[method-assign]
    trace = run_by_hand(engine, requests)
    blocks = sum(stay.swapped_out for record in trace.requests for stay in record.stays)
    draft: Any = engine.executor.proposer
    both = sum(kv.num_bytes // kv.num_blocks for kv in (engine.executor.kv, draft.kv))
    assert blocks > 0
    assert sum(wait for wait in waited if wait > 0) == pytest.approx(
        2 * blocks * both / 2e4, rel=0.2
    )


# How many steps


def test_a_draft_that_is_the_target_is_always_right() -> None:
    """12 tokens with 3 guesses a step: a prefill, then 4, 4 and 3 tokens; the last step has room
    for 2 guesses only."""
    policy = replace(ROOM, seats=1)
    trace = with_guesses([ask("A", range(5), 12)], policy, TARGET)
    assert trace.num_steps == 4
    assert [(run.drafts, run.delivered) for run in trace["A"].runs] == [
        (0, 1),
        (3, 4),
        (3, 4),
        (2, 3),
    ]
    assert outputs(trace) == plainly([ask("A", range(5), 12)])


def test_sampled_guesses_of_the_target_itself_stand_too() -> None:
    chosen = Sampling(temperature=1.1, top_p=0.9, top_k=9, frequency_penalty=0.4)
    requests = [ask(f"r{i}", [i, 3], 13, sampling=replace(chosen, seed=i)) for i in range(4)]
    trace = with_guesses(requests, draft=TARGET)
    assert all(run.delivered == run.drafts + 1 for r in trace.requests for run in r.runs)
    assert trace.num_steps == 4


def test_a_script_says_what_stands_and_what_is_thrown_away() -> None:
    """Three guesses a step for the right answer, of which the fourth token is changed."""
    right = plainly([ask("A", range(5), 9)])["A"]
    wrong = [*right[:3], (right[3] + 1) % VOCAB, *right[4:]]
    trace = with_guesses([ask("A", range(5), 9)], draft=Script({"A": wrong}))
    assert [(run.drafts, run.delivered) for run in trace["A"].runs] == [
        (0, 1),
        (3, 3),
        (3, 4),
        (0, 1),
    ]
    assert trace["A"].output == right
    assert trace.settings["draft"] == "script"


def test_where_there_is_no_guess_nothing_is_drafted() -> None:
    """A script that ends, and a text that repeats nothing: the steps are plain decodes, and the
    blocks that were reserved for guesses are free again."""
    request = ask("A", range(6), 10)
    engine = live_engine(TARGET, replace(ROOM, block_tokens=1, blocks=15), draft=Script({}))
    trace = run_by_hand(engine, [request])
    assert [(run.kind, run.count, run.drafts) for run in trace["A"].runs] == [
        ("prefill", 1, 0),
        ("decode", 9, 0),
    ]


def test_a_cached_block_that_made_room_for_no_guess_is_gone() -> None:
    """The pool is full of known blocks: room for guesses evicts one, and nobody guesses."""
    policy = lab.Continuous(seats=1, blocks=6, block_tokens=2, prefix_cache=True, draft_tokens=5)
    first, second = ask("first", range(8), 2), ask("second", [9, 9, 9], 7)
    engine = live_engine(TARGET, policy, draft=Script({}))
    assert outputs(run_by_hand(engine, [first, second])) == plainly([first, second])
    assert engine.trace.evictions


def test_the_number_of_guesses_follows_what_stood() -> None:
    """At most 4: all right, all right, then wrong from the second guess on, then right again."""
    right = plainly([ask("A", range(5), 24)])["A"]
    wrong = [token + 1 if place in (11, 14) else token for place, token in enumerate(right)]
    script = Script({"A": [token % VOCAB for token in wrong]})
    policy = replace(ROOM, draft_tokens=4, adaptive_drafts=True)
    trace = with_guesses([ask("A", range(5), 24)], policy, script)
    assert [(run.drafts, run.delivered) for run in trace["A"].runs] == [
        *((0, 1), (4, 5), (4, 5)),  # 11 tokens were said: the next guess is wrong
        *((4, 1), (1, 2), (2, 1), (1, 2), (2, 3), (3, 4)),
    ]
    assert trace["A"].output == right


def test_a_request_may_have_fewer_guesses_or_none() -> None:
    requests = [ask(f"r{k}", [1, 2, 3], 12, draft_tokens=k) for k in (None, 0, 1, 9)]
    trace = with_guesses(requests, draft=TARGET)
    most = [max(run.drafts for run in record.runs) for record in trace.requests]
    assert most == [3, 0, 1, 3]
    assert trace["r0"].runs[-1].count == 11


def test_neighbours_change_neither_guesses_nor_sampled_tokens() -> None:
    """Where budget and memory cut no guesses, each answer has the same steps alone."""
    chosen = Sampling(temperature=1.2, top_p=0.95)
    requests = [ask(f"r{i}", [i, 5, 7, i], 14, sampling=replace(chosen, seed=i)) for i in range(4)]
    policy = replace(ROOM, adaptive_drafts=True)
    together = with_guesses(requests, policy)
    for request in requests:
        alone = with_guesses([request], policy)[request.id]
        assert together[request.id].output == alone.output
        runs = [(run.drafts, run.delivered) for run in together[request.id].runs]
        assert runs == [(run.drafts, run.delivered) for run in alone.runs]


def test_several_answers_share_a_prompt_and_each_guesses_for_itself() -> None:
    chosen = Sampling(temperature=1.2, seed=7)
    engine = live_engine(TARGET, ROOM, draft=DRAFT)
    calls = calls_of_draft(engine)
    found = outputs(run_by_hand(engine, [ask("A", range(10), 9, n=3, sampling=chosen)]))
    assert most_read(calls) <= 2  # a copied block is known to the draft as well
    for number, name in enumerate(found, 1):
        single = ask("A", range(10), 9, sampling=chosen.of_answer(number))
        assert outputs(with_guesses([single]))["A"] == found[name]
    assert len({tuple(tokens) for tokens in found.values()}) == 3


# What the draft computes


def test_what_others_left_in_a_shared_block_is_computed_once() -> None:
    """The first request has no guesses, so the draft never read its prompt. The second shares its
    blocks: the draft reads them then. The third finds them in both caches."""
    policy = replace(ROOM, seats=1, prefix_cache=True)
    engine = live_engine(TARGET, policy, draft=DRAFT)
    calls, found, read = calls_of_draft(engine), [], []
    for name, most in (("off", 0), ("first", None), ("second", None)):
        request = ask(name, range(13), 6, draft_tokens=most)
        found.append(run_by_hand(engine, [request])[name].output)
        read.append(max((span.tokens for spans in calls for span in spans), default=0))
        calls.clear()
    assert found[0] == found[1] == found[2]
    assert read[:2] == [0, 13]
    assert read[2] <= 2  # 12 tokens are cached


def test_a_draft_with_fewer_positions_stops_guessing_there() -> None:
    request = ask("A", range(6), 20)
    trace = with_guesses([request], draft=half_of(TARGET, max_positions=12))
    assert outputs(trace) == plainly([request])
    assert max(run.start + run.tokens for run in trace["A"].runs if run.drafts) <= 13
    assert any(run.drafts for run in trace["A"].runs)


@pytest.mark.parametrize("more", [-2, 3])
def test_padding_of_an_embedding_is_never_guessed(more: int) -> None:
    """One vocabulary, and embeddings of different sizes: 23 and 2 fewer, or 3 more, that no token
    has."""
    config = replace(CONFIG, vocab=VOCAB + more)
    other = Weights.random(config, seed=1, dtype=torch.float64)
    small = words({word: id for word, id in WORDS.items() if id < VOCAB - 2})
    draft = Model("other", config, Decoder(config, other), small)
    request = ask("A", range(6), 12, sampling=Sampling(temperature=1.5))
    target = replace(TARGET, tokenizer=small)
    trace = lab.serve([request], ROOM, target, draft=draft)
    assert len(outputs(trace)["A"]) == 12


# What goes wrong


def test_a_draft_that_is_broken_changes_nothing() -> None:
    weights = replace(DRAFT.decoder.weights, norm_D=torch.full((16,), math.nan).double())
    broken = replace(DRAFT, decoder=Decoder(DRAFT.config, weights))
    requests = [ask(f"r{i}", [i, 1], 9) for i in range(3)]
    assert outputs(with_guesses(requests, draft=broken)) == plainly(requests)


def test_a_target_whose_logits_are_no_numbers_fails_one_request_in_a_draft_check() -> None:
    weights = Weights.random(CONFIG, seed=1, dtype=torch.float64)
    weights.embed_VD[22] = math.nan
    tied = replace(weights, head_VD=WEIGHTS.head_VD)  # only who reads the token is harmed
    broken = replace(TARGET, decoder=Decoder(CONFIG, tied))
    requests = [ask("bad", [1, 3], 6), ask("good", range(5), 6)]
    script = Script({"bad": [22] * 6})
    trace = lab.serve(requests, ROOM, broken, draft=script)
    assert (trace["bad"].status, trace["bad"].reason) == (
        "failed",
        "the model's logits are not finite",
    )
    assert trace["good"].output == plainly(requests)["good"]


@dataclass
class Flaky:
    """Fails the first time it guesses in earnest, and says too much or nonsense if told to."""

    guesses: Proposer
    says: tuple[int, ...] | None = None
    failed: bool = field(default=False)
    name: str = "flaky"

    def move(self, plan: StepPlan) -> int:
        return self.guesses.move(plan)

    def propose(self, plan: StepPlan, answers: Mapping[str, Answer]) -> dict[str, Guess]:
        found = self.guesses.propose(plan, answers)
        if found and not self.failed:
            self.failed = True
            if self.says is None:
                raise KeyError("on purpose")
            return {who: Guess(self.says) for who in found}
        return found


def test_a_step_that_fails_is_made_again_as_if_nothing_had_been() -> None:
    requests = [ask(f"r{i}", [*range(6), i], 9) for i in range(2)]
    policy = replace(ROOM, block_tokens=1)
    draft = Flaky(DraftModel(DRAFT, 60, 1, VOCAB))
    engine = live_engine(TARGET, policy, draft=draft)
    for request in requests:
        engine.add(request)
    engine.step()  # the prompts; then guesses
    with pytest.raises(KeyError, match="on purpose"):
        engine.step()
    check_books(engine)
    while engine.scheduler.has_work:
        engine.step()
        check_books(engine)
        check_draft(engine, draft.guesses)  # type: ignore[arg-type]
    assert outputs(engine.trace) == plainly(requests)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ((1, 2, 3, 4), r"'A': 'flaky' must guess at most 3 of 23 tokens, got \(1, 2, 3, 4\)"),
        ((1, 23), r"'A': 'flaky' must guess at most 3 of 23 tokens, got \(1, 23\)"),
        ((-1,), r"must guess at most 3 of 23 tokens, got \(-1,\)"),
    ],
)
def test_what_is_no_guess_is_an_error_by_name(says: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        with_guesses([ask("A", range(4), 9)], draft=Flaky(PromptLookup(), says))


@dataclass
class Even:
    """Guesses the first token again and again, as if all had been equally likely; the numbers of
    all requests lie one behind the other in memory, and none knows of its neighbours."""

    said: Callable[[Tensor], Tensor] = field(default=lambda probs_KV: probs_KV)
    name: str = "even"

    def move(self, plan: StepPlan) -> int:
        return 0

    def propose(self, plan: StepPlan, answers: Mapping[str, Answer]) -> dict[str, Guess]:
        drafts = {chunk.request_id: chunk.drafts for chunk in plan.written if chunk.drafts}
        memory, at, found = bytearray(8 * VOCAB * sum(drafts.values())), 0, {}
        for who, count in drafts.items():
            probs_V = torch.frombuffer(
                memory, dtype=torch.float64, offset=at, count=count * VOCAB
            ).fill_(1 / VOCAB)
            found[who] = Guess((0,) * count, self.said(probs_V.view(count, VOCAB)))
            at += 8 * VOCAB * count
        return found


DRAWN = [ask(f"r{i}", [i, 3], 9, sampling=Sampling(temperature=1, seed=i)) for i in range(3)]


def test_distributions_may_lie_in_memory_as_they_will() -> None:
    """Neighbours by chance, each apart, in columns, in a wider format."""
    right = outputs(with_guesses(DRAWN, draft=Even(Tensor.clone)))
    assert right != plainly(DRAWN)
    assert outputs(with_guesses(DRAWN, draft=Even())) == right
    in_columns = Even(lambda probs_KV: probs_KV.t().contiguous().t())
    assert outputs(with_guesses(DRAWN, draft=in_columns)) == right
    for request in DRAWN:
        assert outputs(with_guesses([request], draft=in_columns))[request.id] == right[request.id]


@pytest.mark.parametrize("requests", [DRAWN, [replace(DRAWN[0], max_tokens=3), DRAWN[1]]])
@pytest.mark.parametrize(
    "said",
    [lambda p_KV: p_KV[:1], lambda p_KV: p_KV[:, :1], lambda p_KV: p_KV[0]],
    ids=["one", "thin", "flat"],
)
def test_each_guess_needs_a_distribution_of_its_own(requests: Any, said: Any) -> None:
    """Whether all requests guess as many tokens or not."""
    with pytest.raises(ValueError, match=r"'r.': 'even' must say .* \[\d, 23\], got \["):
        with_guesses(requests, draft=Even(said))


def test_vocabularies_are_compared_token_by_token() -> None:
    """As many tokens, and two of them have changed places."""
    swapped = WORDS | {"w3": 4, "w4": 3}
    other = replace(DRAFT, tokenizer=words(swapped))
    with pytest.raises(
        ValueError, match="2 tokens are not the same in the 23 of 'target' and the 23 of 'draft'"
    ):
        with_guesses([ask("A", [1], 2)], draft=other)
    with pytest.raises(ValueError, match="281 tokens are not the same in the 258 of 'bytes'"):
        live_engine(Model("bytes", CONFIG, TARGET.decoder, BYTES), ROOM, draft=DRAFT)


def test_a_draft_in_16_bits_tells_what_its_guesses_were_drawn_from() -> None:
    """Not rounded to its own format: then the shares would not sum to 1, and the rule not hold."""
    weights = Weights.random(CONFIG, seed=2, dtype=torch.bfloat16)
    draft = Model("rough", CONFIG, Decoder(CONFIG, weights), TARGET.tokenizer)
    engine = live_engine(TARGET, ROOM, draft=draft)
    proposer: Any = engine.executor.proposer
    propose = proposer.propose
    seen: list[Any] = []

    def watched(*given: Any) -> dict[str, Guess]:
        found: dict[str, Guess] = propose(*given)
        seen.extend(guess.probs_KV for guess in found.values())
        return found

    proposer.propose = watched
    engine.run([ask("A", range(5), 12, sampling=Sampling(seed=3))])
    assert seen
    for probs_KV in seen:
        assert probs_KV.dtype == torch.float32
        assert (probs_KV.sum(-1) - 1).abs().max() < 1e-6


def test_guesses_need_both_a_draft_and_room_for_it() -> None:
    plain = replace(ROOM, draft_tokens=0)
    with pytest.raises(ValueError, match="got draft_tokens = 0 and the draft 'draft'"):
        with_guesses([ask("A", [1], 2)], plain)
    with pytest.raises(ValueError, match="got draft_tokens = 3 and no draft"):
        lab.serve([ask("A", [1], 2)], ROOM, TARGET)
    with pytest.raises(ValueError, match="got draft_tokens = 0 and the draft 'prompt-lookup'"):
        lab.serve([ask("A", [1], 2)], lab.Static(seats=1), TARGET, draft="prompt-lookup")
    with pytest.raises(ValueError, match="a draft keeps K and V in blocks: give the policy blocks"):
        live_engine(TARGET, lab.Continuous(draft_tokens=2), draft=DRAFT)
    with pytest.raises(ValueError, match="nobody is neither a folder nor one of tiny"):
        live_engine(TARGET, ROOM, draft="nobody")


@pytest.mark.parametrize("draft", ["ngram", Path("nowhere"), 5])
def test_what_cannot_guess_is_told_what_can(draft: Any) -> None:
    with pytest.raises(ValueError, match="a draft is a model, its name, 'prompt-lookup' or a prop"):
        live_engine(TARGET, ROOM, draft=draft)


# What readers get

SPOKEN = ModelConfig(
    layers=1, hidden=16, ffn=24, heads=4, kv_heads=2, head_dim=4, vocab=258, max_positions=96,
    end_ids=(257,),
)  # fmt: skip
SPEAKER = Model(
    "speaker", SPOKEN, Decoder(SPOKEN, Weights.random(SPOKEN, seed=1, dtype=torch.float64)), BYTES
)


def read(request: Request, draft: Any) -> list[Any]:
    policy = replace(ROOM, draft_tokens=4 if draft else 0)
    with live_engine(SPEAKER, policy, draft=draft) as engine:
        return list(engine.generate(request))


def test_a_delivery_may_hold_several_tokens_and_the_pieces_are_the_text() -> None:
    request = ask("A", range(5), 21)
    plain, several = read(request, None), read(request, SPEAKER)
    assert [len(delivery.tokens) for delivery in several] == [1, 5, 5, 5, 5]
    assert tokens_of(plain) == tokens_of(several)
    assert text_of(plain) == text_of(several) == BYTES.decode(tokens_of(plain))


@pytest.mark.parametrize("place", [2, 3, 7, 8, 9])
def test_a_stop_among_guesses_ends_the_text_there(place: int) -> None:
    """By text or by id, at any place of a run of guesses: the same deliveries in total, and no
    token behind the stop is delivered, counted or kept."""
    whole = tokens_of(read(ask("A", range(5), 21), None))
    text = BYTES.decode(whole[place : place + 1])
    for more in ({"stop_ids": (whole[place],)}, {"end_ids": (whole[place],)}, {"stop": (text,)}):
        if "stop" in more and not text.strip("\ufffd"):
            continue
        request = ask("A", range(5), 21, **more)
        plain, several = read(request, None), read(request, SPEAKER)
        for some in (plain, several):
            assert (some[-1].status, some[-1].reason) == (plain[-1].status, plain[-1].reason)
        assert tokens_of(plain) == tokens_of(several)
        if "stop" not in more:
            assert tokens_of(plain) == whole[: whole.index(whole[place]) + 1]
        assert text_of(plain) == text_of(several)


def test_log_probabilities_are_those_of_the_target_at_each_position() -> None:
    """Of greedy tokens as without guesses; of sampled ones as the target alone says them."""
    greedy = ask(
        "A", range(5), 13, sampling=Sampling(temperature=0, logprobs=2, logprobs_of="logits")
    )
    plain, several = (
        [s for d in read(greedy, draft) for s in d.logprobs] for draft in (None, SPEAKER)
    )
    assert len(plain) == len(several) == 13
    for one, other in zip(plain, several, strict=True):
        assert one.chosen == pytest.approx(other.chosen)
        assert [id for id, _ in one.top] == [id for id, _ in other.top]
    drawn = Sampling(temperature=1, logprobs=0, logprobs_of="sampled")
    deliveries = read(ask("A", range(5), 13, sampling=drawn), half_guess(SPEAKER))
    ids = tokens_of(deliveries)
    logs_RV = torch.log_softmax(last_logits(SPEAKER.decoder, [*range(5), *ids[:-1]], 13), -1)
    said = [one.chosen for delivery in deliveries for one in delivery.logprobs]
    assert said == pytest.approx([float(logs_RV[i, token]) for i, token in enumerate(ids)])


def half_guess(model: Model) -> Model:
    """The same model with a blunter head: it often guesses right."""
    weights = replace(model.decoder.weights, norm_D=model.decoder.weights.norm_D * 0.7)
    return replace(model, decoder=Decoder(model.config, weights))


def test_the_command_line_has_guesses_and_they_change_no_greedy_text(capsys: Any) -> None:
    options = ["generate", "It is a truth", "--max-tokens", "20", "--temperature", "0"]
    texts = []
    for more in (
        [],
        ["--draft", "tiny-draft", "--draft-tokens", "3"],
        ["--draft", "prompt-lookup"],
    ):
        assert main([*options, *more]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert main([*options, "--draft", "nobody"]) == 2
    assert "nobody is neither a folder nor one of tiny" in capsys.readouterr().err
