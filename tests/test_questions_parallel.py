"""The questions on parallel layouts, computed again from their words."""

from __future__ import annotations

import re
from fractions import Fraction
from random import Random

import pytest
from asked import knows, numbers, right_options, variants_of

from lab.questions import exercises
from lab.questions.parallel import fits_and_busy, zero_leaves
from lab.worked_numbers import entry


@variants_of("parallel-one-message")
def test_a_message_waits_and_then_crosses(asked):
    rate, latency, kilobytes = numbers(
        r"carries (\d+) GB/s .* waits (\d+) µs .* message of (\d+) kB", asked.question.text
    )
    crossing = kilobytes / rate  # kB over GB/s are microseconds
    answer = asked.question.answer
    assert answer.value == latency + crossing
    assert knows(
        answer,
        {
            "leaving out the latency": crossing,
            "leaving out the bytes": latency,
            "taking a GB for a million bytes": 1000 * crossing + latency,
            "counting bits": 8 * crossing + latency,
        },
    )


@variants_of("parallel-fits-and-busy")
def test_only_tensor_parallelism_fits_and_keeps_both_at_work(asked):
    layers, size, card = numbers(
        r"has (\d+) layers of (\d+) MB .* hold (\d+) MB", asked.question.text
    )
    options = asked.question.answer.by
    assert layers * size > card >= layers * size / 2
    (right,) = right_options(options)
    assert right.startswith("tensor parallel")
    copies, stages, parts = (option.says for option in options.options)
    assert f"must hold {layers * size} MB and has {card}" in copies
    assert f"must hold {layers * size / 2} MB" in stages
    assert "at work: 50 % and 50 % of the time" in stages
    assert "both work in every layer, sending not counted" in parts
    assert f"{2 * layers} messages a token" in asked.question.answer.why


def test_the_guess_has_the_ledgers_numbers():
    inputs = entry("parallel-ledger-inputs").inputs
    (one,) = exercises("parallel-fits-and-busy")
    asked = fits_and_busy(inputs["layers"], inputs["mb_per_layer"], 300)
    assert one.first() == asked


@variants_of("parallel-partial-sums")
def test_partial_sums_are_added(asked):
    text = asked.question.text
    x = [int(n) for n in re.search(r"X = \((\d+), (\d+)\)", text).groups()]
    w = [list(map(int, row.split())) for row in re.search(r"W = \((.*?)\)", text)[1].split("/")]
    first, second, together = (row[1:] for row in asked.question.answer.rows)
    assert [cell.value for cell in first] == [x[0] * n for n in w[0]]
    assert [cell.value for cell in second] == [x[1] * n for n in w[1]]
    pairs = zip(first, second, together, strict=True)
    assert all(a.value + b.value == y.value for a, b, y in pairs)
    assert len(together) == len(w[0])


@variants_of("parallel-kv-copies")
def test_kv_heads_lie_wherever_their_queries_lie(asked):
    heads, kv_heads, ranks = map(
        int, numbers(r"has (\d+) query heads and (\d+) KV heads.*among (\d+)", asked.question.text)
    )
    group, each = heads // kv_heads, heads // ranks
    held = [{head // group for head in range(r * each, (r + 1) * each)} for r in range(ranks)]
    answer = asked.question.answer
    assert answer.value == sum(map(len, held))
    assert knows(
        answer,
        {
            "holding each once": kv_heads,
            "copying all to every rank": kv_heads * ranks,
            "taking one for each query head": heads,
            "taking one a rank": ranks,
        },
    )


@variants_of("parallel-bytes-sent")
def test_two_all_reduces_a_layer_go_round_the_ring(asked):
    layers, hidden, ranks = numbers(
        r"of (\d+) layers has ([\d,]+) numbers .* among (\d+) ranks", asked.question.text
    )
    vector, share = 2 * hidden / 1024, (ranks - 1) / ranks
    answer = asked.question.answer
    assert answer.value == 2 * layers * 2 * share * vector
    assert knows(
        answer,
        {
            "counting one exchange a layer": layers * 2 * share * vector,
            "going round once": 2 * layers * share * vector,
            "sending the vector once": 2 * layers * vector,
            "sending the whole vector to every other rank": 2 * layers * vector * (ranks - 1),
        },
    )


@variants_of("parallel-slower")
def test_what_is_won_may_be_spent_on_latency(asked):
    work, messages, sent = numbers(
        r"needs ([\d,]+) µs .* send (\d+) messages .* take (\d+) µs", asked.question.text
    )
    answer = asked.question.answer
    tie = answer.value
    assert work / 2 + sent + messages * tie == work
    assert tie > 0
    assert knows(
        answer,
        {
            "leaving out the bytes": work / 2 / messages,
            "winning all of the work": (work - sent) / messages,
            "giving all the time to the messages": work / messages,
            "counting one message": work / 2 - sent,
            "halving twice": (work / 2 - sent) / messages / 2,
        },
    )


@variants_of("parallel-bubble")
def test_stages_wait_at_the_start_and_at_the_end(asked):
    microbatches, stages = numbers(
        r"^(\d+) microbatches go through (\d+) stages", asked.question.text
    )
    end = microbatches + stages - 1
    answer = asked.question.answer
    assert answer.value == (stages * end - stages * microbatches) / (stages * end)
    assert knows(
        answer,
        {
            "dividing by the work": (stages - 1) / microbatches,
            "taking what is used": microbatches / end,
            "counting one step too many": stages / (end + 1),
            "counting one stage": (stages - 1) / (stages * end),
        },
    )


@variants_of("parallel-round-trip")
def test_a_token_passes_all_stages(asked):
    stages, time, users = numbers(
        r"lies on (\d+) stages .* needs (\d+) ms .* time\. (\d+) users", asked.question.text
    )
    assert users < stages
    answer = asked.question.answer
    assert answer.value == stages * time
    assert knows(
        answer,
        {
            "taking one stage": time,
            "letting the users wait for one another": stages * time * users,
            "sharing the time among the users": stages * time / users,
            "waiting for the whole batch": (stages + users - 1) * time,
        },
    )


@variants_of("parallel-zero-leaves")
def test_what_is_cut_is_divided_and_the_rest_is_not(asked):
    billions, ranks, stage = numbers(
        r"of ([\d.]+) billion .* on (\d+) data-parallel .* stage (\d) cuts", asked.question.text
    )
    state = [
        sum(
            billions * size / (ranks if at >= cut else 1) for size, cut in ((2, 3), (2, 2), (12, 1))
        )
        for at in range(4)
    ]
    answer = asked.question.answer
    assert answer.value == state[int(stage)]
    turns = ["cutting nothing", "stopping at stage 1", "stopping at stage 2", "cutting everything"]
    wrong = {turn: state[at] for at, turn in enumerate(turns) if at != stage}
    gradients = 2 * billions / (ranks if stage >= 2 else 1)
    whole = billions * (0 if stage == 3 else 2 if stage == 2 else 4)
    wrong |= {
        "counting the parameters only": 2 * billions,
        "dividing what is whole as well": whole + 16 * billions / ranks,
    }
    without = answer.value - gradients
    if all(abs(without - other) > answer.tolerance for other in wrong.values()):
        wrong["leaving out the gradients"] = without  # of many ranks it is what stage 2 leaves
    assert knows(answer, wrong)


def test_each_neighbour_of_19_and_a_half_has_a_wrong_turn_of_its_own():
    asked = zero_leaves(Fraction(8), ranks=32, stage=2)
    says = {wrong.value: wrong.says for wrong in asked.answer.wrong}
    assert asked.answer.value == Fraction(39, 2)
    assert says[19].startswith("A rank keeps gradients too, 0.5 GB")
    assert "Only what stage 2 cuts" in says[20]


def test_the_papers_numbers_are_found():
    asked = zero_leaves(Fraction(15, 2), ranks=64, stage=2)
    assert asked.answer.value == Fraction(16_640_625, 10**6)


@pytest.mark.parametrize("one", exercises("11"), ids=lambda one: one.id)
def test_later_variants_can_be_drawn_as_well(one):
    for number in range(12, 60):
        one.make(Random(f"{one.id}/{number}"))
