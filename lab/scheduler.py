"""The scheduler: each step, it decides which tokens are computed next. It never computes them."""

from __future__ import annotations

import heapq
from bisect import insort
from operator import attrgetter
from typing import TypeAlias

from lab.block_tables import NO_LIMIT, BlockTables
from lab.decode_group import DecodeGroup
from lab.outcome import carried_out, check_outcome, counted, ending
from lab.plan import Chunk, Ending, Event, StepOutcome, StepPlan, Swap
from lab.policy import RANKS, Policy, Static, next_drafts
from lab.prefix import Identity
from lab.request import Request, Sequence, Time

_by_rank = attrgetter("rank")
_by_seat = attrgetter("seat")
_REMEMBERED = 100_000
_Entry: TypeAlias = tuple[tuple[Time, ...], Sequence]
"""Somebody who waits, behind the rank that sorts the queue."""


class Refused(ValueError):
    """A request that can never run within the limits of the policy."""


class Scheduler:
    """Static and continuous batching over one set of books; `policy` says which.

    A sequence waits, or it runs: then it has a seat and, with a pool, the blocks of its computed
    tokens. Every step first reserves one token for each running sequence that misses just one
    (the decodes), then gives what is left of the budgets to running prefills, then admits.

    A request with several answers is one sequence until its prompt is computed. It waits until
    there are seats for all of them, and takes them at once; when the prompt is computed the others
    fork from it, and from then on each goes its own way.

    Invariants, between any two calls: no sequence both waits and runs; no two share a seat; a
    running sequence holds exactly the blocks of its computed tokens; nobody who ended waits.
    """

    def __init__(
        self, policy: Policy, *, repeats: bool = True, identity: Identity | None = None
    ) -> None:
        """With `repeats`, decodes go on as a group and a plan may stand for many equal steps. The
        executor must then neither name tokens nor check drafts: it is the fast way to simulate.
        Without, every sequence of every step is written out. The runs are equal, bit for bit.

        `identity` is the engine's part of what a cached prefix depends on.
        """
        self.policy = policy
        self.tables = BlockTables(policy, identity or Identity())
        self.pool = self.tables.pool
        self.running: list[Sequence] = []  # in order of seats
        self._keeps_seats = policy.keeps_seats
        self._group = DecodeGroup(policy.block_tokens)
        self._apart: list[Sequence] = []  # running, not ended, not in the group
        self._joins_group = repeats and not policy.draft_tokens
        self._step = 0
        self._count = 0  # sequences that were ever added
        self._sequences: dict[str, Sequence] = {}  # of those who have not ended
        self._past: dict[str, None] = {}  # ids of those who have, as many as are remembered
        self._families: dict[str, tuple[str, ...]] = {}  # ids of all answers, where they are many
        self._unforked = 0
        self._waiting: list[_Entry] = []  # a heap; the ended drop out late
        self._num_waiting = 0
        self._free_seats = list(range(policy.seats))  # a heap: the lowest seat is given first
        self._give_up: list[tuple[Time, int, Ending, Sequence]] = []  # a heap of moments
        self._cancelled: list[Sequence] = []
        self._added: list[tuple[int, str, int]] = []  # (step, whose, block) for the group
        self._evicted: list[tuple[int, int]] = []  # (step, block) for the plan
        self._ended: list[str] = []  # of whom no plan that was carried out has told

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
        """Take a request in. Raises as `check` does."""
        self.check(request)
        answers = request.answers
        first, *others = [self._sequence(answer) for answer in answers]
        for other in others:
            other.fork_of = first
        if others:
            first.forks = tuple(others)
            self._unforked += len(others)
            self._families[request.id] = tuple(answer.id for answer in answers)
        self._wait(first)

    def check(self, request: Request) -> None:
        """Raises ValueError if the id of a request, or of one of its answers, is taken, and Refused
        if it can never run. The last 100,000 ids that have ended stay taken."""
        for answer in request.answers:
            if answer.id in self._sequences or answer.id in self._past:
                raise ValueError(f"request {answer.id!r} was added already; ids must be unique")
        self._check_limits(request)
        self.tables.check(request)

    def _sequence(self, request: Request) -> Sequence:
        number = self._count
        self._count += 1
        sequence = Sequence(request, number, RANKS[self.policy.order](request, number))
        sequence.drafts = self._most_drafts(request)
        self._sequences[request.id] = sequence
        if request.cancel_at is not None:
            heapq.heappush(self._give_up, (request.cancel_at, number, "cancelled", sequence))
        if request.deadline is not None:
            heapq.heappush(self._give_up, (request.deadline, number, "timed out", sequence))
        return sequence

    def _most_drafts(self, request: Request) -> int:
        most, own = self.policy.draft_tokens, request.draft_tokens
        return most if own is None else min(most, own)

    def cancel(self, request_id: str) -> bool:
        """End a request at the next plan, whatever its state; with the id of one of several
        answers ("A#2"), that answer. False if it has ended already."""
        if not self.goes_on(request_id):
            return False
        names = self._families.get(request_id, (request_id,))
        self._cancelled += [self._sequences[name] for name in names if name in self._sequences]
        return True

    def goes_on(self, request_id: str) -> bool:
        """Whether any answer of a request has not ended. ValueError for one that never was."""
        if request_id not in self._sequences and request_id not in self._past:
            raise ValueError(f"there is no request {request_id!r} to cancel")
        names = self._families.get(request_id, (request_id,))
        return any(name in self._sequences for name in names)

    def _check_limits(self, request: Request) -> None:
        longest, budget = request.max_computed, self.policy.token_budget
        if request.n > self.policy.seats:
            raise Refused(
                f"request {request.id!r} asks for {request.n} answers, each needs a seat, and "
                f"there are {self.policy.seats}"
            )
        if self.pool:
            alone = self.policy.preemption != "never"  # the others can be preempted
            need = self.tables.at_most(request, 1 if alone else request.n)
            of_all = "" if alone or request.n == 1 else f" in each of {request.n} answers"
            if need > self.pool.num_blocks:
                raise Refused(
                    f"request {request.id!r} may need {need} blocks for {longest} positions"
                    f"{of_all}, and the pool has {self.pool.num_blocks}"
                )
        if budget and not self.policy.chunked_prefill and longest > budget:
            raise Refused(
                f"request {request.id!r} may need {longest} tokens in one step, since prompts are "
                f"not cut into chunks, and the token budget is {budget}"
            )

    # One step

    def plan(self, now: Time) -> StepPlan:
        """Decide the next step: decodes first, then prefills, then whoever can be admitted."""
        self._evicted = []
        events = self._end_those_who_gave_up(now)
        preempted, swap_out = self._make_room_for_decodes()
        chunks = self._decodes()
        num_decodes = len(self._group) + len(chunks)
        budget = (self.policy.token_budget or NO_LIMIT) - num_decodes
        if self._apart:
            budget -= self._prefills(chunks, budget)
        is_open, opens = self._door(now)
        if is_open and not preempted:
            budget = self._admit(chunks, budget)
        if self.policy.draft_tokens:
            chunks = self._with_drafts(chunks, budget)
        if self._unforked:
            chunks += self._forks(chunks)
        repeat = 1
        if num_decodes and not chunks and not preempted:
            repeat = self._equal_steps()
        if self.tables.evicted:
            self._note_evictions(self._step)
        return StepPlan(
            self._step,
            tuple(sorted(chunks, key=_by_seat)) if chunks else (),
            self._group.view(),
            tuple(self._added),
            repeat,
            (*events, *preempted),
            self._idle_seats() if self._keeps_seats else (),
            self._wake_at(opens),
            swap_out, tuple(self._ended), tuple(self._evicted),
        )  # fmt: skip

    def commit(
        self, plan: StepPlan, outcome: StepOutcome
    ) -> tuple[StepPlan, StepOutcome, tuple[Event, ...]]:
        """Write the results of a step into the sequences.

        Returns the plan as it was carried out (of steps and guesses there may be fewer), the
        outcome as far as it counts (without tokens behind one that ends an answer), and what
        happened at the end of the step. Raises ValueError, and changes nothing, if the outcome
        does not answer the plan.
        """
        check_outcome(plan, outcome)
        if outcome.tokens is not None or outcome.failures:
            outcome = counted(plan, outcome, self._sequences)
        steps = len(outcome.ends)
        plan = carried_out(plan, outcome, self.policy.block_tokens)
        if steps > 1:
            self._add_blocks(self._group.needs(self._step + 1, self._step + steps))
        self._step += steps
        if plan.ended:
            del self._ended[: len(plan.ended)]
        done = self._group.done(self._step)
        if plan.written:
            done += self._write_all(plan, outcome)
        events: list[Event] = []
        if len(done) > 1:
            done.sort(key=_by_seat)
        for sequence in done:
            if not sequence.ended:
                events += self._end(sequence, *ending(sequence.request.id, outcome))
        if plan.repeat > 1:
            step, written, decodes, _, _, told, idle_seats, wake_at, swap_out, ended, _ = plan
            added, evicted = tuple(self._added), tuple(self._evicted)
            plan = StepPlan(
                step, written, decodes, added, steps, told, idle_seats, wake_at, swap_out, ended,
                evicted,
            )  # fmt: skip
        return plan, outcome, tuple(events)

    def abandon(self, plan: StepPlan) -> None:
        """Take a plan back that was never carried out: give back its blocks, and let those start
        over who should have moved to host memory. Its sequences stay."""
        for chunk in plan.written:
            sequence = self._sequences[chunk.request_id]
            if chunk.copy:
                self.tables.disown(sequence, chunk.copy)
            self.tables.trim(sequence, sequence.computed)
        for member in plan.decodes.members:
            self.tables.trim(self._sequences[member.request_id], member.pace + self._step)
        for swap in plan.swap_out:
            self.tables.lose(self._sequences[swap.request_id])

    # The parts of a plan

    def _make_room_for_decodes(self) -> tuple[list[Event], tuple[Swap, ...]]:
        """Preempt, last in order first, until every decode that is left gets its next block."""
        if self.pool is None or self.pool.free >= len(self.running):
            return [], ()
        preempted: list[Event] = []
        moved: list[Swap] = []
        while self.tables.wanted(self._decodes_in_need()) > self.pool.available:
            victim = max(self.running, key=_by_rank)
            swap, reason = self._preempt(victim)
            preempted.append(Event(victim.request.id, "preempted", reason))
            if swap:
                moved.append(swap)
        return preempted, tuple(moved)

    def _decodes_in_need(self) -> list[Sequence]:
        """Sequences that miss just one token, and a block for it, in order of seats."""
        tables = self.tables
        apart = [
            s
            for s in self._apart
            if s.missing == 1 and (tables.short(s, 1) or self._shares_its_end(s))
        ]
        group = self._group.in_need(self._step)
        return sorted([*group, *apart], key=_by_seat) if apart else group

    def _shares_its_end(self, sequence: Sequence) -> bool:
        """Whether the sequence will write to a block that others hold too, as after a fork."""
        return bool(self._families) and self.tables.shares_its_end(sequence)

    def _decodes(self) -> list[Chunk]:
        """One token for each running sequence that misses just one: blocks for all of them, and
        chunks for those that do not go on as a group."""
        self._added = []
        if not self._apart:
            self._add_blocks(self._group.needs(self._step, self._step + 1))
            return []
        in_need = self._decodes_in_need() if self.pool else []
        sharing = [s for s in in_need if self._shares_its_end(s)]
        self._add_blocks([(self._step, s) for s in in_need if s not in sharing])
        new = {s.number: (s.blocks[-1],) for s in in_need if s.pace is None and s not in sharing}
        copies = {s.number: self.tables.own(s) for s in sharing}
        return [
            self._chunk(s, 1, new.get(s.number, ()), copies.get(s.number))
            for s in self._apart
            if s.missing == 1
        ]

    def _chunk(
        self,
        sequence: Sequence,
        count: int,
        added: tuple[int, ...],
        copy: tuple[int, int] | None = None,
    ) -> Chunk:
        """The next `count` tokens, as the executor has to know them. Before a step of it was
        carried out, it is told the whole table."""
        request_id, seat = sequence.request.id, sequence.seat
        start, stop = sequence.computed, sequence.computed + count
        samples = stop == sequence.tokens
        if sequence.begun:
            return Chunk(request_id, seat, start, stop, samples, added, copy=copy)
        restored = sequence.swapped
        cached = 0 if restored else start
        table = tuple(sequence.blocks)
        return Chunk(request_id, seat, start, stop, samples, table, 0, cached, restored)

    def _add_blocks(self, needs: list[tuple[int, Sequence]]) -> None:
        """One block for each (step, sequence) in need of one."""
        if self.pool is None or not needs:
            return
        if self.tables.index is None or self.pool.free >= len(needs):
            blocks = self.pool.allocate(len(needs))
        else:
            blocks = []
            for step, _ in needs:
                blocks += self.pool.allocate(1)
                self._note_evictions(step)
        for (step, sequence), block in zip(needs, blocks, strict=True):
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
            count = min(sequence.missing, budget - taken, self.tables.room(sequence))
            if count > 0:
                chunks.append(self._chunk(sequence, count, self.tables.grow(sequence, count)))
                taken += count
        return taken

    def _door(self, now: Time) -> tuple[bool, Time | None]:
        """Whether anybody may be admitted now, and if not, from which moment on, where one moment
        decides that."""
        if not self._num_waiting or not isinstance(self.policy, Static):
            return bool(self._num_waiting and self._free_seats), None
        if self.running:
            return False, None
        waiting = [s for _, s in self._waiting if not s.ended]
        oldest = min(s.request.arrival for s in waiting)
        opens = self.policy.opens(sum(1 + len(s.forks) for s in waiting), oldest)
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
            need = self.tables.promise(sequence)
            if need > free or not self._fits(sequence, budget):
                blocked.append(entry)
                continue
            for _, passed in blocked:
                passed.passed_over += 1
            self._take_seat(sequence)
            count = min(sequence.missing, budget)
            chunks.append(self._chunk(sequence, count, self.tables.grow(sequence, count)))
            budget -= count
            free -= need
        for entry in blocked:
            heapq.heappush(self._waiting, entry)
        return budget

    def _fits(self, sequence: Sequence, budget: int) -> bool:
        """Whether there is a seat for each of its answers, and budget for what may not be cut."""
        if len(self._free_seats) <= len(sequence.forks):
            return False
        return self.policy.chunked_prefill or self.tables.to_compute(sequence) <= budget

    def _with_drafts(self, chunks: list[Chunk], budget: int) -> list[Chunk]:
        """Let decodes check guesses too, as far as answers, budget and free blocks allow."""
        widened = []
        for chunk in chunks:
            sequence = self._sequences[chunk.request_id]
            most = sequence.limit - sequence.tokens - 1  # one token comes without a guess
            room = self.tables.room(sequence) - 1
            drafts = min(sequence.drafts, most, budget, room)
            if drafts > 0 and chunk.num_tokens == 1 and chunk.start >= sequence.prompt_tokens:
                blocks = chunk.blocks + self.tables.grow(sequence, 1 + drafts)
                chunk = chunk._replace(stop=chunk.stop + drafts, drafts=drafts, blocks=blocks)
                budget -= drafts
            widened.append(chunk)
        return widened

    def _forks(self, chunks: list[Chunk]) -> list[Chunk]:
        """The further answers of those whose prompts end in this step."""
        return [
            Chunk(
                *(fork.request.id, fork.seat, chunk.stop, chunk.stop, True, tuple(source.blocks)),
                fork_of=chunk.request_id,
            )
            for chunk in chunks
            if chunk.samples and (source := self._sequences[chunk.request_id]).forks
            for fork in source.forks
        ]

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
        free = self.pool.available
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

    def _unpromised_blocks(self) -> int:
        """Available blocks that no running sequence is sure to ask for. Where it can be preempted
        all of them: decodes have their next block, and while a prefill is short of blocks or of
        budget, nothing is left to admit anybody."""
        if self.policy.preemption == "never" and self.pool:
            return self.tables.available - self.tables.promised(self.running)
        return self.tables.available

    def _note_evictions(self, step: int) -> None:
        self._evicted += [(step, block) for block in self.tables.evicted]
        self.tables.evicted.clear()

    # What came of it

    def _write_all(self, plan: StepPlan, outcome: StepOutcome) -> list[Sequence]:
        """Write down what each chunk brought. Returns those who are done with it."""
        done = []
        failures, stops = outcome.failures, outcome.stops
        if self._unforked:
            for chunk in plan.written:
                if chunk.fork_of and chunk.fork_of not in failures:
                    self._fork(self._sequences[chunk.request_id])
        for chunk in plan.written:
            who = chunk.request_id
            sequence = self._sequences[who]
            if sequence.fork_of is None:
                self._write(sequence, chunk, outcome)
            if sequence.tokens >= sequence.limit or who in failures or who in stops:
                done.append(sequence)
            elif chunk.samples and self._joins_group and not self._shares_its_end(sequence):
                self._apart.remove(sequence)
                self._group.join(sequence, self._step)
        return done

    def _write(self, sequence: Sequence, chunk: Chunk, outcome: StepOutcome) -> None:
        """One step's results for one chunk: what was computed, and what it brought."""
        if not sequence.begun:
            self.tables.has_begun(sequence)
        accepted = outcome.accepted.get(chunk.request_id, 0)
        sequence.computed = chunk.stop - (chunk.drafts - accepted)
        if self.policy.draft_tokens:
            self.tables.trim(sequence, sequence.computed)
        if chunk.drafts and self.policy.adaptive_drafts:
            most = self._most_drafts(sequence.request)
            sequence.drafts = next_drafts(sequence.drafts, chunk.drafts, accepted, most)
        if chunk.request_id in outcome.failures:
            return
        if chunk.samples:
            sequence.tokens += 1 + accepted
            if outcome.tokens is not None:
                sequence.output += outcome.tokens[chunk.request_id]
        if self.tables.index is not None:
            self.tables.publish(sequence)

    def _fork(self, sequence: Sequence) -> None:
        """From now on the sequence is one of its own, in the seat that was kept for it."""
        source = sequence.fork_of
        assert source is not None, "a sequence forks once"
        self.tables.fork(sequence, source)
        source.forks = tuple(fork for fork in source.forks if fork is not sequence)
        sequence.fork_of = None
        self._unforked -= 1
        insort(self.running, sequence, key=_by_seat)
        insort(self._apart, sequence, key=_by_seat)

    # States

    def _wait(self, sequence: Sequence) -> None:
        heapq.heappush(self._waiting, (sequence.rank, sequence))
        self._num_waiting += 1

    def _take_seat(self, sequence: Sequence) -> None:
        sequence.seat = heapq.heappop(self._free_seats)
        for fork in sequence.forks:
            fork.seat = heapq.heappop(self._free_seats)
        sequence.passed_over = 0
        insort(self.running, sequence, key=_by_seat)
        insort(self._apart, sequence, key=_by_seat)
        self._num_waiting -= 1
        self.tables.begin(sequence)

    def _stop_computing(self, sequence: Sequence) -> None:
        if sequence.pace is None:
            self._apart.remove(sequence)
        else:
            self._group.leave(sequence, self._step)

    def _leave_seat(self, sequence: Sequence) -> None:
        self.tables.clear(sequence)
        self.running.remove(sequence)
        heapq.heappush(self._free_seats, sequence.seat)
        for fork in sequence.forks:
            heapq.heappush(self._free_seats, fork.seat)

    def _preempt(self, sequence: Sequence) -> tuple[Swap | None, str]:
        """Take a sequence's seat. Returns what moves to host memory, and why or why not."""
        self._stop_computing(sequence)
        moved, reason = self.tables.put_aside(sequence)
        self._leave_seat(sequence)
        self._wait(sequence)
        return moved, reason

    def _end(self, sequence: Sequence, kind: Ending, reason: str = "") -> list[Event]:
        """A request ends, and whoever loses the seat by it leaves: in a static batch that is
        nobody before the last member has ended, and then all of them. Who has not yet forked from
        it ends with it."""
        sequence.ended = True
        self._remember(sequence.request.id)
        self.tables.drop(sequence)
        events = [Event(sequence.request.id, kind, reason)]
        for fork in sequence.forks:
            events += self._end(fork, kind, reason)
        if sequence.fork_of is not None:
            return events + self._leave_unforked(sequence, sequence.fork_of)
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

    def _leave_unforked(self, sequence: Sequence, source: Sequence) -> list[Event]:
        """A further answer ends before there was anything of it but perhaps a seat."""
        source.forks = tuple(fork for fork in source.forks if fork is not sequence)
        self._unforked -= 1
        if source not in self.running:
            return []
        heapq.heappush(self._free_seats, sequence.seat)
        return [Event(sequence.request.id, "left")]

    def _remember(self, request_id: str) -> None:
        """An id stays taken for a while after its request has ended."""
        self._past[request_id] = None  # first: other threads may ask, and find it in one or both
        del self._sequences[request_id]
        self._ended.append(request_id)
        if len(self._past) > _REMEMBERED:
            oldest = next(iter(self._past))
            del self._past[oldest]
            self._families.pop(oldest, None)

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
