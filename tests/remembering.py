"""An executor with a memory: it holds K and V as values that name their whole history.

It follows plans as a live one must, by tables, copies and moves alone, and looks before each chunk
whether the memory behind its table is that of the sequence. A block that is given away too early,
shared with the wrong sequence, or not copied before a write is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drawn_runs import Scripted

from lab.plan import Chunk, StepOutcome, StepPlan
from lab.request import Request, Time


@dataclass
class Remembering:
    """`known` are the requests by their ids, further answers too."""

    block_tokens: int
    inner: Scripted = field(default_factory=Scripted)
    known: dict[str, Request] = field(default_factory=dict)
    tables: dict[str, list[int]] = field(default_factory=dict)
    device: dict[tuple[int, int], int] = field(default_factory=dict)
    host: dict[str, list[dict[int, int]]] = field(default_factory=dict)
    output: dict[str, list[object]] = field(default_factory=dict)

    def take(self, request: Request) -> None:
        for answer in request.answers:
            self.known[answer.id] = answer
            self.output[answer.id] = []

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        self.move(plan)
        outcome = self.inner.run(plan, now, until)
        for chunk in plan.written:
            self.compute(chunk, outcome)
        for chunk in plan.written:
            if chunk.restored:
                del self.host[chunk.request_id]
            self.listen(chunk, outcome)
        return outcome

    def move(self, plan: StepPlan) -> None:
        for who in plan.ended:
            self.tables.pop(who, None)
            self.host.pop(who, None)
        for who, blocks in plan.swap_out:
            assert self.tables[who] == list(blocks)
            self.host[who] = [self.content(block) for block in blocks]
        for who, blocks in plan.swap_in:
            for block, content in zip(blocks, self.host[who], strict=True):
                self.fill(block, content)
        for source, target in plan.copies:
            self.fill(target, self.content(source))

    def content(self, block: int) -> dict[int, int]:
        size = self.block_tokens
        return {i: self.device[block, i] for i in range(size) if (block, i) in self.device}

    def fill(self, block: int, content: dict[int, int]) -> None:
        for place in range(self.block_tokens):
            self.device.pop((block, place), None)
        self.device.update({(block, place): value for place, value in content.items()})

    def compute(self, chunk: Chunk, outcome: StepOutcome) -> None:
        who = chunk.request_id
        if chunk.begins:
            self.tables[who] = list(chunk.blocks)
        else:
            if chunk.copy:
                source, target = chunk.copy
                table = self.tables[who]
                table[table.index(source)] = target
            self.tables[who] += chunk.blocks
        right = self.values(who, outcome.tokens)
        for position in range(chunk.start):
            found = self.device.get(self.slot(who, position))
            assert found == right[position], f"{who} reads the wrong K and V at {position}"
        good = chunk.stop - (chunk.drafts - outcome.accepted.get(who, 0))
        for position in range(chunk.start, chunk.stop):
            value = right[position] if position < good else -1
            self.device[self.slot(who, position)] = value
        kept = -(-good // self.block_tokens)
        del self.tables[who][kept:]

    def slot(self, who: str, position: int) -> tuple[int, int]:
        block, place = divmod(position, self.block_tokens)
        return self.tables[who][block], place

    def values(self, who: str, new: object) -> list[int]:
        """What K and V are at each position: they depend on all ids up to there, and on whom they
        are for."""
        request = self.known[who]
        tokens = new[who] if isinstance(new, dict) and who in new else ()
        ids: Sequence[object] = [*request.prompt, *self.output[who], *tokens]
        values, value = [], hash((request.tenant, request.adapter))
        for token in ids:
            value = hash((value, token))
            values.append(value)
        return values

    def listen(self, chunk: Chunk, outcome: StepOutcome) -> None:
        """Keep the tokens up to one that ends the answer, as the scheduler does."""
        who = chunk.request_id
        for token in (outcome.tokens or {}).get(who, ()):
            self.output[who].append(token)
            if self.known[who].ends_with(token):
                break
