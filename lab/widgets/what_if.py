"""What if? A figure whose inputs the reader changes, and the pure function that answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import prod
from typing import Any, Literal

import traitlets

from lab.figures.scene import Figure, Scene, check_unique, plain
from lab.widgets.answering import Answering
from lab.widgets.modules import module, style

MOST_SLIDERS = 3
MOST_BAKED = 1000
"""Spaces of at most so many results are computed beforehand and answer without Python."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A number that a reader may change: `value` at first, from `low` to `high` in `step`s.

    A "bar" is the length of a request's bars in the figure, or of the mark with this id: their
    end can be dragged. A "count" has the buttons − and +, a "slider" is for what is continuous. A
    "choice" is the place of one of `options`, from 0 on: write `Knob.choice`.
    """

    value: float
    low: float
    high: float
    step: float = 1
    label: str = ""
    unit: str = ""
    kind: Literal["bar", "count", "slider", "choice"] = "bar"
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise ValueError(f"step must be above 0, got {self.step}")
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"value must be from low to high, got {self.value} not in {self.low}..{self.high}"
            )
        places = (0, len(self.options) - 1, 1)
        if self.kind == "choice" and (self.low, self.high, self.step) != places:
            raise ValueError(
                f"a choice of {len(self.options)} options must go from 0 to {places[1]} in steps "
                f"of 1, got {self.low} to {self.high} in steps of {self.step}"
            )

    @classmethod
    def choice(cls, label: str, *options: str, value: int = 0) -> Knob:
        """One of several ways, as a menu: `Knob.choice("Order", "first come", "shortest")`.

        The function of the what-if is given the place of the option: 0, 1, ... Raises ValueError
        for fewer than 2 options, for one that stands twice, and for a `value` that is no place.
        """
        if len(options) < 2:
            raise ValueError(f"a choice needs at least 2 options, got {len(options)}")
        check_unique("options", options)
        return cls(value, 0, len(options) - 1, 1, label, kind="choice", options=options)

    @property
    def values(self) -> list[float]:
        """Every value that it may take."""
        count = round((self.high - self.low) / self.step) + 1
        return [self.low + self.step * i for i in range(count)]


Scenes = Callable[..., Sequence[Figure]]


class WhatIf(Answering):
    """A player whose scenes `function(**parameters)` makes, with a knob for each parameter.

    In a notebook the kernel answers; on a published page Python in the page does, and small spaces
    of results are baked into the page and need neither.
    """

    _esm = module("what_if")
    _css = style()

    function: Any = traitlets.Unicode(read_only=True).tag(sync=True)
    knobs: Any = traitlets.List(read_only=True).tag(sync=True)
    scenes: Any = traitlets.List(read_only=True).tag(sync=True)
    baked: Any = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, function: Scenes, knobs: dict[str, Knob]) -> None:
        if not knobs:
            raise ValueError("a what-if needs at least 1 knob, got 0")
        sliders = [name for name, knob in knobs.items() if knob.kind == "slider"]
        if len(sliders) > MOST_SLIDERS:
            raise ValueError(f"a what-if has at most {MOST_SLIDERS} sliders, got {len(sliders)}")
        super().__init__()
        self._function = function
        scenes = function(**{name: knob.value for name, knob in knobs.items()})
        self._text = _in_words(scenes, knobs)
        self.set_trait("function", f"{function.__module__}:{function.__name__}")
        self.set_trait("knobs", [{"name": name, **asdict(knob)} for name, knob in knobs.items()])
        self.set_trait("scenes", plain(scenes))
        if not sliders:
            self.set_trait("baked", _bake(function, knobs))

    def answer(self, **parameters: float) -> Sequence[Figure]:
        """The scenes for other values of the knobs."""
        return self._function(**parameters)

    def __repr__(self) -> str:
        """The text form: the figure as it is at first, and what may be changed."""
        return self._text


def what_if(function: Scenes, /, **knobs: Knob) -> WhatIf:
    """A figure with knobs: `lab.what_if(two_rules, A=lab.Knob(2, 1, 6), B=lab.Knob(4, 1, 6))`.

    `function` is one of `lab` that makes scenes from one number a knob. Raises ValueError
    for no knob, more than three sliders, or a first value outside its range.
    """
    return WhatIf(function, knobs)


def pack(results: Iterable[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Many results in little space: every value once in `pool`, and scenes as places in it.

    `results[r][s][f]` belongs to field `fields[f]`; a list stands for a list of values.
    """
    pool: dict[str, int] = {}

    def place(value: object) -> int:
        return pool.setdefault(json.dumps(value), len(pool))

    rows: list[list[list[int | list[int]]]] = []
    fields: list[str] = []
    for scenes in results:
        fields = fields or list(scenes[0])
        rows.append(
            [
                [
                    [place(item) for item in scene[name]]
                    if isinstance(scene[name], list)
                    else place(scene[name])
                    for name in fields
                ]
                for scene in scenes
            ]
        )
    return {"fields": fields, "pool": [json.loads(text) for text in pool], "results": rows}


def _bake(function: Scenes, knobs: dict[str, Knob]) -> dict[str, Any]:
    """All results, the last knob turning fastest; nothing where they are too many."""
    spaces = [knob.values for knob in knobs.values()]
    if prod(map(len, spaces)) > MOST_BAKED:
        return {}
    results = (function(**dict(zip(knobs, at, strict=True))) for at in product(*spaces))
    return pack(plain([_drawn(scene) for scene in scenes]) for scenes in results)


def _drawn(figure: Figure) -> Figure:
    """A scene without the words of its text form, which no page shows."""
    return replace(figure, words=None) if isinstance(figure, Scene) else figure


def _in_words(scenes: Sequence[Figure], knobs: dict[str, Knob]) -> str:
    changes = [f"{knob.label or name} ({_range(knob)})" for name, knob in knobs.items()]
    told = f"What may be changed: {', '.join(changes)}"
    return "\n\n".join([*(scene.text() for scene in scenes), told])


def _range(knob: Knob) -> str:
    """What a knob may become: "1 to 6 steps", "first come or shortest"."""
    if knob.kind == "choice":
        return " or ".join(knob.options)
    return f"{knob.low:g} to {knob.high:g} {knob.unit}".rstrip()
