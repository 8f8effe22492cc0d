"""What guessing brings: tokens a call of the target, how often guesses stand, and when it pays.

A *round* is `drafts` guesses of the draft and one call of the target that checks them. In the
formulas alpha is how often a guess stands that is reached, the same at every position and
independent of the others; in real text neither is quite true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.ledgers.latency import exact_ratio
from lab.ledgers.sizes import Number
from lab.ledgers.table import Shown, Table
from lab.record import Record, Run
from lab.request import Time
from lab.speculation.acceptance import Check, quotient
from lab.trace import Trace

# One guess


def where_mass_goes(check: Check, tokens: Sequence[str] = ()) -> Table:
    """A row for each token: how often it is guessed and stands, falls, comes instead of a guess
    that fell, and is delivered in the end.

    `tokens` are their names, "1", "2", ... where there are none. ValueError for a wrong number.
    """
    names = tokens or [str(place) for place in range(1, len(check.draft) + 1)]
    if len(names) != len(check.draft):
        raise ValueError(f"there are {len(check.draft)} tokens, and {len(names)} names for them")
    residual = check.residual
    rows = zip(
        *(names, check.draft, check.target, check.accept, check.accepted_mass),
        *(check.rejected_mass, residual or [None] * len(names), check.refill, check.output),
        strict=True,
    )
    sums = (check.accepted, check.rejected, sum(residual) if residual else None)
    total = ("all", 1, 1, None, *sums, sum(check.refill), sum(check.output))
    columns = ("token", "draft", "target", "accept", "stands", "falls", "residual", "instead")
    return Table(
        (*columns, "delivered"),
        (*rows, total),
        "what becomes of one guess",
        ("instead = all that falls · residual; delivered = stands + instead",),
    )


# A run


class Position(NamedTuple):
    """The guesses at one place of a round."""

    reached: int
    """How many there were for which all guesses before them stood."""
    stood: int

    @property
    def rate(self) -> Time | None:
        """How often a guess that is reached stands; None where none was."""
        return exact_ratio(self.stood, self.reached) if self.reached else None


@dataclass(frozen=True, slots=True, repr=False)
class Acceptance(Shown):
    """What became of the guesses of a run."""

    checks: int
    """Calls of the target that checked at least one guess of a request, counted by request."""
    tokens: int
    """What these calls brought: guesses that stood, and one more each."""
    drafted: int
    unjudged: int
    """Guesses behind the end of an answer that was over before its limit: whether they would have
    stood is in no trace."""
    positions: tuple[Position, ...]
    """By place in the round, from the first guess on."""
    plain: int
    """Decodes of one token beside them, where there was nothing to guess or no room for it."""

    @property
    def accepted(self) -> int:
        """Guesses that stood and were delivered."""
        return sum(position.stood for position in self.positions)

    @property
    def thrown_away(self) -> int:
        """Positions that the target computed and nobody was given."""
        return self.drafted - self.accepted

    @property
    def rate(self) -> Time | None:
        """How often a guess stood that was reached: an estimate of alpha."""
        reached = sum(position.reached for position in self.positions)
        return exact_ratio(self.accepted, reached) if reached else None

    @property
    def tokens_per_call(self) -> Time | None:
        """Tokens over calls, of those that checked guesses."""
        return exact_ratio(self.tokens, self.checks) if self.checks else None

    def table(self) -> Table:
        """A row for each place in the round."""
        rows = tuple(
            (place, position.reached, position.stood, position.rate)
            for place, position in enumerate(self.positions, 1)
        )
        reached = sum(position.reached for position in self.positions)
        fell, behind = reached - self.accepted, self.drafted - reached
        told = (
            f"{self.checks} checks brought {self.tokens} tokens; of {self.drafted} guesses "
            f"{self.accepted} stood, {fell} fell, and {behind} behind them were thrown away",
        )
        return Table(
            ("guess", "reached", "stood", "rate"), rows, "guesses by their place in a round", told
        )


def acceptance(trace: Trace) -> Acceptance:
    """Guesses that were made, reached and accepted in a trace, by their place in the round.

    Three guesses of which the first two stand: the third is reached too and falls, and the check
    brings 3 tokens. Raises ValueError for a trace without steps.
    """
    if trace.starts is None:
        raise ValueError("guesses are checked in steps, and this trace has only deliveries")
    rounds = [r for record in trace.requests for r in _rounds(record)]
    longest = max((r.drafts for r in rounds), default=0)
    return Acceptance(
        checks=len(rounds),
        tokens=sum(1 + r.stood for r in rounds),
        drafted=sum(r.drafts for r in rounds),
        unjudged=sum(r.drafts - r.stood for r in rounds if r.ended),
        positions=tuple(
            Position(sum(place < r.reached for r in rounds), sum(place < r.stood for r in rounds))
            for place in range(longest)
        ),
        plain=sum(
            run.count
            for record in trace.requests
            for run in record.runs
            if run.kind == "decode" and not run.drafts
        ),
    )


def origins(trace: Trace, first: int) -> dict[str, int]:
    """Where the first `first` tokens of all answers come from.

    "no check" counts those of a prefill or of a step without guesses, "guess 1" guesses that stood
    at the first place of a round, "instead of guess 1" what came where one fell, and so on, and
    "bonus" the tokens behind rounds in which all stood. In a round that ends an answer before its
    limit the last token counts as "end": whether it was guessed is in no trace.

    Three guesses, of which 2 stand: one of "guess 1", "guess 2" and "instead of guess 3" each.
    """
    found: Counter[str] = Counter()
    for record in trace.requests:
        came: list[str] = []
        for run in record.runs:
            came += _origins(run, ended=_stopped(record) and run is record.runs[-1])
        found.update(came[:first])
    return dict(sorted(found.items()))


def _origins(run: Run, ended: bool) -> list[str]:
    if not run.drafts:
        return ["no check"] * (run.count * run.delivered)
    if not run.delivered:
        return []
    stood = run.delivered - 1
    last = "bonus" if stood == run.drafts else f"instead of guess {run.delivered}"
    return [*(f"guess {place}" for place in range(1, stood + 1)), "end" if ended else last]


def _stopped(record: Record) -> bool:
    """Whether the answer was over before its limit."""
    return record.status == "finished" and record.output_tokens < record.max_tokens


class _Round(NamedTuple):
    drafts: int
    stood: int
    ended: bool
    """Whether the answer was over with it, and before its limit."""

    @property
    def reached(self) -> int:
        return self.stood if self.ended else min(self.stood + 1, self.drafts)


def _rounds(record: Record) -> Iterator[_Round]:
    """The checks of a request that brought something."""
    for run in record.runs:
        if run.drafts and run.delivered:
            ended = _stopped(record) and run is record.runs[-1]
            yield _Round(run.drafts, run.delivered - 1, ended)


# The formulas


def tokens_per_call(alpha: Number, drafts: int) -> Number:
    """Tokens that a round brings on average: 1 + alpha + ... + alpha^drafts.

        (1 - alpha^(drafts + 1)) / (1 - alpha)        or drafts + 1 where alpha = 1

    4/5 and 5 guesses: 3.69. Guess k is delivered if it and all before it stand, which is alpha^k;
    the last term is the bonus token. ValueError for an alpha outside 0..1 or negative drafts.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    if drafts < 0:
        raise ValueError(f"drafts must be at least 0, got {drafts}")
    return sum(alpha**place for place in range(drafts + 1))


def speed_up(alpha: Number, drafts: int, cost: Number, verification: Number = 1) -> Number:
    """How many times faster rounds are than plain decoding.

        tokens per call / (drafts x cost + verification)

    `cost` is the time of one step of the draft, `verification` that of the call which checks the
    guesses, both over the time of a plain step of the target. Below 1 guessing loses.

    alpha 4/5, 4 guesses, cost 1/10: 3.3616 / 1.4 = 2.40. ValueError as `tokens_per_call`, for a
    negative cost, and for a verification that is not above 0.
    """
    if cost < 0 or not verification > 0:
        raise ValueError(
            f"a cost must be at least 0 and a verification above 0, got {cost} and {verification}"
        )
    return quotient(tokens_per_call(alpha, drafts), drafts * cost + verification)


def work(alpha: Number, drafts: int, cost: Number = 0) -> Number:
    """Operations of rounds over those of plain decoding, for the same tokens.

        (drafts x cost + drafts + 1) / tokens per call

    `cost` is here the operations of a draft step over those of a target step. alpha 4/5, 5
    guesses, cost 0: 6 / 3.69 = 1.63. It is never below 1: what is thrown away was computed.
    """
    return quotient(drafts * cost + drafts + 1, tokens_per_call(alpha, drafts))


def best_drafts(
    alpha: Number,
    cost: Number,
    most: int = 32,
    verification: Callable[[int], Number] = lambda drafts: 1,
) -> int:
    """The number of guesses with the highest `speed_up`, up to `most`; of equals the least; 0
    where none is above 1, which is plain decoding.

    alpha 4/5 and cost 1/10: 6, which are 2.47 times as fast as none. `verification` gives the time
    of a check for a number of guesses. ValueError as `speed_up`, and for a negative `most`.
    """
    if most < 0:
        raise ValueError(f"most must be at least 0, got {most}")
    return max(
        range(most + 1),
        key=lambda drafts: (
            speed_up(alpha, drafts, cost, verification(drafts)) if drafts else 1,
            -drafts,
        ),
    )


def break_even(drafts: int, cost: Number, verification: Number = 1) -> float | None:
    """The alpha at which rounds are exactly as fast as plain decoding: below it they lose.

    One guess at cost 1/10: 0.1. None where even alpha = 1 does not pay, 0 where no alpha loses.
    ValueError for less than 1 guess, and as `speed_up`.
    """
    if drafts < 1:
        raise ValueError(f"drafts must be at least 1, got {drafts}")
    if speed_up(1, drafts, cost, verification) < 1:
        return None
    if speed_up(0, drafts, cost, verification) >= 1:
        return 0.0
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        pays = speed_up(middle, drafts, cost, verification) >= 1
        low, high = (low, middle) if pays else (middle, high)
    return high
