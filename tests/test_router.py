"""Requests that begin alike go to one replica; the others to the idlest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.parallel.router import Router
from lab.request import Request


def asked(name: str, prompt: tuple[int, ...], tokens: int = 1, **more: Any) -> Request:
    return Request(id=name, prompt=prompt, max_tokens=tokens, **more)


def test_who_begins_alike_stays_together_and_others_go_to_the_idlest() -> None:
    router = Router(2, block_tokens=2)
    work = [
        asked("A", (1, 2, 3, 4), 6),
        asked("B", (1, 2, 9)),
        asked("C", (5, 6, 7)),
        asked("D", (8,)),
        asked("E", (5, 6)),
    ]
    assert [router.route(request) for request in work] == [0, 0, 1, 1, 1]
    assert router.open_tokens == [10 + 4, 4 + 2 + 3]
    router.done("A")
    assert router.open_tokens == [4, 9]
    assert router.route(asked("F", (3,))) == 0


def test_with_a_longer_beginning_a_shared_block_is_not_enough() -> None:
    work = [asked("A", (1, 2, 3, 4)), asked("B", (1, 2, 5, 6)), asked("C", (1, 2, 3, 4, 9))]
    one, two = Router(2, block_tokens=2), Router(2, block_tokens=2, blocks=2)
    assert [one.route(request) for request in work] == [0, 0, 0]
    assert [two.route(request) for request in work] == [0, 1, 0]


def test_tenants_and_adapters_do_not_share_a_beginning() -> None:
    router = Router(3, block_tokens=2)
    work = [
        asked("A", (1, 2)),
        asked("B", (1, 2), tenant="other"),
        asked("C", (1, 2), adapter="law@3"),
    ]
    assert [router.route(request) for request in work] == [0, 1, 2]


def test_a_beginning_that_is_too_popular_moves() -> None:
    router = Router(2, block_tokens=2, most_ahead=5)
    homes = [router.route(asked(f"{n}", (1, 2, n), 1)) for n in range(5)]
    assert homes == [0, 0, 1, 1, 1]  # 4 tokens each: the third finds 8 against 0
    assert router.open_tokens == [8, 12]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.booleans())),
    st.integers(1, 4),
    st.none() | st.integers(0, 20),
)
def test_open_tokens_are_those_of_who_is_not_done(
    work: list[tuple[list[int], bool]], replicas: int, most_ahead: int | None
) -> None:
    router, homes, left = Router(replicas, block_tokens=2, most_ahead=most_ahead), {}, {}
    for number, (prompt, ends) in enumerate(work):
        request = asked(f"{number}", tuple(prompt), 3)
        before = list(router.open_tokens)
        home = router.route(request)
        begins = tuple(prompt[:2])
        if len(begins) == 2:
            if most_ahead is None:
                assert homes.setdefault(begins, home) == home
            else:
                assert before[home] - min(before) <= most_ahead
        else:
            assert before[home] == min(before)
        left[request.id] = home, len(prompt) + 3
        if ends:
            router.done(request.id)
            del left[request.id]
    for replica in range(replicas):
        assert router.open_tokens[replica] == sum(n for at, n in left.values() if at == replica)


@pytest.mark.parametrize("name", ["replicas", "block_tokens", "blocks"])
def test_counts_are_at_least_1(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Router(**{"replicas": 2} | {name: 0})
