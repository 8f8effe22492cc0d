"""Rounds on a device: a check is nearly free while a step waits for memory, and not beyond."""

import pytest

from lab.ledgers.roofline import step_bounds
from lab.ledgers.rounds import by_batch, round_times
from lab.ledgers.sizes import device, model_size

TARGET, DRAFT, H100 = model_size("llama-3-8b"), model_size("llama-3.2-1b"), device("h100")


def times(batch, drafts=4, context=512):
    return round_times(TARGET, DRAFT, H100, batch=batch, context=context, drafts=drafts)


def test_the_plain_step_is_that_of_the_roofline():
    plain = step_bounds(
        TARGET,
        H100,
        prefill_tokens=0,
        decode_sequences=8,
        context_tokens=8 * 512,
        attention_pairs=8 * 513,
    )
    assert times(8).plain == plain
    assert float(plain.low_s) == pytest.approx(0.00464, abs=1e-5)


def test_alone_a_check_of_four_guesses_takes_as_long_as_a_step():
    alone = times(1)
    assert 1000 * float(alone.check.low_s) == pytest.approx(4.50, abs=0.005)
    assert 1 < float(alone.verification) < 1.001
    assert alone.check.limit == "bandwidth"


def test_a_check_does_five_times_the_arithmetic_and_reads_the_weights_once():
    for batch in (1, 64):
        mine = times(batch)
        assert float(mine.check.compute_s / mine.plain.compute_s) == pytest.approx(5, rel=0.01)
        assert float(mine.check.memory_s / mine.plain.memory_s) < 1.01


def test_in_a_large_batch_it_waits_for_arithmetic_and_is_dear():
    verification = [float(times(batch).verification) for batch in (1, 64, 256, 512)]
    assert verification == sorted(verification)
    assert times(512).check.limit == "compute"
    assert verification[-1] > 1.5


def test_the_table_turns_below_1():
    table = by_batch(TARGET, DRAFT, H100, (1, 128, 256, 512), context=512, drafts=4, alpha=0.6)
    gains = [row["times as fast"] for row in table]
    assert gains[0] > 1.3 > 1.1 > gains[1] > 1 > 0.85 > gains[2] > 0.7 > gains[3]
    assert [row["requests"] for row in table] == [1, 128, 256, 512]


def test_what_does_not_fit_is_refused():
    times(512)
    with pytest.raises(ValueError, match=r"512 requests with 1024 .* need 104.4 GB, .* has 72.0"):
        times(512, context=1024)
    most = (72e9 - 16.06e9 - 2.47e9) / (131_072 + 32_768) / 1024
    times(int(most), context=1024)
    with pytest.raises(ValueError, match="beside its reserve"):
        times(int(most) + 1, context=1024)


@pytest.mark.parametrize("name", ["batch", "context", "drafts"])
def test_a_round_has_somebody_something_and_a_guess(name):
    sizes = {"batch": 1, "context": 1, "drafts": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        round_times(TARGET, DRAFT, H100, **sizes)
