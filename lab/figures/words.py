"""What a figure says about a whole trace: who made it, under which conditions, and how it ended;
and how durations read in its captions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.figures.scene import moment
from lab.ledgers.table import show
from lab.ledgers.words import counted, grouped
from lab.request import Time
from lab.trace import PER_SECOND, Trace


def ends(trace: Trace) -> str:
    """Who ended when, and how if not with an answer."""
    told = [
        f"{r.id} {'' if r.status == 'finished' else f'{r.status} '}{moment(r.end, trace.unit)}"
        for r in trace.requests
        if r.end is not None
    ]
    return f"ends: {', '.join(told)}"


def conditions(trace: Trace) -> str:
    """The inputs of a trace that matter to a reader."""
    settings = trace.settings
    if settings.get("maker") == "given":
        return f"{counted(len(trace), 'request')}, every delivery time as the table has it"
    names: dict[str, Callable[[Any], str]] = {
        "policy": lambda name: f"{name.lower()} batching",
        "seats": lambda seats: counted(seats, "seat"),
        "token_budget": lambda tokens: f"token budget {grouped(tokens)}",
        "blocks": lambda blocks: counted(blocks, "block"),
        "cost": lambda name: name.lower(),
    }
    told = [
        words(settings[name]) for name, words in names.items() if settings.get(name) is not None
    ]
    if settings.get("maker") in ("live", "distributed") and "model" in settings:
        told.append(f"model {settings['model']!r} in {settings['dtype']} on {settings['device']}")
    axes = [f"{axis} {settings[axis]}" for axis in ("tp", "pp") if settings.get(axis, 1) > 1]
    if axes:
        told.append(f"cut along {' and '.join(axes)}")
    return ", ".join([counted(len(trace), "request"), *told])


def readable(time: Time, unit: str) -> str:
    """A duration to three digits, in the unit that reads best: "1.75 s", "6 ms", "1.5 steps"."""
    if unit == "step":
        return counted(float(f"{float(time):.3g}"), "step")
    seconds = float(f"{float(time) / PER_SECOND[unit]:.3g}")
    return f"{grouped(seconds)} s" if seconds >= 1 else f"{show(seconds * 1000)} ms"


def step_labels(trace: Trace) -> list[str]:
    """The steps by number, from 1 on, where each begins at its number; else by their starts."""
    starts = trace.starts or []
    by_number = trace.unit == "step" and all(at == number for number, at in enumerate(starts))
    return [str(number + 1) if by_number else show(at) for number, at in enumerate(starts)]
