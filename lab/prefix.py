"""Which blocks already hold the K and V of these tokens: keys, and an index of the blocks by key.

K and V of a token depend on all tokens before it, on the model and on how it is run. So a key
chains from the start of the sequence, over everything that matters, and two beginnings are the
same only if all of it is. The same inputs give the same keys in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

Digest: TypeAlias = Callable[[bytes], bytes]


def sha256(data: bytes) -> bytes:
    """The digest that keys are made with."""
    return hashlib.sha256(data).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What K and V depend on beside the tokens. The first five are the engine's, the last two the
    request's. Each is a text; an empty one stands for a single choice that is never changed."""

    model: str = ""
    tokenizer: str = ""
    quantization: str = ""
    positions: str = ""
    """How positions are encoded: kind, base, scaling."""
    attention: str = ""
    """Who sees whom: causal, a window of so many tokens, sinks."""
    adapter: str = ""
    """Its name and version, such as "law@3"."""
    tenant: str = ""


@runtime_checkable
class Hashed(Protocol):
    """A prompt whose blocks have keys already, as in a public trace without token ids."""

    def block_keys(self, block_tokens: int) -> Sequence[object]:
        """One key for each full block; equal keys mean equal beginnings."""
        ...


class BlockKey(NamedTuple):
    """The key of one full block: a digest of everything up to its end, and its own token ids."""

    digest: bytes
    ids: tuple[object, ...]


class Chain:
    """The keys of one sequence's full blocks, from its start on; each is made when it is needed.

    `output` may grow meanwhile. Token ids are whole numbers or texts, or pairs of them: what Python
    writes the same way in every process. Raises ValueError if the prompt has keys of its own and
    they do not fit blocks of `block_tokens`.
    """

    def __init__(
        self,
        identity: Identity,
        block_tokens: int,
        prompt: Sequence[object],
        output: Sequence[object] = (),
        digest: Digest = sha256,
    ) -> None:
        self.identity = identity
        self._block_tokens = block_tokens
        self._prompt, self._output = prompt, output
        self._ready = prompt.block_keys(block_tokens) if isinstance(prompt, Hashed) else ()
        self._digest = digest
        self._keys: list[BlockKey] = []

    @property
    def num_full(self) -> int:
        """Blocks of which every token is known by its id."""
        return (len(self._prompt) + len(self._output)) // self._block_tokens

    def __getitem__(self, number: int) -> BlockKey:
        keys = self._keys
        while len(keys) <= number:
            before = keys[-1].digest if keys else self._digest(_plain(astuple(self.identity)))
            ids = self._ids(len(keys))
            keys.append(BlockKey(self._digest(before + _plain(ids)), ids))
        return keys[number]

    def _ids(self, number: int) -> tuple[object, ...]:
        if number < len(self._ready):
            return (self._ready[number],)
        size, prompt = self._block_tokens, len(self._prompt)
        start, stop = number * size, (number + 1) * size
        of_prompt = tuple(self._prompt[start:stop]) if start < prompt else ()
        return (*of_prompt, *self._output[max(0, start - prompt) : max(0, stop - prompt)])


class _Entry(NamedTuple):
    """A published block. What came before it is the block of its parent, or nothing."""

    block: int
    parent: int | Identity
    ids: tuple[object, ...]


class PrefixIndex:
    """The published blocks by their keys: `match` finds the longest known beginning.

    A digest alone is not believed: a hit has the same token ids in the block itself and in all
    before it. Invariant: with a block, the block before it is published too; whoever holds a
    published block holds all blocks before it.
    """

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}
        self._digests: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, block: int) -> bool:
        return block in self._digests

    def parent(self, block: int) -> int | None:
        """The published block before this one; None for the first of a sequence."""
        before = self._entries[self._digests[block]].parent
        return before if isinstance(before, int) else None

    def match(self, chain: Chain, most: int) -> list[int]:
        """The blocks that hold the beginning of a sequence, at most `most` of them."""
        found: list[int] = []
        parent: int | Identity = chain.identity
        for number in range(most):
            key = chain[number]
            entry = self._entries.get(key.digest)
            if entry is None or entry.ids != key.ids or entry.parent != parent:
                break
            parent = entry.block
            found.append(parent)
        return found

    def publish(self, chain: Chain, table: Sequence[int], numbers: Iterable[int]) -> list[int]:
        """Make full blocks of a table known, by their numbers in it. Returns those that now are.

        A beginning that is known already keeps its block, and so does one whose digest happens to
        be the same. What follows a block that is not published is not published either.
        """
        published = []
        for number in numbers:
            parent: int | Identity = chain.identity
            if number:
                parent = table[number - 1]
                if self._digests.get(parent) != chain[number - 1].digest:
                    break
            digest, ids = chain[number]
            if digest in self._entries:
                continue
            block = table[number]
            self._entries[digest] = _Entry(block, parent, ids)
            self._digests[block] = digest
            published.append(block)
        return published

    def forget(self, block: int) -> None:
        """The block is given up. Nobody may hold it, and no published block may follow it."""
        del self._entries[self._digests.pop(block)]


def _plain(values: tuple[object, ...]) -> bytes:
    return repr(values).encode()
