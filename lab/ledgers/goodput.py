"""How many requests keep their promise: goodput counts those within a latency contract."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lab.ledgers.latency import Latency, latency
from lab.ledgers.table import Shown, Table
from lab.ledgers.throughput import Window, ended_in, per_second, window_of
from lab.request import Time
from lab.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The latest that each metric may be, in the unit of the trace; None: not promised.

    A metric that a request does not have, such as the TPOT of one token, breaks no promise. `itl`
    bounds the longest gap between two tokens.
    """

    ttft: Time | None = None
    tpot: Time | None = None
    itl: Time | None = None
    e2e: Time | None = None

    def __post_init__(self) -> None:
        promised = {field.name: getattr(self, field.name) for field in fields(self)}
        if all(limit is None for limit in promised.values()):
            raise ValueError(f"a contract needs at least one limit of {', '.join(promised)}, got 0")
        for name, limit in promised.items():
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must not be negative, got {limit}")

    def broken_by(self, row: Latency) -> list[str]:
        """The promises that a request did not keep; not finishing breaks them all."""
        limits = {f.name: getattr(self, f.name) for f in fields(self)}
        promised = {name: limit for name, limit in limits.items() if limit is not None}
        if row.status != "finished":
            return list(promised)
        had = {
            "ttft": row.ttft,
            "tpot": row.tpot,
            "itl": max(row.itl, default=None),
            "e2e": row.e2e,
        }
        return [
            name
            for name, limit in promised.items()
            if (value := had[name]) is not None and value > limit
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Goodput(Shown):
    """Requests that ended in the window, and those of them that kept the contract."""

    contract: Contract
    good: tuple[str, ...]
    broken: dict[str, tuple[str, ...]]
    """For each promise, who broke it. A request may break several."""
    requests: int
    requests_per_second: Time
    unit: str

    def table(self) -> Table:
        """The account as one row."""
        per = "step" if self.unit == "step" else "s"
        columns = ("requests", "good", f"good/{per}", *(f"late {name}" for name in self.broken))
        late = (len(who) for who in self.broken.values())
        row = (self.requests, len(self.good), self.requests_per_second, *late)
        return Table(columns, (row,), f"contract in {self.unit}: {_promises(self.contract)}")


def goodput(trace: Trace, contract: Contract, window: Window = "drain") -> Goodput:
    """Requests per second that finish in the window within the contract.

    Three good requests in a window of 400 ms are 3 / 0.4 = 7.5 requests/s. The unit is requests,
    not tokens: a token of a late answer keeps no promise.
    """
    start, end = window_of(trace, window)
    ended = {record.id for record in ended_in(trace, start, end)}
    rows = [row for row in latency(trace) if row.id in ended]
    faults = {row.id: contract.broken_by(row) for row in rows}
    names = [f.name for f in fields(contract) if getattr(contract, f.name) is not None]
    good = tuple(who for who, broken in faults.items() if not broken)
    return Goodput(
        contract=contract,
        good=good,
        broken={name: tuple(w for w, broken in faults.items() if name in broken) for name in names},
        requests=len(rows),
        requests_per_second=per_second(len(good), end - start, trace.unit),
        unit=trace.unit,
    )


def _promises(contract: Contract) -> str:
    limits = {f.name: getattr(contract, f.name) for f in fields(contract)}
    return ", ".join(f"{n.upper()} ≤ {limit}" for n, limit in limits.items() if limit is not None)
