"""Chapter 5, what the cache weighs: one memory under four rules, with answers of other lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from lab.allocators import Contiguous, Filling, OnePiece, Pages, paged
from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.words import counted, listed
from lab.workload import Workload

SLOTS = 24
LONGEST = 12
BLOCK = 4
PROMPTS = {"A": 4, "B": 3, "C": 5}
RULES = {
    "maximum": Contiguous("longest", LONGEST),
    "power of two": Contiguous("power of two"),
    "oracle": Contiguous("exact"),
}
ROLES = {"used": "decode", "later": "kept", "never": "skipped"}
"""How slots are drawn that hold a token, that will, and that never will."""


class Part(NamedTuple):
    """Neighbouring slots of one request, all of one kind."""

    who: str
    kind: str
    slots: range


class Row(NamedTuple):
    """The memory under one rule: its parts, and who waits for a place in it."""

    parts: tuple[Part, ...]
    waiting: tuple[str, ...]


def four_rules(answer_a: int, answer_b: int, answer_c: int, step: int) -> tuple[Scene]:
    """The memory in step `step` (from 1 on) for three requests that come at once, slot by slot.

    The first lane shows what each request will have written in the end; there its answer can be
    made longer or shorter. Below it each rule has a lane.
    """
    answers = zip(PROMPTS, (answer_a, answer_b, answer_c), strict=True)
    work = Workload.given({who: (0, PROMPTS[who], answer) for who, answer in answers})
    rows = {name: _in_one_piece(work, rule, step) for name, rule in RULES.items()}
    rows["paging"] = _in_blocks(work, step)
    found = "; ".join(f"{name}: {_told(row)}" for name, row in rows.items())
    return (
        Scene(
            title=f"Engine step {step}: what does each rule do with {SLOTS} slots?",
            finding=f"Engine step {step}. {found[0].upper()}{found[1:]}.",
            conditions=f"{SLOTS} slots, prompts of {listed(PROMPTS.values())} tokens, at most "
            f"{LONGEST} slots a request, blocks of {BLOCK}; the last token of an answer fills none",
            tag="derived",
            unit="slot",
            lanes=("asked", *rows),
            marks=(*_asked(work), *_marks(rows)),
            frames=tuple(_frames(rows)),
        ),
    )


def _asked(work: Workload) -> Iterator[Mark]:
    """What each request will have written, one behind the other."""
    start = 0
    for request in work:
        who, prompt = request.id, request.prompt_tokens
        middle, stop = start + prompt, start + request.max_computed
        answer = f"answer_{who.lower()}"
        yield Mark(f"prompt {who}", "prefill", "asked", start, middle, f"{who} {prompt}", who)
        yield Mark(answer, "decode", "asked", middle, stop, f"+ {stop - middle}", who)
        start = stop


def _marks(rows: dict[str, Row]) -> Iterator[Mark]:
    for name, row in rows.items():
        seen: Counter[tuple[str, str]] = Counter()
        for who, kind, slots in row.parts:
            label = f"{who} {len(slots)}" if kind == "used" else f"{who} {kind} {len(slots)}"
            place = f"{name}.{who}.{kind}.{seen[who, kind]}"
            yield Mark(place, ROLES[kind], name, slots.start, slots.stop, label, who)
            seen[who, kind] += 1


def _in_one_piece(work: Workload, rule: Contiguous, step: int) -> Row:
    memory = OnePiece(rule, SLOTS)
    filling = Filling(work, memory)
    for _ in range(step - 1):
        if filling.goes_on:
            filling.step()
    if filling.goes_on:
        filling.begin()
    parts = [
        part
        for sequence in filling.running
        for part in _parts(
            *(sequence.request.id, memory.regions[sequence.request.id]),
            *(sequence.tokens, sequence.request.max_computed),
        )
    ]
    return Row(tuple(parts), tuple(sequence.request.id for sequence in filling.waiting))


def _in_blocks(work: Workload, step: int) -> Row:
    trace = paged(work, Pages(BLOCK), SLOTS)
    at = step - 1
    now = next((one for one in trace.steps() if one.number == at), None)
    parts: list[Part] = []
    for chunk in now.chunks if now else ():
        record = trace[chunk.request_id]
        holdings = record.holdings(BLOCK, trace.num_steps)
        table = [b for first, stop, blocks in holdings if first <= at < stop for b in blocks]
        for place, block in enumerate(table):
            slots, before = range(block * BLOCK, (block + 1) * BLOCK), place * BLOCK
            parts += _parts(record.id, slots, chunk.stop - before, record.reached - before)
    seated = {part.who for part in parts}
    waiting = [r.id for r in trace.requests if r.id not in seated and r.end and r.end > at]
    return Row(tuple(parts), tuple(waiting))


def _parts(who: str, slots: range, used: int, needed: int) -> Iterator[Part]:
    """Slots of which the first `used` hold tokens now, and the first `needed` in the end."""
    edges = (0, min(used, len(slots)), min(needed, len(slots)), len(slots))
    for kind, (first, stop) in zip(ROLES, pairwise(edges), strict=True):
        if first < stop:
            yield Part(who, kind, slots[first:stop])


def _told(row: Row) -> str:
    if not row.parts:
        return "everybody is done"
    used = sum(len(part.slots) for part in row.parts if part.kind == "used")
    told = f"{counted(used, 'slot')} used by {listed(sorted({part.who for part in row.parts}))}"
    waits = "waits" if len(row.waiting) == 1 else "wait"
    return f"{told}, {listed(row.waiting)} {waits}" if row.waiting else told


def _frames(rows: dict[str, Row]) -> Iterator[Frame]:
    """A frame for every few slots, with whose they are under each rule."""
    for start in range(0, SLOTS, BLOCK):
        block = range(start, start + BLOCK)
        told = [f"{name} {_owners(row, block)}" for name, row in rows.items()]
        yield Frame(start, str(start), f"slots {start} to {block[-1]}: {', '.join(told)}")


def _owners(row: Row, block: range) -> str:
    owners = sorted({part.who for part in row.parts if set(part.slots) & set(block)})
    return listed(owners) if owners else "free"
