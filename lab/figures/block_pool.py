"""The block pool: who holds which block of KV memory, step by step, and why it changed hands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lab.figures.grid import Cell, Grid, GridFrame
from lab.figures.pool_states import PoolState, pool_states
from lab.figures.words import conditions, step_labels
from lab.ledgers.words import counted, listed
from lab.plan import Chunk
from lab.record import Record
from lab.request import Request
from lab.trace import Trace


def block_pool(
    trace: Trace, work: Iterable[Request] | None = None, title: str = "", finding: str = ""
) -> Grid:
    """The pool of a trace: one frame a step, and one for what is left when all is over.

    A cell is a physical block. It is free, used by one block table, shared by several, or cached:
    nobody holds it and its content may be used again. A row is a request's block table, from its
    first positions on. In a step the blocks are drawn as they are while it is computed: it fills
    its new slots, and what it rejects or ends goes back in the next. In a last block, 3 filled
    slots of 4 read "3/4". A caption says which blocks were taken, shared, copied before a write,
    given back, kept, given up for others, or moved to host memory, and why.

    `work`, the requests that the trace served, is needed for a run with a prefix cache: which
    blocks stay cached depends on the prompts' ids. Raises ValueError without it; for a trace that
    has no steps, no pool, or has forgotten requests; and for more than 64 blocks or 200 steps.
    """
    states = pool_states(trace, work)
    size, blocks = trace.settings["block_tokens"], trace.settings["blocks"]
    moments = [*(trace.starts or ()), trace.last]
    labels = [*step_labels(trace), "end"]
    frames = []
    before = PoolState(-1, {}, {}, (), {}, {}, {})
    for state, at, label in zip(states, moments, labels, strict=True):
        cells = tuple(_cells(before, state, size, blocks))
        caption = "; ".join(_changes(trace, before, state)) or _quiet(state)
        frames.append(GridFrame(at, label, caption, cells, *_rows(state), _sum(cells, size)))
        before = state
    return Grid(
        title=title or "Which block belongs to whom?",
        finding=finding or _found(trace, frames, size),
        conditions=f"{conditions(trace)}, {counted(size, 'token')} in a block",
        tag=trace.tag,
        unit=trace.unit,
        cell="block",
        row="block table",
        slots=size,
        who=tuple(record.id for record in trace.requests),
        frames=tuple(frames),
    )


# What is drawn


def _cells(before: PoolState, now: PoolState, size: int, blocks: int) -> Iterator[Cell]:
    held, had, cached, filled = now.holders, before.holders, now.cached, _filled(now, size)
    notes = dict(_notes(now, size))
    for block in range(blocks):
        who = held.get(block, ())
        note = notes.get(block, "")
        if who:
            yield Cell("shared" if len(who) > 1 else "used", who, filled[block], note)
        elif block in cached:
            yield Cell("cached", (), size, note or ("kept" if block in had else ""))
        else:
            yield Cell("free", (), 0, note or ("given back" if block in had else ""))


def _filled(state: PoolState, size: int) -> dict[int, int]:
    """Filled slots of each block in use. Those who share a block have filled the same."""
    return {
        block: min(size, state.reached[who] - place * size)
        for who, table in state.tables.items()
        for place, block in enumerate(table)
    }


def _notes(now: PoolState, size: int) -> Iterator[tuple[int, str]]:
    """(block, what has just happened to it)."""
    for chunk in now.chunks:
        for place, block in enumerate(chunk.blocks):
            if place < _known_blocks(chunk, size):
                yield block, "forked" if chunk.fork_of else "hit"
            elif place < chunk.restored:
                yield block, "moved in"
            else:
                yield block, "evicted, new" if block in now.evicted else "new"
        if chunk.copy:
            source, target = chunk.copy
            yield source, f"copied to {target}"
            yield target, f"copy of {source}"


def _rows(state: PoolState) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    aside = {who: f"{counted(n, 'block')} in host memory" for who, n in state.host.items()}
    return dict(state.tables), aside


def _sum(cells: tuple[Cell, ...], size: int) -> str:
    used = [cell for cell in cells if cell.who]
    cached = sum(cell.role == "cached" for cell in cells)
    empty = sum(size - cell.filled for cell in used)
    free = len(cells) - len(used) - cached
    counts = f"{len(used)} used + {cached} cached + {free} free = {counted(len(cells), 'block')}"
    if not used:
        return counts
    return f"{counts}; {empty} of {counted(len(used) * size, 'slot')} in used blocks empty"


def _found(trace: Trace, frames: list[GridFrame], size: int) -> str:
    most = max(sum(bool(cell.who) for cell in frame.cells) for frame in frames)
    empty = max(sum(size - c.filled for c in frame.cells if c.who) for frame in frames)
    copies = sum(run.copy is not None for record in trace.requests for run in record.runs)
    told = [
        f"at most {most} of {counted(trace.settings['blocks'], 'block')} in use at once, "
        f"and at most {counted(empty, 'slot')} empty in last blocks"
    ]
    told += [f"{counted(copies, 'block')} copied before a write"] if copies else []
    told += [f"{counted(len(trace.evictions), 'cached block')} given up"] if trace.evictions else []
    return "; ".join(told)


# What is said


def _quiet(state: PoolState) -> str:
    who = [chunk.request_id for chunk in state.chunks]
    if not who:
        return "nobody holds a block"
    return f"{listed(who)} {'writes' if len(who) == 1 else 'write'} into blocks held already"


def _known_blocks(chunk: Chunk, size: int) -> int:
    """How many of a chunk's first blocks were filled by others, or before it lost its seat."""
    return len(chunk.blocks) if chunk.fork_of else chunk.cached // size


def _changes(trace: Trace, before: PoolState, now: PoolState) -> Iterator[str]:
    """What changed from one state to the next, in sentences: first who gives, then who takes."""
    size = trace.settings["block_tokens"]
    added = {chunk.request_id: chunk for chunk in now.chunks}
    for who, table in before.tables.items():
        if who not in now.tables:
            yield _leaves(trace[who], before, now)
            continue
        chunk = added.get(who)
        kept = len(now.tables[who]) - (len(chunk.blocks) if chunk else 0)
        if table[kept:]:
            yield f"{who} gives back {_named(table[kept:])}: the guesses in it were rejected"
        if trace[who].end is not None and trace[who].runs[-1].stop == now.number:
            yield f"{who} has ended and keeps its blocks, until its batch is over"
    for who, table in now.tables.items():
        if given_up := [block for block in now.evicted if block in table]:
            is_are = "are" if len(given_up) > 1 else "is"
            yield f"cached {_named(given_up)} {is_are} given up for {who}, since none is free"
    for chunk in now.chunks:
        yield from _takes(chunk, before, now, size)


def _leaves(record: Record, before: PoolState, now: PoolState) -> str:
    """Who leaves and why, and what becomes of the blocks."""
    who, table = record.id, before.tables[record.id]
    stay = next(stay for stay in record.stays if stay.stop == now.number)
    if stay.swapped_out:
        moved = counted(stay.swapped_out, "block")
        told = f"blocks ran out: {who} moves {moved} to host memory and leaves {_named(table)}"
    elif stay.preempted:
        told = f"blocks ran out: {who} loses its seat and gives back {_named(table)}"
    else:
        told = f"{who}, {record.status}, gives back {_named(table)}"
    others = {block: _still(block, before, now) for block in table}
    kept = [b for b in table if not others[b] and (b in now.known or b in now.evicted)]
    told += f"; {_named(kept)} {_stay(kept)} cached" if kept else ""
    shared = [block for block in table if others[block]]
    names = sorted(set().union(*others.values()))
    return f"{told}; {_named(shared)} {_stay(shared)} with {listed(names)}" if shared else told


def _takes(chunk: Chunk, before: PoolState, now: PoolState, size: int) -> Iterator[str]:
    """Which blocks a chunk adds to its table, where they come from, and what for."""
    who, known = chunk.request_id, _known_blocks(chunk, size)
    if chunk.copy:
        source, target = chunk.copy
        others = [other for other in before.holders[source] if other != who]
        yield (
            f"{who} copies block {source} to block {target} and writes there, "
            f"since {listed(others)} held {source} too"
        )
    if chunk.fork_of:
        yield f"{who} goes on from {chunk.fork_of}'s prompt and shares {_named(chunk.blocks)}"
        return
    first, new = chunk.blocks[:known], chunk.blocks[max(known, chunk.restored) :]
    told = []
    if first:
        others = sorted(set().union(*(_still(block, before, now) for block in first)))
        where = f"held by {listed(others)}" if others else "cached"
        told.append(f"finds its first {counted(chunk.cached, 'token')} in {_named(first)}, {where}")
    if chunk.restored:
        back = _named(chunk.blocks[: chunk.restored])
        told.append(f"moves {counted(chunk.restored, 'block')} back from host memory into {back}")
    if new:
        told.append(f"takes {_named(new)} for {counted(chunk.num_tokens, 'token')}")
    if told:
        yield f"{who} {', and '.join(told)}"


def _still(block: int, before: PoolState, now: PoolState) -> set[str]:
    """Who held a block before and still does."""
    return {*before.holders.get(block, ())} & {*now.holders.get(block, ())}


def _named(blocks: Iterable[int]) -> str:
    """Blocks by their numbers: "block 3", "blocks 0 1 2"."""
    numbers = list(map(str, blocks))
    return f"block{'s' if len(numbers) > 1 else ''} {' '.join(numbers)}"


def _stay(blocks: list[int]) -> str:
    return "stay" if len(blocks) > 1 else "stays"
