"""Do the blocks of a trace add up? Nothing is handed out twice, and what is shared was there."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from lab.record import Record, Run
from lab.request import Time


def block_problems(
    records: Sequence[Record],
    starts: Sequence[Time],
    evictions: Iterable[tuple[int, int]],
    settings: Mapping[str, Any],
) -> Iterator[str]:
    """Every contradiction between the blocks of a trace, in words."""
    block_tokens = settings["block_tokens"]
    moves = _Moves(records, len(starts), block_tokens)
    yield from _tables(records, block_tokens)
    yield from _forks(records)
    evictions = list(evictions)
    yield from _holders(moves, settings["blocks"])
    if moves.hits and not settings.get("forgotten"):  # who filled the blocks may be missing
        yield from _full(records, moves.hits, block_tokens, evictions)
    yield from _writes(records, len(starts), block_tokens)
    if settings.get("host_blocks") is not None:
        yield from _host(records, starts, settings["host_blocks"])
    if settings.get("draft_tokens"):  # room may be made for guesses that nobody has
        return
    for step, block in evictions:
        if block not in chain.from_iterable(moves.new.get(step, ())):
            yield f"step {step} gives up block {block}, and hands it to nobody"


def _tables(records: Iterable[Record], block_tokens: int) -> Iterator[str]:
    """Tables are as long as their positions need, on the device and in host memory."""
    for record in records:
        for run in record.runs:
            is_whole = run.cached or run.restored or not run.tokens
            held = 0 if is_whole else -(-run.start // block_tokens)
            want = -(-(run.start + run.count - 1 + run.tokens) // block_tokens) - held
            if len(run.blocks) != want:
                yield (
                    f"request {record.id!r}: from step {run.first} on it needs {want} more blocks, "
                    f"and took {len(run.blocks)}"
                )
            if run.restored and run.restored != -(-run.start // block_tokens):
                yield (
                    f"request {record.id!r}: step {run.first} brings {run.restored} blocks back "
                    f"from host memory for {run.start} positions"
                )


def _forks(records: Sequence[Record]) -> Iterator[str]:
    """A fork begins in the step, and with the table, in which the prompt of the other ends."""
    forks = [(record, run) for record in records for run in record.runs if not run.tokens]
    by_id = {record.id: record for record in records} if forks else {}
    for record, run in forks:
        source = by_id.get(record.fork_of or "")
        if source is None or _computed_by(source, run.first) != run.start:
            yield (
                f"request {record.id!r}: step {run.first} computes nothing of it, and no "
                "prompt ends there that it could fork from"
            )
        elif _table(source, run.first) != run.blocks:
            yield (
                f"request {record.id!r}: it forks in step {run.first} with the blocks "
                f"{run.blocks}, and {record.fork_of!r} has {_table(source, run.first)}"
            )


def _computed_by(record: Record, step: int) -> int | None:
    return next((run.reached for run in record.runs if run.first == step), None)


def _table(record: Record, step: int) -> list[int]:
    """The blocks of a request that computes its prompt, when it has computed `step`."""
    table: list[int] = []
    for _, run, first in record.runs_of_stays():
        if run.first <= step:
            table = [*run.blocks] if first else table + run.blocks
    return table


class _Moves:
    """Which blocks come into a table in which step, and which leave one: `new` are handed out to
    the first who holds them, `hits` come from the cache, `forked` from another's table."""

    def __init__(self, records: Iterable[Record], num_steps: int, block_tokens: int) -> None:
        self.new: dict[int, list[list[int]]] = defaultdict(list)
        self.hits: dict[int, list[int]] = defaultdict(list)
        self.forked: dict[int, list[int]] = defaultdict(list)
        self.back: dict[int, list[list[int]]] = defaultdict(list)
        for record in records:
            sharing = {run.first: run for run in record.runs if run.cached or not run.tokens}
            for first, stop, blocks in record.holdings(block_tokens, num_steps):
                self.back[stop].append(blocks)
                if first in sharing:
                    blocks = self._shared(sharing[first], blocks, block_tokens)
                self.new[first].append(blocks)

    def _shared(self, run: Run, blocks: list[int], block_tokens: int) -> list[int]:
        """Enter what a run shares. Returns the blocks that it got anew."""
        shared = run.blocks[: run.cached // block_tokens] if run.tokens else run.blocks
        book = self.hits if run.tokens else self.forked
        book[run.first] += [block for block in blocks if block in shared]
        return [block for block in blocks if block not in shared]


class _Used:
    """The blocks in use, and how many tables hold them beyond the first."""

    def __init__(self) -> None:
        self.blocks: set[int] = set()
        self._more: Counter[int] = Counter()

    def join(self, block: int) -> None:
        """One more table holds the block."""
        if block in self.blocks:
            self._more[block] += 1
        self.blocks.add(block)

    def leave(self, blocks: Iterable[int]) -> None:
        """One table less holds each of the blocks."""
        if not self._more:
            self.blocks.difference_update(blocks)
            return
        for block in blocks:
            if block not in self._more:
                self.blocks.discard(block)
            elif self._more[block] == 1:
                del self._more[block]
            else:
                self._more[block] -= 1


def _holders(moves: _Moves, num_blocks: int) -> Iterator[str]:
    """A block is handed out to one table, and others share it while somebody holds it."""
    used = _Used()
    in_use = used.blocks
    for step in sorted({*moves.new, *moves.back}):
        for blocks in moves.back.get(step, ()):
            used.leave(blocks)
        for block in chain.from_iterable(moves.new.get(step, ())):
            if block in in_use:
                yield f"step {step} hands out block {block}, which is in use"
            if not 0 <= block < num_blocks:
                yield f"step {step} hands out block {block}, and the pool ends at {num_blocks - 1}"
            in_use.add(block)
        for block in moves.hits.get(step, ()):
            used.join(block)
        for block in moves.forked.get(step, ()):
            if block not in in_use:
                yield f"step {step} forks block {block}, which nobody holds"
            used.join(block)


def _full(
    records: Iterable[Record],
    hits: Mapping[int, list[int]],
    block_tokens: int,
    evictions: Iterable[tuple[int, int]],
) -> Iterator[str]:
    """What is taken from the cache was computed to its end, and neither given up nor handed to
    anybody since."""
    lives: dict[int, list[tuple[int, int | None]]] = defaultdict(list)
    for step, block in evictions:
        lives[block].append((step, None))
    for record in records:
        for block, since, full in _lives(record, block_tokens):
            lives[block].append((since, full))
    for step, blocks in hits.items():
        for block in blocks:
            last = max((since for since, _ in lives[block] if since <= step), default=step)
            if not any(
                since == last and full is not None and full <= step for since, full in lives[block]
            ):
                yield f"step {step} takes block {block} from the cache, and it was not full"


class _Held(NamedTuple):
    """A block of a table, the step since which it is there, and whether it was handed out then."""

    block: int
    since: int
    is_new: bool


def _lives(record: Record, block_tokens: int) -> Iterator[tuple[int, int, int | None]]:
    """(block, step since which its content is this one, step from which on it is full, or None),
    for the blocks that a request got anew or writes on in."""
    table: list[_Held] = []
    place = 0
    for _, run, first in record.runs_of_stays():
        if first:
            yield from ((held.block, held.since, None) for held in table[place:] if held.is_new)
            table, place = [], (run.cached if run.tokens else run.start) // block_tokens
        if run.copy:
            if table[-1].is_new:
                yield table[-1].block, table[-1].since, None
            table[-1] = _Held(run.copy[1], run.first, True)
        table += _added(run, block_tokens)
        while (place + 1) * block_tokens <= run.reached:
            held = table[place]
            place += 1
            yield held.block, held.since, run.ends_at(place * block_tokens)
        del table[-(-run.reached // block_tokens) :]
    yield from ((held.block, held.since, None) for held in table[place:] if held.is_new)


def _added(run: Run, block_tokens: int) -> Iterator[_Held]:
    step, each = run.first, 0
    if run.count > 1:
        step, each = run.first + -run.start % block_tokens, block_tokens
    for block in run.blocks:
        yield _Held(block, step, run.tokens > 0)
        step += each


def _writes(records: Sequence[Record], num_steps: int, block_tokens: int) -> Iterator[str]:
    """Nobody writes into a block that others hold, and only such a block is copied first."""
    forks = [run for r in records for run in r.runs if not run.tokens and run.start % block_tokens]
    ends = {run.blocks[-1] for run in forks if run.blocks}
    copying = [(r, run, run.copy[0]) for r in records for run in r.runs if run.copy]
    watched = ends | {source for _, _, source in copying}
    held: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for record in records if watched else ():
        for first, stop, blocks in record.holdings(block_tokens, num_steps):
            for block in watched.intersection(blocks):
                held[block].append((record.id, first, stop))
    for record, run, source in copying:
        holders = sum(first < run.first <= stop for _, first, stop in held[source])
        if holders < 2 or run.start % block_tokens == 0:
            yield (
                f"request {record.id!r}: step {run.first} copies block {source} to write position "
                f"{run.start}, and {holders} tables hold it"
            )
    for record in records if ends else ():
        for run, block in _written_to(record, block_tokens):
            for other, first, stop in held.get(block, ()):
                if other != record.id and first < run.first < stop:
                    yield (
                        f"request {record.id!r}: step {run.first} writes into block {block}, "
                        f"which {other!r} holds too"
                    )


def _written_to(record: Record, block_tokens: int) -> Iterator[tuple[Run, int]]:
    """The runs that begin within a block, and that block."""
    table: list[int] = []
    for _, run, first in record.runs_of_stays():
        if first:
            table = []
        if run.copy:
            table[-1] = run.copy[1]
        table += run.blocks
        if run.tokens and run.start % block_tokens:
            yield run, table[run.start // block_tokens]
        del table[-(-run.reached // block_tokens) :]


def _host(records: Iterable[Record], starts: Sequence[Time], host_blocks: int) -> Iterator[str]:
    """Host memory holds what moved there until it is back, or until its request has ended."""
    change: dict[int, int] = defaultdict(int)
    for record in records:
        for stay, later in pairwise([*record.stays, None]):
            if stay is None or not stay.swapped_out or stay.stop is None:
                continue
            if later:
                back = later.first + 1
            else:
                back = len(starts) if record.end is None else bisect_left(starts, record.end)
            change[stay.stop] += stay.swapped_out
            change[back] -= stay.swapped_out
    used = 0
    for step in sorted(change):
        used += change[step]
        if used > host_blocks:
            yield f"step {step} leaves {used} blocks in host memory, which has {host_blocks}"
