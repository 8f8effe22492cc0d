"""Whatever is asked, cancelled, computed or abandoned, the scheduler's books balance."""

from __future__ import annotations

from drawn_runs import assert_at_rest, policies, requests
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lab.plan import Chunk, StepOutcome, StepPlan
from lab.policy import Policy, Static
from lab.request import Sequence
from lab.scheduler import Refused, Scheduler


class AnyUseOfTheScheduler(RuleBasedStateMachine):
    """Executor and engine are played by the rules; time is a counter."""

    @initialize(policy=st.one_of(policies(), policies(drafts=True)), repeats=st.booleans())
    def begin(self, policy: Policy, repeats: bool) -> None:
        self.policy, self.repeats = policy, repeats
        self.scheduler = Scheduler(policy, repeats=repeats)
        self.now = 0
        self.steps = 0
        self.added: list[str] = []
        self.delivered: dict[str, int] = {}
        self.limits: dict[str, int] = {}
        self.ends: list[tuple[str, str]] = []

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        request = data.draw(requests(f"r{len(self.limits)}"))
        self.limits[request.id] = request.max_tokens
        try:
            self.scheduler.add(request)
        except Refused:
            return
        self.added.append(request.id)
        self.delivered[request.id] = 0

    @precondition(lambda self: self.added)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.added))
        has_ended = who in [name for name, _ in self.ends]
        assert self.scheduler.cancel(who) != has_ended

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
        assert all(chunk.num_tokens >= 1 for chunk in plan.chunks)
        assert plan.num_tokens <= (self.policy.token_budget or plan.num_tokens)
        seats = [*plan.idle_seats, *(chunk.seat for chunk in plan.chunks)]
        assert len(set(seats)) == len(seats)
        if plan.is_empty and self.scheduler.has_work:
            assert isinstance(self.policy, Static), "every step computes, frees or raises"
            assert not self.scheduler.running
            assert plan.wake_at is not None
        self.assert_chunks_have_their_blocks(plan)
        return plan

    def assert_chunks_have_their_blocks(self, plan: StepPlan) -> None:
        """Blocks held = ceil((computed + scheduled) / block), drafts included."""
        if self.scheduler.pool is None:
            return
        for chunk in plan.chunks:
            sequence = self.scheduler._sequences[chunk.request_id]
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
            elif chunk.samples:
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
        self.note(StepPlan(events=events))

    def brings(self, chunk: Chunk, outcome: StepOutcome) -> int:
        if not chunk.samples or chunk.request_id in outcome.failures:
            return 0
        return 1 + outcome.accepted.get(chunk.request_id, 0)

    def note(self, plan: StepPlan) -> None:
        for who, kind, _ in plan.events:
            if kind not in ("preempted", "left"):
                self.ends.append((who, kind))
            assert kind != "preempted" or self.policy.preemption == "recompute"
            if kind == "finished":
                assert self.delivered[who] == self.limits[who]

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
            held = [block for sequence in running for block in sequence.blocks]
            assert len(held) == len(set(held)) == pool.used
            assert pool.free + pool.used == pool.num_blocks

    def computed(self, sequence: Sequence) -> int:
        return sequence.computed if sequence.pace is None else sequence.pace + self.steps

    def tokens_of(self, sequence: Sequence) -> int:
        return sequence.tokens if sequence.pace is None else sequence.pace + self.steps + 1

    @invariant()
    def everybody_is_in_one_place(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        waiting = [sequence.request.id for sequence in self.scheduler.waiting]
        running = [s.request.id for s in self.scheduler.running if not s.ended]
        ended = [name for name, _ in self.ends]
        assert sorted([*waiting, *running, *ended]) == sorted(self.added)
        assert self.scheduler.num_waiting == len(waiting)
        for sequence in self.scheduler.waiting:
            assert (sequence.computed, sequence.blocks) == (0, [])
            assert sequence.passed_over <= self.policy.patience


TestAnyUseOfTheScheduler = AnyUseOfTheScheduler.TestCase
TestAnyUseOfTheScheduler.settings = settings(
    max_examples=250, stateful_step_count=25, deadline=None
)
