"""Keys are equal for equal beginnings, in every process, and for nothing else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.draws import PrefixedTokens
from lab.prefix import Chain, Identity, PrefixIndex, sha256
from lab.trace_files import HashedTokens

PLAIN = Identity(model="tiny", tokenizer="bpe", positions="rope 10000")


def chain(ids: Any, identity: Identity = PLAIN, size: int = 4, **more: Any) -> Chain:
    return Chain(identity, size, ids, **more)


def digests(ids: Any, identity: Identity = PLAIN) -> list[bytes]:
    keys = chain(ids, identity)
    return [keys[number].digest for number in range(keys.num_full)]


def published(ids: Any, table: list[int], **more: Any) -> PrefixIndex:
    index = PrefixIndex()
    keys = chain(ids, **more)
    assert index.publish(keys, table, range(keys.num_full)) == table[: keys.num_full]
    return index


@pytest.mark.parametrize(("length", "full"), [(3, 0), (4, 1), (5, 1), (7, 1), (8, 2), (9, 2)])
def test_only_full_blocks_have_keys(length: int, full: int) -> None:
    assert chain(range(length)).num_full == full


def test_a_key_depends_on_everything_before_its_end_and_on_nothing_after_it() -> None:
    one = digests(range(12))
    assert digests(range(99))[:3] == one
    assert digests((0, 1, 2, 3, 4, 5, 6, 99, 8, 9, 10, 11))[0] == one[0]
    assert not set(digests((0, 1, 2, 3, 4, 5, 6, 99, 8, 9, 10, 11))[1:]) & set(one)
    assert not set(digests(range(4, 12))) & set(one), "the same ids in another place"


@pytest.mark.parametrize("name", [field.name for field in fields(Identity)])
def test_everything_in_the_identity_keeps_keys_apart(name: str) -> None:
    other = replace(PLAIN, **{name: "another"})
    assert not set(digests(range(8), other)) & set(digests(range(8)))
    assert published(range(8), [5, 6]).match(chain(range(9), other), 2) == []


def test_the_borders_between_the_parts_of_an_identity_count() -> None:
    one, other = Identity(adapter="ab", tenant="c"), Identity(adapter="a", tenant="bc")
    assert digests(range(4), one) != digests(range(4), other)


def test_keys_are_the_same_in_another_process() -> None:
    code = (
        "from lab.prefix import *; c = Chain(Identity(model='tiny', tenant='x'), 4, range(9)); "
        "print(c[1].digest.hex())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(path for path in sys.path if path)},
    )  # fmt: skip
    identity = Identity(model="tiny", tenant="x")
    assert out.stdout.strip() == Chain(identity, 4, tuple(range(9)))[1].digest.hex()


def test_a_range_a_tuple_and_a_prefixed_prompt_of_the_same_ids_have_the_same_keys() -> None:
    assert digests(range(12)) == digests(tuple(range(12))) == digests([*range(12)])
    assert digests(PrefixedTokens(6, range(6, 12))) == digests(range(12))


def test_the_output_goes_on_where_the_prompt_ends_and_may_grow() -> None:
    output = [6]
    keys = Chain(PLAIN, 4, range(6), output)
    assert keys.num_full == 1
    output += [7, 8]
    assert keys.num_full == 2
    assert keys[1].digest == digests(range(8))[1]


def test_a_longer_sequence_hits_as_far_as_it_is_the_same() -> None:
    index = published(range(12), [7, 3, 5])
    assert index.match(chain(range(99)), 24) == [7, 3, 5]
    assert index.match(chain(range(99)), 2) == [7, 3]
    assert index.match(chain((*range(9), 99, 99, 99)), 3) == [7, 3]
    assert index.match(chain(range(1, 13)), 3) == []


def test_a_digest_that_happens_to_be_the_same_is_no_hit() -> None:
    same = {"digest": lambda data: b"same"}
    index = published(range(4), [0], **same)
    assert index.match(chain(range(4), **same), 1) == [0]
    assert index.match(chain(range(1, 5), **same), 1) == [], "the ids are others"
    other = replace(PLAIN, tenant="B")
    assert index.match(chain(range(4), other, **same), 1) == [], "the tenant is another"
    assert index.publish(chain(range(1, 5), **same), [1], range(1)) == [], "the first one stays"


def test_a_collision_behind_different_beginnings_is_no_hit() -> None:
    """The second blocks have the same ids and are forced to the same digest; the first differ."""

    def colliding(data: bytes) -> bytes:
        return b"second" if data.endswith(b"(4, 5, 6, 7)") else sha256(data)

    index = published(range(8), [0, 1], digest=colliding)
    other = chain((9, 9, 9, 9, 4, 5, 6, 7), digest=colliding)
    assert index.publish(other, [2, 3], range(2)) == [2]
    assert index.match(other, 2) == [2]


def test_a_known_beginning_keeps_its_block_and_nothing_follows_a_copy_of_it() -> None:
    index = published(range(4), [0])
    assert index.publish(chain(range(8)), [5, 6], range(2)) == []
    assert index.publish(chain(range(8)), [0, 6], range(2)) == [6]
    assert (index.parent(0), index.parent(6)) == (None, 0)


def test_what_is_forgotten_is_unknown() -> None:
    index = published(range(8), [0, 1])
    index.forget(1)
    assert (len(index), 0 in index, 1 in index) == (1, True, False)
    assert index.match(chain(range(9)), 2) == [0]
    with pytest.raises(KeyError):
        index.forget(1)


def test_ready_keys_of_a_public_trace_are_taken_as_they_are() -> None:
    one = HashedTokens((11, 12, 13), 12, block_tokens=4)
    other = HashedTokens((11, 12, 99), 11, block_tokens=4)
    assert chain(one)[1].ids == ((12, 0),)
    index = published(one, [0, 1, 2])
    assert index.match(chain(other), 2) == [0, 1]
    assert digests(HashedTokens((11, 12, 13), 12, block_tokens=4)) == digests(one)


def test_ready_keys_serve_smaller_blocks_and_refuse_others() -> None:
    prompt = HashedTokens((11, 12), 8, block_tokens=4)
    assert [Chain(PLAIN, 2, prompt)[i].ids for i in range(4)] == [
        ((11, 0),),
        ((11, 2),),
        ((12, 0),),
        ((12, 2),),
    ]
    with pytest.raises(ValueError, match="block_tokens must divide the 4 tokens"):
        Chain(PLAIN, 3, prompt)


@given(
    prompts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=2, max_size=8)
)
def test_a_match_is_the_longest_common_beginning_in_whole_blocks(prompts: list[list[int]]) -> None:
    index, block = PrefixIndex(), 0
    known: list[tuple[int, ...]] = []
    for prompt in prompts:
        keys = Chain(PLAIN, 2, prompt)
        found = index.match(keys, keys.num_full)
        common = 0
        while tuple(prompt[: 2 * common + 2]) in known and 2 * common + 2 <= len(prompt):
            common += 1
        assert len(found) == common
        table = found + list(range(block, block + keys.num_full - common))
        block += keys.num_full - common
        index.publish(keys, table, range(common, keys.num_full))
        known += [tuple(prompt[: 2 * n]) for n in range(1, keys.num_full + 1)]
