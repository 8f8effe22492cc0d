"""Drawn conversations: each prompt begins with the one before it, and the seed decides all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.conversations import Conversations
from lab.draws import Fixed, Uniform
from lab.prefix_replay import prefix_hits

TALK = Conversations(
    per_s=2.0,
    first=Uniform(1, 4000),
    growth=Uniform(100, 2000),
    pause_s=Fixed(30),
    goes_on=0.5,
    output=Fixed(9),
)


def test_the_same_seed_draws_the_same_and_a_longer_one_goes_on():
    assert TALK.draw(50, seed=1) == TALK.draw(50, seed=1)
    assert TALK.draw(50, seed=1) != TALK.draw(50, seed=2)
    assert TALK.draw(90, seed=1).requests[:50] == TALK.draw(50, seed=1).requests


def test_every_prompt_begins_with_the_system_block_and_follows_grow():
    work = TALK.draw(400, seed=0)
    arrivals = [request.arrival for request in work]
    assert arrivals == sorted(arrivals)
    longest = {}
    follows = 0
    for request in work:
        first, *own = request.prompt.hash_ids
        assert first == 0
        full = own[: len(request.prompt) // 512 - 1]
        if not full:
            continue
        conversation = full[0]
        before = longest.get(conversation, [])
        assert full[: len(before)] == before
        follows += bool(before)
        longest[conversation] = full
    assert follows > 100


def test_without_follows_only_the_system_block_is_shared():
    work = replace(TALK, goes_on=0).draw(100, seed=0)
    found = prefix_hits(work, block_tokens=512)
    assert found.cached_blocks == 99


def test_the_share_of_follows_is_the_chance_to_go_on():
    work = replace(TALK, pause_s=Fixed(1), first=Fixed(600)).draw(4000, seed=0)
    starts = sum(len(request.prompt) == 1112 for request in work)
    assert 1 - starts / 4000 == pytest.approx(0.5, abs=0.03)


def test_what_cannot_be_drawn_is_an_error():
    with pytest.raises(ValueError, match="goes_on must be at least 0 and below 1, got 1"):
        replace(TALK, goes_on=1)
    with pytest.raises(ValueError, match="count must be at least 1 request, got 0"):
        TALK.draw(0, seed=0)
