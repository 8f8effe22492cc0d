"""Ring attention, experts and ZeRO on two and three processes, beside one that has everything."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pytest
import rank_programs
import torch
from torch import Tensor
from torch.nn import functional as F

from lab.attention import online_softmax
from lab.ledgers.communication import collective
from lab.ledgers.links import link
from lab.ledgers.sizes import model_size
from lab.parallel.collectives import Group
from lab.parallel.context import Statistics, attend, look
from lab.parallel.expert import drawn_mixture, drawn_tokens, mixture
from lab.parallel.launch import Launch, launch
from lab.parallel.layout import Experts, layout
from lab.parallel.mesh import Mesh, share
from lab.parallel.traffic import exchanges
from lab.parallel.zero import Recipe, _batch, _drawn, _layers, train

pytestmark = pytest.mark.timeout(120)  # Python and torch are loaded anew for every rank

HEADS, KV_HEADS, WIDTH = 8, 2, 32  # those of the shipped model
LENGTHS = (1, 2, 6, 41)
"""With three ranks the first two leave some without a position."""
MIXTURES: dict[str, dict[str, Any]] = {
    "plain": {"active": 2},
    "one for each": {"active": 1},
    "all to one": {"active": 1, "hot": 3},
    "one hot": {"active": 2, "hot": 0},
    "room for all": {"active": 2, "hot": 0, "capacity": 2.5},
    "little room": {"active": 2, "hot": 0, "capacity": 1.0},
    "no room": {"active": 1, "hot": 3, "capacity": 0.2},
}
SIZES = {"tokens": 19, "hidden": 12, "ffn": 20, "experts": 5, "seed": 2, "dtype": "float64"}
RECIPE = Recipe(vocab=11, hidden=5, ffn=7, blocks=2, sequences=6, tokens=9)
"""Layers of 55 and 70 numbers, which two and three ranks cut only with padding."""
STEPS = 4


def sequence(length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(length)
    draw = partial(torch.randn, generator=dice, dtype=torch.float64)
    q_THE, kv_2LKE = draw(length, HEADS, WIDTH), draw(2, length, KV_HEADS, WIDTH)
    return (3 * q_THE).to(dtype), kv_2LKE.to(dtype)


@pytest.fixture(scope="module", params=(2, 3))
def run(request: pytest.FixtureRequest) -> Launch:
    sequences = {
        f"{length} {dtype} {causal}": dict(
            zip(("q_THE", "kv_2LKE"), sequence(length, getattr(torch, dtype)), strict=True),
            causal=causal,
        )
        for length in LENGTHS
        for dtype in ("float32", "float64")
        for causal in (True, False)
    }
    mixtures = {name: SIZES | how for name, how in MIXTURES.items()}
    trainings = {
        f"stage {stage}": {"stage": stage, "steps": STEPS, "recipe": RECIPE} for stage in range(4)
    }
    return launch(
        rank_programs.methods,
        request.param,
        sequences=sequences,
        mixtures=mixtures,
        trainings=trainings,
        timeout_s=100,
    )


# A context on several ranks


def whole(q_THE: Tensor, kv_2LKE: Tensor, causal: bool) -> Tensor:
    """Attention by torch's own kernel."""
    k_HLE, v_HLE = kv_2LKE.repeat_interleave(HEADS // KV_HEADS, 2).transpose(1, 2)
    q_HTE = q_THE.transpose(0, 1)
    return F.scaled_dot_product_attention(q_HTE, k_HLE, v_HLE, is_causal=causal).transpose(0, 1)


def rms(x: Tensor) -> float:
    return float(x.double().square().mean().sqrt())


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_the_ring_finds_the_attention_over_all_keys(run: Launch, length: int, causal: bool) -> None:
    exact_q, exact_kv = sequence(length, torch.float64)
    exact = whole(exact_q, exact_kv, causal)
    theirs = whole(*sequence(length, torch.float32), causal)
    for dtype in ("float64", "float32"):
        found = [value[f"{length} {dtype} {causal}"].value for value in run.values]
        rows = torch.cat([rows for rows, _ in found])
        budget = 1e-13 if dtype == "float64" else 3 * rms(theirs - exact) / rms(exact)
        assert rms(rows - exact) < budget * rms(exact)
        last = whole(exact_q[-1:], exact_kv, causal=False)
        for _, spread in found:
            assert rms(spread - last) < max(budget, 2e-7) * rms(last)


def test_what_goes_round_the_ring_is_counted(run: Launch) -> None:
    ranks = run.mesh.ranks
    runs = [share(41, ranks, rank) for rank in range(ranks)]
    for rank, value in enumerate(run.values):
        _, held, calls = value["41 float32 True"]
        position = 2 * KV_HEADS * WIDTH * 4
        assert held["KV"] == len(runs[rank]) * position
        # every run but the one that the next rank holds passes through here
        passed = 41 - len(runs[(rank + 1) % ranks])
        assert calls["cp", "send"].sent_bytes == passed * position
        assert calls["cp", "send"].times == ranks - 1


def test_the_bytes_are_those_of_the_ledger(run: Launch) -> None:
    ranks = run.mesh.ranks
    own = replace(
        model_size("llama-3-8b"), layers=1, heads=HEADS, kv_heads=KV_HEADS, head_dim=WIDTH, ffn=6
    )
    parts = layout(own, Mesh(cp=ranks))
    (round_the_ring,) = exchanges(parts, 0, 6, bytes_per_element=4)
    (merged,) = exchanges(parts, 0, 1, context=5, decode=True)
    calls = run.values[0]["6 float32 True"].calls
    sent, gathered = calls["cp", "send"], calls["cp", "all-gather"]
    wanted = round_the_ring.times * round_the_ring.payload_bytes
    assert (sent.times, sent.payload_bytes) == (round_the_ring.times, wanted)
    assert (gathered.times, gathered.payload_bytes) == (merged.times, merged.payload_bytes)


def test_statistics_merge_as_the_exact_ones_do() -> None:
    q_THE, kv_2LKE = sequence(6, torch.float64)
    scores = (q_THE[5, 0] @ kv_2LKE[0, :, 0].T / math.sqrt(WIDTH)).tolist()
    values = [tuple(row) for row in kv_2LKE[1, :, 0].tolist()]
    ours = [look(q_THE[5:], kv_2LKE[:, part], 5, part.start) for part in (slice(0, 4), slice(4, 6))]
    theirs = [
        online_softmax.of_block(scores[part], values[part]) for part in (slice(0, 4), slice(4, 6))
    ]
    exact, merged = online_softmax.merge(*theirs), ours[0].merge(ours[1])
    assert merged.maximum_TH[0, 0] == pytest.approx(exact.maximum)
    assert merged.denominator_TH[0, 0] == pytest.approx(exact.denominator)
    assert merged.output_THE[0, 0].tolist() == pytest.approx(exact.output)


def test_keys_that_nobody_sees_change_nothing() -> None:
    q_THE, kv_2LKE = sequence(6, torch.float64)
    unseen = look(q_THE[:1], kv_2LKE[:, 4:], 0, 4)
    no_keys = look(q_THE[:1], kv_2LKE[:, :0], 0, 0)
    seen = look(q_THE[:1], kv_2LKE[:, :1], 0, 0)
    for first, second, third in ((unseen, no_keys, seen), (seen, unseen, no_keys)):
        merged = first.merge(second).merge(third)
        assert all(torch.equal(*pair) for pair in zip(merged, seen, strict=True))


def test_a_sequence_that_does_not_fit_is_refused() -> None:
    q_THE, kv_2LKE = sequence(6, torch.float64)
    with pytest.raises(ValueError, match="a key for each of 6 queries, got 5"):
        attend(OneRank(), q_THE, kv_2LKE[:, :5])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a multiple of KV heads, got 3 and 2"):
        look(q_THE[:, :3], kv_2LKE, 0, 0)


def test_an_average_of_averages_would_be_found() -> None:
    """The negative control: the denominators are forgotten."""
    q_THE, kv_2LKE = sequence(6, torch.float64)
    parts = [
        look(q_THE[5:], kv_2LKE[:, part], 5, part.start) for part in (slice(0, 4), slice(4, 6))
    ]
    one, other = (Statistics(p.output_THE, torch.ones_like(p[1]), p[2] * 0) for p in parts)
    exact = whole(q_THE, kv_2LKE, causal=True)[5]
    assert rms(one.merge(other).output_THE[0] - exact) > 0.01 * rms(exact)


# Experts on several ranks


def plainly(name: str, ranks: int) -> tuple[Tensor, list[list[tuple[int, int]]], list[int]]:
    """Each token by itself, expert after expert: outputs, who was dropped, rows of each expert."""
    how = MIXTURES[name]
    hidden, experts, tokens = SIZES["hidden"], SIZES["experts"], SIZES["tokens"]
    weights = drawn_mixture(
        hidden, SIZES["ffn"], experts, hot=how.get("hot"), seed=2, dtype=torch.float64
    )
    x_TD = drawn_tokens(tokens, hidden, 2, torch.float64)
    rows, dropped, outputs = [0] * experts, [], []
    for rank in range(ranks):
        mine, full, lost = share(tokens, ranks, rank), [0] * experts, []
        room = tokens
        if "capacity" in how:
            room = math.ceil(how["capacity"] * len(mine) * how["active"] / experts)
        for token in mine:
            scores = (weights.router_XD @ x_TD[token] + weights.bias_X).tolist()
            chosen = sorted(range(experts), key=lambda x: -scores[x])[: how["active"]]
            mass = sum(math.exp(scores[x] - scores[chosen[0]]) for x in chosen)
            output = torch.zeros(hidden, dtype=torch.float64)
            for expert in chosen:
                if full[expert] >= room:
                    lost.append((token - mine.start, expert))
                    continue
                full[expert] += 1
                gate, up = (weights.gate_up[expert] @ x_TD[token]).chunk(2)
                share_of_it = math.exp(scores[expert] - scores[chosen[0]]) / mass
                output += share_of_it * (weights.down[expert] @ (F.silu(gate) * up))
            outputs.append(output)
        dropped.append(lost)
        rows = [a + b for a, b in zip(rows, full, strict=True)]
    return torch.stack(outputs), dropped, rows


@pytest.mark.parametrize("name", MIXTURES)
def test_experts_on_several_ranks_give_what_each_token_gets_alone(run: Launch, name: str) -> None:
    wanted, dropped, rows = plainly(name, run.mesh.ranks)
    found = [value[name].value for value in run.values]
    output_TD = torch.cat([one.output_TD for one in found])
    assert (output_TD - wanted).abs().max() < 1e-12
    for one, lost in zip(found, dropped, strict=True):
        assert sorted(one.dropped) == sorted(lost)
        assert one.rows == tuple(rows)
    num_dropped = sum(map(len, dropped))
    assert sum(rows) == SIZES["tokens"] * MIXTURES[name]["active"] - num_dropped
    assert (num_dropped > 0) == (name in ("little room", "no room"))


def test_all_rows_to_one_expert_meet_on_one_rank(run: Launch) -> None:
    rows = run.values[0]["all to one"].value.rows
    assert rows == (0, 0, 0, SIZES["tokens"], 0)
    shares = [share(SIZES["experts"], run.mesh.ranks, rank) for rank in range(run.mesh.ranks)]
    home = next(rank for rank, mine in enumerate(shares) if 3 in mine)
    row_bytes = SIZES["hidden"] * 8
    for rank, value in enumerate(run.values):
        calls = value["all to one"].calls["ep", "all-to-all"]
        own = len(share(SIZES["tokens"], run.mesh.ranks, rank))
        away = SIZES["tokens"] - own if rank == home else own  # the home sends results back
        assert calls.sent_bytes == away * row_bytes


def test_evenly_routed_rows_are_those_of_the_ledger(run: Launch) -> None:
    ranks = run.mesh.ranks
    own = replace(model_size("llama-3-8b"), layers=1, hidden=6, ffn=4)
    laid = layout(own, Mesh(ep=ranks), experts=Experts(count=6, active=2))
    for rank, value in enumerate(run.values):
        mixed, _, calls = value["evenly"]
        assert mixed.rows == (2 * ranks,) * 6
        there, back = exchanges(laid, rank, 6, bytes_per_element=4)
        assert calls["ep", "all-to-all"][3:] == (
            there.times + back.times,
            there.payload_bytes + back.payload_bytes,
            there.sent_bytes + back.sent_bytes,
        )
        assert calls["ep", "all-gather"].payload_bytes == 8 * 6 * ranks  # rows for each expert


def test_a_rank_holds_its_experts_alone(run: Launch) -> None:
    router = SIZES["experts"] * (SIZES["hidden"] + 1)
    for rank, value in enumerate(run.values):
        mine = share(SIZES["experts"], run.mesh.ranks, rank)
        numbers = router + len(mine) * 3 * SIZES["hidden"] * SIZES["ffn"]
        assert value["plain"].held["parameters"] == 8 * numbers


def test_a_mixture_that_does_not_fit_is_refused() -> None:
    alone = Group("ep", (0,), 0, None, {}, torch.device("cpu"))
    x_TD = drawn_tokens(3, 4, 0, torch.float64)
    weights = drawn_mixture(4, 6, 5, here=range(2), dtype=torch.float64)
    with pytest.raises(
        ValueError, match=r"rank 0 has the experts range\(0, 5\), got range\(0, 2\)"
    ):
        mixture(x_TD, weights, 1, alone)
    weights = drawn_mixture(4, 6, 5, dtype=torch.float64)
    with pytest.raises(ValueError, match="active must be from 1 to all 5 experts, got 6"):
        mixture(x_TD, weights, 6, alone)
    with pytest.raises(ValueError, match="capacity must be above 0, got -1"):
        mixture(x_TD, weights, 1, alone, capacity=-1)
    with pytest.raises(ValueError, match="each rank of ep needs an expert, got 6 and 5"):
        mixture(x_TD, weights, 1, Group("ep", range(6), 0, None, {}, torch.device("cpu")))
    with pytest.raises(ValueError, match="one of 5 experts, counted from 0, got -1"):
        drawn_mixture(4, 6, 5, hot=-1)


# Training on several ranks


class OneRank:
    """A world of one, without processes."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.everyone = Group("plans", (0,), 0, None, {}, torch.device("cpu"))

    def along(self, axis: str) -> Group:
        return Group(axis, (0,), 0, None, {}, torch.device("cpu"))


def alone(microbatches: int, **changed: Any) -> tuple[float, ...]:
    how = {"stage": 0, "steps": STEPS, "recipe": RECIPE} | changed
    return train(OneRank(), microbatches=microbatches, **how).losses  # type: ignore[arg-type]


@pytest.mark.parametrize("stage", range(4))
def test_losses_are_those_of_one_process(run: Launch, stage: int) -> None:
    wanted = alone(run.mesh.ranks)
    for value in run.values:
        losses = value[f"stage {stage}"].value.losses
        if run.mesh.ranks == 2:  # one sum of two: nothing can be added in another order
            assert losses == wanted
        assert losses == pytest.approx(wanted, rel=1e-12)


def test_losses_are_those_of_torchs_own_backward_pass_and_adam() -> None:
    layers, batches = _layers(RECIPE), [_batch(RECIPE, step) for step in range(STEPS)]
    numbers = [w_N.requires_grad_() for w_N in _drawn(RECIPE, torch.float64)]
    adam, wanted = torch.optim.Adam(numbers, lr=RECIPE.rate), []
    for ids_ST in batches:
        x = ids_ST
        for layer, w_N in zip(layers, numbers, strict=True):
            x = layer(w_N, x, ids_ST)
        adam.zero_grad()
        x.backward()
        adam.step()
        wanted.append(float(x.detach()))
    assert alone(1) == pytest.approx(wanted, rel=1e-12)


def test_training_learns_and_a_smaller_step_would_be_noticed() -> None:
    losses = alone(1, steps=60, recipe=Recipe())
    assert losses[-1] < 0.5 * losses[0]
    faster = Recipe(**asdict(RECIPE) | {"rate": 0.011})
    assert alone(2) != pytest.approx(alone(2, recipe=faster))


def test_a_stage_holds_parts_of_what_it_cuts(run: Launch) -> None:
    ranks = run.mesh.ranks
    padded = sum(-(-size // ranks) * ranks for size in RECIPE.sizes)
    for value in run.values:
        for stage in range(4):
            held = value[f"stage {stage}"].held
            whole_bytes = {"parameters": 8, "gradients": 8, "optimizer": 16}
            cut_from = {"parameters": 3, "gradients": 2, "optimizer": 1}
            assert held == {
                name: padded * size // (ranks if stage >= cut_from[name] else 1)
                for name, size in whole_bytes.items()
            }
            largest = max(-(-size // ranks) * ranks for size in RECIPE.sizes)
            gathered = value[f"stage {stage}"].value.gathered_bytes
            assert gathered == (8 * largest if stage == 3 else 0)


def test_a_stage_sends_what_the_ledger_says(run: Launch) -> None:
    ranks = run.mesh.ranks
    bytes_of_all = 8 * sum(-(-size // ranks) * ranks for size in RECIPE.sizes)
    kinds = {
        0: {"all-reduce": 1},
        1: {"reduce-scatter": 1, "all-gather": 1},
        2: {"reduce-scatter": 1, "all-gather": 1},
        3: {"reduce-scatter": 1, "all-gather": 2},
    }
    for value in run.values:
        for stage, wanted in kinds.items():
            calls = value[f"stage {stage}"].calls
            assert {kind for axis, kind in calls if axis == "dp"} == set(wanted)
            for kind, times in wanted.items():
                sent = STEPS * times * bytes_of_all
                assert calls["dp", kind].payload_bytes == sent
                formula = collective(kind, sent, ranks, link("nvlink-4"))
                assert calls["dp", kind].sent_bytes == formula.sent_bytes


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stage": 4}, "stage must be 0, 1, 2 or 3, got 4"),
        ({"microbatches": 0}, "microbatches must be at least 1, got 0"),
        (
            {"microbatches": 4},
            "6 sequences must divide evenly among 4 microbatches: 1 ranks with 4",
        ),
    ],
)
def test_a_training_that_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alone(**{"microbatches": 1} | changed)
