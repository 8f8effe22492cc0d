"""What the time to a first token tells a stranger, where prefixes are shared by all tenants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.executors.cost_model import CostModel
from lab.ledgers.latency import latency
from lab.ledgers.table import Shown, Table
from lab.policy import Continuous
from lab.request import Time
from lab.run import simulate
from lab.workload import Workload

VICTIM, STRANGER = "victim", "stranger"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Search(Shown):
    """What a stranger learned of a text in the cache by asking for guesses of it."""

    blocks: int
    found: tuple[int, ...]
    """The candidate of each block that the stranger holds for right, as far as it came."""
    probes: int
    """Guesses that were asked, and for each block one that is surely wrong, to compare with."""
    miss: Time
    """Time to the first token of the surely wrong guess of the first block."""
    hit: Time | None
    """That of the right guess of the first block; None where no guess was quicker."""
    unit: str

    def table(self) -> Table:
        columns = ("blocks", "learned", "probes", "TTFT of a miss", "TTFT of a hit")
        row = (self.blocks, len(self.found), self.probes, self.miss, self.hit)
        return Table(columns, (row,), f"times in {self.unit}")


def search(
    secret: Sequence[int],
    candidates: int,
    cost: CostModel,
    *,
    block_tokens: int = 16,
    shared: bool = True,
) -> Search:
    """A stranger guesses a text of which each block is one of so many `candidates`.

    `secret` names the right candidate of each block, counted from 0. The victim has asked once. For
    each block the stranger asks for what it knows and a wrong block, and then for each candidate
    until one has its first token sooner. It asks for none twice: its own probe would be the hit.
    Unless prefixes are `shared`, keys hold the tenant, and it stops at the first block.

    With candidates 0, 1, 2 and the secret (2, 0): 3 + 1 guesses, 2 to compare with, 6 probes.
    ValueError for an empty secret, or one with a candidate that does not exist.
    """
    if not secret or not all(0 <= right < candidates for right in secret):
        raise ValueError(
            f"each block of a secret must be one of {candidates} candidates from 0 on, and there "
            f"must be one: got {list(secret)}"
        )
    found: list[int] = []
    probes = 0
    miss, hit = None, None
    while len(found) < len(secret):
        times = _probed(secret, found, candidates, cost, block_tokens, shared)
        reference, *guesses = times
        sooner = next((n for n, time in enumerate(guesses) if _is_sooner(time, reference)), None)
        probes += 1 + (candidates if sooner is None else sooner + 1)
        if miss is None:
            miss, hit = reference, None if sooner is None else guesses[sooner]
        if sooner is None:
            break
        found.append(sooner)
    assert miss is not None
    return Search(
        blocks=len(secret),
        found=tuple(found),
        probes=probes,
        miss=miss,
        hit=hit,
        unit=cost.unit,
    )


def _is_sooner(time: Time, reference: Time) -> bool:
    """By more than a millionth: floats of equal durations differ in their last digits."""
    return 1_000_000 * (reference - time) > reference


def _probed(
    secret: Sequence[int],
    known: Sequence[int],
    candidates: int,
    cost: CostModel,
    block_tokens: int,
    shared: bool,
) -> list[Time]:
    """Times to the first token of a surely wrong guess of the next block, and of each candidate.
    Each comes when all before it are served."""
    guesses = [[*known, guess] for guess in (candidates, *range(candidates))]
    asked = {VICTIM: _prompt(secret, candidates, block_tokens)}
    asked |= {f"probe {n}": _prompt(one, candidates, block_tokens) for n, one in enumerate(guesses)}
    blocks = sum(-(-len(prompt) // block_tokens) for prompt in asked.values())
    policy = Continuous(seats=1, blocks=blocks, block_tokens=block_tokens, prefix_cache=True)
    rows = {
        who: {
            "arrival": 0,
            "prompt": prompt,
            "output": 1,
            "tenant": "" if shared else VICTIM if who == VICTIM else STRANGER,
        }
        for who, prompt in asked.items()
    }
    run = simulate(Workload.given(rows), policy, cost)
    spans = [latency(run)[f"probe {n}"].spans for n in range(len(guesses))]
    return [row["prefill"] for row in spans if row is not None]


def _prompt(chosen: Sequence[int], candidates: int, block_tokens: int) -> tuple[int, ...]:
    """Ids of the chosen candidate of each block, and one token behind them to be computed."""
    ids: list[int] = []
    for place, which in enumerate(chosen):
        start = (place * (candidates + 1) + which) * block_tokens
        ids += range(start, start + block_tokens)
    return (*ids, (len(chosen) + 1) * (candidates + 2) * block_tokens)
