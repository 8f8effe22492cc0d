"""Traces as JSON: one versioned, documented format, whoever made the trace.

The document is an object with these fields:

| field | meaning |
|---|---|
| `format` | the text `"tokens-in-flight trace"` |
| `version` | the number of this format, 1 |
| `unit` | of every time in it: `"step"`, `"us"`, `"ms"` or `"s"` |
| `settings` | who made the trace and how: `maker`, and what the maker says of itself |
| `steps` | null, or `{"starts": [...], "ends": [...]}`: a time for each step, counted from 0 |
| `requests` | one object a request, in the order of arrival |

A request has `id`, `arrival`, `prompt_tokens`, `max_tokens`, `priority`, `deadline`, `cancel_at`,
`status` (null, or "finished", "cancelled", "timed out", "refused", "failed"), `reason`, `end`,
`output` (token ids, empty where unknown) and

- `times`: null, or the delivery time of every token (where there are no steps);
- `stays`: `[seat, first step, step at which it was free again or null, preempted]`;
- `runs`: `[kind, seat, first step, steps, first position, tokens a step, delivered a step,
  [blocks added], drafts a step]`, with kind "prefill", "decode" or "recompute".

A time is a number; an exact fraction is a text, "1/3".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from lab.record import Record, Run, Stay
from lab.request import Time
from lab.trace import Trace, TraceError

FORMAT = "tokens-in-flight trace"
VERSION = 1

_TIMES = ("arrival", "deadline", "cancel_at", "end")
_PLAIN = ("id", "prompt_tokens", "max_tokens", "priority", "status", "reason", "output")


def to_json(trace: Trace) -> dict[str, Any]:
    """The trace as plain values that `json.dump` can write."""
    steps = None
    if trace.starts is not None and trace.ends is not None:
        steps = {"starts": _times_out(trace.starts), "ends": _times_out(trace.ends)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "unit": trace.unit,
        "settings": {name: _plain(value) for name, value in trace.settings.items()},
        "steps": steps,
        "requests": [_record_out(record) for record in trace.requests],
    }


def from_json(document: object) -> Trace:
    """The trace that a document holds. Raises `TraceError` if it is of another format or version,
    lacks a field, or contradicts itself."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, Mapping) else type(document).__name__
        raise TraceError(f"a trace begins with format {FORMAT!r}, and this has {found!r}")
    if document.get("version") != VERSION:
        raise TraceError(
            f"this program reads version {VERSION} of the trace format, "
            f"and the document has version {document.get('version')!r}"
        )
    try:
        steps = document["steps"]
        trace = Trace(
            document["unit"],
            document["settings"],
            [_record_in(row) for row in document["requests"]],
            None if steps is None else _times_in(steps["starts"]),
            None if steps is None else _times_in(steps["ends"]),
        )
        trace.check()
    except TraceError:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise TraceError(f"the document is not a whole trace: {error!r}") from error
    return trace


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace to a JSON file."""
    text = json.dumps(to_json(trace), separators=(",", ":"))
    Path(path).write_text(text + "\n", encoding="utf-8")


def load(path: str | Path) -> Trace:
    """Read a trace from a JSON file. Raises `TraceError` with the reason if it is none."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{path} is not JSON: {error}") from error
    return from_json(document)


def _record_out(record: Record) -> dict[str, Any]:
    return {
        **{name: getattr(record, name) for name in _PLAIN},
        **{name: _plain(getattr(record, name)) for name in _TIMES},
        "times": None if record.times is None else _times_out(record.times),
        "stays": [list(stay) for stay in record.stays],
        "runs": [[getattr(run, field.name) for field in fields(Run)] for run in record.runs],
    }


def _record_in(row: Mapping[str, Any]) -> Record:
    plain: dict[str, Any] = {name: row[name] for name in _PLAIN}
    times: dict[str, Any] = {name: _time_in(row[name]) for name in _TIMES}
    return Record(
        **plain,
        **times,
        times=None if row["times"] is None else _times_in(row["times"]),
        stays=[Stay(*_all_of(stay, 4)) for stay in row["stays"]],
        runs=[Run(*_all_of(run, 9)) for run in row["runs"]],
    )


def _all_of(values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) != count:
        raise ValueError(f"{count} values are needed, got {list(values)}")
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return str(value) if isinstance(value, Fraction) else value


def _times_out(times: Iterable[Time]) -> list[Any]:
    return [_plain(time) for time in times]


def _times_in(times: Sequence[Any]) -> list[Time]:
    return [time for time in map(_time_in, times) if time is not None]


def _time_in(value: Any) -> Time | None:
    if isinstance(value, str):
        return Fraction(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError(f"a time must be a number or a fraction such as '1/3', got {value!r}")
