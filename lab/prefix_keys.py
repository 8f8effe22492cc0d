"""Keys that leave something out: what such a cache would give to a request, and whether it may.

The cache of `lab.prefix` is asked for real; only what its keys are made of is cut short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Self

from lab.prefix import Chain, Identity, PrefixIndex

IDS, ORDER = "token ids", "order"
FIELDS = (*(one.name for one in fields(Identity)), IDS, ORDER)
"""What a key holds: who computes and how, for whom, which tokens, and in which order."""

SHOWN = {"quantization": "number format"}
"""What a field is called where people read it, if not by its name."""

Verdict = Literal["none", "right", "wrong numbers", "other text", "not allowed"]


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt, and what its K and V depend on beside its ids."""

    ids: tuple[object, ...]
    identity: Identity = field(default_factory=Identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the second of two prompts takes from the cache, and what of it is its own."""

    blocks: int
    """Blocks that a key without some fields finds."""
    right: int
    """Of these, the blocks that the whole key finds too."""
    verdict: Verdict
    """What the others are: K and V of another computation, or of another vocabulary's text, or the
    right numbers for a tenant who may not see them."""


def check_fields(left_out: Collection[str]) -> None:
    """ValueError for a field that no key has."""
    for name in left_out:
        if name not in FIELDS:
            raise ValueError(f"a key holds {', '.join(FIELDS)}; got {name!r}")


def chain_without(
    left_out: Collection[str], identity: Identity, block_tokens: int, prompt: Sequence[object]
) -> Chain:
    """The keys of a prompt, made without some of `FIELDS`.

    Without "token ids" only their number counts, as when a title stands for a document; without
    "order" they are a bag. ValueError for a field that no key has.
    """
    check_fields(left_out)
    blank = {name: "" for name in left_out if name not in (IDS, ORDER)}
    if IDS in left_out:
        prompt = (0,) * len(prompt)
    elif ORDER in left_out:
        prompt = sorted(prompt, key=repr)
    return Chain(replace(identity, **blank), block_tokens, prompt)


def taken(
    first: Prompted, second: Prompted, *, left_out: Collection[str] = (), block_tokens: int = 1
) -> Taken:
    """What `second` takes of the blocks of `first` when keys lack the fields `left_out`.

    Both begin with the ids 1, 2, 3, 4 and belong to two tenants: with a whole key nothing is taken,
    without "tenant" both blocks of 2 are, as far as the last token allows, and that is not allowed.
    """
    found = _found(first, second, left_out, block_tokens)
    right = min(found, _found(first, second, (), block_tokens))
    verdict = _verdict(first, second, found, right, block_tokens)
    return Taken(blocks=found, right=right, verdict=verdict)


def _found(first: Prompted, second: Prompted, left_out: Collection[str], block_tokens: int) -> int:
    index = PrefixIndex()
    known = chain_without(left_out, first.identity, block_tokens, first.ids)
    index.publish(known, range(known.num_full), range(known.num_full))
    asked = chain_without(left_out, second.identity, block_tokens, second.ids)
    return len(index.match(asked, (len(second.ids) - 1) // block_tokens))


def _verdict(
    first: Prompted, second: Prompted, found: int, right: int, block_tokens: int
) -> Verdict:
    if found == right:
        return "right" if found else "none"
    differing = {
        one.name
        for one in fields(Identity)
        if getattr(first.identity, one.name) != getattr(second.identity, one.name)
    }
    same_ids = first.ids[: found * block_tokens] == second.ids[: found * block_tokens]
    if same_ids and differing == {"tenant"}:
        return "not allowed"
    if same_ids and differing <= {"tokenizer", "tenant"}:
        return "other text"
    return "wrong numbers"


class Titled(tuple[int, ...]):
    """Token ids of a prompt whose blocks have its title for a key: the cache that takes one text
    for another of the same name. It is a tuple in all else, so that an engine may be asked it."""

    title: str

    def __new__(cls, title: str, ids: Iterable[int]) -> Self:
        made = super().__new__(cls, ids)
        made.title = title
        return made

    def block_keys(self, block_tokens: int) -> tuple[tuple[str, int], ...]:
        """The title and the place of each full block."""
        return tuple((self.title, place) for place in range(len(self) // block_tokens))
