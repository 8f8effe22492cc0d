"""The one loop. Textbook table, simulation or live model: only executor and clock differ."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from threading import RLock

from lab.clock import Clock
from lab.plan import Executor
from lab.request import Request, Time
from lab.scheduler import Refused, Scheduler
from lab.trace import Trace


class Stuck(RuntimeError):
    """Requests wait, nothing runs, nobody comes, and no moment would change that."""


class Engine:
    """Scheduler, executor and clock put together; `trace` remembers what they did.

    One thread runs the engine. `add`, `cancel`, `wake` and `close` may be called from any thread
    meanwhile: whoever comes in while a step is computed is seen by the next plan, and who waits
    for something to do is woken.
    """

    def __init__(
        self, scheduler: Scheduler, executor: Executor, clock: Clock, trace: Trace
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.clock = clock
        self.trace = trace
        self._books = RLock()  # held while books are read or written, never while computing
        self._is_open = False
        self._is_closed = False

    def add(self, request: Request) -> None:
        """Take a request in. Raises ValueError, and records nothing, if it can never run or its id
        is taken."""
        with self._books:
            for answer in request.answers:
                if answer.id in self.trace:
                    raise ValueError(f"request {answer.id!r} was added already; ids must be unique")
            self.scheduler.add(request)
            self.trace.add(request)
        self.clock.wake()

    def cancel(self, request_id: str) -> bool:
        """End a request before the next step. False if it has ended already."""
        with self._books:
            is_alive = self.scheduler.cancel(request_id)
        self.clock.wake()
        return is_alive

    def close(self) -> None:
        """Let `serve` return when everything that was asked is answered."""
        self._is_closed = True
        self.clock.wake()

    def serve(self) -> Trace:
        """Serve whoever comes, until `close` is called and nobody is left."""
        self._is_open = True
        try:
            while self.scheduler.has_work or not self._is_closed:
                self.step()
        finally:
            self._is_open = False
        return self.trace

    def run(
        self, requests: Iterable[Request], progress: Callable[[int], object] | None = None
    ) -> Trace:
        """Serve all requests, in the order of their arrival, to their end.

        `progress` is called with the number of requests that have arrived so far.
        """
        coming = deque(sorted(requests, key=attrgetter("arrival")))
        num_requests = len(coming)
        while coming or self.scheduler.has_work:
            while coming and coming[0].arrival <= self.clock.now():
                self._take(coming.popleft())
            self.step(coming[0].arrival if coming else None)
            if progress:
                progress(num_requests - len(coming))
        return self.trace

    def step(self, next_arrival: Time | None = None) -> None:
        """Plan, run, let time pass, commit, record; or wait, if there is nothing to run.

        Raises `Stuck` if there is nothing to wait for either. An error in the executor, or in what
        it answers, is passed on after the blocks that the plan had reserved are free again.
        """
        now = self.clock.now()
        with self._books:
            plan = self.scheduler.plan(now)
            if plan.events:
                self.trace.note(plan.events, now)
        until = _earlier(next_arrival, plan.wake_at)
        if plan.is_empty:
            self._wait(until)
            return
        try:
            outcome = self.executor.run(plan, now, until)
            self.clock.wait_until(max(outcome.ends, default=now))
            with self._books:
                done, outcome, events = self.scheduler.commit(plan, outcome)
        except BaseException:
            with self._books:
                self.scheduler.abandon(plan)
            raise
        self.trace.record(done, now, outcome)
        if events:
            self.trace.note(events, outcome.ends[-1])

    def _take(self, request: Request) -> None:
        try:
            self.add(request)
        except Refused as reason:
            self.trace.refuse(request, str(reason))

    def _wait(self, until: Time | None) -> None:
        if self._is_open and not self._is_closed:
            self.clock.rest_until(math.inf if until is None else until)
        elif until is not None and until < math.inf:
            self.clock.wait_until(until)
        elif self.scheduler.has_work:
            waiting = [sequence.request.id for sequence in self.scheduler.waiting]
            raise Stuck(
                f"{len(waiting)} requests wait ({', '.join(waiting[:8])}), nothing runs, and "
                "neither an arrival nor a time-out is to come"
            )


def _earlier(one: Time | None, other: Time | None) -> Time | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
