"""Does a trace agree with itself? Parts must sum to wholes, and states follow one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from lab.record import Record, Run
from lab.request import Time


def problems(
    records: Iterable[Record],
    starts: Sequence[Time] | None,
    ends: Sequence[Time] | None,
    settings: Mapping[str, Any],
) -> Iterator[str]:
    """Every contradiction in a trace, in words. What the trace does not have is not checked, and
    sums over the steps only where each request agrees with them."""
    records = list(records)
    for record in records:
        yield from _outcome(record)
    if starts is None or ends is None:
        return
    found = list(_clock(starts, ends))
    for record in records:
        found += [f"request {record.id!r}: {text}" for text in _computed(record, ends)]
    if found:
        yield from found
        return
    yield from _seats(records, settings.get("seats"))
    yield from _budget(records, len(ends), settings.get("token_budget"))
    if settings.get("blocks") is not None:
        yield from _blocks(records, len(ends), settings["blocks"], settings["block_tokens"])


def _outcome(record: Record) -> Iterator[str]:
    who = f"request {record.id!r}"
    delivered = record.output_tokens
    if delivered > record.max_tokens:
        yield f"{who}: {delivered} tokens were delivered, and the limit is {record.max_tokens}"
    if record.output and len(record.output) != delivered:
        yield f"{who}: {len(record.output)} token ids for {delivered} delivered tokens"
    if record.status == "finished" and delivered == 0:
        yield f"{who}: finished without a token"
    if record.status == "refused" and (delivered or record.runs):
        yield f"{who}: refused, and yet {delivered} tokens were delivered"
    if (record.status is None) != (record.end is None):
        yield f"{who}: its status is {record.status} and its end {record.end}"
    moments = [record.arrival, *(record.times or ())]
    if record.end is not None:
        moments.append(record.end)
    if any(later < earlier for earlier, later in pairwise(moments)):
        yield f"{who}: arrival, deliveries and end must not go back in time: {moments[:8]}"


def _clock(starts: Sequence[Time], ends: Sequence[Time]) -> Iterator[str]:
    if len(starts) != len(ends):
        yield f"{len(starts)} steps start and {len(ends)} end"
        return
    before: Time = 0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if not before <= start <= end:
            yield (
                f"step {number} lasts from {start} to {end}, "
                f"and the one before it ended at {before}"
            )
        before = end


def _computed(record: Record, ends: Sequence[Time]) -> Iterator[str]:
    """The state machine: seated, computed from the start without a gap, sampled at the end."""
    computed = 0
    known = record.prompt_tokens
    stays = iter(record.stays)
    stay = None
    after = 0
    for run in record.runs:
        if run.first < after or run.count < 1 or run.stop > len(ends):
            yield f"steps {run.first} to {run.stop} of {len(ends)} come after step {after}"
            return
        after = run.stop
        while stay is None or (stay.stop is not None and run.first >= stay.stop):
            stay, computed = next(stays, None), 0
            if stay is None:
                yield f"step {run.first} computed it while it had no seat"
                return
        if run.seat != stay.seat or run.first < stay.first:
            yield f"step {run.first} computed it in seat {run.seat}, and it sat in {stay}"
        if run.start != computed:
            yield f"step {run.first} computes from position {run.start}, and {computed} are done"
        failed = record.status == "failed" and run is record.runs[-1]
        yield from _run(run, known, failed)
        computed = run.reached
        known += run.delivered * run.count
    if not record.runs:
        return
    if record.status == "finished" and record.end != ends[record.runs[-1].stop - 1]:
        yield f"it ended at {record.end}, and its last token came at another moment"
    if ends[record.runs[0].stop - 1] < record.arrival:
        yield "it was computed before it arrived"


def _run(run: Run, known: int, failed: bool) -> Iterator[str]:
    stop = run.start + run.tokens
    if run.delivered and stop - run.drafts != known:
        yield (
            f"step {run.first} delivers a token after position {stop - run.drafts}, "
            f"and {known} tokens were known"
        )
    if not run.delivered and stop >= known and not failed:
        yield f"step {run.first} reaches the end, {known} tokens, and delivers none"
    if run.count > 1 and (run.tokens, run.delivered) != (1, 1):
        yield f"a run over {run.count} steps must be of plain decodes, got {run}"


def _seats(records: Iterable[Record], num_seats: int | None) -> Iterator[str]:
    """No two requests in one seat at one time."""
    stays = sorted(
        (
            (stay.first, stay.seat, record.id, stay.stop)
            for record in records
            for stay in record.stays
        ),
        key=lambda row: row[:3],
    )
    taken: dict[int, tuple[int | None, str]] = {}
    for first, seat, who, stop in stays:
        if num_seats is not None and not 0 <= seat < num_seats:
            yield f"request {who!r}: there are {num_seats} seats, and it sat in seat {seat}"
        if seat in taken:
            until, other = taken[seat]
            if until is None or until > first:
                yield f"requests {other!r} and {who!r} both sat in seat {seat} in step {first}"
        taken[seat] = (stop, who)


def _budget(records: Iterable[Record], num_steps: int, budget: int | None) -> Iterator[str]:
    """No step computes more than the token budget, and none computes nothing."""
    change = [0] * (num_steps + 1)
    for record in records:
        for run in record.runs:
            change[run.first] += run.tokens
            change[run.stop] -= run.tokens
    tokens = 0
    for step in range(num_steps):
        tokens += change[step]
        if tokens == 0:
            yield f"step {step} computes nothing"
        if budget is not None and tokens > budget:
            yield f"step {step} computes {tokens} tokens, and the budget is {budget}"


def _blocks(
    records: Iterable[Record], num_steps: int, num_blocks: int, block_tokens: int
) -> Iterator[str]:
    """A block is free or in one table; tables are as long as their positions need."""
    added: dict[int, list[list[int]]] = {}
    given_back: dict[int, list[list[int]]] = {}
    for record in records:
        for run in record.runs:
            before = -(-run.start // block_tokens)
            want = -(-(run.start + run.count - 1 + run.tokens) // block_tokens) - before
            if len(run.blocks) != want:
                yield (
                    f"request {record.id!r}: from step {run.first} on it needs {want} more blocks, "
                    f"and took {len(run.blocks)}"
                )
        for first, stop, blocks in record.holdings(block_tokens, num_steps):
            added.setdefault(first, []).append(blocks)
            given_back.setdefault(stop, []).append(blocks)
    used: set[int] = set()
    for step in sorted({*added, *given_back}):
        for blocks in given_back.get(step, ()):
            used.difference_update(blocks)
        for block in chain.from_iterable(added.get(step, ())):
            if block in used:
                yield f"step {step} hands out block {block}, which is in use"
            if not 0 <= block < num_blocks:
                yield f"step {step} hands out block {block}, and the pool ends at {num_blocks - 1}"
            used.add(block)
