"""Rows of requests: when each token came, and which spans TTFT and ITL measure between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lab.figures.scene import Frame, Mark, Scene, duration
from lab.figures.words import conditions, ends
from lab.ledgers.latency import Latency, latency
from lab.ledgers.table import show
from lab.record import Record
from lab.request import Time
from lab.trace import Trace

MOST_MOMENTS = 400
"""Nobody reads a row of more; the picture of a long trace is its load chart or its crowd."""


def request_rows(trace: Trace, title: str = "", finding: str = "", *, spans: bool = True) -> Scene:
    """A row for each request against time, with its arrival, its tokens and its waits.

    With `spans`, a lane `A spans` above the row of A brackets what the latency ledger measures:
    TTFT from the arrival to the first token, and each gap between two tokens (ITL). Of tokens that
    come at one moment the gap is 0; it is told in the caption and has no bracket, and who has no
    bracket has no such lane.

    Marks: in lane `A` the roles `arrival`, `waiting`, `token` (its label is the token's number)
    and `end` (without an answer); in lane `A spans` the role `span`, labelled `TTFT 130` or
    `gap 50`, in the trace's unit. There is one frame for each moment at which something happens.
    Raises ValueError for more than 400 arrivals and tokens.
    """
    events = sum(record.output_tokens + 1 for record in trace.requests)
    if events > MOST_MOMENTS:
        raise ValueError(
            f"rows show at most {MOST_MOMENTS} arrivals and tokens, and this trace has {events}: "
            "draw its load chart"
        )
    ledger = latency(trace)
    marks = [mark for record in trace.requests for mark in _row(record, trace)]
    lanes = [record.id for record in trace.requests]
    if spans:
        marks += [mark for row in ledger for mark in _spans(row, trace)]
        used = {mark.lane for mark in marks}
        lanes = [lane for who in lanes for lane in (f"{who} spans", who) if lane in used]
    told = _told(trace, spans)
    return Scene(
        title=title or "When does each token come?",
        finding=finding or ends(trace),
        conditions=conditions(trace),
        tag=trace.tag,
        unit=trace.unit,
        lanes=tuple(lanes),
        marks=tuple(marks),
        frames=tuple(Frame(at, show(at), "; ".join(told[at])) for at in sorted(told)),
    )


def _row(record: Record, trace: Trace) -> Iterator[Mark]:
    who = record.id
    yield Mark(f"{who}.arrival", "arrival", who, record.arrival, record.arrival, "", who)
    before = record.arrival
    for number, time in enumerate(trace.token_times(who), 1):
        yield Mark(f"{who}.wait.{number}", "waiting", who, before, time, "", who)
        yield Mark(f"{who}.token.{number}", "token", who, time, time, str(number), who)
        before = time
    if record.end is not None and record.status != "finished":
        yield Mark(f"{who}.wait.end", "waiting", who, before, record.end, "", who)
        yield Mark(f"{who}.end", "end", who, record.end, record.end, "", who)


def _spans(row: Latency, trace: Trace) -> Iterator[Mark]:
    """The brackets of one request: where they stand says the trace, how long they are the
    ledger."""
    who, before = row.id, trace[row.id].arrival
    for number, time in enumerate(trace.token_times(who), 1):
        length = row.ttft if number == 1 else row.itl[number - 2]
        name = "TTFT" if number == 1 else "gap"
        if time > before:
            label = f"{name} {show(length)}"
            yield Mark(f"{who}.span.{number}", "span", f"{who} spans", before, time, label, who)
        before = time


def _told(trace: Trace, spans: bool) -> dict[Time, list[str]]:
    """What happens at each moment, request by request."""
    told: dict[Time, list[str]] = defaultdict(list)
    for record in trace.requests:
        who, before = record.id, record.arrival
        told[before].append(f"{who} arrives")
        for number, time in enumerate(trace.token_times(who), 1):
            last = " and is done" if number == record.max_tokens else ""
            since = "its arrival (TTFT)" if number == 1 else f"token {number - 1} (ITL)"
            span = f", {duration(time - before, trace.unit)} after {since}" if spans else ""
            told[time].append(f"{who} gets token {number} of {record.max_tokens}{span}{last}")
            before = time
        if record.end is not None and record.status != "finished":
            told[record.end].append(f"{who} {record.status}")
    return told
