"""Does a trace agree with itself? Parts must sum to wholes, and states follow one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lab.record import Record, Run, Stay
from lab.request import Time
from lab.trace_blocks import block_problems


def problems(
    records: Iterable[Record],
    starts: Sequence[Time] | None,
    ends: Sequence[Time] | None,
    settings: Mapping[str, Any],
    evictions: Iterable[tuple[int, int]] = (),
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
        if _has_more(record):
            found += [f"request {record.id!r}: {text}" for text in _resumed(record, settings)]
    if found:
        yield from found
        return
    yield from _seats(records, settings.get("seats"))
    yield from _budget(records, len(ends), settings.get("token_budget"))
    if settings.get("blocks") is not None:
        yield from block_problems(records, starts, evictions, settings)


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
    stay: Stay | None = None
    after = 0
    for run in record.runs:
        if run.first < after or run.count < 1 or run.stop > len(ends):
            yield f"steps {run.first} to {run.stop} of {len(ends)} come after step {after}"
            return
        after = run.stop
        while stay is None or (stay.stop is not None and run.first >= stay.stop):
            swapped = stay is not None and stay.swapped_out > 0
            computed = computed if swapped else _begins_at(run, record)
            stay = next(stays, None)
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


def _begins_at(run: Run, record: Record) -> int:
    """The position at which the first run in a seat begins, if nothing came back from the host."""
    if record.fork_of and not run.tokens:
        return record.prompt_tokens
    return run.cached


def _has_more(record: Record) -> bool:
    """Whether the request did not compute all of it itself, or part of it moved."""
    return any(run.cached or run.restored for run in record.runs) or any(
        stay.swapped_out for stay in record.stays
    )


def _resumed(record: Record, settings: Mapping[str, Any]) -> Iterator[str]:
    """What a request did not compute itself: it is stated, and only where it takes a seat."""
    block_tokens = settings.get("block_tokens", 1)
    known = record.prompt_tokens
    for before, run, first in record.runs_of_stays():
        swapped = before.swapped_out if before and first else 0
        if run.restored != swapped:
            yield (
                f"step {run.first} brings {run.restored} blocks back from host memory, "
                f"and {swapped} moved there"
            )
        if run.cached and not (first and settings.get("prefix_cache")):
            yield f"step {run.first} takes {run.cached} tokens from a cache in the midst of it"
        if run.cached and (run.cached % block_tokens or run.cached >= known):
            yield (
                f"step {run.first} takes {run.cached} of {known} tokens from the cache: whole "
                f"blocks of {block_tokens}, and never the last token"
            )
        known += run.delivered * run.count
    for stay in record.stays:
        if stay.swapped_out and not stay.preempted:
            yield f"{stay.swapped_out} blocks moved to host memory, and it was not preempted"


def _run(run: Run, known: int, failed: bool) -> Iterator[str]:
    stop = run.start + run.tokens
    if run.delivered and run.tokens and stop - run.drafts != known:
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
