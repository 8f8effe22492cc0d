"""Ways between devices: a rate in one direction, a latency, and where both come from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lab.ledgers.latency import exact_ratio
from lab.ledgers.sizes import GB, MB, Number

MICROSECONDS = 10**6  # in a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way between two devices: `bytes_per_s` in one direction, and what every message waits."""

    name: str
    bytes_per_s: Number
    latency_s: Number
    source: str

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0:
            raise ValueError(
                f"link {self.name!r}: bytes_per_s must be above 0, got {self.bytes_per_s}"
            )
        if self.latency_s < 0:
            raise ValueError(
                f"link {self.name!r}: latency_s must be at least 0, got {self.latency_s}"
            )

    def send_s(self, payload_bytes: Number) -> Number:
        """Seconds that one message takes: latency + bytes / bandwidth.

        8 KiB over a link of 1 GB/s and 10 µs: 10 µs + 8.192 µs = 18.192 µs.
        """
        return self.latency_s + exact_ratio(payload_bytes, self.bytes_per_s)


def _us(count: int) -> Fraction:
    return Fraction(count, MICROSECONDS)


# Datasheets print both directions of NVLink and PCIe together: half of it goes one way.
# Latencies are given: round numbers of their order, as no datasheet prints them. Measure yours.
_LINKS = {
    "nvlink-3": Link(
        name="NVLink 3",
        bytes_per_s=600 * GB // 2,
        latency_s=_us(2),
        source="NVIDIA A100 80GB datasheet, column SXM: 600 GB/s both ways; latency given",
    ),
    "nvlink-4": Link(
        name="NVLink 4",
        bytes_per_s=900 * GB // 2,
        latency_s=_us(2),
        source="NVIDIA H100 datasheet, column SXM: 900 GB/s both ways; latency given",
    ),
    "pcie-4": Link(
        name="PCIe 4.0 x16",
        bytes_per_s=64 * GB // 2,
        latency_s=_us(5),
        source="NVIDIA A100 80GB datasheet: PCIe Gen4 64 GB/s both ways; latency given",
    ),
    "pcie-5": Link(
        name="PCIe 5.0 x16",
        bytes_per_s=128 * GB // 2,
        latency_s=_us(5),
        source="NVIDIA H100 datasheet: PCIe Gen5 128 GB/s both ways; latency given",
    ),
    "infiniband-ndr": Link(
        name="InfiniBand NDR 400 Gbit/s",
        bytes_per_s=50 * GB,
        latency_s=_us(5),
        source="NVIDIA ConnectX-7 datasheet: 400 Gbit/s a port; latency given",
    ),
    "ethernet-100g": Link(
        name="Ethernet 100 Gbit/s",
        bytes_per_s=12_500 * MB,
        latency_s=_us(10),
        source="IEEE 802.3ba: 100 Gbit/s; latency given",
    ),
    "ethernet-10g": Link(
        name="Ethernet 10 Gbit/s",
        bytes_per_s=1_250 * MB,
        latency_s=_us(30),
        source="IEEE 802.3ae: 10 Gbit/s; latency given",
    ),
}


def link(name: str) -> Link:
    """The link called `name`; `link("nvlink-4").bytes_per_s` is 450 x 10^9, one way.

    Upper and lower case are the same. ValueError lists the known names for an unknown one.
    """
    if name.lower() not in _LINKS:
        raise ValueError(f"unknown link {name!r}; known: {', '.join(_LINKS)}")
    return _LINKS[name.lower()]


def known_links() -> tuple[str, ...]:
    """The names that `link` understands."""
    return tuple(_LINKS)
