"""How many bytes a number takes, with the scales that a group of short numbers shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """A format of numbers. `group` numbers share a scale of `scale_bytes` and, where the format
    is not symmetric, a zero point of `zero_point_bytes`; without a group there are neither.

    One scale for a whole tensor is a few bytes, and is left out.
    """

    name: str
    bits: int
    group: int | None = None
    scale_bytes: int = 0
    zero_point_bytes: int = 0
    source: str

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"precision {self.name!r}: bits must be at least 1, got {self.bits}")
        if self.group is not None and self.group < 1:
            raise ValueError(f"precision {self.name!r}: group must be at least 1, got {self.group}")
        for name in ("scale_bytes", "zero_point_bytes"):
            amount = getattr(self, name)
            if amount < 0 or (amount and self.group is None):
                raise ValueError(
                    f"precision {self.name!r}: {name} must be at least 0, and 0 without a "
                    f"group, got {amount}"
                )

    @property
    def number_bytes(self) -> Fraction:
        """Bytes of a number itself: 4 bits are 1/2."""
        return Fraction(self.bits, 8)

    @property
    def parts(self) -> tuple[tuple[str, Fraction], ...]:
        """What is kept of a number, and its bytes: the number, its share of a scale and of a zero
        point. Of int4: 1/2, 1/16 and 1/16.
        """
        shared = {"scales": self.scale_bytes, "zero points": self.zero_point_bytes}
        extra = [(what, Fraction(size, self.group or 1)) for what, size in shared.items() if size]
        return ("numbers", self.number_bytes), *extra

    @property
    def bytes_per_element(self) -> Fraction:
        """Bytes of a number with its share of what its group keeps.

            bits / 8 + (scale_bytes + zero_point_bytes) / group

        int4 with groups of 32, a scale and a zero point of 2 bytes: 1/2 + 4/32 = 5/8.
        """
        return sum((size for _, size in self.parts), Fraction(0))


_PRECISIONS = {
    "fp32": Precision(name="fp32", bits=32, source="IEEE 754, binary32"),
    "fp16": Precision(name="fp16", bits=16, source="IEEE 754, binary16; bf16 takes as much"),
    "fp8": Precision(name="fp8", bits=8, source="OCP 8-bit floating point, one scale a tensor"),
    "int8": Precision(
        name="int8",
        bits=8,
        group=64,
        scale_bytes=4,
        source="given: groups of 64, a scale in 32 bits",
    ),
    "int4": Precision(
        name="int4",
        bits=4,
        group=32,
        scale_bytes=2,
        zero_point_bytes=2,
        source="given: groups of 32, scale and zero point in 16 bits",
    ),
}


def precision(name: str) -> Precision:
    """The format called `name`; `precision("int4").bytes_per_element` is 5/8.

    Upper and lower case are the same. ValueError lists the known names for an unknown one.
    """
    if name.lower() not in _PRECISIONS:
        raise ValueError(f"unknown precision {name!r}; known: {', '.join(_PRECISIONS)}")
    return _PRECISIONS[name.lower()]


def known_precisions() -> tuple[str, ...]:
    """The names that `precision` understands."""
    return tuple(_PRECISIONS)
