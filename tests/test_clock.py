"""Simulated time jumps, real time passes; both show the same face."""

from __future__ import annotations

import math
from fractions import Fraction
from threading import Timer

from lab.clock import VirtualClock, WallClock


def test_virtual_time_begins_at_the_integer_0() -> None:
    now = VirtualClock().now()
    assert now == 0
    assert type(now) is int


def test_virtual_time_moves_only_when_told_and_keeps_its_type() -> None:
    clock = VirtualClock()
    clock.wait_until(Fraction(1, 3))
    assert clock.now() == clock.now() == Fraction(1, 3)
    assert type(clock.now()) is Fraction


def test_virtual_time_never_runs_backwards() -> None:
    clock = VirtualClock()
    clock.wait_until(2)
    clock.wait_until(1)
    assert clock.now() == 2


class HandMade:
    """A stopwatch and a bed: sleeping is all that moves it."""

    def __init__(self, share_slept: float = 1.0) -> None:
        self.seconds = 1000.0
        self.share_slept = share_slept
        self.naps: list[float] = []

    def read(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.seconds += max(seconds * self.share_slept, 1.0)


def test_a_wall_clock_begins_at_0_and_sleeps_through_an_hour() -> None:
    hands = HandMade()
    clock = WallClock(hands.read, hands.sleep)
    assert clock.now() == 0
    clock.wait_until(3600)
    assert (clock.now(), hands.naps) == (3600, [3600])


def test_a_wall_clock_does_not_sleep_for_the_past() -> None:
    hands = HandMade()
    clock = WallClock(hands.read, hands.sleep)
    hands.seconds += 5
    clock.wait_until(5)
    clock.wait_until(3)
    assert hands.naps == []


def test_a_sleep_that_ends_early_is_gone_on_with() -> None:
    hands = HandMade(share_slept=0.5)
    clock = WallClock(hands.read, hands.sleep)
    clock.wait_until(Fraction(8))
    assert clock.now() >= 8
    assert hands.naps == [8, 4, 2, 1]


def test_the_real_clock_moves_forward() -> None:
    clock = WallClock()
    before = clock.now()
    clock.wait_until(before + 0.001)
    assert clock.now() >= before + 0.001


def test_a_rest_on_the_real_clock_is_ended_by_who_wakes_it() -> None:
    clock = WallClock()
    waker = Timer(0.01, clock.wake)
    waker.start()
    clock.rest_until(math.inf)
    assert clock.now() < 60
    waker.join()


def test_who_was_woken_before_the_rest_does_not_rest_and_rests_the_next_time() -> None:
    clock = WallClock()
    clock.wake()
    clock.rest_until(math.inf)
    before = clock.now()
    clock.rest_until(before + 0.01)
    assert clock.now() >= before + 0.01


def test_waking_a_clock_that_never_rests_takes_no_memory() -> None:
    clock = WallClock()
    for _ in range(100):
        clock.wake()
    assert clock._bell.qsize() == 1


def test_virtual_time_cannot_be_woken() -> None:
    clock = VirtualClock()
    clock.wake()
    clock.rest_until(Fraction(7, 2))
    assert clock.now() == Fraction(7, 2)
