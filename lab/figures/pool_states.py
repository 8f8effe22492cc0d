"""What the block pool looked like in each step of a trace, read from the trace alone.

A trace names the blocks that each step adds, copies, gives up or takes from the cache. Which blocks
stay cached also depends on the prompts' ids: the rule that publishes blocks is applied again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from lab.plan import Chunk
from lab.prefix import Chain, Identity, PrefixIndex
from lab.record import Record
from lab.request import Request
from lab.trace import Trace

MOST_BLOCKS = 64
"""A larger pool is not drawn block by block."""
MOST_STEPS = 200


class Known(NamedTuple):
    """What a published block holds: its digest, that of the block before it (None: it begins a
    sequence), its own token ids, and for whom it may be used again."""

    digest: bytes
    before: bytes | None
    ids: tuple[object, ...]
    identity: Identity


class PoolState(NamedTuple):
    """The pool while a step is computed: its blocks are handed out, none has come back yet."""

    number: int
    """The step, from 0; behind the last one stands what is left when all is over."""
    tables: Mapping[str, tuple[int, ...]]
    """Blocks of each request in a seat, in the order of their positions."""
    reached: Mapping[str, int]
    """Positions of each table that are filled when the step is over, guesses included."""
    chunks: tuple[Chunk, ...]
    known: Mapping[int, Known]
    """Published blocks; those that nobody holds are the cached ones."""
    evicted: Mapping[int, Known]
    """Cached blocks that were given up for this step, the first one first."""
    host: Mapping[str, int]
    """Blocks of each request that lie in host memory."""

    @property
    def holders(self) -> dict[int, tuple[str, ...]]:
        """Who holds each block in use, in the order of seats taken."""
        held: dict[int, tuple[str, ...]] = {}
        for who, table in self.tables.items():
            for block in table:
                held[block] = (*held.get(block, ()), who)
        return held

    @property
    def cached(self) -> tuple[int, ...]:
        """Blocks that nobody holds, and whose content may be used again."""
        held = self.holders
        return tuple(block for block in sorted(self.known) if block not in held)


def chains(trace: Trace, work: Iterable[Request] | None) -> dict[str, Chain]:
    """The keys of each request's full blocks, from the prompts of the workload it ran on.

    Raises ValueError if the workload lacks a request of the trace, or has another prompt for it.
    """
    asked = {answer.id: answer for request in work or () for answer in request.answers}
    keys = {}
    for record in trace.requests if work is not None else ():
        request = asked.get(record.id)
        if request is None or request.prompt_tokens != record.prompt_tokens:
            has = "none" if request is None else f"one of {request.prompt_tokens} tokens"
            raise ValueError(
                f"request {record.id!r}: the trace has a prompt of {record.prompt_tokens} tokens, "
                f"and the workload has {has}"
            )
        identity = Identity(adapter=request.adapter, tenant=request.tenant)
        size = trace.settings.get("block_tokens", 1)
        keys[record.id] = Chain(identity, size, request.prompt, record.output)
    return keys


def pool_states(trace: Trace, work: Iterable[Request] | None = None) -> list[PoolState]:
    """The pool in each step, and when all is over. `work` is what the trace ran on; only a run
    with a prefix cache needs it.

    Three prompt tokens in blocks of 2: while step 0 is computed the table is (0, 1), 3 positions
    are filled, and nothing is cached. Raises ValueError for a trace without steps or pool, with
    requests forgotten, with more than 64 blocks or 200 steps, and without the `work` it needs.
    """
    _check(trace, work)
    replay = _Replay(trace, chains(trace, work))
    return [replay.step(number) for number in range(trace.num_steps + 1)]


def _check(trace: Trace, work: Iterable[Request] | None) -> None:
    settings, blocks = trace.settings, trace.settings.get("blocks")
    if trace.starts is None or blocks is None:
        has = "only deliveries" if trace.starts is None else "no limit of memory"
        raise ValueError(f"the pool needs steps and a number of blocks, and this trace has {has}")
    if settings.get("forgotten"):
        raise ValueError(
            f"the pool needs all requests, and this trace has forgotten {settings['forgotten']}"
        )
    if blocks > MOST_BLOCKS or trace.num_steps > MOST_STEPS:
        raise ValueError(
            f"the pool is shown for at most {MOST_BLOCKS} blocks and {MOST_STEPS} steps, and this "
            f"trace has {blocks} and {trace.num_steps}: serve fewer requests from a smaller pool, "
            "or print trace.blocks_used()"
        )
    if settings.get("prefix_cache") and work is None:
        raise ValueError(
            "which blocks stay cached depends on the prompts' ids, and a trace has none: "
            "give the workload too"
        )


class _Replay:
    """The books of a pool, kept again from what a trace says of each step."""

    def __init__(self, trace: Trace, keys: Mapping[str, Chain]) -> None:
        self._trace = trace
        self._keys = keys if trace.settings.get("prefix_cache") else {}
        self._size = trace.settings["block_tokens"]
        self._steps = [step.chunks for step in trace.steps()]
        self._rejecting = {(r.id, run.first): run for r in trace.requests for run in r.runs}
        self._tables: dict[str, list[int]] = {}
        self._reached: dict[str, int] = {}
        self._index = PrefixIndex()
        self._published: dict[str, int] = {}
        self._known: dict[int, Known] = {}

    def step(self, number: int) -> PoolState:
        """The pool while step `number` is computed; the steps have to come in their order."""
        chunks = self._steps[number] if number < len(self._steps) else ()
        self._leave(number)
        evicted = {}
        for block in [block for step, block in self._trace.evictions if step == number]:
            self._index.forget(block)
            evicted[block] = self._known.pop(block)
        for chunk in chunks:
            self._take(chunk)
        state = PoolState(
            number,
            {who: tuple(table) for who, table in self._tables.items()},
            dict(self._reached),
            chunks,
            dict(self._known),
            evicted,
            dict(self._host(number)),
        )
        for chunk in chunks:
            self._finish(chunk, number)
        return state

    def _leave(self, number: int) -> None:
        for record in self._trace.requests:
            if any(stay.stop == number for stay in record.stays):
                self._tables.pop(record.id, None)
                self._reached.pop(record.id, None)

    def _take(self, chunk: Chunk) -> None:
        who = chunk.request_id
        if chunk.begins:
            self._tables[who] = []
            self._published[who] = chunk.cached // self._size
            if chunk.fork_of:
                self._published[who] = self._published.get(chunk.fork_of, 0)
        table = self._tables[who]
        if chunk.copy:
            table[-1] = chunk.copy[1]
        table += chunk.blocks
        self._reached[who] = chunk.stop

    def _finish(self, chunk: Chunk, number: int) -> None:
        """What a step leaves: rejected guesses go, and full blocks are made known."""
        who = chunk.request_id
        record = self._trace[who]
        if chunk.drafts:
            self._reached[who] = self._rejecting[who, number].reached
            del self._tables[who][-(-self._reached[who] // self._size) :]
        failed = record.status == "failed" and record.runs[-1].stop == number + 1
        if who in self._keys and not failed:
            self._publish(who)

    def _publish(self, who: str) -> None:
        keys, table = self._keys[who], self._tables[who]
        first = self._published[who]
        full = min(self._reached[who] // self._size, keys.num_full)
        fresh = self._index.publish(keys, table, range(first, full))
        for place in range(first, full):
            block = table[place]
            if block in fresh:
                digest, ids = keys[place]
                before = keys[place - 1].digest if place else None
                self._known[block] = Known(digest, before, ids, keys.identity)
        self._published[who] = max(first, full)

    def _host(self, number: int) -> Iterator[tuple[str, int]]:
        for record in self._trace.requests:
            moved = _moved(record, number)
            if moved and not self._is_over(record, number):
                yield record.id, moved

    def _is_over(self, record: Record, number: int) -> bool:
        starts = self._trace.starts or []
        return record.end is not None and bisect_left(starts, record.end) <= number


def _moved(record: Record, number: int) -> int:
    """Blocks that moved to host memory when the request last lost its seat before a step, if it
    has none in that step."""
    begun = [stay for stay in record.stays if stay.first <= number]
    if not begun or begun[-1].stop is None or begun[-1].stop > number:
        return 0
    return begun[-1].swapped_out
