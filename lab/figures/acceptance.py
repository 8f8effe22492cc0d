"""The acceptance board: one guess of a draft, before anybody knows which it is. How often each
token is guessed and stands, falls, or comes in place of one that fell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.sizes import Number
from lab.ledgers.speculation import where_mass_goes
from lab.ledgers.table import Table, show
from lab.ledgers.words import listed
from lab.speculation.acceptance import Check

LANES = ("draft", "target", "falls", "delivered")
COLOURS = "ABCDEF"
GAP = 0.05
"""Room between two tokens, in probability."""


def acceptance_board(
    check: Check, tokens: Sequence[str], title: str = "", finding: str = "", *, again: bool = False
) -> Scene:
    """A column for each token and a frame when it is reached; bars are as long as probabilities.

    `draft` and `target` say how often the two would say it, `falls` what of its guesses is
    rejected. `delivered` is the part that stands and, framed, what comes instead of guesses that
    fell: drawn from the residual, or, with `again`, from the whole target, which is wrong. The
    bars of the first token have the ids "draft" and "target". ValueError for more than 6 tokens
    or another number of names.
    """
    if len(tokens) > len(COLOURS):
        raise ValueError(f"a board has room for {len(COLOURS)} tokens, got {len(tokens)}")
    table = where_mass_goes(check, tokens)
    columns = list(_columns(check, tokens, again))
    frames = [Frame(column.start, column.token, _told(column)) for column in columns]
    end = max(column.stop for column in columns)
    frames.append(Frame(end, "all", _sum(check, columns, again)))
    said = (f"draft {_row(check.draft)}", f"target {_row(check.target)}")
    return Scene(
        title=title or "Which tokens are delivered, and how often?",
        finding=finding or _found(check, columns, again),
        conditions=f"1 guess; {'; '.join(said)}, for {listed(tokens)}",
        tag="derived",
        unit="step",
        lanes=LANES,
        marks=tuple(mark for column in columns for mark in _marks(column)),
        frames=tuple(frames),
        words="\n".join([repr(_in_table(table, columns, again)), "", *_captions(frames)]),
    )


class _Column(NamedTuple):
    token: str
    who: str
    start: Number
    draft: Number
    target: Number
    instead: Number

    @property
    def stands(self) -> Number:
        return min(self.draft, self.target)

    @property
    def falls(self) -> Number:
        return self.draft - self.stands

    @property
    def delivered(self) -> Number:
        return self.stands + self.instead

    @property
    def stop(self) -> Number:
        return self.start + max(self.draft, self.target, self.delivered) + GAP


def _columns(check: Check, tokens: Sequence[str], again: bool) -> Iterator[_Column]:
    instead = [check.rejected * part for part in check.target] if again else check.refill
    start: Number = 0
    for place, token in enumerate(tokens):
        draft, target = check.draft[place], check.target[place]
        column = _Column(token, COLOURS[place], start, draft, target, instead[place])
        yield column
        start = column.stop


def _marks(column: _Column) -> Iterator[Mark]:
    token, who, start = column.token, column.who, column.start
    first = who == COLOURS[0]
    parts = {
        "draft": ("decode", "draft", start, column.draft),
        "target": ("kept", "target", start, column.target),
        "falls": ("rejected", "falls", start + column.stands, column.falls),
        "stands": ("decode", "delivered", start, column.stands),
        "instead": ("kept", "delivered", start + column.stands, column.instead),
    }
    for name, (role, lane, at, mass) in parts.items():
        if mass or name in LANES[:2]:
            id = name if first and name in LANES[:2] else f"{name}.{token}"
            yield Mark(id, role, lane, at, at + mass, show(mass), who)


def _told(column: _Column) -> str:
    token, _, _, draft, target, _ = column
    said = f"{token}: guessed with {show(draft)}, and the target says {show(target)}"
    lacking = show(target - draft)
    if draft > target:
        stands = f"{show(target)} of it stands" if target else "it never stands"
        return f"{said}; {stands}, and {show(column.falls)} falls"
    if draft == target:
        return f"{said}; it always stands, and nothing is lacking" if draft else f"{said}"
    stands = "it always stands" if draft else "it cannot be guessed"
    return f"{said}; {stands}, and {lacking} is lacking"


def _sum(check: Check, columns: Sequence[_Column], again: bool) -> str:
    delivered = f"delivered: {_named(columns)}"
    if not check.rejected:
        return f"nothing falls and nothing is lacking; {delivered}, the target's own"
    falls = f"{show(check.rejected)} falls in all"
    if again:
        return f"{falls} and is drawn again from the whole target; {delivered}"
    where = [column.token for column in columns if column.instead]
    drawn = f"always {where[0]}" if len(where) == 1 else listed(where)
    return (
        f"{falls}, and as much is lacking in all; what comes instead is drawn from what is "
        f"lacking: {drawn}; {delivered}, the target's own"
    )


def _found(check: Check, columns: Sequence[_Column], again: bool) -> str:
    if again and check.rejected:
        worst = max(columns, key=lambda column: abs(float(column.delivered - column.target)))
        if worst.delivered != worst.target:
            return (
                f"{worst.token} is delivered with {show(worst.delivered)}, and the target says "
                f"{show(worst.target)}."
            )
    stands = _in_words(check.accepted, "nothing", "everything").capitalize()
    falls = _in_words(check.rejected, "nothing", "everything")
    came = (f"{c.token} {_in_words(c.delivered, 'never', 'always')}" for c in columns)
    return f"{stands} stands, {falls} falls; delivered: {'; '.join(came)}."


def _in_words(prob: Number, none: str, all: str) -> str:
    return none if prob == 0 else all if prob == 1 else show(prob)


def _named(columns: Sequence[_Column]) -> str:
    return listed(f"{column.token} {show(column.delivered)}" for column in columns)


def _row(probs: Sequence[Number]) -> str:
    return ", ".join(map(show, probs))


def _in_table(table: Table, columns: Sequence[_Column], again: bool) -> Table:
    """The board in rows; drawing again changes its last two columns."""
    if not again:
        return Table(table.columns, table.rows)
    rows = [
        (*row[:-3], column.target, column.instead, column.delivered)
        for row, column in zip(table.rows, columns, strict=False)
    ]
    sums = (1, sum(column.instead for column in columns), sum(c.delivered for c in columns))
    names = (*table.columns[:-3], "drawn again from", *table.columns[-2:])
    return Table(names, (*rows, (*table.rows[-1][:-3], *sums)))


def _captions(frames: Sequence[Frame]) -> Iterator[str]:
    widest = max(len(frame.label) for frame in frames)
    for frame in frames:
        yield f"{frame.label.rjust(widest)}  {frame.caption}"
