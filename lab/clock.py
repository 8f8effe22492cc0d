"""Two clocks with one face: simulated time jumps, real time passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
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

    def rest_until(self, moment: Time) -> None:
        """As `wait_until`, but `wake` ends it early. `math.inf` rests until then."""
        ...

    def wake(self) -> None:
        """End a rest, from any thread and even while garbage is collected: the present one, or
        else the next."""
        ...


class VirtualClock:
    """Time that moves only when told to. It starts at the integer 0, so exact times stay exact."""

    def __init__(self) -> None:
        self._now: Time = 0

    def now(self) -> Time:
        return self._now

    def wait_until(self, moment: Time) -> None:
        self._now = max(self._now, moment)

    def rest_until(self, moment: Time) -> None:
        self.wait_until(moment)

    def wake(self) -> None:
        """Nobody rests: time moves at once."""


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
        self._bell: SimpleQueue[None] = SimpleQueue()  # the one queue that is reentrant

    def now(self) -> float:
        return self._read() - self._zero

    def wait_until(self, moment: Time) -> None:
        while (remaining := float(moment) - self.now()) > 0:
            self._sleep(remaining)

    def rest_until(self, moment: Time) -> None:
        remaining = float(moment) - self.now()
        with suppress(Empty):
            if remaining > 0:
                self._bell.get(timeout=min(remaining, threading.TIMEOUT_MAX))
            while True:
                self._bell.get_nowait()

    def wake(self) -> None:
        if self._bell.empty():
            self._bell.put(None)
