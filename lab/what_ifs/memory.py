"""Chapter 5, what the cache weighs: three caches side by side, and a cache beside the weights."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor

from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.memory import Room, kv_bytes, room
from lab.ledgers.sizes import GB, GiB, Number
from lab.ledgers.table import show
from lab.ledgers.words import counted, grouped, listed

FEW_HEADS, SHORT = 8, 8192
LAYERS, HEAD_DIM = 32, 128


def three_caches(A: int = 32_768, B: int = 32, C: int = 4) -> tuple[Scene]:
    """A request of `A` tokens; one of 8,192 tokens with `B` KV heads; `C` of 8,192 tokens.

    A and C have 8 KV heads. All have 32 layers and heads of 128 in 2 bytes a number. Every bar is
    cut where a request is full, so that a step shows as much of each cache as it tells.
    """
    asked = {"A": (1, A, FEW_HEADS), "B": (1, SHORT, B), "C": (C, SHORT, FEW_HEADS)}
    each = {who: _gib(tokens, heads) for who, (_, tokens, heads) in asked.items()}
    lanes = {
        who: f"{who}: {counted(count, 'request')} of {tokens:,}, {heads} KV heads"
        for who, (count, tokens, heads) in asked.items()
    }
    whole = {who: asked[who][0] * size for who, size in each.items()}
    full = {request * size for who, size in each.items() for request in range(asked[who][0] + 1)}
    edges = sorted(full)
    marks = [
        Mark(
            f"{who}.{part + 1}",
            "decode",
            lanes[who],
            start,
            stop,
            f"{show(float(stop - start))} GiB",
            who,
        )
        for who, size in whole.items()
        for part, (start, stop) in enumerate(pairwise(edges))
        if stop <= size
    ]
    return (
        Scene(
            title="Which cache is the heaviest?",
            finding=_heaviest(whole),
            conditions=f"of a token 2 × KV heads × {HEAD_DIM} numbers in each of {LAYERS} layers, "
            "2 bytes each",
            tag="derived",
            unit="GiB",
            lanes=tuple(lanes.values()),
            marks=tuple(marks),
            frames=tuple(
                Frame(start, show(float(start)), _filled(stop, asked, each))
                for start, stop in pairwise(edges)
            ),
        ),
    )


def _gib(tokens: int, heads: int) -> Fraction:
    size = kv_bytes(layers=LAYERS, tokens=tokens, kv_heads=heads, head_dim=HEAD_DIM)
    return Fraction(size) / GiB


def _filled(at: Number, asked: dict[str, tuple[int, int, int]], each: dict[str, Fraction]) -> str:
    """What each cache holds in its first `at` GiB."""
    told = []
    for who, (count, tokens, _) in asked.items():
        full, rest = divmod(at, each[who])
        if full >= count:
            told.append(f"{who} has all of its {count * tokens:,} tokens")
        else:
            held = floor(full) * tokens + floor(rest / each[who] * tokens)
            told.append(f"{who} has {held:,}")
    return f"from here up to {show(float(at))} GiB: {', '.join(told)}"


def _heaviest(whole: dict[str, Fraction]) -> str:
    most = max(whole.values())
    first = [who for who, size in whole.items() if size == most]
    if len(first) == len(whole):
        return f"A tie: {show(float(most))} GiB each."
    verb, each = ("weigh", " each") if len(first) > 1 else ("weighs", "")
    others = [f"{who} {show(float(size))}" for who, size in whole.items() if size < most]
    return f"{listed(first)} {verb} most, {show(float(most))} GiB{each}; {listed(others)}."


MODELS = ("llama-3-8b", "llama-2-13b", "gemma-2b", "mistral-7b", "gemma-2-9b", "deepseek-v2-lite")
TOKENS = (2048, 8192, 32_768, 131_072)
SEQUENCES = (1, 16, 128)
PRECISIONS = ("fp16", "fp8", "int4")
CARDS = ("l4", "h100", "h200")


def on_a_card(model: int, tokens: int, sequences: int, kept_in: int, card: int) -> tuple[Scene]:
    """What the memory of a card is for; each argument is a place in MODELS, TOKENS, SEQUENCES,
    PRECISIONS, CARDS. Weights take 2 bytes a number, a tenth of the card is reserved."""
    found = room(
        MODELS[model],
        CARDS[card],
        TOKENS[tokens],
        sequences=SEQUENCES[sequences],
        kept_in=PRECISIONS[kept_in],
    )
    usable = _gb(found.memory - found.reserve)
    memory, weights = _gb(found.memory), _gb(found.weights)
    needed = weights + _gb(found.cache)
    end = max(needed, usable)
    marks = (
        Mark("usable", "kept", "card", 0, usable, f"usable {_said(usable)}"),
        Mark("reserve", "skipped", "card", usable, memory, f"reserve {_said(memory - usable)}"),
        Mark("weights", "read", "needed", 0, weights, f"weights {_said(weights)}"),
        Mark("cache", "decode", "needed", weights, needed, f"cache {_said(needed - weights)}", "A"),
    )
    each = _said(_gb(found.sequence))
    asked = counted(SEQUENCES[sequences], "request")
    frames = (
        Frame(0, "0", f"the weights of {found.model} take {_said(weights)} GB"),
        Frame(weights, _said(weights), _follow(SEQUENCES[sequences], each)),
        Frame(end, _said(end), f"{_said(usable)} GB are usable, {_said(needed)} needed"),
    )
    return (
        Scene(
            title=f"{found.device}: what fits beside the weights?",
            finding=f"{_verdict(found)}.",
            conditions=f"{found.model} in 2 bytes a number; {asked} of {TOKENS[tokens]:,} tokens, "
            f"cache in {PRECISIONS[kept_in]}; a tenth of the card reserved",
            tag="derived",
            unit="GB",
            lanes=("card", "needed"),
            marks=marks,
            frames=frames,
        ),
    )


def _follow(requests: int, each: str) -> str:
    if requests == 1:
        return f"a request of {each} GB follows them"
    return f"{requests} requests of {each} GB each follow them"


def _verdict(found: Room) -> str:
    if found.for_cache < 0:
        return f"the weights alone are {_said(_gb(-found.for_cache))} GB too many"
    such, have = ("request", "has") if found.sequences == 1 else ("requests", "have")
    count = f"at most {grouped(found.sequences)}" if found.sequences else "no"
    most = f"{count} such {such} {have} room"
    if found.left < 0:
        return f"{_said(_gb(-found.left))} GB too many: {most}"
    return f"it fits, and {_said(_gb(found.left))} GB are left: {most}"


def _gb(size: Number) -> float:
    return float(size) / GB


def _said(gigabytes: float) -> str:
    return show(round(gigabytes, 3))
