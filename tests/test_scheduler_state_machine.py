"""Whatever is asked, cancelled, computed or abandoned, the scheduler's books balance."""

from __future__ import annotations

from collections import Counter

from drawn_runs import assert_at_rest, crowded, policies, requests, small_requests
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lab.plan import Chunk, StepOutcome, StepPlan
from lab.policy import Policy, Static
from lab.request import Sequence
from lab.scheduler import Refused, Scheduler

tight = st.one_of(crowded(), crowded(drafts=True)).map(lambda crowd: crowd[1])
any_policy = st.one_of(policies(), policies(drafts=True), tight, tight)


class AnyUseOfTheScheduler(RuleBasedStateMachine):
    """Executor and engine are played by the rules; time is a counter."""

    @initialize(policy=any_policy, repeats=st.booleans())
    def begin(self, policy: Policy, repeats: bool) -> None:
        self.policy, self.repeats = policy, repeats
        self.scheduler = Scheduler(policy, repeats=repeats)
        self.now = 0
        self.steps = 0
        self.added: list[str] = []
        self.delivered: dict[str, int] = {}
        self.limits: dict[str, int] = {}
        self.ends: list[tuple[str, str]] = []
        self.short: list[str] = []

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        name = f"r{len(self.limits)}"
        request = data.draw(st.one_of(requests(name), small_requests(name)))
        for answer in request.answers:
            self.limits[answer.id] = answer.max_tokens
        try:
            self.scheduler.add(request)
        except Refused:
            return
        for answer in request.answers:
            self.added.append(answer.id)
            self.delivered[answer.id] = 0

    @precondition(lambda self: self.added)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.added))
        asked = [name for name in self.added if who in (name, name.split("#")[0])]
        ended = {name for name, _ in self.ends}
        assert self.scheduler.cancel(who) == bool(set(asked) - ended)

    @rule(time=st.integers(1, 9))
    def time_passes(self, time: int) -> None:
        self.now += time

    @rule(data=st.data(), times=st.integers(1, 6))
    def step(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            plan = self.plan()
            if plan.is_empty:
                return
            self.commit(plan, self.outcome(plan, data))

    @rule()
    def the_executor_raises(self) -> None:
        self.scheduler.abandon(self.plan())

    def plan(self) -> StepPlan:
        plan = self.scheduler.plan(self.now)
        self.note(plan)
        assert plan.step == self.steps
        assert plan.wake_at is None or plan.wake_at > self.now
        assert sum(chunk.num_tokens for chunk in plan.chunks) == plan.num_tokens
        assert all(chunk.num_tokens >= 1 or chunk.fork_of for chunk in plan.chunks)
        assert plan.num_tokens <= (self.policy.token_budget or plan.num_tokens)
        seats = [*plan.idle_seats, *(chunk.seat for chunk in plan.chunks)]
        assert len(set(seats)) == len(seats)
        if plan.is_empty and self.scheduler.has_work:
            assert isinstance(self.policy, Static), "every step computes, frees or raises"
            assert not self.scheduler.running
            assert plan.wake_at is not None
        self.assert_chunks_have_their_blocks(plan)
        self.assert_moves_are_whole(plan)
        return plan

    def assert_moves_are_whole(self, plan: StepPlan) -> None:
        """What moves or is copied has a place, and nobody writes where others read."""
        pool = self.scheduler.pool
        for who, blocks in plan.swap_out:
            assert self.scheduler._sequences[who].swapped == len(blocks) > 0
        targets = [target for _, target in plan.copies]
        assert len(set(targets)) == len(targets)
        for chunk in plan.written:
            sequence = self.scheduler._sequences[chunk.request_id]
            if pool and chunk.num_tokens:
                first = chunk.start // pool.block_tokens
                assert all(pool.holders(block) == 1 for block in sequence.blocks[first:])

    def assert_chunks_have_their_blocks(self, plan: StepPlan) -> None:
        """Blocks held = ceil((computed + scheduled) / block), drafts included."""
        if self.scheduler.pool is None:
            return
        for chunk in plan.chunks:
            sequence = self.scheduler._sequences[chunk.fork_of or chunk.request_id]
            need = self.scheduler.pool.blocks_for(chunk.stop)
            assert len(sequence.blocks) == need
            assert tuple(sequence.blocks[need - len(chunk.blocks) :]) == chunk.blocks
            assert chunk.drafts <= sequence.limit - sequence.tokens - 1 or not chunk.drafts

    def outcome(self, plan: StepPlan, data: st.DataObject) -> StepOutcome:
        steps = data.draw(st.integers(1, plan.repeat)) if plan.repeat > 1 else 1
        ends = tuple(range(self.now + 1, self.now + 1 + steps))
        self.now += steps
        if self.repeats:
            return StepOutcome(ends)
        luck = data.draw(st.integers(0, 59), label="luck")
        tokens, accepted, failures = {}, {}, {}
        for chunk in plan.written:
            if (luck + chunk.seat) % 12 == 0:
                failures[chunk.request_id] = "out of luck"
            elif chunk.samples and chunk.fork_of not in failures:
                accepted[chunk.request_id] = kept = min(chunk.drafts, (luck + chunk.seat) % 5)
                tokens[chunk.request_id] = tuple(range(1 + kept))
        return StepOutcome(ends, tokens, accepted, failures)

    def commit(self, plan: StepPlan, outcome: StepOutcome) -> None:
        done, outcome, events = self.scheduler.commit(plan, outcome)
        assert done.repeat == len(outcome.ends)
        self.steps += done.repeat
        for member in plan.decodes.members:
            self.delivered[member.request_id] += done.repeat
        for chunk in plan.written:
            self.delivered[chunk.request_id] += self.brings(chunk, outcome)
            self.short += [chunk.request_id] if chunk.request_id in outcome.stops else []
        self.note(StepPlan(events=events))

    def brings(self, chunk: Chunk, outcome: StepOutcome) -> int:
        if not chunk.samples or chunk.request_id in outcome.failures:
            return 0
        return 1 + outcome.accepted.get(chunk.request_id, 0)

    def note(self, plan: StepPlan) -> None:
        for who, kind, _ in plan.events:
            if kind not in ("preempted", "left"):
                self.ends.append((who, kind))
            assert kind != "preempted" or self.policy.preemption != "never"
            if kind == "finished":
                assert 1 <= self.delivered[who] <= self.limits[who]
                assert who in self.short or self.delivered[who] == self.limits[who]

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.now += 1000
        for _ in range(5000):
            if not self.scheduler.has_work:
                break
            plan = self.plan()
            if not plan.is_empty:
                ends = tuple(range(self.now + 1, self.now + 1 + plan.repeat))
                self.now = ends[-1]
                self.commit(plan, StepOutcome(ends))
            self.the_books_balance()
        assert_at_rest(self.scheduler)
        assert sorted(name for name, _ in self.ends) == sorted(self.added), "each ends once"

    @invariant()
    def the_books_balance(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        running, pool = self.scheduler.running, self.scheduler.pool
        seats = [sequence.seat for sequence in running]
        assert seats == sorted(set(seats))
        assert all(0 <= seat < self.policy.seats for seat in seats)
        for sequence in running:
            assert sequence.tokens <= sequence.limit
            assert sequence.passed_over == 0, "after a preemption its patience begins anew"
            if not sequence.ended:
                assert (
                    self.tokens_of(sequence) - sequence.prompt_tokens
                    == (self.delivered[sequence.request.id])
                )
            if pool:
                assert len(sequence.blocks) == pool.blocks_for(self.computed(sequence))
        if pool:
            held = Counter(block for sequence in running for block in sequence.blocks)
            assert len(held) == pool.used
            assert all(pool.holders(block) == held[block] for block in range(pool.num_blocks))
            assert pool.free + pool.used + pool.cached == pool.num_blocks

    @invariant()
    def host_memory_holds_what_moved_there(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        tables = self.scheduler.tables
        moved = sum(sequence.swapped for sequence in self.scheduler._sequences.values())
        assert tables.host_used == moved
        assert moved <= (self.policy.host_blocks or moved)

    @invariant()
    def the_index_knows_whole_beginnings(self) -> None:
        """What is kept is known and the other way round; no block is held, or given up later,
        without those before it."""
        pool = getattr(self, "scheduler", None) and self.scheduler.pool
        index = pool and self.scheduler.tables.index
        if not pool or index is None:
            return
        known = [block for block in range(pool.num_blocks) if block in index]
        assert pool._kept == set(known)
        assert len(index) == len(known)
        order = [*pool._cached]
        assert set(order) <= set(known)
        for block in known:
            before = index.parent(block)
            if before is None:
                continue
            assert before in known
            assert pool.holders(before) >= pool.holders(block)
            if before in order:
                assert order.index(block) < order.index(before)

    def computed(self, sequence: Sequence) -> int:
        return sequence.computed if sequence.pace is None else sequence.pace + self.steps

    def tokens_of(self, sequence: Sequence) -> int:
        return sequence.tokens if sequence.pace is None else sequence.pace + self.steps + 1

    @invariant()
    def everybody_is_in_one_place(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        scheduler = self.scheduler
        waiting = [sequence.request.id for sequence in scheduler.waiting]
        running = [s.request.id for s in scheduler.running if not s.ended]
        forks = [f for s in (*scheduler.waiting, *scheduler.running) for f in s.forks]
        ended = [name for name, _ in self.ends]
        unforked = [fork.request.id for fork in forks]
        assert sorted([*waiting, *running, *unforked, *ended]) == sorted(self.added)
        assert scheduler.num_waiting == len(waiting)
        assert scheduler._unforked == len(forks)
        for sequence in scheduler.waiting:
            assert sequence.blocks == []
            assert (sequence.computed > 0) == (sequence.swapped > 0)
            assert sequence.passed_over <= self.policy.patience
        for fork in forks:
            assert (fork.computed, fork.blocks, fork.forks) == (0, [], ())
        seats = [s.seat for r in scheduler.running for s in (r, *r.forks)]
        assert sorted([*seats, *scheduler._free_seats]) == [*range(self.policy.seats)]


TestAnyUseOfTheScheduler = AnyUseOfTheScheduler.TestCase
TestAnyUseOfTheScheduler.settings = settings(
    max_examples=250, stateful_step_count=25, deadline=None
)
