"""Speculative sampling: both bodies against float64, and the distribution of what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton exists for Linux only")

from kernel_checks import DEVICE, Number, assert_found, counted, drawn, running

from kernels import reference, rejection_sample
from kernels.rejection_sample import Verdict
from lab.ledgers.kernels import rejection_sample_work


class Drafted(NamedTuple):
    """The arguments of `rejection_sample`."""

    drafts: list[list[int]]
    uniforms: list[list[float]]
    draft_SKV: Tensor
    target_SQV: Tensor

    def exact(self) -> list[tuple[int, int]]:
        """By the reference, sequence by sequence."""
        return [
            reference.rejection_sample(
                drafts, draft_KV[: len(drafts)].cpu(), target_QV.cpu(), uniforms
            )
            for drafts, uniforms, draft_KV, target_QV in zip(*self, strict=True)
        ]


def probabilities(*shape: int, seed: int = 0) -> Tensor:
    """Distributions in which every third token or so has probability 0."""
    drawn_SKV = drawn(*shape, seed=seed)
    is_out_SKV = (drawn_SKV < -0.4) & (drawn_SKV < drawn_SKV.amax(-1, keepdim=True))
    return drawn_SKV.masked_fill(is_out_SKV, float("-inf")).softmax(-1)


def drafted(S: int, K: int, V: int, counts: list[int] | None = None) -> Drafted:
    """Drafts drawn from their distributions; what no draft owns is NaN."""
    dice = torch.Generator().manual_seed(S + K + V)
    draft_SKV, target_SQV = probabilities(S, K, V), probabilities(S, K + 1, V, seed=1)
    counts = [K] * S if counts is None else counts
    drafts, uniforms = [], []
    for s, count in enumerate(counts):
        own_KV = draft_SKV[s, :count].cpu()
        drafts.append([int(torch.multinomial(row_V, 1, generator=dice)) for row_V in own_KV])
        uniforms.append(torch.rand(count + 1, generator=dice).tolist())
        draft_SKV[s, count:] = float("nan")
        target_SQV[s, count + 1 :] = float("nan")
    for own, edge in zip(uniforms, (0.0, 1 - 2**-24), strict=False):
        own[-1] = edge
    return Drafted(drafts, uniforms, draft_SKV, target_SQV)


def assert_right(given: Drafted) -> Verdict:
    """Both bodies accept what the reference accepts, and draw a token within a rounding of it."""
    for body in ("torch", "triton"):
        with running(body):
            verdict = rejection_sample(*given)
        for s, (accepted, token) in enumerate(given.exact()):
            assert verdict.accepted[s] == accepted, f"{body}: sequence {s}"
            if verdict.following[s] != token:
                assert _is_as_good(given, s, accepted, verdict.following[s]), f"{body}: {s}"
    return verdict


def _is_as_good(given: Drafted, s: int, accepted: int, token: int) -> bool:
    """Whether a uniform that differs by one rounding would have drawn this token."""
    left_V = given.target_SQV[s, accepted].double()
    if accepted < len(given.drafts[s]):
        left_V = (left_V - given.draft_SKV[s, accepted].double()).clamp(min=0)
    near = given.uniforms[s][-1] + torch.tensor([-1e-6, 1e-6])
    sums = left_V.cumsum(0) / left_V.sum()
    low = float(sums[token - 1]) if token else 0.0
    reached = low < float(near[1]) and float(sums[token]) > float(near[0])
    return bool(left_V[token] > 0) and reached


@pytest.mark.parametrize(
    ("S", "K", "V"), [(1, 1, 2), (9, 3, 63), (4, 5, 1000), (2, 2, 5000), (3, 0, 17)]
)
def test_drafts_are_judged_and_a_token_drawn(S: int, K: int, V: int) -> None:
    assert_right(drafted(S, K, V))


def test_sequences_have_as_many_drafts_as_they_have() -> None:
    counts = [0, 4, 1, 3, 2, 0]
    verdict = assert_right(drafted(6, 4, 50, counts))
    assert all(stand <= count for stand, count in zip(verdict.accepted, counts, strict=True))


def test_equal_distributions_accept_everything_and_an_impossible_draft_is_rejected() -> None:
    given = drafted(8, 3, 40)
    target_SQV = given.target_SQV.clone()
    target_SQV[:, :3] = given.draft_SKV
    assert assert_right(given._replace(target_SQV=target_SQV)).accepted == [3] * 8
    target_SQV[0, 0, given.drafts[0][0]] = 0.0
    assert assert_right(given._replace(target_SQV=target_SQV)).accepted[0] == 0


def test_a_uniform_just_below_1_rejects_nothing_where_both_say_the_same() -> None:
    """In float32 it would be rounded to 1."""
    given = drafted(4, 2, 20)
    target_SQV = given.target_SQV.clone()
    target_SQV[:, :2] = given.draft_SKV
    uniforms = [[1 - 2**-53] * 3 for _ in given.uniforms]
    assert (
        assert_right(given._replace(target_SQV=target_SQV, uniforms=uniforms)).accepted == [2] * 4
    )


def test_where_nothing_is_left_the_target_is_drawn_from() -> None:
    given = drafted(4, 1, 20)
    target_SQV = given.target_SQV.clone()
    target_SQV[:, :1] = given.draft_SKV
    # by rounding alone the target may sum to less than the draft
    target_SQV[:, :1] *= 1 - 2**-8
    uniforms = [[1 - 2**-9, behind] for _, behind in given.uniforms]
    verdict = assert_right(given._replace(target_SQV=target_SQV, uniforms=uniforms))
    assert verdict.accepted == [0] * 4
    assert (target_SQV[range(4), 0, verdict.following] > 0).all()


@pytest.mark.parametrize("body", ["torch", "triton"])
def test_what_comes_out_is_distributed_as_the_target(body: str) -> None:
    """All drafts, and uniforms on a grid: the frequencies are the target's, to 1 part in `n`."""
    n = 64 if body == "torch" else 12
    draft_V, target_V = torch.tensor([0.5, 0.3, 0.2, 0.0]), torch.tensor([0.2, 0.3, 0.1, 0.4])
    grid = (torch.arange(n) + 0.5) / n
    cases = [(t, u, v) for t in range(3) for u in grid.tolist() for v in grid.tolist()]
    S = len(cases)
    given = Drafted(
        [[token] for token, _, _ in cases], [[accept, draw] for _, accept, draw in cases],
        draft_V.expand(S, 1, 4).contiguous().to(DEVICE),
        target_V.expand(S, 2, 4).contiguous().to(DEVICE),
    )  # fmt: skip
    with running(body):
        verdict = rejection_sample(*given)
    found_V = torch.zeros(4)
    for (token, _, _), stood, behind in zip(cases, *verdict, strict=True):
        found_V[token if stood else behind] += draft_V[token] / n**2
    assert (found_V - target_V).abs().max() < 1 / n


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uniform * draft < target", "uniform < target"),
        ("& (accepted == k)", ""),
        ("tl.maximum(target - draft, 0.0)", "target"),
        ("(K + 1) + K)", "(K + 1))"),
        ("below += tl.sum(left)", "below = tl.sum(left)"),
        ("tl.where(is_rejected, mass, 1.0)", "1.0"),
        ("& (left > 0.0)\n", "\n        is_over = below + tl.cumsum(left) >= wanted\n"),
        ("found < V, found, last", "found < V, found, V - 1"),
    ],
)
def test_a_slightly_wrong_kernel_is_found(old: str, new: str, tmp_path: Path) -> None:
    given = drafted(8, 3, 12_500)  # four tiles
    target_SQV, draft_SKV = given.target_SQV.clone(), given.draft_SKV.clone()
    target_SQV[:, :, 0] = draft_SKV[:, :, 0] = 0.0  # uniform 0 must not draw the first token,
    target_SQV[:, :, -1] = 0.0  # nor one just below 1 the last
    target_SQV[:2, :3] = draft_SKV[:2]  # both stand: the uniforms draw from the target
    target_SQV[1, 3] *= 0.999
    given = given._replace(target_SQV=target_SQV, draft_SKV=draft_SKV)

    def judged() -> None:
        assert_right(given)

    assert_found("rejection_sample", old, new, tmp_path, judged)


def test_bytes_are_those_of_the_ledger() -> None:
    given = drafted(9, 3, 5000, [3, 2, 1, 0, 3, 3, 2, 3, 1])
    with running("triton"), counted() as counts:
        verdict = rejection_sample(*given)
    assert 0 < sum(verdict.accepted) < 18
    work = rejection_sample_work([*map(len, given.drafts)], verdict.accepted, vocab=5000)
    assert (counts.bytes_read, counts.bytes_written) == (work.bytes_read, work.bytes_written)


def test_operations_are_those_of_the_ledger() -> None:
    Number.operations = 0
    target, draft = [Number(0.2)] * 5, [Number(0.1)] * 5
    for drafts, is_rejected in ((3, True), (2, False)):
        assert [Number(0.5) * draft[0] for _ in range(drafts)]
        for _ in range(2 if is_rejected else 1):
            left = [t - d for t, d in zip(target, draft, strict=True)] if is_rejected else target
            mass = Number(0.0)
            for weight in left:
                mass = mass + weight
    assert Number.operations == rejection_sample_work([3, 2], [1, 2], vocab=5).operations


def test_faults_are_named_with_the_shapes() -> None:
    given = drafted(2, 3, 5)
    with pytest.raises(
        ValueError, match=r"2 sequences with at most 3 drafts, got \[2, 3, 5\] and "
    ):
        rejection_sample(*given._replace(target_SQV=given.target_SQV[:, 1:]))
    short = given._replace(draft_SKV=given.draft_SKV[:, 1:], target_SQV=given.target_SQV[:, 1:])
    with pytest.raises(ValueError, match=r"at most 3 drafts, got \[2, 2, 5\] and \[2, 3, 5\]"):
        rejection_sample(*short)
    with pytest.raises(ValueError, match=r"one uniform more than drafts, got \[3, 3\] .* \[4, 3\]"):
        rejection_sample(*given._replace(uniforms=[given.uniforms[0], [0.5] * 3]))
    with pytest.raises(ValueError, match=r"both be float32 or float64, got torch.float32 and"):
        rejection_sample(*given._replace(target_SQV=given.target_SQV.half()))
    turned = given.target_SQV.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ValueError, match=r"contiguous inputs, got \[2, 4, 5\] with strides"):
        rejection_sample(*given._replace(target_SQV=turned))
    with pytest.raises(ValueError, match=r"accepted must be in \[0, 1\], got 2"):
        rejection_sample_work([1], [2], vocab=5)
