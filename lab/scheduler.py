"""The scheduler: each step, it decides which tokens are computed next. It never computes them."""

from __future__ import annotations

import heapq
from bisect import insort
from operator import attrgetter
from typing import TypeAlias

from lab.decode_group import DecodeGroup
from lab.kv_blocks import BlockPool
from lab.plan import Chunk, Ending, Event, StepOutcome, StepPlan
from lab.policy import RANKS, Policy, Static
from lab.request import Request, Sequence, Time

_by_rank = attrgetter("rank")
_by_seat = attrgetter("seat")
_NO_LIMIT = 1 << 62
_Entry: TypeAlias = tuple[tuple[Time, ...], Sequence]
"""Somebody who waits, behind the rank that sorts the queue."""


class Refused(ValueError):
    """A request that can never run within the limits of the policy."""


class Scheduler:
    """Static and continuous batching over one set of books; `policy` says which.

    A sequence waits, or it runs: then it has a seat and, with a pool, the blocks of its computed
    tokens. Every step first reserves one token for each running sequence that misses just one
    (the decodes), then gives what is left of the budgets to running prefills, then admits.

    Invariants, between any two calls: no sequence both waits and runs; no two share a seat; a
    running sequence holds exactly the blocks of its computed tokens; nobody who ended waits.
    """

    def __init__(self, policy: Policy, *, repeats: bool = True) -> None:
        """With `repeats`, decodes go on as a group and a plan may stand for many equal steps. The
        executor must then neither name tokens nor check drafts: it is the fast way to simulate.
        Without, every sequence of every step is written out. The runs are equal, bit for bit.
        """
        self.policy = policy
        self.pool = BlockPool(policy.blocks, policy.block_tokens) if policy.blocks else None
        self.running: list[Sequence] = []  # in order of seats
        self._keeps_seats = policy.keeps_seats
        self._group = DecodeGroup(policy.block_tokens)
        self._apart: list[Sequence] = []  # running, not ended, not in the group
        self._joins_group = repeats and not policy.draft_tokens
        self._step = 0
        self._ids: set[str] = set()  # of everybody who was ever added
        self._sequences: dict[str, Sequence] = {}  # of those who have not ended
        self._waiting: list[_Entry] = []  # a heap; the ended drop out late
        self._num_waiting = 0
        self._free_seats = list(range(policy.seats))  # a heap: the lowest seat is given first
        self._give_up: list[tuple[Time, int, Ending, Sequence]] = []  # a heap of moments
        self._cancelled: list[Sequence] = []
        self._added: list[tuple[int, str, int]] = []  # (step, whose, block) for the group

    # What comes in

    @property
    def num_waiting(self) -> int:
        """Requests that were added, have not ended and have no seat."""
        return self._num_waiting

    @property
    def has_work(self) -> bool:
        """Whether anybody waits or runs."""
        return bool(self._num_waiting or self.running)

    @property
    def waiting(self) -> list[Sequence]:
        """Who waits, the next first."""
        return sorted((s for _, s in self._waiting if not s.ended), key=_by_rank)

    def add(self, request: Request) -> None:
        """Take a request in. Raises ValueError if its id is taken, Refused if it can never run."""
        if request.id in self._ids:
            raise ValueError(f"request {request.id!r} was added already; ids must be unique")
        self._check_limits(request)
        number = len(self._ids)
        sequence = Sequence(request, number, RANKS[self.policy.order](request, number))
        self._ids.add(request.id)
        self._sequences[request.id] = sequence
        self._wait(sequence)
        if request.cancel_at is not None:
            heapq.heappush(self._give_up, (request.cancel_at, number, "cancelled", sequence))
        if request.deadline is not None:
            heapq.heappush(self._give_up, (request.deadline, number, "timed out", sequence))

    def cancel(self, request_id: str) -> bool:
        """End a request at the next plan, whatever its state. False if it has ended already."""
        if request_id not in self._ids:
            raise ValueError(f"there is no request {request_id!r} to cancel")
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            self._cancelled.append(sequence)
        return sequence is not None

    def _check_limits(self, request: Request) -> None:
        longest, budget = request.max_computed, self.policy.token_budget
        if self.pool and self.pool.blocks_for(longest) > self.pool.num_blocks:
            raise Refused(
                f"request {request.id!r} may need {self.pool.blocks_for(longest)} blocks for "
                f"{longest} positions, and the pool has {self.pool.num_blocks}"
            )
        if budget and not self.policy.chunked_prefill and longest > budget:
            raise Refused(
                f"request {request.id!r} may need {longest} tokens in one step, since prompts are "
                f"not cut into chunks, and the token budget is {budget}"
            )

    # One step

    def plan(self, now: Time) -> StepPlan:
        """Decide the next step: decodes first, then prefills, then whoever can be admitted."""
        events = self._end_those_who_gave_up(now)
        preempted = self._make_room_for_decodes()
        chunks = self._decodes()
        num_decodes = len(self._group) + len(chunks)
        budget = (self.policy.token_budget or _NO_LIMIT) - num_decodes
        if self._apart:
            budget -= self._prefills(chunks, budget)
        is_open, opens = self._door(now)
        if is_open and not preempted:
            budget = self._admit(chunks, budget)
        if self.policy.draft_tokens:
            chunks = self._with_drafts(chunks, budget)
        repeat = 1
        if num_decodes and not chunks and not preempted:
            repeat = self._equal_steps()
        return StepPlan(
            self._step,
            tuple(sorted(chunks, key=_by_seat)) if chunks else (),
            self._group.view(),
            tuple(self._added),
            repeat,
            (*events, *[Event(s.request.id, "preempted") for s in preempted]),
            self._idle_seats() if self._keeps_seats else (),
            self._wake_at(opens),
        )

    def commit(self, plan: StepPlan, outcome: StepOutcome) -> tuple[StepPlan, tuple[Event, ...]]:
        """Write the results of a step into the sequences.

        Returns the plan as it was carried out, and what happened at its end. Raises ValueError,
        and changes nothing, if the outcome does not answer the plan.
        """
        _check_outcome(plan, outcome)
        steps = len(outcome.ends)
        if steps > 1:
            self._add_blocks(self._group.needs(self._step + 1, self._step + steps))
        self._step += steps
        done = self._group.done(self._step)
        for chunk in plan.written:
            sequence = self._sequences[chunk.request_id]
            self._write(sequence, chunk, outcome)
            if sequence.tokens >= sequence.limit or chunk.request_id in outcome.failures:
                done.append(sequence)
            elif chunk.samples and self._joins_group:
                self._apart.remove(sequence)
                self._group.join(sequence, self._step)
        events: list[Event] = []
        if len(done) > 1:
            done.sort(key=_by_seat)
        for sequence in done:
            failure = outcome.failures.get(sequence.request.id)
            events += (
                self._end(sequence, "finished", "length")
                if failure is None
                else self._end(sequence, "failed", failure)
            )
        if plan.repeat > 1:
            step, written, decodes, _, _, told, idle_seats, wake_at = plan
            added = tuple(self._added)
            plan = StepPlan(step, written, decodes, added, steps, told, idle_seats, wake_at)
        return plan, tuple(events)

    def abandon(self, plan: StepPlan) -> None:
        """Give back the blocks of a plan that was never carried out. Its sequences stay."""
        planned = [chunk.request_id for chunk in plan.written]
        planned += [member.request_id for member in plan.decodes.members]
        for request_id in planned:
            self._release_beyond(self._sequences[request_id])

    # The parts of a plan

    def _make_room_for_decodes(self) -> list[Sequence]:
        """Preempt, last in order first, until every decode that is left gets its next block."""
        preempted: list[Sequence] = []
        if self.pool is None or self.pool.free >= len(self.running):
            return preempted
        while len(self._decodes_in_need()) > self.pool.free:
            victim = max(self.running, key=_by_rank)
            self._preempt(victim)
            preempted.append(victim)
        return preempted

    def _decodes_in_need(self) -> list[Sequence]:
        """Sequences that miss just one token, and a block for it, in order of seats."""
        apart = [s for s in self._apart if s.missing == 1 and self._blocks_short(s, 1)]
        group = self._group.in_need(self._step)
        return sorted([*group, *apart], key=_by_seat) if apart else group

    def _decodes(self) -> list[Chunk]:
        """One token for each running sequence that misses just one: blocks for all of them, and
        chunks for those that do not go on as a group."""
        self._added = []
        if not self._apart:
            self._add_blocks(self._group.needs(self._step, self._step + 1))
            return []
        in_need = self._decodes_in_need() if self.pool else []
        self._add_blocks([(self._step, sequence) for sequence in in_need])
        new = {s.number: (s.blocks[-1],) for s in in_need if s.pace is None}
        return [
            Chunk(s.request.id, s.seat, s.computed, s.tokens, True, new.get(s.number, ()))
            for s in self._apart
            if s.missing == 1
        ]

    def _add_blocks(self, needs: list[tuple[int, Sequence]]) -> None:
        """One block for each (step, sequence) in need of one."""
        if self.pool is None or not needs:
            return
        for (step, sequence), block in zip(needs, self.pool.allocate(len(needs)), strict=True):
            sequence.blocks.append(block)
            if sequence.pace is not None:
                self._added.append((step, sequence.request.id, block))

    def _prefills(self, chunks: list[Chunk], budget: int) -> int:
        """Chunks for running sequences that miss more than one token, in order of rank. Returns
        the number of tokens in them.

        Where blocks are short a prefill takes what there is and waits in its seat for the rest:
        the decodes go on, and whoever of them ends gives blocks back. No two prefills wait for
        each other, since a sequence is only admitted when the whole of it fits beside the others.
        """
        taken = 0
        for sequence in sorted((s for s in self._apart if s.missing > 1), key=_by_rank):
            count = min(sequence.missing, budget - taken, self._room(sequence))
            if count > 0:
                chunks.append(self._reserve(sequence, count))
                taken += count
        return taken

    def _door(self, now: Time) -> tuple[bool, Time | None]:
        """Whether anybody may be admitted now, and if not, from which moment on, where one moment
        decides that."""
        if not self._num_waiting or not isinstance(self.policy, Static):
            return bool(self._num_waiting and self._free_seats), None
        if self.running:
            return False, None
        oldest = min(s.request.arrival for _, s in self._waiting if not s.ended)
        opens = self.policy.opens(self._num_waiting, oldest)
        return (True, None) if now >= opens else (False, opens)

    def _admit(self, chunks: list[Chunk], budget: int) -> int:
        """Give seats to those who fit, in order of rank, and append their first chunks.

        Returns what is left of the budget.
        """
        free = self._unpromised_blocks()
        blocked: list[_Entry] = []
        while self._num_waiting > len(blocked) and self._free_seats and budget > 0 and free > 0:
            if blocked and _bars_the_door(blocked, self.policy.patience):
                break
            entry = heapq.heappop(self._waiting)
            sequence = entry[1]
            if sequence.ended:
                continue
            need = self._promise(sequence)
            if need > free or not (self.policy.chunked_prefill or sequence.missing <= budget):
                blocked.append(entry)
                continue
            for _, passed in blocked:
                passed.passed_over += 1
            self._take_seat(sequence)
            chunks.append(self._reserve(sequence, min(sequence.missing, budget)))
            budget -= chunks[-1].num_tokens
            free -= need
        for entry in blocked:
            heapq.heappush(self._waiting, entry)
        return budget

    def _with_drafts(self, chunks: list[Chunk], budget: int) -> list[Chunk]:
        """Let decodes check guesses too, as far as answers, budget and free blocks allow."""
        widened = []
        for chunk in chunks:
            sequence = self._sequences[chunk.request_id]
            most = sequence.limit - sequence.tokens - 1  # one token comes without a guess
            room = self._room(sequence) - 1
            drafts = min(self.policy.draft_tokens, most, budget, room)
            if drafts > 0 and chunk.num_tokens == 1 and chunk.start >= sequence.prompt_tokens:
                wide = self._reserve(sequence, 1 + drafts)
                budget -= drafts
                blocks = chunk.blocks + wide.blocks
                chunk = wide._replace(samples=True, drafts=drafts, blocks=blocks)
            widened.append(chunk)
        return widened

    def _equal_steps(self) -> int:
        """How many steps like this one follow each other, if nobody comes or gives up.

        The bound is the first finish, and the first block that the pool does not have.
        """
        done = self._group.first_done()
        assert done is not None, "every member of the group has a last token"
        if self.pool is None:
            return done - self._step
        # each member begins a block once in `block_tokens` steps
        rounds = -(-(done - self._step) // self.policy.block_tokens)
        if rounds * len(self._group) <= self.pool.free:
            return done - self._step
        free = self.pool.free
        for step in range(self._step + 1, done):
            free -= len(self._group.in_need(step))
            if free < 0:
                return step - self._step
        return done - self._step

    def _idle_seats(self) -> tuple[int, ...]:
        return tuple(s.seat for s in self.running if s.ended)

    def _wake_at(self, opens: Time | None) -> Time | None:
        while self._give_up and self._give_up[0][-1].ended:
            heapq.heappop(self._give_up)
        if not self._give_up:
            return opens
        return self._give_up[0][0] if opens is None else min(opens, self._give_up[0][0])

    # Blocks

    def _blocks_short(self, sequence: Sequence, count: int) -> int:
        """Blocks to add before `count` more tokens of the sequence have a place."""
        if self.pool is None:
            return 0
        return self.pool.blocks_for(sequence.computed + count) - len(sequence.blocks)

    def _room(self, sequence: Sequence) -> int:
        """Tokens of the sequence that its own blocks and the free ones could still take."""
        if self.pool is None:
            return _NO_LIMIT
        return (len(sequence.blocks) + self.pool.free) * self.pool.block_tokens - sequence.computed

    def _promise(self, sequence: Sequence) -> int:
        """Blocks that a sequence is sure to ask for, beyond those it has: for all of its tokens,
        or, where nobody may be preempted, for its longest answer."""
        never = self.policy.preemption == "never"
        most = sequence.request.max_computed if never else sequence.tokens
        return self._blocks_short(sequence, most - sequence.computed)

    def _unpromised_blocks(self) -> int:
        """Free blocks that no running sequence is sure to ask for. Under preemption by recompute
        all of them: decodes have their next block, and while a prefill is short of blocks or of
        budget, nothing is left to admit anybody."""
        if self.pool is None:
            return _NO_LIMIT
        promised = 0
        if self.policy.preemption == "never":
            promised = sum(self._promise(s) for s in self.running if not s.ended)
        return self.pool.free - promised

    def _reserve(self, sequence: Sequence, count: int) -> Chunk:
        """Give the next `count` tokens their blocks, and describe them to the executor."""
        short = self._blocks_short(sequence, count)
        blocks = self.pool.allocate(short) if self.pool and short > 0 else []
        sequence.blocks += blocks
        start, stop = sequence.computed, sequence.computed + count
        return Chunk(
            sequence.request.id, sequence.seat, start, stop, stop == sequence.tokens, tuple(blocks)
        )

    def _release_beyond(self, sequence: Sequence) -> None:
        """Give back blocks that hold no computed token."""
        if self.pool:
            pace = sequence.pace
            computed = sequence.computed if pace is None else pace + self._step
            keep = self.pool.blocks_for(computed)
            self.pool.release(reversed(sequence.blocks[keep:]))
            del sequence.blocks[keep:]

    def _write(self, sequence: Sequence, chunk: Chunk, outcome: StepOutcome) -> None:
        """One step's results for one chunk: what was computed, and what it brought."""
        accepted = outcome.accepted.get(chunk.request_id, 0)
        sequence.computed = chunk.stop - (chunk.drafts - accepted)
        if chunk.drafts:
            self._release_beyond(sequence)
        if chunk.samples and chunk.request_id not in outcome.failures:
            sequence.tokens += 1 + accepted
            if outcome.tokens is not None:
                sequence.output += outcome.tokens[chunk.request_id]

    # States

    def _wait(self, sequence: Sequence) -> None:
        heapq.heappush(self._waiting, (sequence.rank, sequence))
        self._num_waiting += 1

    def _take_seat(self, sequence: Sequence) -> None:
        sequence.seat = heapq.heappop(self._free_seats)
        sequence.passed_over = 0
        insort(self.running, sequence, key=_by_seat)
        insort(self._apart, sequence, key=_by_seat)
        self._num_waiting -= 1

    def _stop_computing(self, sequence: Sequence) -> None:
        if sequence.pace is None:
            self._apart.remove(sequence)
        else:
            self._group.leave(sequence, self._step)

    def _leave_seat(self, sequence: Sequence) -> None:
        if self.pool:
            self.pool.release(reversed(sequence.blocks))
        sequence.blocks = []
        self.running.remove(sequence)
        heapq.heappush(self._free_seats, sequence.seat)

    def _preempt(self, sequence: Sequence) -> None:
        self._stop_computing(sequence)
        self._leave_seat(sequence)
        sequence.computed = 0
        self._wait(sequence)

    def _end(self, sequence: Sequence, kind: Ending, reason: str = "") -> list[Event]:
        """A request ends, and whoever loses the seat by it leaves: in a static batch that is
        nobody before the last member has ended, and then all of them."""
        sequence.ended = True
        del self._sequences[sequence.request.id]
        events = [Event(sequence.request.id, kind, reason)]
        if sequence not in self.running:
            self._num_waiting -= 1
            return events
        self._stop_computing(sequence)
        leaving = [sequence]
        if self._keeps_seats:
            leaving = list(self.running) if all(s.ended for s in self.running) else []
        for member in leaving:
            self._leave_seat(member)
            events.append(Event(member.request.id, "left"))
        return events

    def _end_those_who_gave_up(self, now: Time) -> list[Event]:
        events: list[Event] = []
        for sequence in self._cancelled:
            if not sequence.ended:
                events += self._end(sequence, "cancelled", "by request")
        self._cancelled.clear()
        while self._give_up and self._give_up[0][0] <= now:
            moment, _, kind, sequence = heapq.heappop(self._give_up)
            if not sequence.ended:
                events += self._end(sequence, kind, f"at {moment}")
        return events


def _bars_the_door(blocked: list[_Entry], patience: int) -> bool:
    """Whether nobody behind those who do not fit may pass them any more."""
    return len(blocked) > patience or any(s.passed_over >= patience for _, s in blocked)


def _check_outcome(plan: StepPlan, outcome: StepOutcome) -> None:
    if not 1 <= len(outcome.ends) <= plan.repeat:
        raise ValueError(
            f"a plan of {plan.repeat} equal steps needs 1 to {plan.repeat} ends, "
            f"got {len(outcome.ends)}"
        )
    if outcome.tokens is None and not outcome.accepted and not outcome.failures:
        return
    for chunk in plan.written:
        accepted = outcome.accepted.get(chunk.request_id, 0)
        if not 0 <= accepted <= chunk.drafts:
            raise ValueError(
                f"request {chunk.request_id!r}: accepted must be 0 to {chunk.drafts} drafts, "
                f"got {accepted}"
            )
        if outcome.tokens is None:
            continue
        brings = chunk.samples and chunk.request_id not in outcome.failures
        want = 1 + accepted if brings else 0
        count = len(outcome.tokens.get(chunk.request_id, ()))
        if count != want:
            raise ValueError(
                f"request {chunk.request_id!r}: the step must bring {want} tokens, got {count}"
            )
    _check_names(plan, outcome)


def _check_names(plan: StepPlan, outcome: StepOutcome) -> None:
    named = {*(outcome.tokens or ()), *outcome.accepted, *outcome.failures}
    if named and (strangers := named - {chunk.request_id for chunk in plan.written}):
        raise ValueError(
            f"request {min(strangers)!r}: the outcome speaks of it, and it is none of the chunks "
            "that the plan writes out"
        )
