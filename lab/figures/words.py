"""What a figure says about a whole trace: who made it, under which conditions, and how it ended."""

from __future__ import annotations

from lab.figures.scene import moment
from lab.ledgers.table import show
from lab.trace import Trace


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
        return f"{len(trace)} requests, every delivery time as the table has it"
    names = {
        "policy": "{} batching",
        "seats": "{} seats",
        "token_budget": "token budget {}",
        "blocks": "{} blocks",
        "cost": "{}",
    }
    told = [
        words.format(str(settings[name]).lower())
        for name, words in names.items()
        if settings.get(name) is not None
    ]
    return ", ".join([counted(len(trace), "request"), *told])


def counted(count: int, noun: str) -> str:
    """A count in words: "1 request", "3 requests"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def tag(trace: Trace) -> str:
    """Where the times of a trace come from: given, derived (by the simulator) or measured."""
    tags = {"given": "given", "simulated": "derived"}
    return tags.get(trace.settings.get("maker", "given"), "measured")


def step_labels(trace: Trace) -> list[str]:
    """The steps by number, from 1 on, where each begins at its number; else by their starts."""
    starts = trace.starts or []
    by_number = trace.unit == "step" and all(at == number for number, at in enumerate(starts))
    return [str(number + 1) if by_number else show(at) for number, at in enumerate(starts)]
