"""How much comes out in a window of time. Without its window the number means nothing.

- The *drain* window lasts from the first arrival to the last completion: how fast a finite batch
  of work is cleared. It is another window for another schedule.
- A fixed window (start, end) is the same for both: a schedule that is done early idles in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.record import Record
from lab.request import Time
from lab.trace import PER_SECOND, Trace

Window = Literal["drain"] | tuple[Time, Time]


@dataclass(frozen=True, slots=True, repr=False)
class Throughput(Shown):
    """What was delivered after `start` and not after `end`; a rate is per second, or per step in
    a trace that counts in steps."""

    window: str
    start: Time
    end: Time
    output_tokens: int
    finished: int
    others: dict[str, int]
    """Requests that ended in the window in another way, and how."""
    tokens_per_second: Time
    requests_per_second: Time
    unit: str

    def table(self) -> Table:
        """The account as one row."""
        per = "step" if self.unit == "step" else "s"
        columns = (
            "window", "from", "to", "output tokens", f"tokens/{per}",
            "finished", f"requests/{per}", *self.others,
        )  # fmt: skip
        row = (
            self.window, self.start, self.end, self.output_tokens, self.tokens_per_second,
            self.finished, self.requests_per_second, *self.others.values(),
        )  # fmt: skip
        return Table(columns, (row,), f"window in {self.unit}")


def throughput(trace: Trace, window: Window = "drain") -> Throughput:
    """Output tokens and finished requests per second in a named window.

    What happens at the end of the window counts, and at its start only what no window before it
    could count: the first arrival, if that is the start.

    Six tokens between 0 and 360 ms are 6 / 0.36 = 50/3 tokens/s. Tokens of requests that did not
    finish count as delivered; the requests are counted apart. Raises ValueError if the window
    is empty or nothing has ended.
    """
    start, end = window_of(trace, window)
    tokens = 0
    before = bisect_left if _has_its_start(trace, start) else bisect_right
    for record in trace.requests:
        times = trace.token_times(record.id)
        tokens += bisect_right(times, end) - before(times, start)
    ended = Counter(str(record.status) for record in ended_in(trace, start, end))
    finished = ended.pop("finished", 0)
    return Throughput(
        window="drain" if window == "drain" else "fixed",
        start=start,
        end=end,
        output_tokens=tokens,
        finished=finished,
        others=dict(sorted(ended.items())),
        tokens_per_second=per_second(tokens, end - start, trace.unit),
        requests_per_second=per_second(finished, end - start, trace.unit),
        unit=trace.unit,
    )


def window_of(trace: Trace, window: Window) -> tuple[Time, Time]:
    """The two ends of a named window of a trace."""
    if window == "drain":
        ends = [r.end for r in trace.requests if r.end is not None and r.status == "finished"]
        if not ends:
            raise ValueError("the drain window ends with the last completion, and nothing finished")
        start, end = min(record.arrival for record in trace.requests), max(ends)
    elif isinstance(window, str):
        raise ValueError(f"a window is 'drain' or a pair of moments, got {window!r}")
    else:
        start, end = window
    if not start < end:
        raise ValueError(f"a window must end after it starts, got {start} to {end}")
    return start, end


def ended_in(trace: Trace, start: Time, end: Time) -> list[Record]:
    """Requests that ended after `start` and not after `end`: windows end to end count each once."""
    has_start = _has_its_start(trace, start)
    return [
        record
        for record in trace.requests
        if record.end is not None
        and (start < record.end <= end or (has_start and record.end == start))
    ]


def _has_its_start(trace: Trace, start: Time) -> bool:
    """Whether a window holds its own start: only if no window before it could."""
    return all(start <= record.arrival for record in trace.requests)


def per_second(count: Time, duration: Time, unit: str) -> Time:
    """A rate per second of a duration in `unit`, exact where both are; per step for "step"."""
    return exact_ratio(count * PER_SECOND.get(unit, 1), duration)
