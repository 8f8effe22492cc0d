"""Traffic: what a step sends, counted by hand, and what it costs against one device."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_layout import SMALL

from lab.ledgers.links import link
from lab.ledgers.roofline import step_bounds, step_work
from lab.ledgers.sizes import device, model_size
from lab.parallel.layout import Experts, layout
from lab.parallel.mesh import Mesh
from lab.parallel.step_time import decode_step, rank_work
from lab.parallel.traffic import Wiring, exchange_table, exchanges

LLAMA = model_size("llama-3-8b")
H100 = device("h100")


WHOLE = {"all-reduce": "doubling", "all-gather": "doubling"}


def rows(*args, **settings):
    """The exchanges as a teacher would list them."""
    return [
        (e.where, e.collective, e.axis, e.ranks, e.times, e.payload_bytes)
        for e in exchanges(*args, **settings)
    ]


def wired(name):
    return Wiring(inside=link(name), between=link(name))


def test_tensor_parallelism_adds_up_twice_a_layer():
    sent = exchanges(layout(LLAMA, Mesh(tp=2)), 1, 1, decode=True)
    assert [(e.collective, e.times, e.payload_bytes) for e in sent] == [
        ("all-reduce", 1, 8192),
        ("all-reduce", 32, 8192),
        ("all-reduce", 32, 8192),
    ]
    assert sum(e.sent_bytes for e in sent) == 65 * 8192


def test_a_prefill_sends_as_much_for_each_token():
    laid = layout(LLAMA, Mesh(tp=4))
    one, many = (sum(e.sent_bytes for e in exchanges(laid, 0, tokens)) for tokens in (1, 1000))
    assert many == 1000 * one


def test_behind_the_last_attention_go_only_rows_whose_logits_are_asked_for():
    laid = layout(LLAMA, Mesh(tp=2, pp=2))
    row, logits = 2 * 4096, 2 * 128_256
    first, last = (rows(laid, rank, 100, sampled=3) for rank in (0, 3))
    assert first == rows(laid, 0, 100)
    assert last == [
        ("after attention", "all-reduce", "tp", 2, 15, 100 * row),
        ("after attention of the last layer", "all-reduce", "tp", 2, 1, 3 * row),
        ("after the MLP", "all-reduce", "tp", 2, 15, 100 * row),
        ("after the MLP of the last layer", "all-reduce", "tp", 2, 1, 3 * row),
        ("the logits", "all-gather", "tp", 2, 1, 3 * logits),
    ]
    assert len(rows(laid, 3, 100, sampled=0)) == 2  # a piece of a prompt, and its end is elsewhere
    assert len(rows(laid, 3, 3, sampled=3)) == 3


def test_the_table_sums_what_a_rank_sends():
    text = repr(exchange_table(exchanges(layout(SMALL, Mesh(tp=2)), 0, 1, decode=True)))
    assert text.splitlines() == [
        "a rank sends 56 bytes in this step",
        "where                collective  axis  ranks  times  payload bytes  sent bytes",
        "-------------------  ----------  ----  -----  -----  -------------  ----------",
        "after the embedding  all-reduce  tp        2      1              8           8",
        "after attention      all-reduce  tp        2      3              8          24",
        "after the MLP        all-reduce  tp        2      3              8          24",
    ]


def test_stages_send_once_and_only_forward():
    laid = layout(SMALL, Mesh(pp=3))
    assert rows(laid, 0, 5) == [("to the next stage", "send", "pp", 2, 1, 5 * 4 * 2)]
    assert rows(laid, 2, 5) == []


def test_tokens_travel_to_their_experts_and_back():
    laid = layout(SMALL, Mesh(ep=2), experts=Experts(4, 2))
    there, back = exchanges(laid, 0, 6)
    assert (there.where, back.where) == ("to the experts", "back from the experts")
    assert (there.collective, there.times) == ("all-to-all", 3)
    assert there.payload_bytes == back.payload_bytes == 6 * 2 * 4 * 2
    assert there.sent_bytes == 3 * 48


def test_a_long_prompt_passes_its_keys_and_values_round_the_ring():
    laid = layout(SMALL, Mesh(cp=3))
    # 3 layers, 2 steps of the ring; 4 positions, K and V of 2 heads of 2, 2 bytes each
    assert rows(laid, 0, 12) == [
        ("keys and values, round the ring", "send", "cp", 2, 6, 4 * 2 * 2 * 2 * 2)
    ]


def test_a_decode_token_merges_what_each_part_of_the_context_says():
    laid = layout(SMALL, Mesh(cp=3))
    # of 6 heads the output of 2, the maximum and the denominator, 4 bytes each
    assert rows(laid, 1, 1, context=99, decode=True) == [
        ("merging attention", "all-gather", "cp", 3, 3, 3 * 6 * 4 * 4)
    ]


def test_a_decode_token_is_computed_by_all_ranks_of_cp_and_a_prompt_is_shared_out():
    laid = layout(SMALL, Mesh(cp=3, tp=2))
    payloads = [exchanges(laid, 0, 6, decode=decode)[0].payload_bytes for decode in (True, False)]
    assert payloads == [6 * 4 * 2, 2 * 4 * 2]


def test_logits_are_padded_to_the_same_size_on_every_rank():
    found = rows(layout(SMALL, Mesh(tp=3)), 0, 1, sampled=2, decode=True)[-1]
    assert found == ("the logits", "all-gather", "tp", 3, 1, 9 * 2 * 2)


def test_replicas_and_one_device_send_nothing():
    assert rows(layout(SMALL, Mesh(dp=4)), 3, 7, sampled=7) == []
    assert rows(layout(SMALL, Mesh(), experts=Experts(4, 2)), 0, 7) == []


def test_each_stage_of_a_combination_sends_for_its_own_layers():
    laid = layout(SMALL, Mesh(tp=2, pp=2))
    first, last = (rows(laid, rank, 1, sampled=1, decode=True) for rank in (0, 3))
    assert [(row[0], row[4]) for row in first] == [
        ("after the embedding", 1),
        ("after attention", 2),
        ("after the MLP", 2),
        ("to the next stage", 1),
    ]
    assert [(row[0], row[4]) for row in last] == [
        ("after attention", 1),
        ("after the MLP", 1),
        ("the logits", 1),
    ]


def test_the_link_is_the_slowest_that_a_group_needs():
    wiring = Wiring(inside=link("nvlink-4"), between=link("infiniband-ndr"))
    mesh = Mesh(tp=8, pp=2)
    assert wiring.link(mesh, "tp").name == "NVLink 4"
    assert wiring.link(mesh, "pp") is wiring.between
    assert wiring.link(Mesh(tp=16), "tp") is wiring.between
    assert wiring.link(Mesh(tp=6, dp=2), "tp") is wiring.between  # ranks 6 to 11 lie in two


counts = st.integers(0, 3000)


@given(st.integers(1, 64), counts, counts, st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_one_rank_does_the_work_of_the_roofline(tokens, context, pairs, sampled):
    step = {"context_tokens": context, "attention_pairs": pairs, "sampled_tokens": sampled}
    wanted = step_work(SMALL, prefill_tokens=tokens, decode_sequences=0, **step)
    assert rank_work(layout(SMALL, Mesh()), 0, tokens=tokens, **step) == wanted


@given(st.sampled_from((1, 2, 3, 6)), st.integers(1, 3), st.integers(1, 64), counts, counts)
@settings(max_examples=25, deadline=None)
def test_ranks_share_the_operations_of_one(tp, pp, tokens, context, pairs):
    model = replace(SMALL, kv_heads=6, vocab=12)
    step = {"context_tokens": context, "attention_pairs": pairs, "sampled_tokens": 1}
    laid = layout(model, Mesh(tp=tp, pp=pp))
    done = sum(rank_work(laid, r, tokens=tokens, **step).operations for r in range(tp * pp))
    alone = step_work(model, prefill_tokens=tokens, decode_sequences=0, **step)
    assert done == alone.operations


def test_one_device_takes_the_time_of_the_roofline():
    step = decode_step(
        layout(LLAMA, Mesh()), H100, wired("nvlink-4"), sequences=8, context_tokens=1024
    )
    wanted = step_bounds(
        LLAMA, H100, prefill_tokens=0, decode_sequences=8, context_tokens=8192, attention_pairs=8200
    )
    assert (step.work, step.exchange_s) == (wanted, 0)


def test_two_devices_are_faster_over_a_good_link_and_slower_over_a_bad_one():
    times = {
        (name, tp): decode_step(
            layout(LLAMA, Mesh(tp=tp)), H100, wired(name), sequences=1, context_tokens=1024
        )
        for name in ("nvlink-4", "ethernet-10g")
        for tp in (1, 2)
    }
    ms = {key: float(1000 * step.seconds) for key, step in times.items()}
    assert ms["nvlink-4", 2] < ms["nvlink-4", 1] == ms["ethernet-10g", 1] < ms["ethernet-10g", 2]
    assert ms["nvlink-4", 1] == pytest.approx(4.52, abs=0.005)
    near, far = times["nvlink-4", 2], times["ethernet-10g", 2]
    assert float(1000 * near.work.low_s) == pytest.approx(2.26, abs=0.005)
    assert float(1000 * near.exchange_s) == pytest.approx(0.13, abs=0.005)
    assert float(1000 * far.exchange_s) == pytest.approx(2.51, abs=0.005)
    # 65 all-reduces and 1 all-gather, in one round each: two ranks exchange all they have
    assert near.rounds == 66
    assert near.latency_s == 66 * Fraction(2, 10**6)


def test_ties_are_where_two_take_as_long_as_one():
    def timed(tp, over):
        laid, joined = layout(LLAMA, Mesh(tp=tp)), Wiring(inside=over, between=over)
        return decode_step(laid, H100, joined, sequences=1, context_tokens=1024, algorithms=WHOLE)

    near, far = link("nvlink-4"), link("ethernet-10g")
    alone = timed(1, near)
    latency = timed(2, near).tie_latency_s(alone)
    rate = timed(2, far).tie_bytes_per_s(alone)
    assert float(latency * 10**6) == pytest.approx(34.2, abs=0.05)
    assert float(rate / 10**9) == pytest.approx(2.36, abs=0.005)
    for over in (replace(near, latency_s=latency), replace(far, bytes_per_s=rate)):
        assert timed(2, over).seconds == alone.seconds
    assert timed(2, replace(far, latency_s=latency)).tie_bytes_per_s(alone) > far.bytes_per_s
    assert timed(2, replace(far, latency_s=1)).tie_bytes_per_s(alone) is None
    assert timed(2, replace(near, bytes_per_s=1)).tie_latency_s(alone) is None
    assert alone.tie_latency_s(alone) is None


def test_stages_do_not_shorten_the_wait_of_one_sequence():
    one, two = (
        decode_step(
            layout(LLAMA, Mesh(pp=pp)), H100, wired("pcie-5"), sequences=1, context_tokens=9
        )
        for pp in (1, 2)
    )
    assert two.work == one.work
    assert two.seconds > one.seconds


def test_replicas_share_the_sequences_and_not_the_weights():
    one, two = (
        decode_step(
            layout(LLAMA, Mesh(dp=dp)), H100, wired("pcie-5"), sequences=4, context_tokens=9
        )
        for dp in (1, 2)
    )
    assert two.work.compute_s * 2 == one.work.compute_s
    assert one.work.memory_s > two.work.memory_s > one.work.memory_s * Fraction(99, 100)


def test_few_rounds_help_where_latency_rules():
    laid = layout(LLAMA, Mesh(tp=8))
    ring, doubling = (
        decode_step(laid, H100, wired("nvlink-4"), sequences=1, context_tokens=9, algorithms=chosen)
        for chosen in ({"all-reduce": "ring", "all-gather": "ring"}, WHOLE)
    )
    assert doubling.latency_s < ring.latency_s
    assert doubling.transfer_s > ring.transfer_s
    assert doubling.seconds < ring.seconds


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: exchanges(layout(SMALL, Mesh()), 0, 0), "at least 1 token, got 0"),
        (lambda: exchanges(layout(SMALL, Mesh(tp=2)), 2, 1), "2 ranks, counted from 0, got 2"),
        (lambda: exchanges(layout(SMALL, Mesh()), 0, 1, context=-1), "context must be at least 0"),
        (
            lambda: decode_step(
                layout(SMALL, Mesh(cp=2)), H100, wired("pcie-5"), sequences=1, context_tokens=0
            ),
            "got ep 1 and cp 2",
        ),
        (
            lambda: decode_step(
                layout(SMALL, Mesh()), H100, wired("pcie-5"), sequences=0, context_tokens=0
            ),
            "got 0 and 0",
        ),
        (
            lambda: decode_step(
                layout(SMALL, Mesh()),
                H100,
                wired("pcie-5"),
                sequences=1,
                context_tokens=0,
                algorithms={"all-reduse": "ring"},
            ),
            "unknown collective 'all-reduse'",
        ),
        (
            lambda: Wiring(inside=link("pcie-5"), between=link("pcie-5"), ranks_per_machine=0),
            "ranks_per_machine must be at least 1, got 0",
        ),
        (
            lambda: rank_work(
                layout(SMALL, Mesh(), experts=Experts(2, 1)),
                0,
                tokens=1,
                context_tokens=0,
                attention_pairs=1,
                sampled_tokens=1,
            ),
            "depends on where the tokens go",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
