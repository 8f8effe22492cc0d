"""Chapter 11, what is cut in two: four ways and a card, and when two are slower than one."""

from __future__ import annotations

from fractions import Fraction

from lab.figures.cards import Cards
from lab.figures.layout import layout_figure
from lab.figures.pipeline import pipeline_figure
from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.links import link
from lab.ledgers.pipeline import SCHEDULES, pipeline
from lab.ledgers.sizes import MILLISECONDS, Number, device, model_size
from lab.ledgers.words import counted, grouped, listed
from lab.parallel.layout import layout
from lab.parallel.mesh import Mesh
from lab.parallel.sketch import WAYS, Sketch
from lab.parallel.step_time import StepTime, decode_step
from lab.parallel.traffic import Wiring

MODELS = ("llama-3.2-1b", "llama-3-8b", "llama-3-70b")
LINKS = ("nvlink-4", "pcie-5", "ethernet-100g", "ethernet-10g")
BATCHES = (1, 8, 64, 512)
DEVICES = (1, 2, 4, 8)


def cut_in_two(way: int, limit: int) -> tuple[Cards]:
    """Four layers of 100 MB on two devices with cards of `limit` MB, cut one of the ways: 0 is data
    parallel, 1 and 2 are tensor parallel by columns and by rows, 3 is pipeline parallel."""
    return (layout_figure(Sketch(way=WAYS[way]), limit),)


def microbatches(stages: int, count: int, schedule: int) -> tuple[Scene]:
    """`count` microbatches through `stages` stages that need 1 step each, forward and backward.
    `schedule` is a place in `SCHEDULES`."""
    times = [1] * stages
    chosen = SCHEDULES[schedule]
    back = None if chosen == "inference" else times
    return (pipeline_figure(pipeline(times, count, backward=back, schedule=chosen)),)


def more_devices(model: int, wire: int, batch: int) -> tuple[Scene]:
    """The next token of a batch on 1, 2, 4 and 8 H100s that share every layer: work, latency and
    transfer. Each is a place in `MODELS`, `LINKS` and `BATCHES`; every sequence has 1,024 tokens
    in its cache. Memory is not asked for: what does not fit on one device is timed all the same.
    """
    size, over, sequences = model_size(MODELS[model]), link(LINKS[wire]), BATCHES[batch]
    steps = {
        count: decode_step(
            layout(size, Mesh(tp=count)),
            device("h100"),
            Wiring(inside=over, between=over),
            sequences=sequences,
            context_tokens=1024,
        )
        for count in DEVICES
    }
    lanes = {count: counted(count, "device") for count in DEVICES}
    ends = {count: _ms(step.seconds) for count, step in steps.items()}
    order = sorted(ends, key=ends.__getitem__)
    placed = [f"{lanes[count]} after {_said(ends[count])}" for count in order]
    return (
        Scene(
            title="Who has the next token first?",
            finding=f"First {placed[0]}; then {listed(placed[1:])}.",
            conditions=f"{size.name} in bf16 on H100s, {over.name}, "
            f"{counted(sequences, 'sequence')} with 1,024 tokens{' each' if sequences > 1 else ''}",
            tag="derived",
            unit="ms",
            lanes=tuple(lanes.values()),
            marks=tuple(mark for count in DEVICES for mark in _bars(lanes[count], steps[count])),
            frames=(
                Frame(0, "0", "every device reads its part of the weights"),
                *(
                    Frame(
                        ends[count], f"{ends[count]:.3g}", f"{lanes[count]}: {_told(steps[count])}"
                    )
                    for count in order
                ),
            ),
        ),
    )


def _ms(seconds: Number) -> float:
    return float(seconds * MILLISECONDS)


def _rounded(ms: float, digits: int) -> str:
    return grouped(float(f"{ms:.{digits}g}"))


def _said(ms: float) -> str:
    return f"{_rounded(ms, 3)} ms"


def _told(step: StepTime) -> str:
    """What a step is made of: "2.26 ms of work, 0.132 ms of latency, 0.00147 ms of transfer"."""
    parts = {"work": step.work.low_s, "latency": step.latency_s, "transfer": step.transfer_s}
    told = (f"{_said(_ms(seconds))} of {name}" for name, seconds in parts.items() if seconds)
    return f"the token is there, after {', '.join(told)}"


def _bars(lane: str, step: StepTime) -> list[Mark]:
    """Work, then what every message waits, then what its bytes take; a part of 0 has no mark."""
    parts = {"work": step.work.low_s, "latency": step.latency_s, "transfer": step.transfer_s}
    marks, start = [], Fraction(0)
    for name, seconds in parts.items():
        stop = start + Fraction(seconds)
        if seconds:
            role = "decode" if name == "work" else "exchange"
            label = f"{name} {_rounded(_ms(seconds), 2)}"
            marks.append(Mark(f"{lane} {name}", role, lane, _ms(start), _ms(stop), label, "A"))
        start = stop
    return marks
