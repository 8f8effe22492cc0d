"""Bounds are the ledger's, exact, and the prepared form agrees with the exact one."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TypedDict

import pytest

from lab.ledgers.compute import attention_pairs, decode_macs, flops, prefill_macs
from lab.ledgers.memory import kv_bytes_per_token, weight_bytes
from lab.ledgers.roofline import (
    RooflineModel,
    arithmetic_intensity,
    bounds,
    limiting_resource,
    ridge,
    step_bounds,
    step_work,
)
from lab.ledgers.sizes import GB, MILLISECONDS, TB, TFLOP, GiB, Number, TiB, device, model_size
from lab.worked_numbers import entry, worked


def milliseconds_to_move(
    bytes_moved: Number, bytes_per_s: Number, compute_factor: int = 1
) -> Number:
    """The bound of a step whose bytes take longer than its arithmetic, as in the 20 GB example."""
    flops_per_s = compute_factor * TFLOP
    low = bounds(TFLOP // 1000, bytes_moved, flops_per_s=flops_per_s, bytes_per_s=bytes_per_s).low_s
    return low * MILLISECONDS


def test_the_lower_bound_is_the_longer_of_two_times() -> None:
    given = entry("roofline-lower-bound").inputs
    found = bounds(
        given["flop"],
        given["bytes_moved"],
        flops_per_s=given["compute"],
        bytes_per_s=given["bandwidth"],
    )
    worked(
        "roofline-lower-bound",
        {"compute_time": found.compute_s, "memory_time": found.memory_s, "bound": found.low_s},
    )
    assert found.high_s == Fraction(1, 40)
    assert found.limit == "bandwidth"


def test_the_intensity_test() -> None:
    given = entry("roofline-intensity-test").inputs
    intensity = arithmetic_intensity(given["flop"], given["bytes_moved"])
    top = ridge(given["compute"], given["bandwidth"])
    verdict = limiting_resource(intensity, top)
    worked("roofline-intensity-test", {"intensity": intensity, "ridge": top, "verdict": verdict})


def test_the_20_gb_example() -> None:
    given = entry("roofline-20gb-example").inputs
    data, rate = given["data"] * GB, given["bandwidth"] * TB
    worked("roofline-20gb-example", milliseconds_to_move(data, rate))
    worked(
        "roofline-double-compute-does-not-help",
        {
            "movement_bound_after": milliseconds_to_move(data, rate, compute_factor=2),
            "movement_bound_double_bandwidth": milliseconds_to_move(data, 2 * rate),
        },
        wrong=milliseconds_to_move(data, rate) / 2,
    )


def test_units_of_two_bases_do_not_mix() -> None:
    given = entry("roofline-20gb-decimal-vs-binary").inputs
    amount, rate = given["amount"], given["rate"]
    worked(
        "roofline-20gb-decimal-vs-binary",
        {
            "gib_over_tb": milliseconds_to_move(amount * GiB, rate * TB),
            "gb_over_tib": milliseconds_to_move(amount * GB, rate * TiB),
        },
    )


def test_a_larger_batch_raises_the_intensity() -> None:
    given = entry("roofline-arithmetic-intensity-002").inputs
    single = arithmetic_intensity(given["ops"] * given["batch"], given["bytes_per_weight"])
    worked("roofline-arithmetic-intensity-002", single)
    given = entry("decode-batch-raises-intensity").inputs
    per_weight, width = given["flop_per_weight"], given["bytes_per_weight"]
    by_batch = [arithmetic_intensity(per_weight * batch, width) for batch in given["batch"]]
    worked("decode-batch-raises-intensity", by_batch)


def test_numbers_keep_their_kind() -> None:
    exact = bounds(1, 1, flops_per_s=3, bytes_per_s=Fraction(7, 2))
    assert exact == (Fraction(1, 3), Fraction(2, 7))
    assert type(bounds(1.0, 1, flops_per_s=4, bytes_per_s=4).compute_s) is float
    assert type(bounds(1.0, 1, flops_per_s=4, bytes_per_s=4).memory_s) is Fraction


def test_at_the_ridge_both_times_tie() -> None:
    tie = bounds(400, 1, flops_per_s=400, bytes_per_s=1)
    assert tie.limit == "both" == limiting_resource(400, ridge(400, 1))
    assert limiting_resource(401, 400) == "compute"
    assert tie.high_s == 2 * tie.low_s


def test_impossible_work_and_rates_are_refused() -> None:
    with pytest.raises(ValueError, match="operations must be at least 0, got -1"):
        bounds(-1, 1, flops_per_s=1, bytes_per_s=1)
    with pytest.raises(ValueError, match="bytes_moved must be at least 0, got -2"):
        bounds(1, -2, flops_per_s=1, bytes_per_s=1)
    with pytest.raises(ValueError, match="bytes_per_s must be above 0, got 0"):
        ridge(1, 0)
    with pytest.raises(ValueError, match="bytes_moved must be above 0, got 0"):
        arithmetic_intensity(1, 0)


class Step(TypedDict):
    prefill_tokens: int
    decode_sequences: int
    context_tokens: int
    attention_pairs: int


def decode_step(sequences: int, cached_each: int) -> Step:
    return {
        "prefill_tokens": 0,
        "decode_sequences": sequences,
        "context_tokens": sequences * cached_each,
        "attention_pairs": sequences * (cached_each + 1),
    }


def test_a_decode_step_reads_every_weight_but_the_embedding_table() -> None:
    llama = model_size("llama-3-8b")
    work = step_work(llama, **decode_step(1, 4095))
    assert work.operations == flops(decode_macs(llama, 4096))
    table = 2 * llama.embedding_parameters
    row = 2 * llama.hidden
    expected = weight_bytes(llama) - table + row + 4096 * kv_bytes_per_token(llama)
    assert work.bytes_moved == expected


def test_a_tied_model_reads_its_one_table_for_the_logits() -> None:
    small = model_size("llama-3.2-1b")
    work = step_work(small, **decode_step(1, 0))
    row = 2 * small.hidden
    assert work.bytes_moved == weight_bytes(small) + row + kv_bytes_per_token(small)


def test_a_whole_prefill_in_one_step() -> None:
    llama = model_size("llama-3-8b")
    step = {"prefill_tokens": 1000, "decode_sequences": 0, "context_tokens": 0}
    pairs = attention_pairs(1000)
    last = step_work(llama, **step, attention_pairs=pairs, sampled_tokens=1)
    chunk = step_work(llama, **step, attention_pairs=pairs)
    assert last.operations == flops(prefill_macs(llama, 1000))
    assert chunk.operations == flops(prefill_macs(llama, 1000, logits_tokens=0))
    assert last.bytes_moved - chunk.bytes_moved == 2 * llama.embedding_parameters


def test_the_docstring_example_of_a_step() -> None:
    llama, h100 = model_size("llama-3-8b"), device("h100")
    assert step_work(llama, **decode_step(8, 1024)).bytes_moved == 16_084_705_280
    found = step_bounds(llama, h100, **decode_step(8, 1024))
    assert [round(float(part) * 1000, 2) for part in found] == [0.13, 4.80]
    assert round(float(found.high_s) * 1000, 2) == 4.93
    assert isinstance(found.low_s, Fraction)


def test_batching_shares_the_weights_and_not_the_cache() -> None:
    llama, h100 = model_size("llama-3-8b"), device("h100")
    one, eight = (step_bounds(llama, h100, **decode_step(n, 1024)) for n in (1, 8))
    assert eight.low_s < 2 * one.low_s
    assert eight.limit == "bandwidth"
    prompt = step_bounds(
        llama,
        h100,
        prefill_tokens=4096,
        decode_sequences=0,
        context_tokens=0,
        attention_pairs=attention_pairs(4096),
    )
    assert prompt.limit == "compute"


def test_the_prepared_form_agrees_with_the_exact_one() -> None:
    rng = random.Random(7)
    llama, l4 = model_size("qwen3-0.6b"), device("l4")
    for width in (2, 1, Fraction(1, 2)):
        prepared = RooflineModel.of(
            llama, l4, dtype="fp8", weight_bytes_per_element=width, kv_bytes_per_element=width
        )
        for _ in range(100):
            prefill, decode, sampled = rng.randint(0, 999), rng.randint(1, 99), rng.randint(0, 99)
            context, pairs = rng.randint(0, 10**6), rng.randint(0, 10**8)
            exact = step_bounds(
                llama,
                l4,
                prefill_tokens=prefill,
                decode_sequences=decode,
                context_tokens=context,
                attention_pairs=pairs,
                sampled_tokens=sampled,
                dtype="fp8",
                weight_bytes_per_element=width,
                kv_bytes_per_element=width,
            )
            fast = prepared.step(prefill + decode, context, pairs, sampled)
            assert [*fast] == pytest.approx([float(part) for part in exact], rel=1e-12)
            assert all(type(part) is float for part in fast)


def test_a_step_without_tokens_is_refused() -> None:
    llama, h100 = model_size("llama-3-8b"), device("h100")
    with pytest.raises(ValueError, match="a step must compute at least 1 token, got 0"):
        step_bounds(llama, h100, **decode_step(0, 5))
    with pytest.raises(ValueError, match="a step must compute at least 1 token, got 0"):
        RooflineModel.of(llama, h100).step(0, 0, 0, 0)
    with pytest.raises(ValueError, match="context_tokens must be at least 0, got -5"):
        step_bounds(llama, h100, **decode_step(1, -5))
