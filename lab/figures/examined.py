"""A rule of the gallery on the bench: what it delivers beside what the target would say, place by
place, and which of three tests notices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.figures.acceptance import COLOURS
from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.table import Table
from lab.ledgers.words import counted, listed
from lab.speculation.acceptance import Tokens
from lab.speculation.exactness import ALPHA, Number
from lab.speculation.gallery import Examination


def examined(name: str, found: Examination, tokens: Sequence[str], title: str = "") -> Scene:
    """Stacked bars, as long as probabilities: for each place in the answer what the target says
    (role `kept`) and what the rule called `name` delivers (`decode`), one part a token. Answers
    that were over before a place leave its bars short. The caption holds the verdicts, and the
    table of steps the bars' numbers, too.
    """
    bars = list(_bars(found, len(tokens)))
    caught = found.caught_by
    return Scene(
        title=title or "Does the target's distribution come out, and which test notices?",
        finding=f"A rule that {name}: {f'caught by {listed(caught)}' if caught else 'not caught'}.",
        conditions=f"{found.draws:,} answers, {found.wanted - 1} guesses a round, tokens "
        f"{listed(tokens)} from left to right",
        tag="derived",
        unit="step",
        lanes=tuple(lane for lane, _, _ in bars),
        marks=tuple(mark for bar in bars for mark in _stacked(*bar, tokens)),
        frames=(*_places(bars, tokens), Frame(1, "tests", _verdicts(found))),
        words=f"{_in_table(bars, tokens)!r}\n\n{_verdicts(found)}",
    )


_Bar = tuple[str, str, list[Number]]


def _bars(found: Examination, size: int) -> Iterator[_Bar]:
    """Lane, role and the probability of each token, for the target and the rule by turns."""
    for place in range(max(map(len, found.expected))):
        yield f"target, token {place + 1}", "kept", _at(place, found.expected, size)
        yield f"rule, token {place + 1}", "decode", _at(place, found.shown, size)


def _at(place: int, texts: Mapping[Tokens, Number], size: int) -> list[Number]:
    probs: list[Number] = [0] * size
    for text, prob in texts.items():
        if place < len(text):
            probs[text[place]] += prob
    return probs


def _stacked(
    lane: str, role: str, probs: Sequence[Number], tokens: Sequence[str]
) -> Iterator[Mark]:
    start: Number = 0
    for token, who, prob in zip(tokens, COLOURS, probs, strict=False):
        if prob:
            label = next(_named([token], [prob]))
            yield Mark(f"{lane}.{token}", role, lane, start, start + prob, label, who)
        start += prob


def _verdicts(found: Examination) -> str:
    statistic, degrees, p_value = found.chi_square
    if statistic == float("inf"):
        seen = "something was seen that cannot be"
    else:
        seen = f"chi-square {statistic:.0f} with {degrees} degrees"
        seen += f", p below {ALPHA:g}" if p_value < ALPHA else f", p {p_value:.2g}"
    verdict = {True: "caught", False: "passes"}
    caught = found.caught_by
    return (
        f"distribution: {seen}, {verdict['distribution' in caught]}; "
        f"tokens per call: with the target as its own draft the poorest call brings "
        f"{found.fewest} of {found.wanted}, {verdict['tokens per call' in caught]}; "
        f"end and usage: {counted(found.behind_stop, 'token')} counted behind a stop, "
        f"{verdict['end and usage' in caught]}"
    )


def _places(bars: Sequence[_Bar], tokens: Sequence[str]) -> Iterator[Frame]:
    """What the bars of each place say, for who cannot see them; the verdicts come at once."""
    for place in range(0, len(bars), 2):
        told = (
            f"{lane.split(',')[0]} {', '.join(_named(tokens, probs))}"
            for lane, _, probs in bars[place : place + 2]
        )
        yield Frame(1, f"token {place // 2 + 1}", "; ".join(told))


def _named(tokens: Sequence[str], probs: Sequence[Number]) -> Iterator[str]:
    for token, prob in zip(tokens, probs, strict=True):
        yield f"{token} {float(prob):.2f}"


def _in_table(bars: Sequence[_Bar], tokens: Sequence[str]) -> Table:
    rows = tuple((lane, *(f"{float(prob):.4f}" for prob in probs)) for lane, _, probs in bars)
    return Table(("place", *tokens), rows)
