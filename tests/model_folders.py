"""Random models as `transformers` builds and saves them, for tests that compare with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from transformers.modeling_utils import PreTrainedModel

CONFIGS = {
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
}
SMALL = {
    "vocab_size": 61,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def hf_model(family: str, seed: int = 0, **changed: Any) -> PreTrainedModel:
    """A model with weights large enough that a mistake anywhere moves the logits."""
    sizes = SMALL | ({"sliding_window": None} if family == "mistral" else {}) | changed
    model = AutoModelForCausalLM.from_config(CONFIGS[family](**sizes)).eval()
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=dice)
            centre = 1.0 if "norm" in name else 0.0
            weight.copy_(centre + drawn * (0.2 if weight.ndim == 1 else weight.shape[1] ** -0.5))
    return model


def save(model: PreTrainedModel, folder: Path, **how: Any) -> Path:
    """The folder, as `save_pretrained` writes it."""
    model.save_pretrained(folder, **how)
    return folder
