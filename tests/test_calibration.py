"""Calibration serves for as long as it is told, and finds what a model costs here."""

from __future__ import annotations

import pytest

from lab.calibration import calibrate
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder
from lab.model.folder import Model
from lab.model.weights import Weights

CONFIG = ModelConfig(
    layers=1, hidden=16, ffn=24, heads=2, kv_heads=1, head_dim=8, vocab=23, max_positions=64
)
MODEL = Model("random", CONFIG, Decoder(CONFIG, Weights.random(CONFIG, seed=1)), None)  # type: ignore[arg-type]


def test_it_serves_for_the_time_it_is_given_and_says_how_far_it_is() -> None:
    heard: list[float] = []
    fitted = calibrate(MODEL, seats=4, seconds=0.5, progress=heard.append)
    assert fitted.steps > 10
    assert fitted.cost.unit == "s"
    assert fitted.cost.settings["a"] > 0
    assert heard[0] < 0.1
    assert heard == sorted(heard)
    assert heard[-1] == 1


def test_it_works_for_one_seat_and_the_smallest_model() -> None:
    config = ModelConfig(
        layers=1, hidden=8, ffn=8, heads=1, kv_heads=1, head_dim=8, vocab=2, max_positions=2
    )
    tiny = Model("two", config, Decoder(config, Weights.random(config, seed=1)), None)  # type: ignore[arg-type]
    assert calibrate(tiny, seats=1, seconds=0.05).steps > 0


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"seats": 0}, "seats must be at least 1, got 0"),
        ({"seconds": 0}, "seconds must be above 0, got 0"),
    ],
)
def test_what_cannot_be_measured_is_an_error(wrong, reason) -> None:
    with pytest.raises(ValueError, match="must be") as error:
        calibrate(MODEL, **wrong)
    assert str(error.value) == reason
