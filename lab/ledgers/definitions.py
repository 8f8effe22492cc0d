"""One log of one call, and every definition of its latency that is in use.

Sources and tools agree on names and not on what they mean: where the clock starts and stops, and
what is divided by what. Each definition here covers a stretch of the same log and says what it
hides. The first one of each metric is this book's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from lab.ledgers.latency import exact_ratio
from lab.ledgers.table import Shown, Table
from lab.request import Time
from lab.trace import Trace, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLog:
    """What user, client and server can note about one call, all on one clock."""

    asked: Time
    """The user asks."""
    sent: Time
    """The client sends the request."""
    arrived: Time
    """The server has it."""
    scheduled: Time
    """The first step that computes some of it starts."""
    made: tuple[Time, ...]
    """The engine has made each token."""
    received: tuple[Time, ...]
    """The client has each token; those of one message come at one moment."""
    unit: Unit

    @property
    def num_tokens(self) -> int:
        """Output tokens."""
        return len(self.made)

    @property
    def messages(self) -> tuple[Time, ...]:
        """The moments at which something reaches the client."""
        return tuple(sorted(set(self.received)))


Stretch = tuple[Time, Time]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A way to measure: a `stretch` of a log, divided `over` so many. `used_by` names tools and
    papers whose definition it is, as read in 2026; some of them read the client's clock where the
    log here has the server's."""

    metric: str
    label: str
    """In a few words, for a menu."""
    name: str
    stretch: Callable[[CallLog], Stretch | None]
    over: Callable[[CallLog], int] = lambda log: 1
    hides: str
    used_by: tuple[str, ...] = ()

    def value(self, log: CallLog) -> Time | None:
        """What it says of a log; None where it does not exist, such as a gap of one token."""
        covered, count = self.stretch(log), self.over(log)
        return exact_ratio(covered[1] - covered[0], count) if covered and count else None


class Pause(NamedTuple):
    """From one message to the next one, which brings `tokens`."""

    start: Time
    stop: Time
    tokens: int


def _pauses(log: CallLog) -> list[Pause]:
    return [Pause(start, stop, log.received.count(stop)) for start, stop in pairwise(log.messages)]


def _longest(log: CallLog) -> Pause | None:
    return max(_pauses(log), key=lambda pause: pause.stop - pause.start, default=None)


def _longest_spread(log: CallLog) -> Pause | None:
    """The pause that is longest when it is divided by the tokens that end it."""
    return max(
        _pauses(log),
        key=lambda pause: exact_ratio(pause.stop - pause.start, pause.tokens),
        default=None,
    )


def _stretch(pause: Pause | None) -> Stretch | None:
    return pause and (pause.start, pause.stop)


def _after_first(log: CallLog) -> Stretch:
    return log.made[0], log.made[-1]


DEFINITIONS: dict[str, tuple[Definition, ...]] = {
    "TTFT": (
        Definition(
            metric="TTFT",
            label="server: had to made",
            name="from the server having it to the first token made",
            stretch=lambda log: (log.arrived, log.made[0]),
            hides="the network, both ways",
            used_by=("vLLM /metrics",),
        ),
        Definition(
            metric="TTFT",
            label="client: sent to received",
            name="from the client sending it to the first token received",
            stretch=lambda log: (log.sent, log.received[0]),
            hides="which part is the network's and which the server's",
            used_by=("vLLM bench", "SGLang bench", "AIPerf"),
        ),
        Definition(
            metric="TTFT",
            label="server: first step to made",
            name="from the first step to the first token made",
            stretch=lambda log: (log.scheduled, log.made[0]),
            hides="the queue, which is where load shows first",
            used_by=("vLLM per-request metrics", "DistServe (in its definition)"),
        ),
    ),
    "TPOT": (
        Definition(
            metric="TPOT",
            label="first to last, over gaps",
            name="from the first token to the last, over the gaps",
            stretch=_after_first,
            over=lambda log: log.num_tokens - 1,
            hides="the longest gap",
            used_by=(
                "vLLM /metrics",
                "vLLM bench",
                "SGLang bench",
                "MLPerf",
                "AIPerf (ITL)",
                "trtllm-bench (ITL)",
            ),
        ),
        Definition(
            metric="TPOT",
            label="first to last, over tokens",
            name="from the first token to the last, over all tokens",
            stretch=_after_first,
            over=lambda log: log.num_tokens,
            hides="one gap: short answers look fast",
            used_by=("llama.cpp, formerly (predicted_per_token_ms)",),
        ),
        Definition(
            metric="TPOT",
            label="whole answer, over tokens",
            name="the whole answer, over all tokens",
            stretch=lambda log: (log.arrived, log.made[-1]),
            over=lambda log: log.num_tokens,
            hides="that queue and prefill are in it: short answers look slow",
            used_by=("GuideLLM", "LLMPerf (ITL)"),
        ),
        Definition(
            metric="TPOT",
            label="without queue, over tokens",
            name="from the first step to the last token, over all tokens",
            stretch=lambda log: (log.scheduled, log.made[-1]),
            over=lambda log: log.num_tokens,
            hides="that the prefill is in it, and the queue is not",
            used_by=("TGI (time_per_token)",),
        ),
        Definition(
            metric="TPOT",
            label="mean pause",
            name="the mean pause between messages",
            stretch=lambda log: (log.messages[0], log.messages[-1]),
            over=lambda log: len(log.messages) - 1,
            hides="how many tokens a message brings",
            used_by=("vLLM bench (mean ITL)",),
        ),
        Definition(
            metric="TPOT",
            label="longest pause",
            name="the longest pause between messages",
            stretch=lambda log: _stretch(_longest(log)),
            hides="how rare it is",
            used_by=("vLLM bench (ITL, its p99)", "Sarathi-Serve (TBT, its p99)"),
        ),
        Definition(
            metric="TPOT",
            label="longest pause, per token",
            name="the longest pause, over the tokens that end it",
            stretch=lambda log: _stretch(_longest_spread(log)),
            over=lambda log: pause.tokens if (pause := _longest_spread(log)) else 0,
            hides="that they came at once: bursts look smooth",
            used_by=("SGLang bench, native (ITL)",),
        ),
    ),
    "E2E": (
        Definition(
            metric="E2E",
            label="server: had to made",
            name="from the server having it to the last token made",
            stretch=lambda log: (log.arrived, log.made[-1]),
            hides="the network, and what the user waits for elsewhere",
            used_by=("vLLM /metrics",),
        ),
        Definition(
            metric="E2E",
            label="client: sent to received",
            name="from the client sending it to the last token received",
            stretch=lambda log: (log.sent, log.received[-1]),
            hides="what the user waits for before and after the call",
            used_by=("vLLM bench", "AIPerf", "GuideLLM"),
        ),
        Definition(
            metric="E2E",
            label="user: asked to received",
            name="from the user asking to the last token received",
            stretch=lambda log: (log.asked, log.received[-1]),
            hides="how much of it is the model's",
        ),
    ),
}
"""Every definition by metric; the book's own is the first."""


class Definitions(Shown):
    """What each definition says of one log."""

    def __init__(self, log: CallLog) -> None:
        self.log = log

    def __iter__(self) -> Iterator[tuple[Definition, Time | None]]:
        for found in DEFINITIONS.values():
            yield from ((one, one.value(self.log)) for one in found)

    def __getitem__(self, metric: str) -> list[Time | None]:
        """The values of a metric in the order of DEFINITIONS. KeyError for another name."""
        return [one.value(self.log) for one in DEFINITIONS[metric]]

    def table(self) -> Table:
        """A row a definition."""
        rows = [
            (one.metric, one.name, value, one.hides, "; ".join(one.used_by) or None)
            for one, value in self
        ]
        columns = ("metric", "what is measured", self.log.unit, "hides", "used by")
        return Table(columns, tuple(rows), "one log; this book's definition first")


def call_log(
    trace: Trace,
    request_id: str,
    *,
    before: Time = 0,
    network: Time = 0,
    messages: Sequence[int] | None = None,
) -> CallLog:
    """What could be noted about a finished request of a trace by everybody who sees it.

    The user asks at 0, the client sends the request `before` later, and it needs `network` to the
    server and as long back. `messages` says how many tokens leave in each message (by default 1);
    a message leaves when the last of its tokens is made. With tokens made at 120, 140, 160 and 180
    and `messages=(1, 2, 1)` the client gets something three times.

    ValueError if the request has not finished, if nothing is known of its steps, if a time is
    negative, or if the messages do not hold all its tokens.
    """
    record, times = trace[request_id], trace.token_times(request_id)
    if record.status != "finished" or trace.starts is None or not record.runs:
        raise ValueError(
            f"request {request_id!r} must be finished and have steps to make a log, and it is "
            f"{record.status or 'not at its end'} with {len(record.runs)} runs of steps"
        )
    for name, value in (("before", before), ("network", network)):
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value}")
    sizes = (1,) * len(times) if messages is None else tuple(messages)
    if sum(sizes) != len(times) or min(sizes) < 1:
        raise ValueError(f"messages must hold {len(times)} tokens, at least 1 each, got {sizes}")
    by = before + network - record.arrival
    last_of = [end for end, size in zip(accumulate(sizes), sizes, strict=True) for _ in range(size)]
    return CallLog(
        asked=0,
        sent=before,
        arrived=before + network,
        scheduled=trace.starts[record.runs[0].first] + by,
        made=tuple(time + by for time in times),
        received=tuple(times[end - 1] + by + network for end in last_of),
        unit=trace.unit,
    )


def definitions(log: CallLog) -> Definitions:
    """Every definition of TTFT, TPOT and E2E that is in use, on one log."""
    return Definitions(log)
