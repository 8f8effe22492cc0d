"""Traces as JSON: one versioned, documented format, whoever made the trace.

The document is an object with these fields:

| field | meaning |
|---|---|
| `format` | the text `"tokens-in-flight trace"` |
| `version` | the number of this format, 2; documents of version 1 can be read too |
| `unit` | of every time in it: `"step"`, `"us"`, `"ms"` or `"s"` |
| `settings` | who made the trace and how: `maker`, and what the maker says of itself |
| `steps` | null, or `{"starts": [...], "ends": [...]}`: a time for each step, counted from 0 |
| `evictions` | `[step, block]`: cached blocks that were given up for others |
| `requests` | one object a request, in the order of arrival; one each for several answers |

A request has `id`, `arrival`, `prompt_tokens`, `max_tokens`, `priority`, `deadline`, `cancel_at`,
`status` (null, or "finished", "cancelled", "timed out", "refused", "failed"), `reason`, `end`,
`output` (token ids, empty where unknown), `fork_of` (null, or the id of the request whose prompt a
further answer shares) and

- `times`: null, or the delivery time of every token (where there are no steps);
- `stays`: `[seat, first step, step at which it was free again or null, preempted, blocks that moved
  to host memory]`;
- `runs`: `[kind, seat, first step, steps, first position, tokens a step, delivered a step,
  [blocks added], drafts a step, tokens taken from the prefix cache, blocks brought back from host
  memory, null or [shared block, its copy]]`, with kind "prefill", "decode" or "recompute".

Version 1 had no `evictions`, no `fork_of`, and neither the last value of a stay nor the last three
of a run.

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
VERSION = 2

_TIMES = ("arrival", "deadline", "cancel_at", "end")
_PLAIN = ("id", "prompt_tokens", "max_tokens", "priority", "status", "reason", "output")
_SINCE_2 = ("fork_of",)
_NUM_VALUES = {1: (4, 9), 2: (5, 12)}
"""How many values a stay and a run have, in each version that can be read."""


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
        "evictions": [list(eviction) for eviction in trace.evictions],
        "requests": [_record_out(record) for record in trace.requests],
    }


def from_json(document: object) -> Trace:
    """The trace that a document holds. Raises `TraceError` if it is of another format or version,
    lacks a field, or contradicts itself."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, Mapping) else type(document).__name__
        raise TraceError(f"a trace begins with format {FORMAT!r}, and this has {found!r}")
    version = document.get("version")
    if version not in tuple(_NUM_VALUES):
        raise TraceError(
            f"this program reads versions 1 to {VERSION} of the trace format, "
            f"and the document has version {version!r}"
        )
    try:
        steps = document["steps"]
        evictions = document["evictions"] if version > 1 else ()
        trace = Trace(
            document["unit"],
            document["settings"],
            [_record_in(row, version) for row in document["requests"]],
            None if steps is None else _times_in(steps["starts"]),
            None if steps is None else _times_in(steps["ends"]),
            [(step, block) for step, block in evictions],
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
        **{name: getattr(record, name) for name in (*_PLAIN, *_SINCE_2)},
        **{name: _plain(getattr(record, name)) for name in _TIMES},
        "times": None if record.times is None else _times_out(record.times),
        "stays": [list(stay) for stay in record.stays],
        "runs": [[getattr(run, field.name) for field in fields(Run)] for run in record.runs],
    }


def _record_in(row: Mapping[str, Any], version: int) -> Record:
    names = (*_PLAIN, *_SINCE_2) if version > 1 else _PLAIN
    plain: dict[str, Any] = {name: row[name] for name in names}
    of_stay, of_run = _NUM_VALUES[version]
    times: dict[str, Any] = {name: _time_in(row[name]) for name in _TIMES}
    return Record(
        **plain,
        **times,
        times=None if row["times"] is None else _times_in(row["times"]),
        stays=[Stay(*_all_of(stay, of_stay)) for stay in row["stays"]],
        runs=[_run_in(_all_of(run, of_run)) for run in row["runs"]],
    )


def _run_in(values: Sequence[Any]) -> Run:
    run = Run(*values)
    if run.copy is not None:
        source, target = run.copy
        run.copy = (source, target)
    return run


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
