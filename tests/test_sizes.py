"""Sizes are checked against counts that others published, and names against typing errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.ledgers.sizes import GB, TFLOP, device, known_devices, known_models, model_size

# Totals that the safetensors files of each model report.
PUBLISHED_PARAMETERS = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "gemma-2b": 2_506_172_416,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
}


def test_derived_parameters_equal_the_published_counts() -> None:
    assert {name: model_size(name).parameters for name in known_models()} == PUBLISHED_PARAMETERS


def test_the_parts_of_the_docstring_add_up() -> None:
    llama = model_size("llama-3-8b")
    assert llama.layer_matrix_parameters == 33_554_432 + 8_388_608 + 176_160_768
    assert llama.embedding_parameters == 525_336_576
    assert llama.norm_parameters == 266_240


def test_tying_the_embeddings_saves_one_table() -> None:
    small = model_size("llama-3.2-1b")
    untied = replace(small, tied_embeddings=False)
    assert untied.parameters - small.parameters == 128_256 * 2_048


def test_every_layer_keeps_keys_and_values_with_a_window_or_without() -> None:
    for name in known_models():
        size = model_size(name)
        assert sum(group.layers for group in size.cache) == size.layers
        assert {group.numbers for group in size.cache} == {2 * size.kv_heads * size.head_dim}
    assert [group.window for group in model_size("mistral-7b").cache] == [4096]
    assert [group.window for group in model_size("llama-3-8b").cache] == [None]
    mixed = [(group.layers, group.window) for group in model_size("gemma-3-1b").cache]
    assert mixed == [(4, None), (22, 512)]


def test_a_window_holds_the_last_tokens() -> None:
    (layers,) = model_size("mistral-7b").cache
    assert [layers.tokens_kept(tokens) for tokens in (0, 4096, 4097)] == [0, 4096, 4096]


def test_names_ignore_case() -> None:
    assert device("H100") is device("h100")
    assert model_size("Llama-3-8B") is model_size("llama-3-8b")


@pytest.mark.parametrize(
    ("lookup", "kind", "known"),
    [(device, "device", known_devices), (model_size, "model", known_models)],
)
def test_unknown_names_list_what_is_known(lookup, kind, known) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"unknown {kind} 'h1000'; known: ") as caught:
        lookup("h1000")
    assert all(name in str(caught.value) for name in known())


def test_every_number_has_a_source() -> None:
    assert all(device(name).source for name in known_devices())
    assert all(model_size(name).source for name in known_models())


def test_rates_are_dense_and_by_format() -> None:
    h100 = device("h100")
    assert h100.peak_flops_per_s() == h100.peak_flops_per_s("bf16") == 989.5 * TFLOP
    assert h100.memory_bytes_per_s == 3350 * GB
    with pytest.raises(ValueError, match=r"no rate for 'fp8'; it has bf16, fp16, int8"):
        device("a100").peak_flops_per_s("fp8")


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        replace(model_size("llama-3-8b"), layers=0)
    with pytest.raises(ValueError, match="heads must be a multiple of kv_heads, got 32 and 6"):
        replace(model_size("llama-3-8b"), kv_heads=6)
    with pytest.raises(ValueError, match="windowed_layers must be from 0 to 32, got 33"):
        replace(model_size("mistral-7b"), windowed_layers=33)
    for window, layers in ((None, 32), (0, 32), (0, 0)):
        with pytest.raises(ValueError, match=rf"least 1 for {layers} .* got {window}"):
            replace(model_size("mistral-7b"), window=window, windowed_layers=layers)
    with pytest.raises(ValueError, match="memory_bytes_per_s must be above 0, got 0"):
        replace(device("h100"), memory_bytes_per_s=0)
    with pytest.raises(ValueError, match=r"flops_per_s\['bf16'\] must be above 0, got -1"):
        replace(device("h100"), flops_per_s={"bf16": -1})
