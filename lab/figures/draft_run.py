"""The draft run: one answer, call by call of the target. Which guesses stand, which one falls, what
is thrown away behind it, and how the cache is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lab.figures.scene import Frame, Mark, Scene
from lab.figures.words import conditions
from lab.ledgers.words import counted, listed
from lab.record import Record, Run
from lab.trace import Trace

MOST_CALLS = 40
"""Nobody follows more of them guess by guess; `lab.acceptance` counts them all."""


def draft_run(
    trace: Trace,
    request_id: str,
    title: str = "",
    finding: str = "",
    *,
    said: Callable[[int], str] | None = None,
) -> Scene:
    """One request of a trace, a frame for each call of the target that brings it tokens.

    Lanes from top to bottom: what is `read`, then a lane for each guess, from left to right in the
    text. A guess that stands has the role `decode`, one that falls is `rejected`, those behind it
    are `skipped`; a narrow box shows of the last two the sign alone, and the conditions explain it.
    Then the target's own `next` token, the positions that are in the `cache` when the call is over,
    and where the trace has a pool the `blocks` that hold them.

    `said` gives the text of a token's id; without it, or where ids are not known, tokens are
    numbered: t1 is the first of the answer. What a rejected guess said is in no trace.

    ValueError for a trace without steps, for a request that it does not check guesses for, and for
    more than 40 calls.
    """
    if trace.starts is None:
        raise ValueError("guesses are checked in steps, and this trace has only deliveries")
    record = trace[request_id]
    calls = list(_calls(record, trace.settings.get("block_tokens"), said))
    if len(calls) > MOST_CALLS:
        raise ValueError(
            f"a draft run shows at most {MOST_CALLS} calls, and request {request_id!r} has "
            f"{len(calls)}"
        )
    longest = max((call.drafts for call in calls), default=0)
    if not longest:
        raise ValueError(f"no guesses were checked for request {request_id!r}")
    has_pool = trace.settings.get("blocks") is not None
    lanes = ["read", *(f"guess {place}" for place in range(1, longest + 1)), "next", "cache"]
    marks = [mark for call in calls for mark in _marks(call, request_id, has_pool)]
    thrown = sum(call.drafts - call.stood for call in calls)
    return Scene(
        title=title or "Which guesses stand, and what becomes of the others?",
        finding=finding
        or f"{counted(len(calls), 'call')} of the target bring {record.output_tokens} tokens; "
        f"{'1 guess falls or is' if thrown == 1 else f'{thrown} guesses fall or are'} thrown away.",
        conditions=f"request {request_id} of: {conditions(trace)}; at most {longest} guesses; "
        "× falls, – is thrown away",
        tag=trace.tag,
        unit="step",
        lanes=(*lanes, "blocks") if has_pool else tuple(lanes),
        marks=tuple(marks),
        frames=tuple(
            Frame(call.number, str(call.number + 1), _told(call, has_pool)) for call in calls
        ),
    )


class _Call(NamedTuple):
    number: int
    prefill: int | None
    """Tokens that it computed of the prompt, and of what was said before; 0 where another answer's
    prefill serves. None for a decode."""
    read: str
    """The last token that was said before; nothing before the first."""
    drafts: int
    tokens: tuple[str, ...]
    """What it brought: the guesses that stood, and the token behind them."""
    ended: bool
    """Whether the answer was over with it, and before its limit."""
    computed: int
    """Positions in the cache before what fell was taken out again."""
    kept: int
    block_tokens: int

    @property
    def stood(self) -> int:
        return len(self.tokens) - 1

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks for the positions that were computed, and for those that are kept."""
        return -(-self.computed // self.block_tokens), -(-self.kept // self.block_tokens)


def _calls(
    record: Record, block_tokens: int | None, said: Callable[[int], str] | None
) -> Iterator[_Call]:
    """The calls that brought tokens, runs of plain decodes call by call."""
    names = _names(record, said)
    stopped = record.status == "finished" and record.output_tokens < record.max_tokens
    number = given = 0
    for run in record.runs:
        for later in range(run.count):
            if not run.delivered:
                continue
            brought = names[given : given + run.delivered]
            kept = run.reached - (run.count - 1) + later
            yield _Call(
                number,
                run.tokens if run.kind != "decode" else None,
                names[given - 1] if given else "",
                run.drafts,
                tuple(brought),
                stopped and given + run.delivered == record.output_tokens,
                kept + _fallen(run),
                kept,
                block_tokens or 1,
            )
            number, given = number + 1, given + run.delivered


def _fallen(run: Run) -> int:
    return run.drafts - (run.delivered - 1) if run.drafts else 0


def _names(record: Record, said: Callable[[int], str] | None) -> list[str]:
    if said is not None and record.output:
        return [said(token) for token in record.output]
    return [f"t{number}" for number in range(1, record.output_tokens + 1)]


def _marks(call: _Call, who: str, has_pool: bool) -> Iterator[Mark]:
    at, stop = call.number, call.number + 1

    def mark(lane: str, role: str, label: str) -> Mark:
        return Mark(f"{lane}.{call.number}", role, lane, at, stop, label, who)

    if call.prefill:
        yield mark("read", "prefill", "again" if call.read else "prompt")
    else:
        yield mark("read", "read", call.read or "prompt")
    for place in range(call.drafts):
        lane = f"guess {place + 1}"
        if place < call.stood:
            yield mark(lane, "decode", call.tokens[place])
        elif place == call.stood and not call.ended:
            yield mark(lane, "rejected", "× falls")
        else:
            yield mark(lane, "skipped", "– thrown")
    yield mark("next", "kept", call.tokens[-1])
    yield mark("cache", "read", _change(call.computed, call.kept))
    if has_pool:
        yield mark("blocks", "read", _change(*call.blocks))


def _change(before: int, after: int) -> str:
    """One word, so that a narrow box shows all of it or none."""
    return str(after) if before == after else f"{before}→{after}"


def _told(call: _Call, has_pool: bool) -> str:
    told = list(_story(call))
    if fallen := call.computed - call.kept:
        told.append(
            f"the cache goes back from {call.computed} positions to {call.kept}"
            if fallen > 1
            else f"the cache gives back 1 position and keeps {call.kept}"
        )
    before, after = call.blocks
    if has_pool and before > after:
        told.append(f"{counted(before - after, 'block')} given back")
    return "; ".join(told)


def _story(call: _Call) -> Iterator[str]:
    *stood, last = call.tokens
    if call.prefill is not None:
        computed = counted(call.prefill, "token")
        if call.read:
            told = f"{computed} of prompt and answer computed again"
        elif call.prefill:
            told = f"{computed} of the prompt computed"
        else:
            told = "the prompt is computed once, for another answer"
        yield f"{told}; the target says {last}"
        return
    if not call.drafts:
        yield f"{call.read} is read, and nothing is guessed; the target says {last}"
        return
    yield f"{call.read} is read and {_guesses(call.drafts)} checked"
    if call.ended:
        yield f"the answer ends with {last}"
        if call.drafts > call.stood:
            yield f"{_guesses(call.drafts - call.stood)} thrown away"
        return
    if stood:
        yield f"{listed(stood)} {'stands' if len(stood) == 1 else 'stand'}"
    if call.stood == call.drafts:
        yield f"the target adds {last}"
        return
    yield f"guess {call.stood + 1} falls, and {last} comes in its place"
    if behind := call.drafts - call.stood - 1:
        yield f"{_guesses(behind)} behind it thrown away"


def _guesses(count: int) -> str:
    return "1 guess" if count == 1 else f"{count} guesses"
