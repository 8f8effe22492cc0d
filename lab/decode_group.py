"""The running decodes, which all move on by one token a step, without a look at each of them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from operator import attrgetter

from lab.plan import Decode, Decodes
from lab.request import Sequence

_by_seat = attrgetter("seat")


class DecodeGroup:
    """Sequences that compute exactly one token in every step until they end.

    In step s a member computes position `pace + s`. So who needs a block in step s is known by
    `pace` modulo the block size, and the step after which it is done is known when it joins. The
    work of a step is that of the few whose turn it is, and not of all who are there.

    While a sequence is a member, its `computed` and `tokens` stand still; `leave` sets them.
    """

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._seats: list[int] = []
        self._members: list[Decode] = []  # in order of seats, as in `_seats`
        self._pace = 0
        self._view: Decodes | None = None
        self._turns: list[list[Sequence]] = [[] for _ in range(block_tokens)]
        self._done: list[tuple[int, int, Sequence]] = []  # a heap; who left drops out late

    def __len__(self) -> int:
        return len(self._members)

    def view(self) -> Decodes:
        """The members as a value. It stays the same object until somebody joins or leaves."""
        if self._view is None:
            self._view = Decodes(tuple(self._members), self._pace)
        return self._view

    def join(self, sequence: Sequence, step: int) -> None:
        """From `step` on the sequence goes on by itself."""
        pace = sequence.computed - step
        index = bisect_left(self._seats, sequence.seat)
        self._seats.insert(index, sequence.seat)
        self._members.insert(index, Decode(sequence.request.id, sequence.seat, pace))
        insort(self._turns[-pace % self._block_tokens], sequence, key=_by_seat)
        heapq.heappush(self._done, (_done_after(sequence, pace), sequence.number, sequence))
        self._change(sequence, pace, pace)

    def leave(self, sequence: Sequence, step: int) -> None:
        """Before `step` the sequence ends or loses its seat: write down how far it has come."""
        pace = sequence.pace
        assert pace is not None
        sequence.computed = pace + step
        sequence.tokens = sequence.computed + 1
        index = bisect_left(self._seats, sequence.seat)
        del self._seats[index], self._members[index]
        self._turns[-pace % self._block_tokens].remove(sequence)
        self._change(sequence, None, -pace)

    def _change(self, sequence: Sequence, pace: int | None, difference: int) -> None:
        sequence.pace = pace
        self._pace += difference
        self._view = None

    def in_need(self, step: int) -> list[Sequence]:
        """Who begins a new block in `step`, in order of seats."""
        return self._turns[step % self._block_tokens]

    def needs(self, first: int, stop: int) -> list[tuple[int, Sequence]]:
        """(step, who): everybody who begins a new block in the steps `[first, stop)`."""
        turns, size = self._turns, self._block_tokens
        return [(step, s) for step in range(first, stop) for s in turns[step % size]]

    def done(self, step: int) -> list[Sequence]:
        """Who has its last token before `step`. They stay members until they leave."""
        done: list[Sequence] = []
        while (first := self.first_done()) is not None and first <= step:
            sequence = heapq.heappop(self._done)[2]
            if not done or sequence is not done[-1]:  # who left and came back stands in it twice
                done.append(sequence)
        return done

    def first_done(self) -> int | None:
        """The step before which the first member has its last token."""
        while self._done:
            step, _, sequence = self._done[0]
            if sequence.pace is not None and step == _done_after(sequence, sequence.pace):
                return step
            heapq.heappop(self._done)
        return None


def _done_after(sequence: Sequence, pace: int) -> int:
    return sequence.limit - 1 - pace
