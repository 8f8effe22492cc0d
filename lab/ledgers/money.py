"""What the tokens of a run cost, under a price that somebody states. An estimate, not a bill."""

from __future__ import annotations

from dataclasses import dataclass

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.ledgers.throughput import Window, throughput
from lab.request import Time
from lab.trace import PER_SECOND, Trace

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Shown):
    """The price of a window and of what came out of it, in the currency of the price."""

    total: Time
    output_tokens: int
    finished: int
    per_thousand_tokens: Time | None
    """None where nothing was delivered."""
    per_finished_request: Time | None
    paid: str

    def table(self) -> Table:
        """The account as one row."""
        columns = ("paid", "total", "per 1,000 output tokens", "per finished request")
        row = (self.paid, self.total, self.per_thousand_tokens, self.per_finished_request)
        return Table(columns, (row,))


def cost(
    trace: Trace,
    price_per_hour: Time,
    *,
    devices: int = 1,
    window: Window = "drain",
    reserved_hours: Time | None = None,
) -> Cost:
    """price · devices · hours, and what that makes for a thousand output tokens.

    Two dollars an hour for a window of 0.36 s are 2 · 0.36 / 3600 = 0.0002 dollars; six tokens in
    it make 1/30 dollar a thousand. With `reserved_hours` those are paid, however soon the work is
    done. Idle capacity outside the window, people and failures are left out.
    Raises ValueError for a negative price, less than one device, reserved hours that are not above
    0, or a trace that counts in steps and reserves no hours: a step has no price.
    """
    if price_per_hour < 0:
        raise ValueError(f"the price must not be negative, got {price_per_hour}")
    if devices < 1:
        raise ValueError(f"the number of devices must be at least 1, got {devices}")
    if reserved_hours is not None and not reserved_hours > 0:
        raise ValueError(f"reserved_hours must be above 0, got {reserved_hours}")
    done = throughput(trace, window)
    hours = reserved_hours
    if hours is None:
        if trace.unit not in PER_SECOND:
            raise ValueError(f"a trace in {trace.unit!r} has no hours to pay for: reserve some")
        hours = exact_ratio(done.end - done.start, PER_SECOND[trace.unit] * SECONDS_PER_HOUR)
    total = exact_ratio(price_per_hour * devices * hours, 1)
    return Cost(
        total=total,
        output_tokens=done.output_tokens,
        finished=done.finished,
        per_thousand_tokens=_each(1000 * total, done.output_tokens),
        per_finished_request=_each(total, done.finished),
        paid=f"{done.window} window" if reserved_hours is None else "reserved hours",
    )


def _each(total: Time, count: int) -> Time | None:
    return exact_ratio(total, count) if count else None
