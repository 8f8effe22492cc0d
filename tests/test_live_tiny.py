"""The shipped model behind the scheduler: in float32, under every policy, the greedy answers are
those of float64 without a cache, but where two tokens are as good as tied."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache

import pytest
import torch
from logit_margin import Parting, parting

import lab
from lab.model.decoder import Decoder, greedy_oracle, logits_alone
from lab.model.folder import Model, load
from lab.policy import Policy
from lab.request import Request
from lab.trace import Trace

pytestmark = pytest.mark.usefixtures("one_thread")  # the oracle runs outside of the engine

TIE = 1e-3
"""Logits that lie closer than this are as good as tied. They are about 10 large, float32 rounds in
the seventh digit, and a layer adds up some hundred products."""

WAYS: dict[str, Policy] = {
    "static": lab.Static(seats=3),
    "continuous": lab.Continuous(seats=3),
    "in pieces": lab.Continuous(seats=3, token_budget=8),
    "recompute": lab.Continuous(seats=3, blocks=20, block_tokens=4),
    "swap": lab.Continuous(seats=3, blocks=20, block_tokens=4, preemption="swap"),
    "prefix cache": lab.Continuous(seats=3, blocks=96, block_tokens=4, prefix_cache=True),
    "all at once": lab.Continuous(
        seats=3,
        blocks=20,
        block_tokens=4,
        token_budget=8,
        preemption="swap",
        host_blocks=12,
        prefix_cache=True,
    ),
}

RAIN = "It had rained since Monday, and whoever came to the house was wet and wanted tea. "
BEGINNINGS = (
    (f"{RAIN}The bell had rung twice, and", 30),
    (f"{RAIN}Nobody in the garden", 6),
    ("The bell had rung", 18),
    ("Two letters and a parcel lay on the table when the postman left,", 12),
    ("She", 24),
    (f"{RAIN}The bell had rung once, but", 9),
)


@cache
def tiny(dtype: torch.dtype = torch.float32) -> Model:
    return load("tiny", dtype)


@cache
def asked() -> tuple[Request, ...]:
    """English beginnings, some of them shared, and prompts that no human wrote."""
    encode = tiny().tokenizer.encode
    requests = [
        Request(id=f"r{i}", prompt=tuple(encode(text)), max_tokens=tokens)
        for i, (text, tokens) in enumerate(BEGINNINGS)
    ]
    dice = random.Random(4)
    for i in range(3):
        ids = tuple(dice.randrange(tiny().config.vocab) for _ in range(dice.randrange(3, 40)))
        requests.append(Request(id=f"random {i}", prompt=ids, max_tokens=10))
    return tuple(requests)


@cache
def alone(request_id: str) -> list[int]:
    request = next(request for request in asked() if request.id == request_id)
    return greedy_oracle(tiny(torch.float64).decoder, request.prompt, request.max_tokens)


def partings(trace: Trace) -> dict[str, Parting]:
    """The first difference of each answer from the oracle's, where there is one."""
    trace.check()
    return {
        request.id: parted
        for request in asked()
        if (
            parted := parting(
                tiny(torch.float64).decoder,
                request.prompt,
                trace[request.id].output,
                alone(request.id),
            )
        )
    }


@pytest.mark.parametrize("way", WAYS)
def test_answers_are_the_oracles_or_part_from_them_at_a_tie(way: str) -> None:
    trace = lab.serve(asked(), WAYS[way], tiny())
    assert all(record.status == "finished" for record in trace.requests)
    assert {who: one for who, one in partings(trace).items() if one.margin > TIE} == {}


def test_the_ways_are_as_different_as_their_names() -> None:
    traces = {way: lab.serve(asked(), rule, tiny()) for way, rule in WAYS.items()}

    def preempted(way: str) -> bool:
        return any(stay.preempted for r in traces[way].requests for stay in r.stays)

    assert {way for way in WAYS if preempted(way)} >= {"recompute", "swap", "all at once"}
    moved = {way for way in WAYS if lab.reuse(traces[way]).blocks_out}
    assert moved == {"swap", "all at once"}
    assert {way for way in WAYS if lab.reuse(traces[way]).cached_tokens} >= {"prefix cache"}
    assert traces["static"].num_steps > traces["continuous"].num_steps


def test_float32_lies_within_the_bound_of_a_tie() -> None:
    """Were it farther from float64 than the bound, the bound would be too small to be fair."""
    for request in asked():
        near, exact = (
            logits_alone(tiny(dtype).decoder, request.prompt)
            for dtype in (torch.float32, torch.float64)
        )
        assert float((near.double() - exact).abs().max()) < TIE / 2


def test_a_difference_is_shown_with_its_margin() -> None:
    """The negative control: a second-best token is not a tie, and neither is a missing one."""
    request, decoder = asked()[0], tiny(torch.float64).decoder
    wanted = alone(request.id)
    logits_V = logits_alone(decoder, [*request.prompt, *wanted[:2]])
    best, second = logits_V.topk(2).indices.tolist()
    assert best == wanted[2]
    said = [*wanted[:2], second, *wanted[3:]]
    parted = parting(decoder, request.prompt, said, wanted)
    gap = float(logits_V[best] - logits_V[second])
    assert parted == Parting(2, second, best, pytest.approx(gap))
    assert gap > TIE
    assert parting(decoder, request.prompt, wanted, wanted) is None
    short = parting(decoder, request.prompt, wanted[:-1], wanted)
    assert short == Parting(len(wanted) - 1, None, wanted[-1], math.inf)


def test_a_model_with_one_wrong_weight_is_noticed() -> None:
    """The other negative control: what is wrong by a little, and not by rounding."""
    weights = tiny().decoder.weights
    norm_D = weights.norm_D.clone()
    norm_D[0] *= 3
    wrong = replace(tiny(), decoder=Decoder(tiny().config, replace(weights, norm_D=norm_D)))
    trace = lab.serve(asked(), WAYS["continuous"], wrong)
    assert any(one.margin > TIE for one in partings(trace).values())


def test_without_a_number_of_blocks_every_answer_of_a_request_has_its_own() -> None:
    many = [Request(id=name, prompt=range(20), max_tokens=20, n=6) for name in "AB"]
    trace = lab.serve(many, lab.Continuous(seats=8, block_tokens=16), load("tiny"))
    assert trace.settings["blocks"] == 8 * 3  # the last token of an answer is never computed
    assert not any(stay.preempted for record in trace.requests for stay in record.stays)
