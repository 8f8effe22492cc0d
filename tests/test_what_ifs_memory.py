"""What a reader may change in chapter 5: any values, and the bars that they make."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab.ledgers.latent import known_cached_models
from lab.ledgers.precision import known_precisions
from lab.ledgers.sizes import GB, GiB, known_devices
from lab.what_ifs.memory import (
    CARDS,
    MODELS,
    PRECISIONS,
    SEQUENCES,
    TOKENS,
    on_a_card,
    three_caches,
)
from lab.worked_numbers import entry


def lengths(scene):
    """How long the bar of each request is."""
    found = {}
    for mark in scene.marks:
        found[mark.who] = found.get(mark.who, 0) + mark.stop - mark.start
    return found


@given(st.integers(1, 8), st.integers(1, 32), st.integers(1, 8))
def test_bars_are_as_long_as_the_caches_are_heavy(tokens, heads, chats):
    (scene,) = three_caches(8192 * tokens, heads, chats)
    same = {"layers": 32, "head_dim": 128}
    sizes = {
        "A": lab.kv_bytes(**same, tokens=8192 * tokens, kv_heads=8),
        "B": lab.kv_bytes(**same, tokens=8192, kv_heads=heads),
        "C": lab.kv_bytes(**same, tokens=8192, kv_heads=8, sequences=chats),
    }
    assert lengths(scene) == {who: Fraction(size, GiB) for who, size in sizes.items()}
    first = [who for who, size in sizes.items() if size == max(sizes.values())]
    if len(first) == 3:
        assert scene.finding.startswith("A tie")
    else:
        assert scene.finding.startswith(" and ".join(first) + " weigh")
    edges = [frame.at for frame in scene.frames]
    assert edges == sorted({0, *(mark.stop for mark in scene.marks)})[:-1]
    assert {mark.start for mark in scene.marks} == set(edges)
    assert scene.frames[-1].caption.count("has all of its") == 3


def test_the_guess_is_a_tie_of_4_gib():
    (scene,) = three_caches()
    assert scene.finding == "A tie: 4 GiB each."
    assert [mark.label for mark in scene.marks] == ["1 GiB"] * 12
    assert entry("kv-worked-mha-4gib").expected["gib"].value == lengths(scene)["B"]


def test_what_the_first_gigabytes_hold_is_told_token_by_token():
    (scene,) = three_caches(16_384, 16, 3)
    assert [(frame.label, frame.caption) for frame in scene.frames] == [
        ("0", "from here up to 1 GiB: A has 8,192, B has 4,096, C has 8,192"),
        (
            "1",
            "from here up to 2 GiB: A has all of its 16,384 tokens, B has all of its 8,192 tokens, "
            "C has 16,384",
        ),
        (
            "2",
            "from here up to 3 GiB: A has all of its 16,384 tokens, B has all of its 8,192 tokens, "
            "C has all of its 24,576 tokens",
        ),
    ]
    assert scene.finding == "C weighs most, 3 GiB; A 2 and B 2."


@pytest.mark.parametrize(
    ("values", "finding"),
    [
        ((32_768, 32, 2), "A and B weigh most, 4 GiB each; C 2."),
        ((8192, 1, 1), "A and C weigh most, 1 GiB each; B 0.125."),
    ],
)
def test_a_finding_names_all_that_weigh_most(values, finding):
    assert three_caches(*values)[0].finding == finding


def test_the_menus_name_what_the_ledgers_know():
    assert set(MODELS) <= set(known_cached_models())
    assert set(PRECISIONS) <= set(known_precisions())
    assert set(CARDS) <= set(known_devices())
    spaces = (MODELS, TOKENS, SEQUENCES, PRECISIONS, CARDS)
    assert len(list(product(*spaces))) <= 1000


@given(*(st.integers(0, len(s) - 1) for s in (MODELS, TOKENS, SEQUENCES, PRECISIONS, CARDS)))
def test_a_card_shows_the_ledgers_room(model, tokens, sequences, kept_in, card):
    (scene,) = on_a_card(model, tokens, sequences, kept_in, card)
    found = lab.room(
        MODELS[model],
        CARDS[card],
        TOKENS[tokens],
        sequences=SEQUENCES[sequences],
        kept_in=PRECISIONS[kept_in],
    )
    marks = {mark.id: mark for mark in scene.marks}
    assert marks["cache"].stop - marks["weights"].stop == pytest.approx(float(found.cache) / GB)
    assert marks["usable"].stop == pytest.approx(float(found.memory - found.reserve) / GB)
    fits = marks["cache"].stop <= marks["usable"].stop
    assert fits == (found.left >= 0) == ("it fits" in scene.finding)
    alone = marks["weights"].stop > marks["usable"].stop
    assert alone == ("the weights alone" in scene.finding)
    assert [frame.at for frame in scene.frames] == sorted(frame.at for frame in scene.frames)


def test_a_card_in_words():
    (scene,) = on_a_card(0, 1, 1, 0, 1)
    assert scene.finding == ("it fits, and 38.76 GB are left: at most 52 such requests have room.")
    assert [mark.label for mark in scene.marks] == [
        "usable 72",
        "reserve 8",
        "weights 16.06",
        "cache 17.18",
    ]
    (short,) = on_a_card(0, 1, 1, 0, 0)
    assert short.finding.startswith("11.64 GB too many: at most 5 such requests")
    (huge,) = on_a_card(1, 3, 0, 0, 0)
    assert "the weights alone" in huge.finding
    (none,) = on_a_card(0, 3, 0, 0, 0)
    assert none.finding.endswith("no such requests have room.")
    (one,) = on_a_card(0, 2, 0, 0, 0)
    assert one.finding == "it fits, and 1.245 GB are left: at most 1 such request has room."
    assert one.frames[1].caption == "a request of 4.295 GB follows them"
