"""The prefix tree: which beginnings are known when a request comes in, and how far its own goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from lab.figures.pool_states import Known, PoolState, chains, pool_states
from lab.figures.tree import Node, Tree, TreeFrame
from lab.figures.words import conditions, step_labels
from lab.ledgers.reuse import reuse
from lab.ledgers.table import show
from lab.ledgers.words import counted
from lab.plan import Chunk
from lab.prefix import Chain, Identity
from lab.record import Record
from lab.request import Request
from lab.trace import Trace

MOST_IDS = 8
"""Of a longer block so many token ids are shown."""

Lost: TypeAlias = dict[bytes, tuple[int, Known]]
"""Blocks that were given up, by their digests, the first one first."""


def prefix_tree(trace: Trace, work: Iterable[Request], title: str = "", finding: str = "") -> Tree:
    """The published blocks of a trace as a tree: one frame a request that takes a seat, and one
    for what is left. `work` is the workload that the trace ran on: its prompts have the ids.

    A node is a block with its token ids, below the block before it. On the way of the request a
    block is found (hit) or has to be computed (miss); behind the last full one stands what fills
    no block (tail). Blocks that were given up since the last frame are there once more (evicted).
    A caption says how far the way was known and why no farther: it branches off, or ends in
    nothing; the next block was given up, is being computed by somebody else, or is known for
    others only; or the last token is computed in any case, since its logits are needed.

    Raises ValueError for a run without a prefix cache, for a workload that lacks a request of the
    trace, for a trace without steps or with requests forgotten, and for more than 64 blocks or 200
    steps.
    """
    if not trace.settings.get("prefix_cache"):
        raise ValueError("a prefix tree needs a run with a prefix cache, and this one has none")
    work = list(work)
    states, keys = pool_states(trace, work), chains(trace, work)
    prompts = {answer.id: answer.prompt for request in work for answer in request.answers}
    frames: list[TreeFrame] = []
    lost: Lost = {}
    gone: dict[bytes, str] = {}
    when = [_when(label, trace.unit) for label in step_labels(trace)]
    for state in states:
        for block, one in state.evicted.items():
            lost[one.digest] = (block, one)
            gone[one.digest] = when[state.number]
        for chunk in state.chunks:
            if chunk.begins and not (chunk.fork_of or chunk.restored):
                way = _way(state, chunk, keys, prompts[chunk.request_id], trace)
                told = f"{_lost(lost)}{_caption(way, when[state.number], gone)}"
                nodes = tuple(_nodes(state.known, lost, way))
                again = " again" * any(frame.walker == way.who for frame in frames)
                frames.append(TreeFrame(len(frames), way.who + again, told, nodes, way.who))
                lost = {}
    left = states[-1].known
    told = f"{_lost(lost)}{counted(len(left), 'block')} known"
    frames.append(TreeFrame(len(frames), "end", told, tuple(_nodes(left, lost, None))))
    return Tree(
        title=title or "How far is each beginning known?",
        finding=finding or _found(trace),
        conditions=(
            f"{conditions(trace)}, {counted(trace.settings['block_tokens'], 'token')} in a block"
        ),
        tag=trace.tag,
        unit="request",
        who=tuple(record.id for record in trace.requests),
        frames=tuple(frames),
    )


def _when(label: str, unit: str) -> str:
    return f"step {label}" if unit == "step" else f"{label} {unit}"


def _found(trace: Trace) -> str:
    account = reuse(trace)
    found = f"{account.cached_tokens} of {counted(account.prompt_tokens, 'prompt token')} found"
    return found if account.hit_rate is None else f"{found}: hit rate {show(account.hit_rate)}"


class _Way(NamedTuple):
    """The way of one request down the tree: its first `hits` blocks are found."""

    who: str
    state: PoolState
    keys: Mapping[str, Chain]
    prompt: Sequence[object]
    output: Sequence[int]
    tokens: int
    """To be found or computed; more than have ids, where nobody names those of an answer."""
    size: int
    hits: int

    @property
    def chain(self) -> Chain:
        """The keys of its blocks."""
        return self.keys[self.who]

    @property
    def num_full(self) -> int:
        """How many blocks its tokens fill."""
        return (len(self.prompt) + len(self.output)) // self.size

    @property
    def end(self) -> bytes | Identity:
        """Where what is found ends: the last block of it, or nowhere."""
        return self.chain[self.hits - 1].digest if self.hits else self.chain.identity


def _way(
    state: PoolState,
    chunk: Chunk,
    keys: Mapping[str, Chain],
    prompt: Sequence[object],
    trace: Trace,
) -> _Way:
    record, size = trace[chunk.request_id], trace.settings["block_tokens"]
    delivered = _delivered(record, state.number)
    return _Way(
        *(record.id, state, keys, prompt, record.output[:delivered]),
        *(record.prompt_tokens + delivered, size, chunk.cached // size),
    )


def _delivered(record: Record, number: int) -> int:
    """Tokens that a request had before a step in which it takes a seat."""
    return sum(run.delivered * run.count for run in record.runs if run.first < number)


# What is drawn


def _nodes(known: Mapping[int, Known], lost: Lost, way: _Way | None) -> Iterator[Node]:
    """The tree from the top: under each node first what is there, then the way that is new."""
    there = {one.digest for one in known.values()}
    lines = [(block, one, "known") for block, one in known.items()]
    lines += [(block, one, "evicted") for block, one in lost.values() if one.digest not in there]
    below: dict[bytes | Identity, list[tuple[int, Known, str]]] = {}
    for line in lines:
        below.setdefault(_top(line[1]), []).append(line)
    found = {way.chain[place].digest for place in range(way.hits)} if way else set()

    def walk(top: bytes | Identity, depth: int) -> Iterator[Node]:
        for block, one, role in below.get(top, ()):
            role = "hit" if one.digest in found else role
            note = _held(block, way) if role != "evicted" else ""
            yield Node(depth, role, f"block {block}", _told(one.ids), note)
            yield from walk(one.digest, depth + 1)
        if way and top == way.end:
            yield from _new(way, depth)

    mine = [way.chain.identity] if way else []
    roots = list(dict.fromkeys([*(one.identity for _, one, _ in lines), *mine]))
    is_named = roots not in ([], [Identity()])
    for root in roots:
        if is_named:
            yield Node(0, "root", _owner(root))
        yield from walk(root, int(is_named))


def _top(one: Known) -> bytes | Identity:
    """What a block stands below: the one before it, or whose beginnings these are."""
    return one.before or one.identity


def _new(way: _Way, depth: int) -> Iterator[Node]:
    """What the request has to compute, and what fills no block."""
    table = way.state.tables[way.who]
    for place in range(way.hits, way.num_full):
        label = f"block {table[place]}" if place < len(table) else "no block yet"
        yield Node(depth, "miss", label, _told(way.chain[place].ids))
        depth += 1
    if tail := [*way.prompt, *way.output][way.num_full * way.size :]:
        yield Node(depth, "tail", "not full", _told(tail))


def _held(block: int, way: _Way | None) -> str:
    holders = way.state.holders.get(block, ()) if way else ()
    others = [who for who in holders if way and who != way.who]
    return f"held by {' '.join(others)}" if others else ""


def _owner(identity: Identity) -> str:
    names = {"tenant": identity.tenant, "adapter": identity.adapter}
    told = [f"{name} {value}" for name, value in names.items() if value]
    return ", ".join(told) or "no tenant"


def _told(ids: Sequence[object]) -> str:
    """Token ids in short: "ids 0–15" where they count up, else one by one, at most 8 of them."""
    numbers = [one for one in ids if isinstance(one, int)]
    if len(numbers) == len(ids) > 2 and all(b - a == 1 for a, b in pairwise(numbers)):
        return f"ids {ids[0]}–{ids[-1]}"
    some = ["+".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in ids]
    told = " ".join(some[:MOST_IDS]) + (" …" if len(some) > MOST_IDS else "")
    return f"{'id' if len(some) == 1 else 'ids'} {told}"


# What is said


def _lost(lost: Lost) -> str:
    blocks = [str(block) for block, _ in lost.values()]
    return f"given up by now, in this order: {' '.join(blocks)}; " if blocks else ""


def _caption(way: _Way, when: str, gone: Mapping[bytes, str]) -> str:
    found = "none of them found"
    if way.hits:
        numbers = " ".join(map(str, way.state.tables[way.who][: way.hits]))
        found = f"{way.hits * way.size} of them in block{'s' if way.hits > 1 else ''} {numbers}"
    left = way.tokens - way.hits * way.size
    tokens = counted(way.tokens, "token")
    return f"{tokens} at {when}, {found}; {_why(way, gone)}; {left} to compute"


def _why(way: _Way, gone: Mapping[bytes, str]) -> str:
    """Why what is found ends where it does."""
    if way.hits == way.num_full:
        is_named = way.num_full == way.tokens // way.size
        return "what is left fills no block" if is_named else "its answer's tokens have no ids here"
    digest, state = way.chain[way.hits].digest, way.state
    known = {one.digest for one in state.known.values()}
    blocks = {one.digest: block for block, one in (*state.evicted.items(), *state.known.items())}
    if digest in blocks and way.hits == (way.tokens - 1) // way.size:
        return f"block {blocks[digest]} had the rest, but the last token's logits are needed"
    if digest in gone:
        return f"the next block was given up at {gone[digest]}"
    if who := next((who for who in state.tables if _is_computing(who, way)), None):
        return f"{who} is just computing the next block"
    if owner := next((one for one in _others(way) if one[0] in known), None):
        return f"the next block is known, but only for requests with {_owner(owner[1])}"
    if not way.hits:
        return "nothing known begins like it"
    is_branch = way.end in map(_top, state.known.values())
    return "there it branches off" if is_branch else "nothing known goes on from there"


def _is_computing(who: str, way: _Way) -> bool:
    """Whether somebody who was seated before has a block for the same tokens."""
    begun = [chunk.request_id for chunk in way.state.chunks if chunk.begins]
    later = begun[begun.index(way.who) :]
    keys, place = way.keys[who], way.hits
    return (
        who not in later
        and place < min(keys.num_full, len(way.state.tables[who]))
        and keys[place].digest == way.chain[place].digest
    )


def _others(way: _Way) -> Iterator[tuple[bytes, Identity]]:
    """The key that the next block would have for others than its own tenant and adapter."""
    for identity in dict.fromkeys(one.identity for one in way.state.known.values()):
        chain = Chain(identity, way.size, way.prompt, way.output)
        yield chain[way.hits].digest, identity
