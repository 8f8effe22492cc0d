"""Two clocks with one face: simulated time jumps, real time passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from lab.request import Time


class Clock(Protocol):
    """What the engine asks of time."""

    def now(self) -> Time:
        """The present moment, in the unit of the run."""
        ...

    def wait_until(self, moment: Time) -> None:
        """Nothing happens before `moment`; a moment that has passed is no wait at all."""
        ...


class VirtualClock:
    """Time that moves only when told to. It starts at the integer 0, so exact times stay exact."""

    def __init__(self) -> None:
        self._now: Time = 0

    def now(self) -> Time:
        return self._now

    def wait_until(self, moment: Time) -> None:
        self._now = max(self._now, moment)


class WallClock:
    """Seconds since the clock was made.

    `read` and `sleep` are parameters so that a test can run an hour in a millisecond.
    """

    def __init__(
        self,
        read: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read, self._sleep = read, sleep
        self._zero = read()

    def now(self) -> float:
        return self._read() - self._zero

    def wait_until(self, moment: Time) -> None:
        while (remaining := float(moment) - self.now()) > 0:
            self._sleep(remaining)
