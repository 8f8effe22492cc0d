"""Traces for the public viewer at ui.perfetto.dev, in its JSON event format.

One track a seat shows who sat in it and what was computed; counters show the queue, the batch and
the KV blocks. Times are given to the viewer in microseconds; a "step" counts as one millisecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.record import Record
from lab.request import Time
from lab.trace import PER_SECOND, Trace

_ENGINE, _REQUESTS = 1, 2


def perfetto(trace: Trace) -> dict[str, Any]:
    """The trace as a document that the viewer opens."""
    events = [
        {"ph": "M", "pid": _ENGINE, "name": "process_name", "args": {"name": "engine"}},
        {"ph": "M", "pid": _REQUESTS, "name": "process_name", "args": {"name": "requests"}},
    ]
    scale = 1_000_000 / PER_SECOND.get(trace.unit, 1_000)
    for number, record in enumerate(trace.requests):
        events += _request(record, number, trace, scale)
    events += _counters(trace, scale)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"unit": trace.unit}}


def save_perfetto(trace: Trace, path: str | Path) -> None:
    """Write the file that ui.perfetto.dev opens."""
    text = json.dumps(perfetto(trace), separators=(",", ":"), default=str)
    Path(path).write_text(text + "\n", encoding="utf-8")


def _request(record: Record, number: int, trace: Trace, scale: float) -> Iterator[dict[str, Any]]:
    """The request's own track, a dot for its first token, and its runs in the seats' tracks."""
    end = trace.last if record.end is None else record.end
    facts = {
        "prompt tokens": record.prompt_tokens,
        "output tokens": record.output_tokens,
        "status": record.status,
        "reason": record.reason,
    }
    yield _slice(record.id, _REQUESTS, number, record.arrival, end, scale, facts)
    times = trace.token_times(record.id)
    if times:
        yield {
            "ph": "i", "s": "t", "name": "first token", "pid": _REQUESTS, "tid": number,
            "ts": float(times[0]) * scale,
        }  # fmt: skip
    for run in record.runs:
        start, stop = (trace.starts or [])[run.first], (trace.ends or [])[run.stop - 1]
        positions = f"[{run.start}, {run.reached})"
        args = {
            "positions": positions,
            "steps": run.count,
            "blocks added": len(run.blocks),
            "tokens from the cache": run.cached,
            "blocks from host memory": run.restored,
        }
        yield _slice(f"{record.id} {run.kind}", _ENGINE, run.seat, start, stop, scale, args)


def _slice(
    name: str, pid: int, tid: int, start: Time, end: Time, scale: float, args: dict[str, Any]
) -> dict[str, Any]:
    ts = float(start) * scale
    return {
        "ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts,
        "dur": float(end) * scale - ts, "args": args,
    }  # fmt: skip


def _counters(trace: Trace, scale: float) -> Iterator[dict[str, Any]]:
    changes: list[tuple[Time, str, int]] = []
    for record in trace.requests:
        changes.append((record.arrival, "in the service", 1))
        if record.end is not None:
            changes.append((record.end, "in the service", -1))
    level: dict[str, int] = {}
    for moment, name, difference in sorted(changes, key=lambda change: change[0]):
        level[name] = level.get(name, 0) + difference
        yield _counter(name, moment, level[name], scale)
    before = 0
    for start, used in zip(trace.starts or (), trace.blocks_used(), strict=True):
        if used != before:
            yield _counter("KV blocks", start, used, scale)
            before = used
    if before and all(record.end is not None for record in trace.requests):
        yield _counter("KV blocks", trace.last, 0, scale)


def _counter(name: str, moment: Time, value: int, scale: float) -> dict[str, Any]:
    return {
        "ph": "C", "name": name, "pid": _ENGINE, "tid": 0, "ts": float(moment) * scale,
        "args": {name: value},
    }  # fmt: skip
