"""One log of one call, and above it the stretch that each chosen definition measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.definitions import CallLog, Definition
from lab.ledgers.table import show
from lab.ledgers.words import counted, listed
from lab.request import Time

WHO = "A"
"""The request whose colour the log has."""


def one_log(log: CallLog, chosen: Sequence[Definition], title: str = "") -> Scene:
    """The log of a call in three lanes, and a lane for each chosen definition.

    `server` holds queue, prefill and decode, `made` the moment of each token, `client` what the
    user waits for and the moments at which something comes; a token is labelled with its number.
    The lanes above hold a `span` each: what the definition covers, and its value. There is one
    frame for each moment that somebody can note; its caption names who notes what, and which of
    the metrics begin or end there. Raises ValueError for two definitions of one metric.
    """
    covered = {one.metric: one.stretch(log) for one in chosen}
    if len(covered) < len(chosen):
        raise ValueError(
            f"one definition a metric can be shown, got {len(chosen)} for {len(covered)}"
        )
    spans = [
        Mark(f"span.{one.metric}", "span", one.metric, *stretch, _said(one, log), WHO)
        for one in chosen
        if (stretch := covered[one.metric]) and one.value(log) is not None
    ]
    return Scene(
        title=title or "What does each number measure?",
        finding=" ".join(_finding(one, log) for one in chosen),
        conditions=f"one call of {counted(log.num_tokens, 'token')} in "
        f"{counted(len(log.messages), 'message')}, one clock",
        tag="derived",
        unit=log.unit,
        lanes=(*covered, "client", "server", "made"),
        marks=(*spans, *_client(log), *_server(log)),
        frames=tuple(_frames(log, covered)),
    )


def _said(one: Definition, log: CallLog) -> str:
    """A bracket's words: "TPOT 60 / 3 = 20"."""
    start, stop = one.stretch(log) or (0, 0)
    divided = f"{show(stop - start)} / {over} = " if (over := one.over(log)) != 1 else ""
    return f"{one.metric} {divided}{show(one.value(log))}"


def _finding(one: Definition, log: CallLog) -> str:
    value = one.value(log)
    said = "does not exist" if value is None else f"{show(value)} {log.unit}"
    return f"{one.metric} {said}: {one.name}; it hides {one.hides}."


def _client(log: CallLog) -> Iterator[Mark]:
    if log.sent > log.asked:
        label = f"before {show(log.sent - log.asked)}"
        yield Mark("before", "elsewhere", "client", log.asked, log.sent, label)
    yield Mark("waits", "waiting", "client", log.sent, log.received[-1], "", WHO)
    for moment in log.messages:
        numbers = [str(n) for n, at in enumerate(log.received, 1) if at == moment]
        label = numbers[0] if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
        yield Mark(f"received.{numbers[0]}", "token", "client", moment, moment, label, WHO)


def _server(log: CallLog) -> Iterator[Mark]:
    stretches = (
        ("queue", "waiting", log.arrived, log.scheduled),
        ("prefill", "prefill", log.scheduled, log.made[0]),
        ("decode", "decode", log.made[0], log.made[-1]),
    )
    for name, role, start, stop in stretches:
        if stop > start:
            yield Mark(name, role, "server", start, stop, f"{name} {show(stop - start)}", WHO)
    for number, moment in enumerate(log.made, 1):
        yield Mark(f"made.{number}", "token", "made", moment, moment, str(number), WHO)


def _frames(log: CallLog, covered: dict[str, tuple[Time, Time] | None]) -> Iterator[Frame]:
    told: dict[Time, list[str]] = defaultdict(list)
    told[log.asked].append("the user asks")
    told[log.sent].append("the client sends the request")
    told[log.arrived].append("the server has it, and it queues")
    told[log.scheduled].append("its first step starts")
    for number, moment in enumerate(log.made, 1):
        told[moment].append(f"token {number} is made")
    for moment in log.messages:
        numbers = [n for n, at in enumerate(log.received, 1) if at == moment]
        word = "token" if len(numbers) == 1 else "tokens"
        told[moment].append(f"the client has {word} {listed(numbers)}")
    for metric, stretch in covered.items():
        if stretch:
            told[stretch[0]].append(f"{metric} begins")
            told[stretch[1]].append(f"{metric} ends")
    for moment in sorted(told):
        yield Frame(moment, show(moment), "; ".join(told[moment]))
