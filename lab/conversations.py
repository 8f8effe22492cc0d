"""Conversations, drawn with a seed: every prompt repeats all that was said before it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from lab.draws import MICROS_PER_S, Lengths, Poisson, draw_length
from lab.request import Request
from lab.trace_files import HASHED_BLOCK_TOKENS, HashedTokens
from lab.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """How people talk with one assistant.

    `per_s` conversations begin in a second. The first prompt has the system prompt and `first`
    tokens; with chance `goes_on` another prompt follows each, `pause_s` seconds later and `growth`
    tokens longer: the last answer and a new question. The system prompt fills one block.
    """

    per_s: float
    first: Lengths
    growth: Lengths
    pause_s: Lengths
    goes_on: float
    output: Lengths

    def __post_init__(self) -> None:
        if not 0 <= self.goes_on < 1:
            raise ValueError(f"goes_on must be at least 0 and below 1, got {self.goes_on}")

    def draw(self, count: int, *, seed: int, name: str = "") -> Workload:
        """The first `count` prompts in order of arrival, in seconds; the same on every machine.

        Prompts are known by one hash for each 512 tokens, as in the Mooncake traces. ValueError if
        count < 1.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1 request, got {count}")
        prompts = self._prompts(random.Random(f"conversations {seed}"))
        requests = []
        drawn = zip(range(count), prompts, strict=False)
        for number, (micros, conversation, tokens, output) in drawn:
            requests.append(
                Request(
                    id=f"r{number}",
                    prompt=_hashed(conversation, number, tokens),
                    max_tokens=output,
                    arrival=micros / MICROS_PER_S,
                )
            )
        return Workload(tuple(requests), unit="s", name=name, seed=seed)

    def _prompts(self, dice: random.Random) -> Iterator[tuple[int, int, int, int]]:
        """Moment, conversation, prompt and output tokens of each prompt, in order of time."""
        later: list[tuple[int, int, int]] = []  # a heap of the prompts that follow others
        starts = Poisson(self.per_s).micros(random.Random(f"begin {dice.random()}"))
        for conversation, start in enumerate(starts):
            first = HASHED_BLOCK_TOKENS + draw_length(self.first, dice)
            heappush(later, (start, conversation, first))
            while later and later[0][0] <= start:
                micros, who, tokens = heappop(later)
                yield micros, who, tokens, draw_length(self.output, dice)
                if dice.random() < self.goes_on:
                    pause = MICROS_PER_S * draw_length(self.pause_s, dice)
                    heappush(later, (micros + pause, who, tokens + draw_length(self.growth, dice)))


def _hashed(conversation: int, number: int, tokens: int) -> HashedTokens:
    """The prompt of a conversation: block 0 is everybody's, the full ones behind it are the
    conversation's, and a block that is not full yet is the prompt's own."""
    full, rest = divmod(tokens, HASHED_BLOCK_TOKENS)
    own = range(conversation * _MOST_BLOCKS + 1, conversation * _MOST_BLOCKS + full)
    last = [-1 - number] if rest else []
    return HashedTokens((0, *own, *last), tokens)


_MOST_BLOCKS = 1 << 20
"""More blocks than any prompt has: ids of two conversations never meet."""
