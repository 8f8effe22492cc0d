"""What happened, when and to whom: the only thing that ledgers, charts and animations read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from lab.plan import Chunk, Decode, Ending, Event, StepOutcome, StepPlan
from lab.record import Record, Run, Stay
from lab.request import Request, Time
from lab.trace_check import problems
from lab.trace_window import Window, may_go

Unit = Literal["step", "us", "ms", "s"]
PER_SECOND: Mapping[str, int] = {"us": 1_000_000, "ms": 1_000, "s": 1}
"""How many of a unit make a second. A "step" is no time: rates stay per step."""


class TraceError(ValueError):
    """A trace contradicts itself, or is no trace that this version can read."""


class Step(NamedTuple):
    """One turn of the engine, as it happened."""

    number: int
    start: Time
    end: Time
    chunks: tuple[Chunk, ...]
    blocks_used: int


class Trace:
    """Requests with arrival, deliveries and outcome; and, where an engine ran, its steps.

    Its makers are given times, the simulated engine, the live one, several processes, and a
    watched server; its readers cannot tell them apart. `starts` and `ends` are None in a trace
    without steps. `settings` says who made it and how (a mapping of plain values). `evictions`
    are (step, block): cached blocks that were given up for others. A request with several answers
    has a record for each of them.

    With `keep`, the trace of an engine that runs on and on: it has whoever has not ended, the last
    `keep` who have, and up to as many before them. Others are forgotten, and with them the steps
    that computed nobody else; then `settings["forgotten"]` says how many requests are missing, and
    where a cached prefix came from cannot be checked.
    """

    def __init__(
        self,
        unit: Unit,
        settings: Mapping[str, Any],
        records: Iterable[Record] = (),
        starts: list[Time] | None = None,
        ends: list[Time] | None = None,
        evictions: Iterable[tuple[int, int]] = (),
        *,
        keep: int | None = None,
    ) -> None:
        if keep is not None and keep < 0:
            raise ValueError(f"keep must be at least 0 requests, got {keep}")
        self.unit: Unit = unit
        self.settings = dict(settings)
        self.starts = starts
        self.ends = ends
        self.evictions = list(evictions)
        self._records = {record.id: record for record in records}
        self._going_on: dict[str, Run] = {}
        self._keep = keep
        self._ended: list[str] = []  # whom a trace with `keep` may forget, in the order of ends

    # Reading

    @property
    def requests(self) -> Sequence[Record]:
        """All requests, in the order of their arrival."""
        self._catch_up()
        return list(self._records.values())

    @property
    def num_steps(self) -> int:
        """Steps in the trace; 0 where none were recorded."""
        return len(self.ends or ())

    @property
    def tag(self) -> str:
        """Where the times come from: "given", "derived" (by the simulator) or "measured"."""
        tags = {"given": "given", "simulated": "derived"}
        return tags.get(self.settings.get("maker", "given"), "measured")

    @property
    def last(self) -> Time:
        """The moment of the last thing that happened."""
        moments: list[Time] = [r.end for r in self.requests if r.end is not None]
        return max([*moments, *(self.ends or ())[-1:]], default=0)

    def __getitem__(self, request_id: str) -> Record:
        if request_id not in self._records:
            some = ", ".join(list(self._records)[:8])
            raise KeyError(f"there is no request {request_id!r} in this trace; it has {some}")
        self._catch_up()
        return self._records[request_id]

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._records

    def __len__(self) -> int:
        return len(self._records)

    def token_times(self, request_id: str) -> list[Time]:
        """The moments at which the tokens of a request were delivered."""
        record = self[request_id]
        if record.times is not None:
            return list(record.times)
        times: list[Time] = []
        for run in record.runs:
            if run.delivered == 1:
                times += self._ends[run.first : run.stop]
            elif run.delivered:
                times += [
                    end for end in self._ends[run.first : run.stop] for _ in range(run.delivered)
                ]
        return times

    def steps(self) -> Iterator[Step]:
        """The steps one by one, with their chunks in order of seats."""
        coming = sorted(
            ((run, record.id) for record in self.requests for run in record.runs),
            key=lambda pair: pair[0].first,
            reverse=True,
        )
        block_tokens = self.settings.get("block_tokens", 1)
        now: list[tuple[Run, str]] = []
        for number, used in enumerate(self.blocks_used()):
            now = [pair for pair in now if pair[0].stop > number]
            while coming and coming[-1][0].first == number:
                now.append(coming.pop())
            now.sort(key=lambda pair: pair[0].seat)
            chunks = tuple(
                run.chunk(who, number, block_tokens, self._records[who].fork_of) for run, who in now
            )
            yield Step(number, self._starts[number], self._ends[number], chunks, used)

    def blocks_used(self) -> list[int]:
        """KV blocks in use during each step, from the blocks that were added and given back. One
        that several tables hold counts once."""
        block_tokens = self.settings.get("block_tokens", 1)
        holdings: Iterable[tuple[int, int, list[int]]] = (
            holding
            for record in self.requests
            for holding in record.holdings(block_tokens, self.num_steps)
        )
        if any(run.shares for record in self._records.values() for run in record.runs):
            holdings = _once(holdings)
        change = [0] * (self.num_steps + 1)
        for first, stop, blocks in holdings:
            change[first] += len(blocks)
            change[stop] -= len(blocks)
        return list(accumulate(change[:-1]))

    def timeline(self) -> list[str]:
        """One line a step, `0-1  A[0:4) B[0:4)`: short enough to be a test's expected value."""
        return [
            f"{step.start}-{step.end}  "
            + " ".join(f"{c.request_id}[{c.start}:{c.stop})" for c in step.chunks)
            for step in self.steps()
        ]

    def rows(
        self, what: Literal["requests", "tokens", "steps"] = "requests"
    ) -> list[dict[str, Any]]:
        """Flat rows for Altair or pandas: one a request, one a delivered token, or one a step."""
        if what == "requests":
            return [_request_row(record) for record in self.requests]
        if what == "tokens":
            return [
                {"request": record.id, "number": number, "time": time}
                for record in self.requests
                for number, time in enumerate(self.token_times(record.id), 1)
            ]
        if what == "steps":
            return [
                {
                    "step": step.number,
                    "start": step.start,
                    "end": step.end,
                    "sequences": len(step.chunks),
                    "tokens": sum(chunk.num_tokens for chunk in step.chunks),
                    "blocks": step.blocks_used,
                }
                for step in self.steps()
            ]
        raise ValueError(f"rows must be of 'requests', 'tokens' or 'steps', got {what!r}")

    def check(self) -> None:
        """Raise `TraceError` with every contradiction that the trace holds, if it holds any."""
        found = list(problems(self.requests, self.starts, self.ends, self.settings, self.evictions))
        if found:
            more = f"\n... and {len(found) - 8} more" if len(found) > 8 else ""
            raise TraceError("the trace contradicts itself:\n" + "\n".join(found[:8]) + more)

    # Writing: the engine calls these, in the order in which things happen

    def add(self, request: Request) -> None:
        """A request has arrived."""
        for record in Record.of(request):
            self._records[record.id] = record

    def refuse(self, request: Request, reason: str) -> None:
        """A request has arrived that can never run."""
        for record in Record.of(request):
            self._records[record.id] = record
            self._end(record, "refused", reason, request.arrival)
        self._forget()

    def note(self, events: Iterable[Event], now: Time) -> None:
        """Something happened between two steps."""
        for event in events:
            record = self._records[event.request_id]
            self._close(event.request_id)
            if event.kind == "left" or event.kind == "preempted":
                stay = record.stays[-1] if record.stays else None
                if stay and stay.stop is None:  # an abandoned plan gives seats and leaves no trace
                    preempted = event.kind == "preempted"
                    record.stays[-1] = Stay(stay.seat, stay.first, self.num_steps, preempted)
            else:
                self._end(record, event.kind, event.reason, now)
        self._forget()

    def record(self, plan: StepPlan, start: Time, outcome: StepOutcome) -> None:
        """A plan was carried out, in as many steps as `outcome` has ends."""
        starts, ends = _steps_of(self.starts), _steps_of(self.ends)
        first = len(ends)
        starts.append(start)
        starts += outcome.ends[:-1]
        ends += outcome.ends
        going_on = self._going_on
        if plan.evicted:
            later = first - plan.step  # the plan counts the steps that were forgotten too
            self.evictions += [(step + later, block) for step, block in plan.evicted]
        for swap in plan.swap_out:
            stays = self._records[swap.request_id].stays
            stays[-1] = stays[-1]._replace(swapped_out=len(swap.blocks))
        for chunk in plan.written:
            accepted = outcome.accepted.get(chunk.request_id, 0)
            delivered = 1 + accepted if chunk.samples else 0
            if chunk.request_id in outcome.failures:
                delivered = 0
            self._add_chunk(chunk, first, delivered)
            if outcome.tokens is not None:
                record = self._records[chunk.request_id]
                record.output += outcome.tokens.get(chunk.request_id, ())
        if len(going_on) < len(plan.decodes.members):  # whoever left was closed before
            for member in plan.decodes.members:
                if member.request_id not in going_on:
                    self._open(member, first, member.pace + plan.step)
        for _, request_id, block in plan.blocks:
            going_on[request_id].blocks.append(block)

    def _add_chunk(self, chunk: Chunk, step: int, delivered: int) -> None:
        record = self._records[chunk.request_id]
        last = record.runs[-1] if record.runs else None
        if last and delivered and last.goes_on_with(chunk, step):
            last.count += 1
            last.blocks += chunk.blocks
            return
        record.runs.append(record.run_of(chunk, step, delivered))
        if not record.stays or record.stays[-1].stop is not None:
            record.stays.append(Stay(chunk.seat, step, None))

    # A run of decodes grows by itself until its request ends or is preempted

    def _open(self, member: Decode, step: int, position: int) -> None:
        runs = self._records[member.request_id].runs
        last = runs[-1]
        if last.is_plain and last.stop == step and last.reached == position:
            last.count += 1
        else:
            runs.append(Run("decode", member.seat, step, 1, position, 1, 1))
        self._going_on[member.request_id] = runs[-1]

    def _close(self, request_id: str) -> None:
        run = self._going_on.pop(request_id, None)
        if run is not None:
            run.count = self.num_steps - run.first

    def _catch_up(self) -> None:
        for run in self._going_on.values():
            run.count = self.num_steps - run.first

    # What is too long ago

    def _end(self, record: Record, status: Ending, reason: str, end: Time) -> None:
        record.status, record.reason, record.end = status, reason, end
        if self._keep is not None:
            self._ended.append(record.id)

    def _forget(self) -> None:
        """Leave out the oldest of those who have ended, once they are twice as many as are kept.

        So the work for each request is the same on average, however many there were.
        """
        if self._keep is None or len(self._ended) <= 2 * self._keep:
            return
        oldest = self._ended[: len(self._ended) - self._keep]
        gone = may_go(self._records, oldest)
        self._catch_up()
        kept = {who: record for who, record in self._records.items() if who not in gone}
        since = max((run.stop for who in gone for run in self._records[who].runs[-1:]), default=0)
        window = Window(kept.values())
        for record in kept.values():
            window.renumber(record)
        self.evictions = [(window.place(s), b) for s, b in self.evictions if s >= since]
        self._records, self._ended = kept, [who for who in self._ended if who not in gone]
        if self.starts is not None and self.ends is not None:
            self.starts, self.ends = window.of(self.starts), window.of(self.ends)
        self.settings["forgotten"] = self.settings.get("forgotten", 0) + len(gone)

    @property
    def _starts(self) -> list[Time]:
        return _steps_of(self.starts)

    @property
    def _ends(self) -> list[Time]:
        return _steps_of(self.ends)


def _once(
    holdings: Iterable[tuple[int, int, list[int]]],
) -> Iterator[tuple[int, int, list[int]]]:
    """The same blocks in the same steps, without those that another table holds meanwhile."""
    until: dict[int, int] = {}
    for first, stop, blocks in sorted(holdings, key=lambda holding: holding[0]):
        for block in blocks:
            start = max(first, until.get(block, 0))
            if start < stop:
                yield start, stop, [block]
                until[block] = stop


def _request_row(record: Record) -> dict[str, Any]:
    return {
        "request": record.id,
        "arrival": record.arrival,
        "end": record.end,
        "status": record.status,
        "reason": record.reason,
        "priority": record.priority,
        "prompt_tokens": record.prompt_tokens,
        "output_tokens": record.output_tokens,
        "preemptions": sum(stay.preempted for stay in record.stays),
    }


def _steps_of(times: list[Time] | None) -> list[Time]:
    if times is None:
        raise TraceError("this trace has no steps: it was given or observed from outside")
    return times
