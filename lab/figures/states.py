"""The request state machine: requests that move over trays, each carrying its cache blocks."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lab.figures.board import Board, BoardFrame, Item, Place, Tray
from lab.figures.timeline import MOST_STEPS, shares_prompt, sits
from lab.figures.words import conditions, ends, step_labels
from lab.ledgers.words import counted, listed
from lab.record import Record, Run
from lab.request import Time
from lab.trace import Trace

ENDINGS = ("finished", "cancelled", "timed out", "failed", "refused")
IDLE = "idle seat"
"""The tray of those who have ended and keep seat and blocks, until their static batch is over."""
SEATED = ("prefill", "decode", IDLE)
HOST = "host memory"
"""The tray of those who are swapped out, and whose blocks lie there."""

_ORDERS: dict[str, Callable[[Record], tuple[Time, ...]]] = {
    "first-come": lambda record: (record.arrival,),
    "priority": lambda record: (-record.priority, record.arrival),
    "shortest-first": lambda record: (record.max_tokens, record.arrival),
}


class _State(NamedTuple):
    """Where a request is in one frame, and what it carries."""

    tray: str
    seat: int
    stack: int
    does: str
    """The kind of the run that computes it in this step, or "shared" where it waits for the prompt
    of another answer; empty if there is none."""


_States = dict[str, _State]


def request_states(trace: Trace, title: str = "", finding: str = "") -> Board:
    """The board of a trace: one frame a step, and one for what is left when all is over.

    Trays: `waiting` in the order of the policy, the next one first; then the group `seats`, whose
    trays share its capacity: `prefill` (and recompute), `decode`, and, where it occurs, `idle
    seat`; then, where it occurs, `host memory`, for who was swapped out, the next one first; then
    the group `ended`: `finished` and every other ending that occurs. Who has not arrived is not on
    the board. Each request is an item of the role `request`; its stack is the number of cache
    blocks that it holds in the step: as many as its computed positions fill, without a pool as
    well; in host memory, as many as lie there. A further answer to a prompt has its seat, and no
    blocks, while the prompt is computed. Whoever is overtaken slips back in `waiting`. A caption
    says who moved and why, and who gives back blocks or holds more of them than before.

    Raises ValueError for a trace without steps, and for more than 400 of them.
    """
    if trace.starts is None:
        raise ValueError("request states need steps, and this trace has only deliveries")
    if trace.num_steps > MOST_STEPS:
        raise ValueError(
            f"request states are shown for at most {MOST_STEPS} steps, and this trace has "
            f"{trace.num_steps}: draw its load chart"
        )
    moments = [*(trace.starts or ()), trace.last]
    queue = _Queue(trace)
    frames: list[BoardFrame] = []
    before: _States = {}
    for step, (at, label) in enumerate(zip(moments, [*step_labels(trace), "end"], strict=True)):
        now = dict(_states(trace, step, at))
        places = queue.places(now)
        told = _told(before, now, queue, trace)
        moves = (f"{deed}: {', '.join(who)}" for deed, who in told.items())
        caption = "; ".join([*moves, *_blocks(before, now)])
        frames.append(BoardFrame(at, label, caption or "nobody moves", places))
        before = now
    used = {place.tray for frame in frames for place in frame.places.values()}
    return Board(
        title=title or "Where is each request, and why?",
        finding=finding or ends(trace),
        conditions=conditions(trace),
        tag=trace.tag,
        unit=trace.unit,
        trays=tuple(_trays(used, trace.settings.get("seats"))),
        items=tuple(_item(record) for record in trace.requests),
        frames=tuple(frames),
    )


def _trays(used: set[str], seats: int | None) -> Iterator[Tray]:
    yield Tray("waiting")
    for name in SEATED:
        if name != IDLE or name in used:
            yield Tray(name, seats, "seats")
    if HOST in used:
        yield Tray(HOST)
    for name in ENDINGS:
        if name == "finished" or name in used:
            yield Tray(name, None, "ended")


def _item(record: Record) -> Item:
    note = f"{record.prompt_tokens} prompt tokens, answers with at most {record.max_tokens}"
    return Item(record.id, "request", record.id, record.id, note)


# Where everybody is


def _states(trace: Trace, step: int, now: Time) -> Iterator[tuple[str, _State]]:
    """The state of everybody who has arrived, in a step that begins `now`."""
    block_tokens = trace.settings.get("block_tokens", 1)
    for record in trace.requests:
        if record.arrival > now:
            continue
        if step < trace.num_steps and shares_prompt(trace, record, step):
            stays = [*record.stays, *trace[str(record.fork_of)].stays]
            yield record.id, _State("prefill", stays[0].seat, 0, "shared")
        else:
            yield record.id, _state(record, step, now, block_tokens)


def _state(record: Record, step: int, now: Time, block_tokens: int) -> _State:
    seat = next((stay.seat for stay in record.stays if sits(stay, step)), None)
    computed = [run.stop for run in record.runs]
    is_over = record.end is not None and record.end <= now and max(computed, default=0) <= step
    if seat is None and is_over and record.status:
        return _State(record.status, 0, 0, "")
    if seat is None:
        out = [stay for stay in record.stays if stay.stop is not None and stay.stop <= step][-1:]
        swapped = sum(stay.swapped_out for stay in out)
        return _State(HOST if swapped else "waiting", 0, swapped, "")
    run = record.runs[bisect_right([run.first for run in record.runs], step) - 1]
    computes = step < run.stop
    positions = run.start + step - run.first + run.tokens if computes else run.reached
    tray = "decode" if _decodes(run, computes) else "prefill"
    stack = -(-positions // block_tokens)
    return _State(IDLE if is_over else tray, seat, stack, run.kind if computes else "")


def _decodes(run: Run, computes: bool) -> bool:
    """Whether a request is past its prompt; where nothing is computed, its last run tells."""
    return run.kind == "decode" or (not computes and run.delivered > 0)


class _Queue:
    """The order in which requests lie in their trays."""

    def __init__(self, trace: Trace) -> None:
        rank = _ORDERS[trace.settings.get("order", "first-come")]
        requests = trace.requests  # equals keep the order of their arrival
        self.ranks = {record.id: i for i, record in enumerate(sorted(requests, key=rank))}
        last = trace.last
        ended = sorted(requests, key=lambda record: last if record.end is None else record.end)
        self._ended = {record.id: i for i, record in enumerate(ended)}

    def places(self, states: _States) -> dict[str, Place]:
        """Where each request lies: waiting by rank, seated by seat, ended by the end."""
        count: dict[str, int] = defaultdict(int)
        places = {}
        for who in sorted(states, key=lambda who: self._key(who, states[who])):
            tray, stack = states[who].tray, states[who].stack
            places[who] = Place(tray, count[tray], stack)
            count[tray] += 1
        return places

    def _key(self, who: str, state: _State) -> int:
        if state.tray in ("waiting", HOST):
            return self.ranks[who]
        return state.seat if state.tray in SEATED else self._ended[who]


# Who moved, and why


def _told(before: _States, now: _States, queue: _Queue, trace: Trace) -> Mapping[str, list[str]]:
    told: dict[str, list[str]] = defaultdict(list)
    for who, state in now.items():
        if deed := _move(before.get(who), state, trace[who]):
            told[deed].append(who)
    for deed, who in _overtaken(before, now, queue):
        told[deed].append(who)
    return told


def _blocks(before: _States, now: _States) -> Iterator[str]:
    """Who gives back how many blocks, and how many they hold who now hold more."""
    back: dict[int, list[str]] = defaultdict(list)
    held: dict[int, list[str]] = defaultdict(list)
    for who, state in now.items():
        had = before[who].stack if who in before else 0
        if state.stack < had:
            back[had - state.stack].append(who)
        elif state.stack > had:
            held[state.stack].append(who)
    for does, those in (("give{} back", back), ("hold{}", held)):
        for count, names in those.items():
            ending, each = ("", " each") if len(names) > 1 else ("s", "")
            yield f"{listed(names)} {does.format(ending)} {counted(count, 'block')}{each}"


def _move(old: _State | None, new: _State, record: Record) -> str:
    """The move of one request between two frames, in words that hold for others as well; empty if
    it does not move."""
    before = old.tray if old else ""
    if new.tray == before:
        return "stalled, no blocks or budget left" if _is_stalled(new) else ""
    if new.tray == "waiting":
        return "preempted since blocks ran out" if before else "arrived, waits"
    if new.tray == HOST:
        return "preempted since blocks ran out, moved to host memory"
    if before == HOST and new.tray in SEATED:
        return "seated again, goes on with its blocks from host memory"
    if new.tray == "prefill":
        return _SEATED_TO.get(new.does, "seated, prefill")
    if new.tray == "decode" and before == "waiting":
        return "seated again, goes on with its blocks"
    if new.tray == "decode":
        again = old is not None and old.does == "recompute"
        return "caught up, decodes on" if again else "prompt done, decodes"
    return _ended(before, new.tray, record)


_SEATED_TO = {
    "recompute": "seated again, computes all anew",
    "shared": "seated, waits for the prompt that it shares",
}


def _is_stalled(state: _State) -> bool:
    return state.tray in ("prefill", "decode") and not state.does


def _ended(before: str, tray: str, record: Record) -> str:
    if tray == IDLE:
        return f"{record.status}, keeps its seat"
    if before == IDLE:
        return "batch over, seat free"
    reason = "" if tray == "finished" or not record.reason else f" ({record.reason})"
    return f"{tray}{reason}"


def _overtaken(before: _States, now: _States, queue: _Queue) -> Iterator[tuple[str, str]]:
    """(by whom and how, who): those who waited and still do, while others came in before them or
    were seated past them."""

    def waits(states: _States, who: str) -> bool:
        return who in states and states[who].tray == "waiting"

    stay = [who for who in now if waits(before, who) and waits(now, who)]
    come = [who for who in now if waits(now, who) and not waits(before, who)]
    go = [who for who in now if not waits(now, who) and now[who].tray == "prefill"]
    seated = [who for who in go if who not in before or waits(before, who)]
    for who in stay:
        for other in come:
            if queue.ranks[other] < queue.ranks[who]:
                yield f"slips back behind {other}", who
        for other in seated:
            if queue.ranks[other] > queue.ranks[who]:
                yield f"does not fit, and {other} passes", who
