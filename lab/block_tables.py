"""Who holds which blocks: tables that grow, begin with what is known, fork, and move out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from lab.kv_blocks import BlockPool
from lab.plan import Swap
from lab.policy import Policy
from lab.prefix import Chain, Identity, PrefixIndex
from lab.request import Request, Sequence

NO_LIMIT = 1 << 62


class BlockTables:
    """The block tables of all sequences over one pool, and what they share.

    Without a pool memory is no limit, and all tables stay empty. With it a running sequence holds
    exactly the blocks of its computed tokens, and those that a plan has reserved.
    """

    def __init__(self, policy: Policy, identity: Identity) -> None:
        self._policy = policy
        self._identity = identity
        self.pool: BlockPool | None = None
        self.index: PrefixIndex | None = PrefixIndex() if policy.prefix_cache else None
        self.host_used = 0
        self.evicted: list[int] = []
        """Blocks that were given up since the scheduler cleared the list."""
        self._chains: dict[int, Chain] = {}
        self._published: dict[int, int] = {}
        if policy.blocks:
            self.pool = BlockPool(policy.blocks, policy.block_tokens, self._forget)

    # How many

    @property
    def available(self) -> int:
        """Blocks that can be had: free ones, and cached ones that nobody uses."""
        return self.pool.available if self.pool else NO_LIMIT

    def short(self, sequence: Sequence, count: int) -> int:
        """Blocks to add before `count` more tokens of the sequence have a place."""
        if self.pool is None:
            return 0
        return self.pool.blocks_for(sequence.computed + count) - len(sequence.blocks)

    def room(self, sequence: Sequence) -> int:
        """Tokens of the sequence that its own blocks and the available ones could still take."""
        if self.pool is None:
            return NO_LIMIT
        blocks = len(sequence.blocks) + self.pool.available
        return blocks * self.pool.block_tokens - sequence.computed

    def at_most(self, request: Request, answers: int) -> int:
        """Blocks that `answers` answers fill together if each is as long as it may get: the full
        blocks of the prompt once, all others for each."""
        if self.pool is None:
            return 0
        shared = request.prompt_tokens // self.pool.block_tokens
        return shared + answers * (self.pool.blocks_for(request.max_computed) - shared)

    def promise(self, sequence: Sequence) -> int:
        """Blocks that a sequence is sure to ask for, beyond those it has: for all of its tokens,
        or, where nobody may be preempted, for its longest answer and those of its forks."""
        if self.pool is None:
            return 0
        if self._policy.preemption == "never":
            most = self.at_most(sequence.request, 1 + len(sequence.forks))
            need = most - len(sequence.blocks)
        else:
            need = self.short(sequence, sequence.missing)
        if self.index is not None and not sequence.blocks and not sequence.swapped:
            need -= sum(self.pool.holders(block) > 0 for block in self.hits(sequence))
        return need

    def to_compute(self, sequence: Sequence) -> int:
        """Tokens that the sequence misses, without those whose blocks are known."""
        if self.index is None or sequence.blocks or sequence.swapped:
            return sequence.missing
        return sequence.missing - len(self.hits(sequence)) * self._policy.block_tokens

    def promised(self, running: Iterable[Sequence]) -> int:
        """Blocks that the running sequences are sure to ask for: their promises, and the copies of
        what they share and will write to."""
        going_on = [sequence for sequence in running if not sequence.ended]
        return sum(map(self.promise, going_on)) + self._num_copies(going_on)

    def wanted(self, in_need: list[Sequence]) -> int:
        """Blocks for sequences that each begin a block or write to a shared one. The last of those
        who share a block needs no copy."""
        copies = [sequence for sequence in in_need if self.shares_its_end(sequence)]
        return len(in_need) - len(copies) + self._num_copies(copies)

    def _num_copies(self, sequences: Iterable[Sequence]) -> int:
        assert self.pool is not None
        ends = Counter(s.blocks[-1] for s in sequences if self.shares_its_end(s))
        return sum(min(n, self.pool.holders(block) - 1) for block, n in ends.items())

    # Growing and shrinking

    def allocate(self, count: int) -> list[int]:
        """Blocks from the pool, which must have them."""
        return self.pool.allocate(count) if self.pool else []

    def grow(self, sequence: Sequence, count: int) -> tuple[int, ...]:
        """Give the next `count` tokens their blocks. Returns those that were added."""
        short = self.short(sequence, count)
        blocks = self.allocate(short) if short > 0 else []
        sequence.blocks += blocks
        return tuple(blocks)

    def trim(self, sequence: Sequence, computed: int) -> None:
        """Give back the blocks behind the first `computed` tokens."""
        if self.pool and (keep := self.pool.blocks_for(computed)) < len(sequence.blocks):
            self.pool.release(reversed(sequence.blocks[keep:]))
            del sequence.blocks[keep:]

    def clear(self, sequence: Sequence) -> None:
        """Give back the whole table."""
        if self.pool:
            self.pool.release(reversed(sequence.blocks))
        sequence.blocks = []

    # Sharing

    def shares_its_end(self, sequence: Sequence) -> bool:
        """Whether the sequence writes next to a block that others hold too."""
        return (
            self.pool is not None
            and sequence.computed % self.pool.block_tokens > 0
            and self.pool.holders(sequence.blocks[-1]) > 1
        )

    def own(self, sequence: Sequence) -> tuple[int, int] | None:
        """Replace a shared last block by a copy, before the sequence writes to it. Returns
        (source, target), or None if nobody shares it any more."""
        assert self.pool is not None
        return self.pool.own(sequence.blocks, len(sequence.blocks) - 1)

    def disown(self, sequence: Sequence, copy: tuple[int, int]) -> None:
        """Undo `own`: the copy was never made."""
        assert self.pool is not None
        source, target = copy
        self.pool.share([source])
        self.pool.release([target])
        sequence.blocks[sequence.blocks.index(target)] = source

    def fork(self, sequence: Sequence, source: Sequence) -> None:
        """The sequence goes on from where `source` is: it holds the same blocks."""
        if self.pool:
            self.pool.share(source.blocks)
        sequence.blocks = list(source.blocks)
        sequence.computed = source.computed
        self._published[sequence.number] = self._published.get(source.number, 0)

    # The prefix cache

    def hits(self, sequence: Sequence) -> list[int]:
        """The blocks that hold the beginning of a sequence already. The last of its tokens is
        always computed, since its logits are needed."""
        if self.index is None:
            return []
        most = (sequence.tokens - 1) // self._policy.block_tokens
        chain = self._chain(sequence)
        return self.index.match(chain, min(most, chain.num_full))

    def publish(self, sequence: Sequence) -> None:
        """Make the blocks that are full by now known. Of a block with a token that nobody has
        named, as in a simulation, nothing can be known."""
        if self.index is None or self.pool is None:
            return
        chain = self._chain(sequence)
        first = self._published.get(sequence.number, 0)
        full = min(sequence.computed // self._policy.block_tokens, chain.num_full)
        if first < full:
            self.pool.keep(self.index.publish(chain, sequence.blocks, range(first, full)))
            self._published[sequence.number] = full

    def check(self, request: Request) -> None:
        """Raises ValueError if the prompt has keys of its own that do not fit the blocks."""
        if self.index is not None:
            Chain(self._identity, self._policy.block_tokens, request.prompt)

    def _chain(self, sequence: Sequence) -> Chain:
        chain = self._chains.get(sequence.number)
        if chain is None:
            request = sequence.request
            identity = replace(self._identity, adapter=request.adapter, tenant=request.tenant)
            size = self._policy.block_tokens
            chain = Chain(identity, size, request.prompt, sequence.output)
            self._chains[sequence.number] = chain
        return chain

    def _forget(self, block: int) -> None:
        if self.index is not None:
            self.index.forget(block)
        self.evicted.append(block)

    # Coming and going

    def begin(self, sequence: Sequence) -> None:
        """The first blocks of a sequence that takes a seat: for what comes back from host memory,
        or those that hold its beginning already."""
        if self.pool is None:
            return
        if sequence.swapped:
            sequence.blocks = self.pool.allocate(sequence.swapped)
        elif self.index is not None:
            sequence.blocks = self.hits(sequence)
            self.pool.share(sequence.blocks)
            sequence.computed = len(sequence.blocks) * self.pool.block_tokens
            self._published[sequence.number] = len(sequence.blocks)

    def has_begun(self, sequence: Sequence) -> None:
        """The first step in its seat was carried out: nothing of it is left in host memory."""
        self.host_used -= sequence.swapped
        sequence.swapped = 0
        sequence.begun = True

    def put_aside(self, sequence: Sequence) -> tuple[Swap | None, str]:
        """Take the blocks of a sequence that loses its seat. Returns what moves to host memory,
        and why it does or does not. Who does not move starts over."""
        moved, reason = self._moved(sequence)
        if moved:
            sequence.swapped = len(moved.blocks)
            self.host_used += sequence.swapped
        if not sequence.swapped:
            sequence.computed = 0
        self.clear(sequence)
        self._published.pop(sequence.number, None)
        sequence.begun = False
        return moved, reason

    def _moved(self, sequence: Sequence) -> tuple[Swap | None, str]:
        if self._policy.preemption != "swap" or not sequence.begun:
            return None, ""
        host = self._policy.host_blocks
        if host is not None and self.host_used + len(sequence.blocks) > host:
            return None, (
                f"{len(sequence.blocks)} blocks do not fit in host memory, "
                f"{self.host_used} of {host} are used"
            )
        return Swap(sequence.request.id, tuple(sequence.blocks)), "swapped out"

    def lose(self, sequence: Sequence) -> None:
        """What should have moved to host memory never did: the sequence starts over."""
        self.host_used -= sequence.swapped
        sequence.swapped = sequence.computed = 0

    def drop(self, sequence: Sequence) -> None:
        """The sequence has ended: forget what is known of it beside its table."""
        self.host_used -= sequence.swapped
        sequence.swapped = 0
        if self.index is not None:
            self._chains.pop(sequence.number, None)
            self._published.pop(sequence.number, None)
