"""A small network cut in two: what each card holds, who works for a token, and what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.figures.cards import CardFrame, Cards, Message
from lab.figures.cards import Cell as Drawn
from lab.ledgers.latency import exact_ratio
from lab.ledgers.sizes import Number
from lab.ledgers.table import show
from lab.ledgers.words import counted, listed
from lab.parallel.sketch import WAYS, Cell, Moment, Sketch

_NAMES = {
    "DP": "Data parallel",
    "TP by columns": "Tensor parallel, by columns",
    "TP by rows": "Tensor parallel, by rows",
    "PP": "Pipeline parallel",
}
_CUTS = {
    "DP": "every device gets a replica with all layers, and requests are shared out",
    "TP by columns": "every layer is cut by its columns, and each device gets a part of each",
    "TP by rows": "every layer is cut by its rows, and each device gets a part of each",
    "PP": "the layers are cut in order, and each device gets a run of them",
}


def layout_figure(sketch: Sketch, card_mb: Number = 300, most_mb: Number = 500) -> Cards:
    """One token on its way through a network that is cut as the sketch says.

    First the network lies there whole; then its cells go to their devices, and a meter fills for
    each against a card of `card_mb`; then a token passes, layer by layer, with every exchange as
    messages. `most_mb` is where the meters end. Where it does not fit the token passes all the
    same: the figure shows what would have to be there.
    """
    cards = [f"device {device}" for device in range(sketch.devices)]
    held = {
        _id(cell, device if sketch.way == "DP" else 0): cards[device]
        for device in range(sketch.devices)
        for cell in sketch.held(device)
    }
    whole = CardFrame(
        0,
        "1",
        f"{counted(sketch.layers, 'layer')} of {show(sketch.layer_mb)} MB each: "
        f"{show(sketch.total_mb)} MB, once",
        dict.fromkeys(held, ""),
    )
    size = f"{_sizes(sketch)}, on cards of {show(card_mb)} MB"
    verdict = "it fits" if sketch.fits(card_mb) else "it does not fit"
    cut = CardFrame(1, "2", f"{sketch.way}: {_CUTS[sketch.way]}; {size}: {verdict}", held)
    return Cards(
        title=f"{_NAMES[sketch.way]}: does it fit, and who works?",
        finding=_found(sketch, card_mb),
        conditions=f"{counted(sketch.layers, 'layer')} of {show(sketch.layer_mb)} MB of weights, "
        f"{counted(sketch.devices, 'device')} with {show(card_mb)} MB each, one user",
        tag="given",
        unit="step",
        cards=tuple(cards),
        blocks=tuple(f"layer {layer + 1}" for layer in range(sketch.layers)),
        cells=tuple(
            Drawn(_id(cell, copy), *cell) for copy in range(sketch.devices) for cell in sketch.cells
        ),
        limit=card_mb,
        most=most_mb,
        cell_size=exact_ratio(sketch.layer_mb, sketch.devices**2),
        size_unit="MB",
        frames=(whole, cut, *_token(sketch, cards, cut)),
    )


def four_ways(card_mb: Number = 300) -> tuple[Cards, ...]:
    """The four ways to cut four layers of 100 MB in two, one figure each."""
    return tuple(layout_figure(Sketch(way=way), card_mb) for way in WAYS)


def _id(cell: Cell, copy: int) -> str:
    name = f"{cell.layer + 1}.{cell.row + 1}.{cell.column + 1}"
    return f"{name} copy {copy}" if copy else name


def _sizes(sketch: Sketch) -> str:
    sizes = sketch.per_device_mb
    if len(set(sizes)) == 1:
        return f"{show(sizes[0])} MB each"
    return listed(f"{show(mb)} MB" for mb in sizes)


def _token(sketch: Sketch, cards: list[str], cut: CardFrame) -> Iterator[CardFrame]:
    sent = 0
    moments = list(sketch.token())
    for number, moment in enumerate(moments, 2):
        busy = [cards[device] for device in moment.devices]
        idle = [card for card in cards if card not in busy]
        frame = replace(cut, at=number, label=str(number + 1), sent=sent)
        if moment.exchange:
            sent += len(moment.messages)
            messages = tuple(Message(cards[a], cards[b]) for a, b in moment.messages)
            yield replace(
                frame,
                caption=_exchanged(moment, sent),
                messages=messages,
                sent=sent,
                exchange=moment.exchange,
            )
            continue
        verb = "works" if len(busy) == 1 else "work"
        rest = f"; {listed(idle)} {'is' if len(idle) == 1 else 'are'} idle" if idle else ""
        yield replace(
            frame,
            caption=f"layer {moment.layer + 1}: {listed(busy)} {verb}{rest}",
            busy=tuple(busy),
            at_work=tuple(
                _id(cell, device if sketch.way == "DP" else 0)
                for device in moment.devices
                for cell in sketch.held(device)
                if cell.layer == moment.layer
            ),
        )
    through = f"the token is through, after {counted(sent, 'message')}"
    at = len(moments) + 2
    yield replace(cut, at=at, label=str(at + 1), caption=through, sent=sent)


def _exchanged(moment: Moment, sent: int) -> str:
    why = {
        "all-gather": "each has some of the outputs, and the next layer needs all of them",
        "all-reduce": "each has a part of every sum, and they must be added",
        "send": "the next layer lies on the other device",
    }[moment.exchange]
    new = len(moment.messages)
    told = counted(new, "message")
    total = f"{sent} so far" if sent > new else "the first"
    return f"{moment.exchange} after layer {moment.layer + 1}: {why}; {told}, {total}"


def _found(sketch: Sketch, card_mb: Number) -> str:
    size = f"{_sizes(sketch)} on cards of {show(card_mb)} MB"
    verdict = "fits" if sketch.fits(card_mb) else "does not fit"
    return (
        f"{_NAMES[sketch.way]} {verdict}: {size}. While one token is computed, {_busy(sketch)} "
        f"of the time; {counted(sketch.messages, 'message')} sent."
    )


def _busy(sketch: Sketch) -> str:
    """Who works for how much of the time: "device 0 works for 50 % and device 1 for 50 %"."""
    shares = [f"{round(100 * float(part))} %" for part in sketch.busy]
    if len(set(shares)) == 1:
        return f"each device works for {shares[0]}"
    told = (f"device {device} for {part}" for device, part in enumerate(shares))
    return listed(told).replace(" for", " works for", 1)
