"""A model cut among processes: the answers of one device, a part of its weights, counted bytes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import rank_programs
import torch
from logit_margin import parting
from safetensors.torch import save_file
from torch import Tensor

import lab
from lab.figures.words import conditions
from lab.model.config import ModelConfig
from lab.model.decoder import last_logits
from lab.model.folder import Model, load, where
from lab.model.weights import Weights
from lab.parallel.launch import Launch, launch
from lab.parallel.mesh import Mesh
from lab.parallel.pipeline import layout_of
from lab.parallel.replicas import serve_replicas
from lab.parallel.router import Router
from lab.parallel.serving import serve_sharded, sharded_logits
from lab.parallel.traffic import exchanges
from lab.parallel.world import World
from lab.policy import Policy
from lab.request import Request
from lab.trace import Trace

pytestmark = pytest.mark.timeout(120)  # Python and torch are loaded anew for every rank

TIE = 1e-3
"""Logits closer than this are as good as tied: see `test_live_tiny.py`."""
WITHIN = 1e-4
"""Two ways to add the same numbers in float32 may make logits differ by this much: they are about
10 large, and the largest difference seen is some 2e-5."""

WAYS: dict[str, Policy] = {
    "continuous": lab.Continuous(seats=4, blocks=40, block_tokens=4),
    "static": lab.Static(seats=3, blocks=40, block_tokens=4),
    "all at once": lab.Continuous(
        seats=3,
        blocks=9,
        block_tokens=4,
        token_budget=8,
        preemption="swap",
        host_blocks=12,
        prefix_cache=True,
    ),
}
ODD = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 3,
    "hidden_size": 36,
    "intermediate_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 1031,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
}
"""Six heads and two KV heads for two and three ranks, and a vocabulary that nothing divides."""


@cache
def tiny(dtype: torch.dtype = torch.float32) -> Model:
    return load("tiny", dtype)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random model whose sizes are as awkward as may be."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "config.json").write_text(json.dumps(ODD), encoding="utf-8")
    for file in where("tiny").glob("tokenizer*.json"):
        shutil.copy(file, folder)
    config, drawn = ModelConfig.read(folder), dict[str, Tensor]()
    dice = torch.Generator().manual_seed(1)

    def draw(name: str, shape: tuple[int, ...], place: Tensor) -> None:
        scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.1
        drawn[name] = torch.randn(shape, generator=dice, dtype=torch.float64) * scale
        drawn[name] += 1.0 if "norm" in name else 0.0

    Weights.read(config, draw)
    save_file(drawn, folder / "model.safetensors")
    return str(folder)


def asked(vocab: int) -> list[Request]:
    """Prompts around block boundaries, two of them alike at the beginning; one is sampled, and one
    has two answers."""
    ids = [[(7 * i + 13 * r) % vocab for i in range(length)] for r, length in enumerate((1, 8, 13))]
    same = [*ids[2][:9], 5, 6]
    sampled = lab.Sampling(temperature=0.7, seed=3)
    return [
        Request(id="one", prompt=tuple(ids[0]), max_tokens=9),
        Request(id="eight", prompt=tuple(ids[1]), max_tokens=6, n=2, sampling=sampled),
        Request(id="thirteen", prompt=tuple(ids[2]), max_tokens=12),
        Request(id="alike", prompt=tuple(same), max_tokens=7, arrival=0.01),
        Request(id="sampled", prompt=tuple(same[1:]), max_tokens=5, sampling=sampled),
    ]


def served(mesh: Mesh, model: str, dtype: str, **more: Any) -> Launch:
    vocab = ModelConfig.read(where(model)).vocab
    return launch(
        rank_programs.serving,
        mesh,
        model=model,
        dtype=dtype,
        work=asked(vocab),
        ways=WAYS,
        timeout_s=100,
        **more,
    )


@pytest.fixture(scope="module")
def halves() -> Launch:
    """The shipped model on two ranks of tp."""
    return served(Mesh(tp=2), "tiny", "float32")


@pytest.fixture(scope="module")
def thirds(odd: str) -> Launch:
    return served(Mesh(tp=3), odd, "float64")


@pytest.fixture(scope="module")
def quarters(odd: str) -> Launch:
    """Two stages of two ranks; each step in three microbatches."""
    return served(Mesh(tp=2, pp=2), odd, "float64", microbatches=3)


def alone(model: Model) -> dict[str, list[int]]:
    """The answers of one device."""
    work = asked(model.config.vocab)
    trace = lab.serve(work, lab.Continuous(seats=5), model)
    return {record.id: record.output for record in trace.requests}


def whole_logits(model: Model, prompts: list[Request]) -> list[Tensor]:
    return [last_logits(model.decoder, r.prompt, len(r.prompt)) for r in prompts]


def check_answers(traces: Mapping[str, Trace | None], model: Model) -> None:
    """On the rank that leads, under every policy."""
    wanted = alone(model)
    for trace in traces.values():
        assert trace is not None
        trace.check()
        assert {record.id: record.output for record in trace.requests} == wanted


def test_on_two_ranks_the_shipped_model_gives_one_devices_answers(halves: Launch) -> None:
    traces, logits = halves.values[0]
    model = tiny()
    wanted = alone(model)
    for trace in traces.values():
        trace.check()
        for request in asked(model.config.vocab):
            for answer in request.answers:
                said = trace[answer.id].output
                if not request.sampling.is_greedy:
                    assert len(said) == request.max_tokens
                elif parted := parting(
                    tiny(torch.float64).decoder, request.prompt, said, wanted[answer.id]
                ):
                    assert parted.margin < TIE, (request.id, parted)
    for found, exact in zip(logits, whole_logits(model, asked(1024)), strict=True):
        assert (found - exact).abs().max() < WITHIN
    assert halves.values[1][0] == dict.fromkeys(WAYS)  # the other rank has no trace
    alike = lab.agreement(traces["static"], traces["continuous"], asked(1024))
    assert [row["equal"] for row in alike] == [
        traces["static"][row["request"]].output == traces["continuous"][row["request"]].output
        for row in alike
    ]
    assert traces["static"].settings["maker"] == "distributed"
    assert conditions(traces["static"]).endswith("in float32 on cpu, cut along tp 2")


def test_the_policies_did_what_they_are_for(halves: Launch) -> None:
    traces, _ = halves.values[0]
    pinched = lab.reuse(traces["all at once"])
    assert pinched.cached_tokens
    assert pinched.blocks_out
    assert traces["static"].num_steps != traces["continuous"].num_steps


def test_a_second_run_on_two_ranks_is_bit_equal(halves: Launch) -> None:
    again = sharded_logits("tiny", Mesh(tp=2), [r.prompt for r in asked(1024)])
    for one, other in zip(halves.values[0][1], again, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("way", ["thirds", "quarters"])
def test_an_awkward_model_on_three_ranks_and_on_stages_gives_the_same_answers(
    way: str, odd: str, request: pytest.FixtureRequest
) -> None:
    run: Launch = request.getfixturevalue(way)
    model = load(odd, torch.float64)
    leader = 2 if way == "quarters" else 0
    traces, logits = run.values[leader]
    check_answers(traces, model)
    for found, exact in zip(logits, whole_logits(model, asked(1031)), strict=True):
        assert (found - exact).abs().max() < 1e-12 * exact.abs().max()


def test_a_shard_that_is_not_its_own_would_be_found(odd: str) -> None:
    """The negative control of the two tests above: a model with two heads exchanged."""
    model = load(odd, torch.float64)
    exact = whole_logits(model, asked(1031))[2]
    layer = model.decoder.weights.layers[1]
    layer.output[:, :16] = layer.output[:, :16].roll(8, 1)
    wrong = whole_logits(model, asked(1031))[2]
    assert (wrong - exact).abs().max() > 1e-3 * exact.abs().max()


@pytest.mark.parametrize("way", ["halves", "thirds", "quarters"])
def test_a_rank_holds_the_bytes_of_its_part(
    way: str, odd: str, request: pytest.FixtureRequest
) -> None:
    run: Launch = request.getfixturevalue(way)
    model, size = ("tiny", 4) if way == "halves" else (odd, 8)
    parts = layout_of(model, run.mesh)
    for report, rank in zip(run.reports, parts.ranks, strict=True):
        assert report.held["parameters"] == parts.weight_bytes(rank.number, bytes_per_element=size)
        assert report.held["KV"] == size * rank.kv_elements(9 * 4)  # of the last policy
    if way == "thirds":  # the middle rank reads both KV heads, so each of them lies on two
        assert [len(rank.kv_heads) for rank in parts.ranks] == [1, 2, 1]


def test_a_run_sends_what_the_ledger_says() -> None:
    work = asked(1024)
    for mesh in (Mesh(tp=2), Mesh(pp=2)):
        run = serve_sharded(work, WAYS["all at once"], mesh)
        run.trace.check()
        parts = layout_of("tiny", mesh)
        for report in run.launch.reports:
            wanted: dict[str, Any] = {}
            for step in run.trace.steps():
                computed = [chunk for chunk in step.chunks if chunk.fork_of is None]
                tokens = sum(chunk.num_tokens for chunk in computed)
                sampled = sum(chunk.samples for chunk in computed)
                for one in exchanges(
                    parts, report.rank, tokens, sampled=sampled, bytes_per_element=4
                ):
                    key = one.axis, one.collective
                    wanted[key] = wanted.get(key, 0) + one.times * one.payload_bytes
            sent = {
                (calls.axis, calls.kind): calls.payload_bytes
                for calls in report.calls
                if calls.axis != "plans"
            }
            assert sent == wanted
        assert {row["rank"] for row in run.table()} == {0, 1}


def test_a_file_of_ones_own_serves_on_every_rank(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import lab\n"
        "from lab.parallel.serving import serve_part\n"
        "from lab.parallel.world import World\n"
        "world = World.join(lab.Mesh(pp=2))\n"
        "work = [lab.Request(id='A', prompt=(1, 2, 3), max_tokens=6)]\n"
        "trace = serve_part(world, work, lab.Continuous(seats=1))\n"
        "print(trace and trace['A'].output)\n"
        "world.leave()\n",
        encoding="utf-8",
    )
    run = launch(file, 2, timeout_s=100)
    request = Request(id="A", prompt=(1, 2, 3), max_tokens=6)
    alone = lab.serve([request], lab.Continuous(seats=1), tiny())
    assert [report.log for report in run.reports] == ["None\n", f"{alone['A'].output}\n"]


def test_a_rank_that_nobody_has_numbered_is_told_who_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="WORLD_SIZE, MASTER_ADDR, MASTER_PORT must be set: start"):
        World.join(Mesh())


@pytest.mark.parametrize(
    ("mesh", "changed", "message"),
    [
        (Mesh(tp=3), {}, "model 'tiny': heads must divide evenly among tp, got 8 and 3: 8/3 each"),
        (Mesh(dp=2), {}, "a decoder is cut along tp and pp, got dp 2"),
        (2, {}, r"a mesh says what is cut, such as lab.Mesh\(tp=2\); got 2"),
        (Mesh(pp=5), {}, "each stage needs a layer, got 5 stages and 4"),
        (Mesh(tp=2), {"dtype": "int8"}, "dtype must be one of float32, float64, bfloat16, float16"),
        (Mesh(tp=2), {"microbatches": 0}, "microbatches must be at least 1, got 0"),
        (Mesh(tp=2), {"model": "tin"}, "tin is neither a folder nor one of tiny, tiny-draft"),
        (Mesh(tp=2), {"policy": lab.Continuous(draft_tokens=2)}, "draft_tokens must be 0, got 2"),
    ],
)
def test_what_cannot_be_cut_is_refused_before_anything_starts(
    mesh: Mesh, changed: dict[str, Any], message: str
) -> None:
    given = {"policy": lab.Continuous(), "model": "tiny"} | changed
    with pytest.raises(ValueError, match=message):
        serve_sharded(asked(9), mesh=mesh, **given)


def test_kv_heads_that_serve_unequally_are_refused(odd: str, tmp_path: Path) -> None:
    shutil.copytree(odd, tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").write_text(json.dumps(ODD | {"num_key_value_heads": 3}))
    with pytest.raises(ValueError, match="3 of 6 query heads read its 2 KV heads unequally often"):
        layout_of(str(tmp_path), Mesh(tp=2))


# Replicas


def test_replicas_answer_as_one_device_and_keep_beginnings_together() -> None:
    encode = tiny().tokenizer.encode
    houses = [tuple(encode(f"The {name} had rained since Monday, and")) for name in ("sky", "sea")]
    work = [
        Request(id=f"{house} {n}", prompt=(*prompt, 5 + n), max_tokens=4, arrival=0.001 * n)
        for n in range(3)
        for house, prompt in enumerate(houses)
    ]
    policy = lab.Continuous(seats=2, blocks=40, block_tokens=8, prefix_cache=True)
    run = serve_replicas(work, policy, 2)
    assert run.homes == {request.id: int(request.id[0]) for request in work}
    outputs = {r.id: r.output for trace in run.traces for r in trace.requests}
    assert outputs == {r.id: r.output for r in lab.serve(work, policy, tiny()).requests}
    whole_bytes = tiny().decoder.weights.num_bytes
    for row, trace in zip(run.table(), run.traces, strict=True):
        trace.check()
        assert (row["requests"], row["sent (bytes)"]) == (3, 0)
        assert row["parameters (bytes)"] == whole_bytes
        assert row["cached"] >= 8  # at least the third has the beginning of the first


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"router": Router(3)}, "the router knows 3 replicas, and there are 2"),
        ({"model": "tin"}, "tin is neither a folder nor one of tiny, tiny-draft"),
        ({"policy": lab.Continuous(draft_tokens=2)}, "draft_tokens must be 0, got 2"),
    ],
)
def test_replicas_that_cannot_serve_are_refused_before_any_starts(
    changed: dict[str, Any], message: str
) -> None:
    given = {"policy": lab.Continuous(), "replicas": 2} | changed
    with pytest.raises(ValueError, match=message):
        serve_replicas(asked(9), **given)


# Where answers part


def test_answers_that_part_are_shown_with_the_margin_there() -> None:
    work = asked(1024)[2:]
    one, other = (lab.serve(work, lab.Continuous(seats=3), tiny()) for _ in range(2))
    assert all(row["equal"] for row in lab.agreement(one, other, work))
    said = one["thirteen"].output
    logits_V = last_logits(tiny(torch.float64).decoder, [*work[0].prompt, *said[:3]], 1)[0]
    best, second = logits_V.topk(2)
    assert int(second[0]) == said[3]
    said[3] = int(second[1])
    one["sampled"].output[2] += 1
    rows = {row["request"]: row for row in lab.agreement(one, other, work)}
    assert rows["alike"]["equal"]
    assert rows["thirteen"]["parts at token"] == 3
    assert rows["thirteen"]["margin (logits)"] == pytest.approx(float(best[0] - best[1]))
    assert rows["sampled"]["parts at token"] == 2
    assert rows["sampled"]["margin (logits)"] is None
