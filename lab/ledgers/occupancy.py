"""How full the seats were: what a batch could have computed, and what it did."""

from __future__ import annotations

from dataclasses import dataclass

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.request import Time
from lab.trace import Trace


@dataclass(frozen=True, slots=True, repr=False)
class Occupancy(Shown):
    """Seat-steps of a run: one seat in one step, computing something (busy) or not (idle)."""

    seats: int
    steps: int
    busy: int
    output_tokens: int

    @property
    def idle(self) -> int:
        """Seat-steps that computed nothing."""
        return self.seats * self.steps - self.busy

    @property
    def share(self) -> Time:
        """Busy seat-steps over all of them."""
        return exact_ratio(self.busy, self.seats * self.steps)

    @property
    def tokens_per_step(self) -> Time:
        """Output tokens over steps."""
        return exact_ratio(self.output_tokens, self.steps)

    def table(self) -> Table:
        """The account as one row."""
        columns = ("seats", "steps", "busy seat-steps", "idle", "occupancy", "tokens/step")
        row = (self.seats, self.steps, self.busy, self.idle, self.share, self.tokens_per_step)
        return Table(columns, (row,))


def occupancy(trace: Trace) -> Occupancy:
    """Busy and idle seat-steps over all steps of a trace.

    Two seats over six steps are 12 seat-steps; if 8 of them compute, the occupancy is 2/3. It says
    how full the batch was, not how fast anybody was served. Raises ValueError for a trace without
    steps or without a stated number of seats.
    """
    seats = trace.settings.get("seats")
    if not trace.num_steps or seats is None:
        raise ValueError(
            f"occupancy needs steps and a number of seats, and this trace has {trace.num_steps} "
            f"steps and {seats} seats"
        )
    busy = sum(run.count for record in trace.requests for run in record.runs if run.tokens)
    tokens = sum(record.output_tokens for record in trace.requests)
    return Occupancy(seats, trace.num_steps, busy, tokens)
