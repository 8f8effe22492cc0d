"""Public request traces: from their file where it is at hand, else drawn in their shape."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lab.draws import Poisson, Quantiles
from lab.workload import Workload

FOLDER = "LAB_TRACES"
"""The environment variable that names the folder with trace files."""


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """What is known of a public trace: where it is found, and what its requests look like."""

    file: str
    source: str
    licence: str
    per_s: float
    """Mean arrivals a second."""
    prompt: Quantiles
    output: Quantiles


def _quantiles(*lengths: int) -> Quantiles:
    """Lengths at the least, 1 %, 10 %, 25 %, 50 %, 75 %, 90 %, 99 % and the most."""
    shares = (0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1)
    return Quantiles(tuple(zip(shares, lengths, strict=True)))


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
}


def public_trace(name: str, count: int, *, seed: int = 0) -> Workload:
    """The first `count` requests of a public trace, in seconds.

    The file is read where the environment variable LAB_TRACES names the folder that holds it.
    Without it the requests are drawn from the quantiles and the mean rate of the trace, with
    `seed`; the workload's name says which of the two it is. Drawn requests have no bursts and no
    link between the length of a prompt and of its answer.
    Raises ValueError for an unknown name, or a folder that does not hold the file.
    """
    if name not in PUBLIC:
        raise ValueError(f"name must be one of {', '.join(PUBLIC)}, got {name!r}")
    known = PUBLIC[name]
    folder = os.environ.get(FOLDER)
    if folder is None:
        return Workload.drawn(
            count,
            Poisson(known.per_s),
            prompt=known.prompt,
            output=known.output,
            seed=seed,
            name=f"drawn in the shape of {name}",
        )
    path = Path(folder) / known.file
    if not path.is_file():
        raise ValueError(f"{FOLDER} is {folder}, and no {known.file} is there: see {known.source}")
    return Workload.read(path, limit=count)
