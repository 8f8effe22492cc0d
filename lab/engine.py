"""The one loop. Textbook table, simulation or live model: only executor and clock differ."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from threading import Lock, get_ident

from lab.clock import Clock
from lab.plan import Event, Executor, StepOutcome
from lab.request import Request, Time
from lab.scheduler import Refused, Scheduler
from lab.trace import Trace


class Stuck(RuntimeError):
    """Requests wait, nothing runs, nobody comes, and no moment would change that."""


class Engine:
    """Scheduler, executor and clock put together; `trace` remembers what they did.

    While one thread is in `run` or `serve`, any other may call `add`, `cancel` and `close`. What
    they ask for waits in an inbox until the next plan; a thread that waits for something to do is
    woken. What can be said at once is said at once: a request that can never run, an id that is
    taken.
    """

    def __init__(
        self, scheduler: Scheduler, executor: Executor, clock: Clock, trace: Trace
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.clock = clock
        self.trace = trace
        self._inbox: deque[Callable[[], object]] = deque()
        self._expected: set[str] = set()  # ids in the inbox
        self._door = Lock()  # held while the inbox is emptied, and by whoever fills it in earnest
        self._runner: int | None = None  # the thread that is in `run` or `serve`
        self._is_open = False
        self._is_closed = False

    def add(self, request: Request) -> None:
        """Take a request in. Raises ValueError, and records nothing, if it can never run or its id
        is taken."""
        if self._runner == get_ident():
            self._empty_the_inbox()
            self.take_in(request)
            return
        with self._door:
            if self._runner is None:
                self._do_what_was_asked()
                self.take_in(request)
            else:
                self.expect(request)
        self.clock.wake()

    def cancel(self, request_id: str) -> bool:
        """End a request before the next step. False if it has ended already."""
        if self._runner == get_ident():
            self._empty_the_inbox()
            return self.scheduler.cancel(request_id)
        with self._door:
            if self._runner is None:
                self._do_what_was_asked()
                return self.scheduler.cancel(request_id)
            going_on = request_id in self._expected or self.scheduler.goes_on(request_id)
            if going_on:
                self._inbox.append(partial(self.scheduler.cancel, request_id))
        self.clock.wake()
        return going_on

    def close(self, *, cancel: bool = False) -> None:
        """Let `serve` return when everything that was asked is answered; with `cancel`, everybody
        who is still there is cancelled."""
        self._is_closed = True  # without the door, so that a signal handler may close
        if cancel:
            self._inbox.append(self._cancel_all)
        self.clock.wake()

    def serve(self) -> Trace:
        """Serve whoever comes, until `close` is called and nobody is left."""
        self._is_open = True
        self._run_here()
        try:
            while not self._is_over():
                self.step()
        finally:
            self._shut()
        return self.trace

    def _is_over(self) -> bool:
        """Whether nobody is left after `close`. Nobody comes in between this look and the end."""
        with self._door:
            is_over = self._is_closed and not (self._inbox or self.scheduler.has_work)
            if is_over:
                self._is_open, self._runner = False, None
        return is_over

    def _shut(self) -> None:
        with self._door:
            self._is_open, self._runner = False, None

    def _cancel_all(self) -> None:
        for sequence in (*self.scheduler.waiting, *self.scheduler.running):
            self.scheduler.cancel(sequence.request.id)

    def expect(self, request: Request) -> None:
        """Put a request into the inbox; the door must be held. Raises as `add` does."""
        # the trace remembers whom the scheduler has forgotten
        for answer in request.answers:
            if answer.id in self._expected or answer.id in self.trace:
                raise ValueError(f"request {answer.id!r} was added already; ids must be unique")
        self.scheduler.check(request)
        self._expected.update(answer.id for answer in request.answers)
        self._inbox.append(partial(self.take_in, request))

    def take_in(self, request: Request) -> None:
        """Enter a request in the books, between two steps, in the thread that runs the engine.
        `add` leads here; whoever has more books may extend it."""
        if request.id in self.trace:
            raise ValueError(f"request {request.id!r} was added already; ids must be unique")
        self.scheduler.add(request)
        self.trace.add(request)

    def hear(self, outcome: StepOutcome | None, events: Iterable[Event]) -> None:
        """What came of a step, or happened between two (then `outcome` is None), once the trace
        remembers it. Nobody listens here; whoever has readers may extend it."""

    def _run_here(self) -> None:
        """From now on this thread alone touches the books, and the others use the inbox."""
        with self._door:
            self._runner = get_ident()

    def _empty_the_inbox(self) -> None:
        if self._inbox:
            with self._door:
                self._do_what_was_asked()

    def _do_what_was_asked(self) -> None:
        """Do what other threads have asked for, in the order in which they did."""
        while self._inbox:
            self._inbox.popleft()()
        self._expected.clear()

    def run(
        self, requests: Iterable[Request], progress: Callable[[int], object] | None = None
    ) -> Trace:
        """Serve all requests, in the order of their arrival, to their end.

        `progress` is called with the number of requests that have arrived so far.
        """
        coming = deque(sorted(requests, key=attrgetter("arrival")))
        num_requests = len(coming)
        self._run_here()
        try:
            while coming or self._inbox or self.scheduler.has_work:
                while coming and coming[0].arrival <= self.clock.now():
                    self._take(coming.popleft())
                self.step(coming[0].arrival if coming else None)
                if progress:
                    progress(num_requests - len(coming))
        finally:
            self._runner = None
        return self.trace

    def step(self, next_arrival: Time | None = None) -> None:
        """Plan, run, let time pass, commit, record; or wait, if there is nothing to run.

        Raises `Stuck` if there is nothing to wait for either. An error in the executor, or in what
        it answers, is passed on after the blocks that the plan had reserved are free again.
        """
        if self._inbox:
            self._empty_the_inbox()
        now = self.clock.now()
        plan = self.scheduler.plan(now)
        if plan.events:
            self.trace.note(plan.events, now)
            self.hear(None, plan.events)
        until = _earlier(next_arrival, plan.wake_at)
        if plan.is_empty:
            self._wait(until)
            return
        try:
            outcome = self.executor.run(plan, now, until)
            self.clock.wait_until(max(outcome.ends, default=now))
            done, outcome, events = self.scheduler.commit(plan, outcome)
        except BaseException:
            self.scheduler.abandon(plan)
            raise
        self.trace.record(done, now, outcome)
        if events:
            self.trace.note(events, outcome.ends[-1])
        self.hear(outcome, events)

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
