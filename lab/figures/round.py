"""One round of guesses on average: how long it takes, and how long plain decoding would take for
the tokens that it brings."""

from __future__ import annotations

from collections.abc import Iterator

from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.sizes import Number
from lab.ledgers.speculation import speed_up, tokens_per_call
from lab.ledgers.table import Table, show
from lab.ledgers.words import listed

TAKES, BRINGS = "takes", "brings"


def round_board(
    alpha: Number,
    drafts: int,
    cost: Number,
    verification: Number = 1,
    title: str = "",
    *,
    conditions: str = "",
) -> Scene:
    """Two bars on one axis, in plain steps of the target.

    `takes` is what a round takes: a draft step for each guess (role `partly`), then the check.
    `brings` is what it brings on average: guess k with alpha^k, then the target's own token (role
    `kept`), which always comes; a token is worth one plain step. If the second bar is longer,
    guessing saves. ValueError as `tokens_per_call` and `speed_up`.
    """
    gain, tokens = speed_up(alpha, drafts, cost, verification), tokens_per_call(alpha, drafts)
    takes = drafts * cost + verification
    rows = [(f"guess {place}", cost, alpha**place) for place in range(1, drafts + 1)]
    rows += [("check", verification, 1), ("all", takes, tokens)]
    shares = [tuple(map(_short, row[1:])) for row in rows]
    table = Table(
        ("part", "takes, plain steps", "brings, tokens"),
        tuple((name, *share) for (name, *_), share in zip(rows, shares, strict=True)),
    )
    frames = tuple(_frames(alpha, drafts, cost, verification))
    told = [f"{frame.label.rjust(7)}  {frame.caption}" for frame in frames]
    return Scene(
        title=title or "Does a round save more than it takes?",
        finding=f"{_guesses(drafts)} {_short(tokens)} {'token' if tokens == 1 else 'tokens'} in "
        f"{_short(takes)} plain {'step' if takes == 1 else 'steps'}: {_verdict(gain)}.",
        conditions=conditions
        or f"a guess stands with {show(alpha)}; a draft step takes {show(cost)} plain steps",
        tag="derived",
        unit="step",
        lanes=(TAKES, BRINGS),
        marks=tuple(_marks(alpha, drafts, cost, verification)),
        frames=frames,
        words="\n".join([repr(table), "", *told]),
    )


def _marks(alpha: Number, drafts: int, cost: Number, verification: Number) -> Iterator[Mark]:
    made: Number = 0
    brought: Number = 0
    for place in range(1, drafts + 1):
        share = alpha**place
        yield Mark(f"draft.{place}", "partly", TAKES, made, made + cost, str(place), "C")
        yield Mark(f"guess.{place}", "decode", BRINGS, brought, brought + share, _short(share), "C")
        made, brought = made + cost, brought + share
    yield Mark("check", "decode", TAKES, made, made + verification, "check", "A")
    yield Mark("own", "kept", BRINGS, brought, brought + 1, "own", "A")


def _frames(alpha: Number, drafts: int, cost: Number, verification: Number) -> Iterator[Frame]:
    at = max(drafts * cost, tokens_per_call(alpha, drafts) - 1)
    if at:
        shares = listed(_short(alpha**place) for place in range(1, drafts + 1))
        yield Frame(
            0,
            "guesses",
            f"{'the draft guesses once' if drafts == 1 else f'the draft guesses {drafts} times'}, "
            f"{_short(cost)} of a plain step each; a guess is delivered if it and all before it "
            f"stand: in {shares} of all rounds",
        )
    yield Frame(
        at,
        "check",
        f"the target checks in {_short(verification)} of a plain step and adds one token of its "
        "own, whatever stands",
    )


def _short(number: Number) -> str:
    """Three digits are enough to compare lengths."""
    return f"{float(number):.3g}"


def _guesses(drafts: int) -> str:
    if not drafts:
        return "Without guesses a step brings"
    return f"{'1 guess' if drafts == 1 else f'{drafts} guesses'} and a check bring"


def _verdict(gain: Number) -> str:
    if _short(gain) == "1":
        return "as fast as plain decoding"
    return f"{_short(gain)} times as fast{', so guessing loses' if gain < 1 else ''}"
