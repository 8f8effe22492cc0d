"""A trace in another unit of time: what a wall clock wrote in seconds, read in milliseconds."""

from __future__ import annotations

from dataclasses import replace

from lab.ledgers.latency import converted
from lab.record import Record
from lab.request import Time
from lab.trace import Trace, Unit


def in_unit(trace: Trace, unit: Unit) -> Trace:
    """The same run with every moment in `unit`: 0.25 s is 250 ms. The trace itself stays as it is.

    Moments that were equal are equal afterwards, so parts still add up to the whole. Raises
    ValueError where one of the two units is "step".
    """
    factor = converted(1, trace.unit, unit)

    def moved(moments: list[Time] | None) -> list[Time] | None:
        return None if moments is None else [moment * factor for moment in moments]

    def at(moment: Time | None) -> Time | None:
        return None if moment is None else moment * factor

    def record(old: Record) -> Record:
        return replace(
            old,
            arrival=old.arrival * factor,
            deadline=at(old.deadline),
            cancel_at=at(old.cancel_at),
            end=at(old.end),
            times=moved(old.times),
            runs=[replace(run, blocks=list(run.blocks)) for run in old.runs],
            stays=list(old.stays),
            output=list(old.output),
        )

    return Trace(
        unit,
        trace.settings,
        map(record, trace.requests),
        moved(trace.starts),
        moved(trace.ends),
        trace.evictions,
    )
