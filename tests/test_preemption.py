"""Swap against recompute: the account, the simulated runs that meet it, and a live link."""

from fractions import Fraction
from math import isclose

import pytest

import lab
from lab.executors.cost_model import PCIE_5_BYTES_PER_S, CostModel
from lab.ledgers.preemption import ComingBack, coming_back, swap_or_recompute
from lab.ledgers.sizes import GB, MiB, device, model_size
from lab.trace import Trace

LLAMA, H100 = model_size("llama-3-8b"), device("h100")


def account(tokens: int, link: float = PCIE_5_BYTES_PER_S, **beside: int) -> ComingBack:
    return swap_or_recompute(LLAMA, H100, tokens, link_bytes_per_s=link, **beside)


def test_a_swap_crosses_the_link_twice():
    found = coming_back(400, 10**6, recompute_s=Fraction(20, 1000), link_bytes_per_s=100 * 10**6)
    assert found.swap_s == found.recompute_s == Fraction(1, 50)
    assert found.cheaper == "both"
    assert found.break_even_bytes_per_s == found.break_even_high_bytes_per_s == 10**8


def test_whole_blocks_move():
    assert account(17, block_tokens=16).moved_bytes == 4 * MiB  # 2 of 2 MiB
    assert account(16, block_tokens=16).moved_bytes == 2 * MiB


def test_the_first_positions_come_almost_free_only_where_all_overlaps():
    """While the weights are what a step waits for, positions beside them cost nothing if they are
    computed meanwhile; where they are computed at the peak rate, each takes the FLOPs of all
    layers, as it does from the first on where nothing overlaps."""
    few = account(256)
    assert few.recompute_s < 1e-6
    flops = 2 * 32 * LLAMA.layer_matrix_parameters * 256 / H100.peak_flops_per_s()
    assert flops < few.recompute_high_s < 1.1 * flops
    assert few.recompute_s < few.swap_s < few.recompute_high_s
    assert few.cheaper == "depends"
    assert account(256, 10 * few.break_even_bytes_per_s).cheaper == "swap"
    assert account(256, few.break_even_high_bytes_per_s / 2).cheaper == "recompute"
    assert account(1024).cheaper == "swap"
    by_hand = 2 * 32 * LLAMA.layer_matrix_parameters * 4096 / H100.peak_flops_per_s()
    assert 0 < account(4096).recompute_s - by_hand + 4.8e-3 < 0.1 * by_hand


def test_a_batch_beside_it_changes_the_price_and_a_slow_link_the_answer():
    assert account(512, decodes=31, context_tokens=31_000).recompute_s != account(512).recompute_s
    assert account(4096, 10 * GB).cheaper == "recompute"
    even = account(4096, account(4096).break_even_bytes_per_s)
    assert even.swap_s == even.recompute_s
    assert even.cheaper == "depends"


def test_a_price_is_told_from_low_to_high_and_next_to_nothing_as_such():
    (few,), (many,) = account(256).table(), account(4096).table()
    assert (few["recompute ms"], few["break-even GB/s"]) == ("about 0 to 3.629", "18.49 or more")
    assert (many["positions"], many["recompute ms"]) == ("4,096", "57.6 to 62.24")
    given = {"recompute_s": Fraction(1, 50), "link_bytes_per_s": 100 * 10**6}
    (measured,) = coming_back(400, 10**6, **given).table()
    assert (measured["recompute ms"], measured["break-even GB/s"]) == ("20", "0.1")


@pytest.mark.parametrize(
    "bad", [{"tokens": 0}, {"recompute_s": 0}, {"recompute_high_s": 0}, {"link_bytes_per_s": -1}]
)
def test_what_is_not_above_0_is_refused(bad):
    given = {"tokens": 1, "moved_bytes": 1, "recompute_s": 1, "link_bytes_per_s": 1, **bad}
    (name,) = bad
    with pytest.raises(ValueError, match=name):
        coming_back(**given)


def run(preemption: str, prompt: int, link: float) -> Trace:
    """A and B grow until the pool is full; B has to leave once, and comes back when A is done."""
    # B is short of a block when A takes the last one: both then hold prompt + 16 positions
    blocks = 2 * (prompt // 16 + 1) + 1
    policy = lab.Continuous(seats=2, blocks=blocks, preemption=preemption)
    work = lab.Workload.given({"A": (0, prompt, 40), "B": (0, prompt, 40)})
    costs = CostModel.roofline(LLAMA, H100, link_bytes_per_s=link)
    trace = lab.simulate(work, policy, costs)
    trace.check()
    assert [len(record.stays) for record in trace.requests] == [1, 2]
    return trace


@pytest.mark.parametrize("prompt", [256, 1024, 4096])
def test_a_simulated_run_is_longer_by_what_the_account_says(prompt):
    left = run("swap", prompt, GB)["B"]
    computed = max(run.reached for run in left.runs if run.stop <= left.stays[0].stop)
    for link in (4 * GB, PCIE_5_BYTES_PER_S):
        ways = {way: run(way, prompt, link).last for way in ("swap", "recompute")}
        found = account(computed, link)
        longer = found.swap_s - found.recompute_s
        assert isclose(ways["swap"] - ways["recompute"], longer, rel_tol=1e-6, abs_tol=1e-12)


def test_the_cross_over_is_met_in_simulation():
    computed = 1024 + 16
    even = float(account(computed).break_even_bytes_per_s)
    for link, better in ((0.9 * even, "recompute"), (1.1 * even, "swap")):
        ways = {way: run(way, 1024, link).last for way in ("swap", "recompute")}
        assert min(ways, key=ways.__getitem__) == better
        found = account(computed, link)
        assert ("swap" if found.swap_s < found.recompute_s else "recompute") == better


def live(preemption: str, link: float | None = None) -> Trace:
    """A and B on the shipped model: B has to leave once."""
    policy = lab.Continuous(seats=2, blocks=15, block_tokens=16, preemption=preemption)
    prompt = tuple(range(3, 99))
    work = [lab.Request(id=who, prompt=prompt, max_tokens=48) for who in "AB"]
    trace = lab.serve(work, policy, "tiny", link_bytes_per_s=link)
    trace.check()
    assert len(trace["B"].stays) == 2
    return trace


def test_a_declared_link_takes_its_time_and_changes_no_token():
    plain, swapped = live("recompute"), live("swap", 20e6)
    moved = sum(stay.swapped_out for stay in swapped["B"].stays)
    assert swapped.settings["link_bytes_per_s"] == 20e6
    assert [r.output for r in swapped.requests] == [r.output for r in plain.requests]
    block = 16 * 2 * 4 * 2 * 32 * 4  # tokens, K and V, layers, KV heads, elements, bytes
    across = moved * block / 20e6
    out, back = swapped["B"].stays[0].stop, swapped["B"].stays[1].first
    for step in (out, back):
        assert swapped.ends[step] - swapped.starts[step] >= across


def test_a_link_without_bandwidth_is_refused():
    with pytest.raises(ValueError, match="link_bytes_per_s must be above 0, got -1"):
        live("swap", -1)
