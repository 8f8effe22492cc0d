"""How a next token is chosen: settings as a frozen value, and the random numbers behind them.

A draw is keyed by seed, position and purpose. It does not come out of a stream that requests share,
so what a request draws does not depend on who is computed with it, on chunks, or on a preemption.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

Purpose = Literal["sample", "draft", "accept", "residual"]
"""What a random number is for; each has draws of its own at every position."""

LogprobsOf = Literal["logits", "sampled"]
"""Which distribution log-probabilities are of: `logits`, the model's own, before any setting; or
`sampled`, the one from which the token was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of one request, applied in this order: penalties, temperature, top-k, top-p.

    temperature: 0 takes the likeliest token, of equals the one with the lowest id; 1 leaves the
        distribution as it is.
    top_k: only the k likeliest tokens, of equals those with the lower ids; None: all.
    top_p: the smallest set of likeliest tokens whose mass reaches p, at least one; 1: all.
    repetition_penalty: logits of tokens that stand in prompt or answer are divided by it where they
        are above 0 and multiplied where below; 1: none.
    presence_penalty, frequency_penalty: taken from the logits of tokens in the answer, once, and
        once for each time they stand there.
    seed: of the draws; two requests with one seed, one prompt and one model get one answer.
    logprobs: how many likeliest tokens to report with each token; None: no log-probabilities.
    logprobs_of: the distribution that they are of.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    logprobs: int | None = None
    logprobs_of: LogprobsOf = "sampled"

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be above 0, got {self.repetition_penalty}")
        if self.logprobs is not None and self.logprobs < 0:
            raise ValueError(f"logprobs must be at least 0, got {self.logprobs}")
        if self.logprobs_of not in ("logits", "sampled"):
            raise ValueError(f"logprobs_of must be logits or sampled, got {self.logprobs_of!r}")

    @property
    def is_greedy(self) -> bool:
        """Whether nothing is drawn."""
        return self.temperature == 0

    @property
    def has_penalties(self) -> bool:
        """Whether logits depend on what was said before."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )

    @property
    def is_cut(self) -> bool:
        """Whether unlikely tokens are never drawn."""
        return (self.top_k is not None or self.top_p < 1) and not self.is_greedy

    def of_answer(self, number: int) -> Sampling:
        """The settings of one of several answers, from 1 on: each but the first has draws of its
        own."""
        if number == 1:
            return self
        digest = hashlib.blake2b(f"{self.seed}#{number}".encode(), digest_size=6).digest()
        return replace(self, seed=int.from_bytes(digest, "little"))


GREEDY = Sampling(temperature=0)
"""The likeliest token, always."""


def uniform(seed: int, position: int, purpose: Purpose = "sample") -> float:
    """A number from 0 up to, not including, 1: the same on every machine for the same key.

    `position` is that of the token to be chosen, counted from the start of the prompt.
    """
    key = f"{seed}/{position}/{purpose}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
