"""The replay hits what a plain count on paper hits, on drawn prompts and on the public trace."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from drawn_runs import ask, served
from hypothesis import given, settings
from hypothesis import strategies as st

import lab
from lab.eviction import RANKS
from lab.policy import Continuous
from lab.public_traces import FOLDER, PUBLIC, Counted

TRACES = Path(__file__).parents[2] / "shared" / "traces"
MOONCAKE = "mooncake-conversation"
lists = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=9), min_size=1, max_size=9)


def asked(prompts, **more):
    return [ask(f"r{n}", tuple(ids), 1, n, **more) for n, ids in enumerate(prompts)]


def on_paper(prompts, size):
    """Cached tokens: for each prompt the longest beginning in blocks that any before it has."""
    known, cached = set(), 0
    for ids in prompts:
        most = (len(ids) - 1) // size
        beginnings = [tuple(ids[: size * n]) for n in range(1, len(ids) // size + 1)]
        found = [one in known for one in beginnings[:most]]
        cached += size * ([*found, False]).index(False)
        known |= set(beginnings)
    return cached


def test_three_of_four_find_two_blocks():
    found = lab.prefix_hits(asked([range(9)] * 4), block_tokens=4)
    assert (found.prompt_tokens, found.cached_tokens, found.computed_tokens) == (36, 24, 12)
    assert (found.hit_rate, found.block_hit_rate) == (Fraction(2, 3), Fraction(6, 8))


@given(lists, st.integers(1, 3))
def test_an_unlimited_cache_hits_what_a_plain_count_does(prompts, size):
    found = lab.prefix_hits(asked(prompts), block_tokens=size)
    assert found.cached_tokens == on_paper(prompts, size)
    assert (found.evictions, found.too_long) == (0, 0)


@settings(max_examples=60, deadline=None)
@given(lists, st.integers(5, 9))
def test_the_engine_hits_the_same_where_nobody_comes_before_the_last_is_done(prompts, blocks):
    policy = Continuous(seats=1, blocks=blocks, block_tokens=2, prefix_cache=True)
    trace = served(asked(prompts), policy)
    found = lab.prefix_hits(asked(prompts), blocks, block_tokens=2)
    assert found.cached_tokens == lab.reuse(trace).cached_tokens
    assert found.evictions == lab.reuse(trace).evictions


def test_a_prompt_longer_than_the_cache_is_counted_and_leaves_nothing():
    found = lab.prefix_hits(asked([range(9), range(9), range(3)]), 2, block_tokens=4)
    assert (found.too_long, found.cached_tokens, found.prompt_tokens) == (2, 0, 21)


def test_tenants_are_kept_apart_unless_the_key_leaves_them_out():
    two = [ask("A", 9, 1, 0, tenant="x"), ask("B", 9, 1, 1, tenant="y")]
    assert lab.prefix_hits(two, block_tokens=4).cached_tokens == 0
    assert lab.prefix_hits(two, block_tokens=4, left_out=["tenant"]).cached_tokens == 8


def test_a_curve_is_its_points():
    work = PUBLIC[MOONCAKE].conversations.draw(150, seed=3)
    sizes = [300, 1000, None]
    curve = lab.hit_curve(work, sizes, block_tokens=512, evictions=RANKS)
    assert [one.eviction for one in curve] == [name for name in RANKS for _ in sizes]
    for one in curve:
        blocks = one.blocks if one.blocks in sizes else None
        again = lab.prefix_hits(work, blocks, block_tokens=512, eviction=one.eviction)
        assert one == again
    rates = [one.hit_rate for one in curve[:3]]
    assert rates == sorted(rates)
    assert len({one.hit_rate for one in curve if one.blocks not in sizes}) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"block_tokens": 0}, "block_tokens must be at least 1, got 0"),
        ({"blocks": 0}, "num_blocks must be at least 1, got 0"),
        ({"eviction": "oldest"}, "eviction must be one of"),
        ({"left_out": ["title"]}, "got 'title'"),
    ],
)
def test_what_cannot_be_played_is_an_error(more, message):
    with pytest.raises(ValueError, match=message):
        lab.prefix_hits(asked([range(9)]), **more)


def test_a_replay_needs_prompts():
    with pytest.raises(ValueError, match="at least 1 request, got 0"):
        lab.prefix_hits([])


@pytest.fixture(scope="module")
def mooncake():
    if not TRACES.is_dir():
        pytest.skip("the public trace is not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(TRACES))
        return lab.public_trace(MOONCAKE, 10**9)


def test_the_public_trace_hits_as_often_as_a_plain_count_of_its_hashes(mooncake):
    seen, hashes, repeated, full, taken = set(), 0, 0, 0, 0
    for request in mooncake:
        again = [one in seen for one in request.prompt.hash_ids]
        hashes += len(again)
        repeated += sum(again)
        full += len(request.prompt) // 512
        taken += min((len(request.prompt) - 1) // 512, ([*again, False]).index(False))
        seen |= set(request.prompt.hash_ids)
    assert PUBLIC[MOONCAKE].counted == Counted(
        requests=len(mooncake),
        prompt_tokens=mooncake.prompt_tokens,
        output_tokens=mooncake.output_tokens,
        hashes=hashes,
        repeated=repeated,
        full_blocks=full,
        found_blocks=taken,
    )
    assert f"{repeated / hashes:.1%}" == "36.6%", "of all hashes, the unfinished last blocks too"
    assert f"{taken / full:.1%}" == "38.2%", "of full blocks, without the last token's"
    found = lab.prefix_hits(mooncake, block_tokens=512)
    assert (found.cached_blocks, found.full_blocks) == (taken, full)
    assert f"{float(found.hit_rate):.1%}" == "37.3%", "of prompt tokens"


def test_drawn_conversations_share_about_as_much_as_the_trace(mooncake):
    drawn = PUBLIC[MOONCAKE].conversations.draw(3000, seed=0)
    rates = [
        float(lab.prefix_hits(work, 10_000, block_tokens=512).hit_rate)
        for work in (drawn, mooncake.requests[:3000])
    ]
    assert rates[0] == pytest.approx(rates[1], abs=0.06)
