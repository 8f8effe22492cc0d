"""Writes the shipped pair: two folders in the layout of Hugging Face, and the card with figures.

    python -m lab.model.tiny.release --corpus Rdata.rdb --work DIR

Every figure of the card is measured here, on the files that were written.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from lab.model.config import ModelConfig
from lab.model.decoder import Decoder, last_logits
from lab.model.flat_batch import FlatBatch, Span
from lab.model.folder import Model, load
from lab.model.kv_tensors import KVTensors
from lab.model.tiny.corpus import HELD_OUT_BYTES, novels
from lab.model.tiny.network import CONTEXT, RECIPES
from lab.model.tiny.texts import END_OF_TEXT, Texts
from lab.model.tiny.train import Training

PROMPTS = (
    "It is a truth universally acknowledged,",
    "Emma was",
    '"My dear Mr. Bennet," said',
)
SAMPLE_TOKENS, TEMPERATURE = 80, 0.8


class Agreement(NamedTuple):
    """How well the draft guesses what the target says, over the held-out text."""

    same_argmax: float
    accepted: float
    """The mean over positions of sum(min(p, q)): how often a drafted token is accepted."""


def write(folder: Path, training: Training, vocabulary: Path) -> None:
    """One model of the pair, its weights in fp16."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: t.half().contiguous() for name, t in training.network.checkpoint().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(vocabulary, folder / "tokenizer.json")
    end = _id_of(END_OF_TEXT, vocabulary)
    generation = {
        "bos_token_id": end,
        "eos_token_id": end,
        "do_sample": True,
        "temperature": TEMPERATURE,
    }
    marks = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    _save(folder / "config.json", _config(training.recipe.config, end))
    _save(folder / "generation_config.json", generation)
    _save(folder / "tokenizer_config.json", marks)


def _config(config: ModelConfig, end: int) -> dict[str, Any]:
    return {
        "architectures": [config.architecture],
        "model_type": "llama",
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "intermediate_size": config.ffn,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.rope_theta,
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": config.tied_embeddings,
        "bos_token_id": end,
        "eos_token_id": end,
        "torch_dtype": "float16",
    }


def _save(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _id_of(token: str, vocabulary: Path) -> int:
    return int(json.loads(vocabulary.read_text(encoding="utf-8"))["added_tokens"][0]["id"])


def logits(decoder: Decoder, ids_T: Tensor) -> Tensor:
    """Logits after every token of one sequence."""
    return last_logits(decoder, ids_T.tolist(), len(ids_T))


def agreement(target: Decoder, draft: Decoder, texts: Texts) -> Agreement:
    """The draft beside the target, at every position of the held-out text."""
    same = accepted = count = 0.0
    for ids_T in texts.held_out:
        for window in ids_T.split(CONTEXT):
            p_TV, q_TV = (logits(model, window).softmax(-1) for model in (target, draft))
            same += float((p_TV.argmax(-1) == q_TV.argmax(-1)).sum())
            accepted += float(torch.minimum(p_TV, q_TV).sum())
            count += len(window)
    return Agreement(same / count, accepted / count)


def sample(model: Model, prompt: str, seed: int) -> str:
    """A continuation at TEMPERATURE, each token drawn from the whole distribution."""
    dice = torch.Generator().manual_seed(seed)
    ids = model.tokenizer.encode(prompt)
    kv = KVTensors(model.config, 1, len(ids) + SAMPLE_TOKENS)
    done = 0
    for _ in range(SAMPLE_TOKENS):
        batch = FlatBatch.of([Span(len(ids) - done, len(ids), (0,))], kv)
        logits_1V = model.decoder.forward(kv.index(ids[done:]), batch, kv)
        done = len(ids)
        ids.append(
            int(torch.multinomial((logits_1V[0] / TEMPERATURE).softmax(-1), 1, generator=dice))
        )
        if ids[-1] in model.config.end_ids:
            break
    return model.tokenizer.decode(ids)


def card(texts: Texts, trainings: dict[str, Training], models: dict[str, Model]) -> str:
    """README.md of the pair."""
    bits = {
        name: texts.bits_per_byte(lambda ids_T, d=model.decoder: logits(d, ids_T))  # type: ignore[misc]
        for name, model in models.items()
    }
    agreed = agreement(models["target"].decoder, models["draft"].decoder, texts)
    samples = "\n".join(
        f"> {' '.join(sample(models[name], prompt, seed).split())} ({name})\n"
        for name in models
        for seed, prompt in enumerate(PROMPTS)
    )
    return CARD.format(
        table=_table(trainings, bits),
        samples=samples,
        temperature=TEMPERATURE,
        vocabulary=models["target"].config.vocab,
        tokens=f"{len(texts.training_T):,}",
        held_out_bytes=f"{texts.held_out_bytes:,}",
        held_out_kb=HELD_OUT_BYTES // 1000,
        bytes_per_token=f"{texts.held_out_bytes / sum(map(len, texts.held_out)):.2f}",
        same=f"{agreed.same_argmax:.1%}",
        accepted=f"{agreed.accepted:.1%}",
        context=CONTEXT,
        machine=f"a CPU with {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}",
    )


def _table(trainings: dict[str, Training], bits: dict[str, float]) -> str:
    """The pair side by side: a column for each, a row for each figure."""
    columns = [_figures(training, bits[name]) for name, training in trainings.items()]
    head = ["| | " + " | ".join(trainings) + " |", "|---" * (len(trainings) + 1) + "|"]
    rows = (
        f"| {key} | " + " | ".join(column[key] for column in columns) + " |" for key in columns[0]
    )
    return "\n".join([*head, *rows])


def _figures(training: Training, bits: float) -> dict[str, str]:
    recipe, c = training.recipe, training.recipe.config
    return {
        "layers": f"{c.layers}",
        "width": f"{c.hidden}",
        "query heads, KV heads": f"{c.heads}, {c.kv_heads} of {c.head_dim}",
        "width of the MLP": f"{c.ffn}",
        "parameters": f"{c.size('tiny').parameters:,}",
        "steps": f"{training.step:,}",
        "tokens seen": f"{training.step * recipe.batch * c.max_positions:,}",
        "CPU time": f"{training.cpu_s / 60:.0f} minutes",
        "**bits per byte, held out**": f"**{bits:.3f}**",
    }


CARD = """# The shipped pair

Two small models in the layout of Hugging Face, `target/` and `draft/`, with one vocabulary of
{vocabulary} tokens. They are large enough that what they say is English in the manner of its
author, and small enough to be served, forked, preempted and compared on any processor. In the lab
they are called "tiny" and "tiny-draft".

{table}

**Data.** Jane Austen's six novels, in the public domain, as Debian's package `r-cran-janeaustenr`
holds them: {tokens} tokens of training text. The text itself is not kept here; `corpus.py` says
how to fetch it. Lines are joined to paragraphs, paragraphs are parted by an empty line, and a
chapter is a document that ends with `<|endoftext|>`.

**Held out.** The last {held_out_kb} kB of each novel: {held_out_bytes} bytes, {bytes_per_token}
to a token. Neither the weights nor the vocabulary saw them. Bits per byte are measured on the
shipped fp16 files, computed in float32, in windows of {context} tokens that advance by half.

**Training.** `train.py`, one thread of {machine}: matrices in
bfloat16, Muon for the matrices of the layers and AdamW for the rest, batches of 16 x {context}
tokens. The draft learned the target's distributions rather than the text. `release.py` wrote the
folders and this card.

**The draft beside the target.** On the held-out text both find the same token most likely at {same}
of the positions, and a token drawn from the draft is accepted with probability {accepted}, the mean
of the sum over tokens of min(p, q).

**Samples** at temperature {temperature}:

{samples}
**Limits.** The pair writes sentences, not sense: names, grammar and tone are the novels', and no
thread is kept from one sentence to the next. It knows no facts, follows no instructions and has no
chat template. Positions past {context} were never trained. What it says carries the manners and
prejudices of its source.
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="the file Rdata.rdb")
    parser.add_argument("--work", type=Path, required=True, help="where the checkpoints lie")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent)
    asked = parser.parse_args()
    vocabulary = asked.work / "tokenizer.json"
    texts = Texts.of(novels(asked.corpus), vocabulary)
    trainings = {name: Training(recipe, asked.work, name) for name, recipe in RECIPES.items()}
    for name, training in trainings.items():
        if training.step < training.recipe.steps:
            raise ValueError(f"{name} is at step {training.step} of {training.recipe.steps}")
        write(asked.to / name, training, vocabulary)
    models = {name: load(asked.to / name) for name in trainings}
    (asked.to / "README.md").write_text(card(texts, trainings, models), encoding="utf-8")


if __name__ == "__main__":
    main()
