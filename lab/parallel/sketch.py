"""A network of a few equal layers on a few devices: small enough to be followed cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

from lab.ledgers.latency import exact_ratio
from lab.ledgers.sizes import Number
from lab.parallel.mesh import share

Way: TypeAlias = Literal["DP", "TP by columns", "TP by rows", "PP"]
WAYS: tuple[Way, ...] = ("DP", "TP by columns", "TP by rows", "PP")


class Cell(NamedTuple):
    """A square of a layer's matrix, which has as many rows and columns of them as there are
    devices. All count from 0."""

    layer: int
    row: int
    column: int


class Moment(NamedTuple):
    """One thing that happens to a token: `devices` work on a `layer`, or, with an `exchange`, send
    one another what they have made of it: `messages`, as (from, to)."""

    layer: int
    devices: tuple[int, ...]
    exchange: str = ""
    messages: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """`layers` layers of `layer_mb` MB of weights each on `devices` devices, cut one `way`.

    Weights only: no activations, KV, gradients or optimizer. Every layer is one matrix, so tensor
    parallelism has one exchange a layer; a layer of a real model has two. ValueError for no layer
    or device, and for more stages than layers.
    """

    way: Way
    layers: int = 4
    layer_mb: Number = 100
    devices: int = 2

    def __post_init__(self) -> None:
        for name, count in {"layers": self.layers, "devices": self.devices}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}")
        if self.way not in WAYS:
            raise ValueError(f"way must be one of {', '.join(WAYS)}, got {self.way!r}")
        if self.way == "PP" and self.devices > self.layers:
            raise ValueError(
                f"each stage needs a layer, got {self.devices} stages and {self.layers}"
            )

    @property
    def total_mb(self) -> Number:
        """The weights, once: 4 x 100 = 400 MB."""
        return self.layers * self.layer_mb

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The whole network, once."""
        side = range(self.devices)
        return tuple(Cell(*at) for at in product(range(self.layers), side, side))

    def held(self, device: int) -> tuple[Cell, ...]:
        """The cells on a device: all with DP; with TP of every layer one column of them, or one
        row; with PP all of a run of layers."""
        mine = share(self.layers, self.devices, device)
        holds: dict[Way, Callable[[Cell], bool]] = {
            "DP": lambda cell: True,
            "TP by columns": lambda cell: cell.column == device,
            "TP by rows": lambda cell: cell.row == device,
            "PP": lambda cell: cell.layer in mine,
        }
        return tuple(filter(holds[self.way], self.cells))

    def held_mb(self, device: int) -> Number:
        """Weights on a device: 400 MB with DP, 200 with TP or PP, of 4 x 100 MB on two."""
        return exact_ratio(len(self.held(device)) * self.layer_mb, self.devices**2)

    @property
    def per_device_mb(self) -> tuple[Number, ...]:
        """`held_mb` of each device."""
        return tuple(self.held_mb(device) for device in range(self.devices))

    def fits(self, card_mb: Number) -> bool:
        """Whether no device holds more than its card."""
        return max(self.per_device_mb) <= card_mb

    def token(self) -> Iterator[Moment]:
        """What happens while one token passes: work on a layer, and exchanges, in order."""
        for layer in range(self.layers):
            at = self._at_work(layer)
            yield Moment(layer, at)
            yield from self._after(layer, at)

    @property
    def busy(self) -> tuple[Number, ...]:
        """The part of the work's time for which each device works on one token: exchanges aside,
        (1, 0) with DP, (1, 1) with TP and (1/2, 1/2) with PP on two."""
        at_work = [moment.devices for moment in self.token() if not moment.exchange]
        return tuple(
            exact_ratio(sum(device in at for at in at_work), len(at_work))
            for device in range(self.devices)
        )

    @property
    def messages(self) -> int:
        """Messages that one token needs: 0 with DP, 2 a layer with TP, 1 with PP, on two."""
        return sum(len(moment.messages) for moment in self.token())

    def _at_work(self, layer: int) -> tuple[int, ...]:
        if self.way == "DP":
            return (0,)
        holders = (d for d in range(self.devices) if any(c.layer == layer for c in self.held(d)))
        return tuple(holders)

    def _after(self, layer: int, at: tuple[int, ...]) -> Iterator[Moment]:
        if self.way.startswith("TP") and self.devices > 1:
            what = "all-gather" if self.way == "TP by columns" else "all-reduce"
            everyone = tuple((a, b) for a in at for b in at if a != b)
            yield Moment(layer, at, what, everyone)
        if self.way == "PP" and layer + 1 < self.layers:
            (here,), (there,) = at, self._at_work(layer + 1)
            if here != there:
                yield Moment(layer, (here, there), "send", ((here, there),))
