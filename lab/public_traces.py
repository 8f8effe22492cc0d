"""Public request traces: from their file where it is at hand, else drawn in their shape."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lab.conversations import Conversations
from lab.draws import Poisson, Quantiles
from lab.workload import Workload

FOLDER = "LAB_TRACES"
"""The environment variable that names the folder with trace files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a plain count of all prompts of a file with block hashes says, in order of arrival."""

    requests: int
    prompt_tokens: int
    output_tokens: int
    hashes: int
    """Of blocks, the last one of a prompt too, which may not be full."""
    repeated: int
    """Of these, how many an earlier prompt had."""
    full_blocks: int
    found_blocks: int
    """Of these, how many a prompt finds that computes its last token in any case."""


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """What is known of a public trace: where it is found, and what its requests look like."""

    file: str
    """Its name; a copy may have a word in front of it, such as "mooncake_"."""
    source: str
    licence: str
    per_s: float
    """Mean arrivals a second."""
    prompt: Quantiles
    output: Quantiles
    conversations: Conversations | None = None
    """How its prompts go on from one another, where it says so."""
    counted: Counted | None = None

    def drawn(self, count: int, seed: int, name: str) -> Workload:
        """Requests of the same shape."""
        if self.conversations:
            return self.conversations.draw(count, seed=seed, name=name)
        return Workload.drawn(
            count,
            Poisson(self.per_s),
            prompt=self.prompt,
            output=self.output,
            seed=seed,
            name=name,
        )


def _quantiles(*lengths: int) -> Quantiles:
    """Lengths at the least, 1 %, 10 %, 25 %, 50 %, 75 %, 90 %, 99 % and the most."""
    shares = (0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1)
    return Quantiles(tuple(zip(shares, lengths, strict=True)))


_MOONCAKE_OUTPUT = (1, 3, 24, 156, 350, 472, 597, 1115, 2000)
PUBLIC = {
    "azure-conversation-2023": PublicTrace(
        file="AzureLLMInferenceTrace_conv.csv",
        source="github.com/Azure/AzurePublicDataset",
        licence="CC BY 4.0",
        per_s=5.53,
        # read from its 19,366 requests
        prompt=_quantiles(2, 29, 207, 396, 1020, 1189, 2734, 4142, 14050),
        output=_quantiles(7, 16, 54, 85, 129, 395, 424, 601, 1000),
    ),
    "mooncake-conversation": PublicTrace(
        file="conversation_trace.jsonl",
        source="github.com/kvcache-ai/Mooncake, FAST25-release/traces",
        licence="Apache 2.0",
        per_s=3.40,
        # read from its 12,031 requests
        prompt=_quantiles(891, 894, 964, 2306, 6909, 15366, 27367, 85399, 126195),
        output=_quantiles(*_MOONCAKE_OUTPUT),
        # A prompt goes on from an earlier one if it repeats all but the last of its blocks.
        conversations=Conversations(
            per_s=2.28,
            first=_quantiles(379, 382, 393, 824, 4752, 12544, 25041, 89355, 125683),
            growth=_quantiles(1, 1, 63, 260, 471, 831, 4598, 16968, 91918),
            pause_s=_quantiles(1, 12, 39, 66, 123, 267, 474, 1452, 3030),
            goes_on=0.329,
            output=_quantiles(*_MOONCAKE_OUTPUT),
        ),
        counted=Counted(
            requests=12_031,
            prompt_tokens=144_793_823,
            output_tokens=4_122_048,
            hashes=288_500,
            repeated=105_710,
            full_blocks=276_491,
            found_blocks=105_592,
        ),
    ),
}


def public_trace(name: str, count: int, *, seed: int = 0) -> Workload:
    """The first `count` requests of a public trace, in seconds.

    The file is read where the environment variable LAB_TRACES names the folder that holds it.
    Without it the requests are drawn from the quantiles and the mean rate of the trace, with
    `seed`; the workload's name says which of the two it is. Drawn requests have no bursts and no
    link between the length of a prompt and of its answer. Those of "mooncake-conversation" share
    beginnings as conversations do: each goes on with the same chance, however long it is.
    Raises ValueError for an unknown name, or a folder that does not hold the file.
    """
    if name not in PUBLIC:
        raise ValueError(f"name must be one of {', '.join(PUBLIC)}, got {name!r}")
    known = PUBLIC[name]
    folder = os.environ.get(FOLDER)
    if folder is None:
        return known.drawn(count, seed, f"drawn in the shape of {name}")
    path = next(Path(folder).glob(f"*{known.file}"), None)
    if path is None:
        raise ValueError(f"{FOLDER} is {folder}, and no {known.file} is there: see {known.source}")
    return Workload.read(path, limit=count)
