"""Attention in tiles: one query's pass over its keys, the tiles that a causal mask leaves, and the
programs of a decode that reads its cache through block tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain

from lab.attention.online_softmax import MASKED, Ln, Score, Step, Value
from lab.attention.tiling import Program, Tile, decode_programs
from lab.figures.scene import Frame, Mark, Scene
from lab.figures.words import conditions
from lab.ledgers.table import show
from lab.ledgers.words import counted, grouped, listed
from lab.trace import Trace

WHO = "A"
"""The request whose colour the figure has: all queries belong to it."""

# One query, tile by tile


def online_steps(
    steps: Sequence[Step], title: str = "", finding: str = "", *, track_maximum: bool = True
) -> Scene:
    """The pass of `online_softmax`, one frame a tile.

    The lanes `keys`, `scores` and `values` hold what is read of each tile (role `read`); those
    below hold what stays on the chip (role `kept`): the largest score so far, what the sums so far
    are multiplied by, the weights of the tile, and both sums and their quotient when it is
    through. Without `track_maximum` there is no maximum and nothing to rescale. A caption shows
    the sums as they are made. ValueError for no steps.
    """
    if not steps:
        raise ValueError("a pass over keys has at least 1 step, got 0")
    lanes = {
        "keys": ("read", [places(step.keys) for step in steps]),
        "scores": ("read", [_row(step.scores) for step in steps]),
        "values": ("read", [_row(step.values) for step in steps]),
        "maximum": ("kept", [said(step.kept.maximum) for step in steps]),
        "rescale": ("kept", ["–", *(f"× {show(step.rescale)}" for step in steps[1:])]),
        "weights": ("kept", [_row(step.weights) for step in steps]),
        "numerator": ("kept", [said(step.kept.numerator) for step in steps]),
        "denominator": ("kept", [said(step.kept.denominator) for step in steps]),
        "output": ("kept", [_output(step) for step in steps]),
    }
    if not track_maximum:
        del lanes["maximum"], lanes["rescale"]
    marks = [
        Mark(f"{lane}.{number}", role, lane, number, number + 1, label, WHO)
        for lane, (role, labels) in lanes.items()
        for number, label in enumerate(labels)
    ]
    last = steps[-1].kept
    keys, widest = sum(len(s.keys) for s in steps), max(len(step.keys) for step in steps)
    return Scene(
        title=title or "What must stay of a tile when the next one is read?",
        finding=finding
        or f"Numerator {said(last.numerator)} over denominator {said(last.denominator)}: "
        f"the output is {_output(steps[-1])}.",
        conditions=f"1 query, {counted(keys, 'key')}, "
        f"{counted(len(steps), 'tile')} of at most {widest}",
        tag="derived",
        unit="step",
        lanes=tuple(lanes),
        marks=tuple(marks),
        frames=tuple(_told(steps, track_maximum)),
    )


def places(positions: range) -> str:
    """Positions as a reader counts them, from 1: "1–2", "5"."""
    first, last = positions.start + 1, positions.stop
    return str(last) if first == last else f"{first}–{last}"


def said(value: Score | Value) -> str:
    """A score, a number or a vector in words: ln 4, 5/2, (1, 3/2); −∞ for what is masked."""
    if value in (MASKED, Ln(Fraction(0))):
        return "−∞"
    if isinstance(value, Ln):
        return f"ln {show(value.weight)}"
    return f"({_row(value)})" if isinstance(value, tuple) else show(value)


def _row(values: Sequence[Score | Value]) -> str:
    """Numbers of one tile: one word, so that a narrow box shows all of them or none."""
    return ", ".join(map(said, values)).replace(" ", "\N{NO-BREAK SPACE}")


def _output(step: Step) -> str:
    return said(step.kept.output) if step.kept.denominator else "–"


def _told(steps: Sequence[Step], track_maximum: bool) -> Iterator[Frame]:
    before: Step | None = None
    for number, step in enumerate(steps):
        told = [f"{'key' if len(step.keys) == 1 else 'keys'} {places(step.keys)} read"]
        if track_maximum:
            told.append(_maximum(before, step))
        told += [
            f"{name}: {_sum(before, step, name)}"
            for name in ("numerator", "denominator")
            if step.added.denominator
        ]
        told.append(f"output so far: {_output(step)}")
        yield Frame(number, str(number + 1), "; ".join(told))
        before = step


def _maximum(before: Step | None, step: Step) -> str:
    maximum = said(step.kept.maximum)
    if not step.added.denominator:
        return "all of them masked, so nothing changes"
    if before is None or not before.kept.denominator:
        return f"the largest score is {maximum}"
    if step.rescale == 1:
        return f"the maximum stays {maximum}"
    return (
        f"the maximum rises from {said(before.kept.maximum)} to {maximum}, so what was kept is "
        f"multiplied by {show(step.rescale)}"
    )


def _sum(before: Step | None, step: Step, name: str) -> str:
    """How a sum came to be: "2 × 1/4 + 1 × 1 + 1/2 × 3 = 3"."""
    parts = [said(weight) for weight in step.weights]
    if name == "numerator":
        parts = [
            f"{weight} × {said(value)}" for weight, value in zip(parts, step.values, strict=True)
        ]
    if before is not None and before.kept.denominator:
        factor = "" if step.rescale == 1 else f" × {show(step.rescale)}"
        parts.insert(0, f"{said(getattr(before.kept, name))}{factor}")
    kept = said(getattr(step.kept, name))
    return kept if parts == [kept] else f"{' + '.join(parts)} = {kept}"


# The tiles that a mask leaves


def tile_programs(grid: Sequence[Sequence[Tile]], title: str = "", finding: str = "") -> Scene:
    """A lane for each tile of queries, which is one program, and a step for each tile of keys.

    A tile that the mask leaves whole has the role `read`, one that it cuts `partly`; both are
    labelled with the pairs that count, "3 of 4". A tile in which it hides everything is `skipped`.
    All programs run at once. ValueError for an empty grid.
    """
    if not grid or not grid[0]:
        raise ValueError("a grid has at least 1 tile, got 0")
    roles = {"all": "read", "some": "partly", "none": "skipped"}
    lanes = [f"queries {places(row[0].queries)}" for row in grid]
    marks = [
        Mark(f"{lane}.{step}", roles[tile.sees], lane, step, step + 1, _pairs(tile), WHO)
        for lane, row in zip(lanes, grid, strict=True)
        for step, tile in enumerate(row)
    ]
    tiles = list(chain.from_iterable(grid))
    computed = [tile for tile in tiles if tile.sees != "none"]
    work = sum(_area(tile) for tile in computed)
    count = sum(tile.pairs for tile in tiles)
    return Scene(
        title=title or "Which tiles must be read?",
        finding=finding
        or f"{len(computed)} of {len(tiles)} tiles are read: {grouped(work)} pairs computed for "
        f"{grouped(count)} that count, of {grouped(sum(map(_area, tiles)))}.",
        conditions=f"{_queries(sum(len(row[0].queries) for row in grid))}, "
        f"{counted(sum(len(tile.keys) for tile in grid[0]), 'key')}, one program a lane",
        tag="derived",
        unit="step",
        lanes=tuple(lanes),
        marks=tuple(marks),
        frames=tuple(_columns(grid)),
    )


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"


def _area(tile: Tile) -> int:
    return len(tile.queries) * len(tile.keys)


def _pairs(tile: Tile) -> str:
    return "skipped" if tile.sees == "none" else f"{tile.pairs} of {_area(tile)}"


def _columns(grid: Sequence[Sequence[Tile]]) -> Iterator[Frame]:
    words = {"all": "see them all", "some": "see some of them", "none": "skip them, all lie ahead"}
    for step, column in enumerate(zip(*grid, strict=True)):
        told = []
        for sees, deed in words.items():
            mine = [places(tile.queries) for tile in column if tile.sees == sees]
            if mine:
                told.append(f"queries {listed(mine)} {deed}")
        yield Frame(step, str(step + 1), f"keys {places(column[0].keys)}: {'; '.join(told)}")


# A decode through block tables


def paged_decode(
    trace: Trace, step: int, blocks_a_program: int, title: str = "", finding: str = ""
) -> Scene:
    """The programs of one decode step of a trace, block by block.

    A lane is a program: one part of one request's context, `blocks_a_program` blocks of its table.
    A `read` is labelled with the number of the block in the pool. Where a request has several
    parts, each ends with the statistics that it `kept` (labelled "sum"), and in the last frame
    they are merged, in the lane of the first part; a request of one part has its output at once.

    ValueError for a trace without blocks or steps, and for a step in which nobody decodes.
    """
    programs = list(chain.from_iterable(_programs(trace, step, blocks_a_program)))
    parts = {p.request_id: sum(q.request_id == p.request_id for q in programs) for p in programs}
    longest = max(len(program.reads) for program in programs)
    lanes = {program: _lane(program, parts) for program in programs}
    marks = [mark for program, lane in lanes.items() for mark in _reads(program, lane, parts)]
    split = [who for who, count in parts.items() if count > 1]
    marks += [
        Mark(f"{who}.output", "kept", f"{who}, part 1", longest + 1, longest + 2, "out", who)
        for who in split
    ]
    reads = sum(len(program.reads) for program in programs)
    return Scene(
        title=title or "Who reads which block?",
        finding=finding
        or f"{counted(len(programs), 'program')} read {counted(reads, 'block')}, at most {longest} "
        "one after the other.",
        conditions=f"step {step + 1} of: {conditions(trace)}; "
        f"{counted(trace.settings['block_tokens'], 'token')} a block, at most "
        f"{counted(blocks_a_program, 'block')} a program",
        tag="derived",
        unit="step",
        lanes=tuple(lanes.values()),
        marks=tuple(marks),
        frames=tuple(_moments(programs, parts, longest)),
    )


def _programs(trace: Trace, step: int, blocks_a_program: int) -> list[tuple[Program, ...]]:
    if trace.settings.get("blocks") is None:
        raise ValueError("programs read blocks, and this trace has none")
    if not 0 <= step < trace.num_steps:
        raise ValueError(f"the step must be in 0..{trace.num_steps - 1}, got {step}")
    block_tokens = trace.settings["block_tokens"]
    found = []
    for record in trace.requests:
        for run in record.runs:
            if run.kind == "decode" and run.first <= step < run.stop:
                context = run.start + step - run.first + run.tokens
                table = [
                    block
                    for first, stop, blocks in record.holdings(block_tokens, trace.num_steps)
                    if first <= step < stop
                    for block in blocks
                ]
                program = record.id, table, context, block_tokens, blocks_a_program
                found.append(decode_programs(*program))
    if not found:
        raise ValueError(f"nobody decodes in step {step}")
    return found


def _lane(program: Program, parts: dict[str, int]) -> str:
    who = program.request_id
    return f"{who}, part {program.part + 1}" if parts[who] > 1 else who


def _reads(program: Program, lane: str, parts: dict[str, int]) -> Iterator[Mark]:
    who = program.request_id
    for at, (place, block, _) in enumerate(program.reads):
        yield Mark(f"{who}.{place}", "read", lane, at, at + 1, f"block {block}", who)
    at = len(program.reads)
    label = "sum" if parts[who] > 1 else "out"
    yield Mark(f"{lane}.end", "kept", lane, at, at + 1, label, who)


def _moments(programs: list[Program], parts: dict[str, int], longest: int) -> Iterator[Frame]:
    for at in range(longest + 1):
        told = []
        for who, count in parts.items():
            mine = [program for program in programs if program.request_id == who]
            blocks = [program.reads[at][1] for program in mine if at < len(program.reads)]
            done = [str(program.part + 1) for program in mine if at == len(program.reads)]
            if blocks:
                told.append(f"{who} reads {_named('block', blocks)}")
            if done and count > 1:
                told.append(f"{_named('part', done)} of {who} kept maximum and sums")
            elif done:
                told.append(f"{who} has its output")
        yield Frame(at, str(at + 1), "; ".join(told))
    if split := [who for who, count in parts.items() if count > 1]:
        told = [f"the {parts[who]} parts of {who} are merged into its output" for who in split]
        yield Frame(longest + 1, str(longest + 2), "; ".join(told))


def _named(noun: str, names: Sequence[int] | Sequence[str]) -> str:
    return f"{noun if len(names) == 1 else f'{noun}s'} {listed(names)}"
