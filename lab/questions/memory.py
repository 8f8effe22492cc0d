"""What the cache weighs: questions on bytes, heads, formats and what fits beside the weights."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import NamedTuple

from lab.answers import (
    Choice,
    Exact,
    Line,
    Number,
    Option,
    Order,
    Prediction,
    Unit,
    WrongNumber,
    WrongOrder,
    exact,
    in_words,
)
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.memory import kv_bytes, kv_bytes_per_token, kv_cache
from lab.ledgers.precision import Precision
from lab.ledgers.sizes import GiB, KiB, MiB, ModelSize, model_size
from lab.ledgers.words import counted, listed
from lab.questions.rates import ROUNDED

UNITS = (Unit("MiB", Fraction(1, 1024)),)


# Warm-up: how many bytes a table of numbers takes


def warm_up(rows: int, columns: int, width: int) -> Question:
    """MiB of a table of numbers."""
    numbers = rows * columns
    size = Fraction(numbers * width, MiB)
    wrong = [
        WrongNumber(
            Fraction(numbers, MiB),
            "counting the numbers",
            f"That many numbers there are, times 2^20. Each takes {width} bytes.",
        ),
        WrongNumber(
            8 * size,
            "counting bits",
            f"{width} bytes are {8 * width} bits, and bytes were asked for.",
        ),
        WrongNumber(
            Fraction(numbers * width, 10**6),
            "dividing by a million",
            "That is MB, of 10^6 bytes. A MiB has 2^20 = 1,048,576.",
        ),
        WrongNumber(
            Fraction(rows * width, KiB),
            "leaving out the columns",
            f"A row has {columns:,} numbers, not one.",
        ),
    ]
    return Question(
        text=f"A table has {rows:,} rows of {columns:,} numbers, and a number takes {width} "
        "bytes. A KiB has 2^10 = 1,024 bytes, a MiB 2^20.\n\nHow many MiB does the table take?",
        answer=Number.told_apart(size, "MiB", wrong, units=(Unit("KiB", Fraction(1, 1024)),)),
        hints=("How many bytes is a row?", "Divide by 1,024 twice."),
        worked=(
            f"{rows:,} · {columns:,} · {width} = {numbers * width:,} bytes.",
            f"{numbers * width:,} / 2^20 = {in_words(size)} MiB.",
        ),
    )


# The guess: three caches


class Requests(NamedTuple):
    """Requests of one length under one number of KV heads."""

    number: int
    tokens: int
    kv_heads: int

    def gib(self) -> Fraction:
        """What their cache weighs: 32 layers, heads of 128, 2 bytes a number."""
        size = kv_bytes(
            layers=32,
            sequences=self.number,
            tokens=self.tokens,
            kv_heads=self.kv_heads,
            head_dim=128,
        )
        return Fraction(size) / GiB

    def told(self) -> str:
        return (
            f"{counted(self.number, 'request')} of {self.tokens:,} tokens, {self.kv_heads} KV heads"
        )


GUESS = (Requests(1, 32_768, 8), Requests(1, 8192, 32), Requests(4, 8192, 8))


def heaviest(requests: tuple[Requests, ...], dice: random.Random) -> Question:
    """Guess which of three caches is the heaviest, or that none is."""
    sizes = [one.gib() for one in requests]
    most = max(sizes)
    tie = sizes.count(most) == len(sizes)
    rows = [
        f"{c.told()}: 2 · 32 · {c.number} · {c.tokens:,} · {c.kv_heads} · 128 · 2 bytes = "
        f"{in_words(size)} GiB."
        for c, size in zip(requests, sizes, strict=True)
    ]
    options = [
        Option(c.told(), not tie and size == most, row)
        for c, size, row in zip(requests, sizes, rows, strict=True)
    ]
    dice.shuffle(options)
    products = listed(f"{c.number} · {c.tokens:,} · {c.kv_heads}" for c in requests)
    options.append(Option("none of them: all weigh the same", tie, f"It is {products}."))
    return Question(
        text="The *KV cache* holds a key and a value of every token, in every layer, for every KV "
        "head. Three servers run models with 32 layers and heads of 128 numbers, 2 bytes a "
        "number. They differ in who is being served, and in the number of KV heads.\n\n"
        "Whose cache is the heaviest?",
        answer=Prediction(
            Choice(tuple(options)),
            "Requests, tokens and KV heads are three factors of one product, and the rest is the "
            f"same: {products}.",
        ),
        hints=(
            "What is kept of one token in one layer?",
            "Multiply requests, tokens and KV heads of each; the other factors are equal.",
        ),
        worked=tuple(rows),
    )


# Bytes of a token


class Shape(NamedTuple):
    """What the cache of a model with grouped heads depends on."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int

    def kib(self, **changed: int) -> Fraction:
        """KiB of one token in 2 bytes a number, with some factors changed."""
        found = self._replace(**changed)
        size = kv_bytes(
            layers=found.layers, tokens=1, kv_heads=found.kv_heads, head_dim=found.head_dim
        )
        return Fraction(size) / KiB


def bytes_a_token(shape: Shape) -> Question:
    """KiB that one token leaves in the cache."""
    layers, heads, kv_heads, head_dim = shape
    size = shape.kib()
    wrong = [
        WrongNumber(
            shape.kib(kv_heads=heads),
            "counting the query heads",
            f"Queries are used once and not kept. Of keys and values there are {kv_heads} heads.",
        ),
        WrongNumber(
            size / 2,
            "leaving out the values",
            "A token leaves a key and a value: twice as much.",
        ),
        WrongNumber(
            shape.kib(layers=1),
            "counting one layer",
            f"Each of {layers} layers has keys and values of its own.",
        ),
        WrongNumber(
            shape.kib(kv_heads=1),
            "counting one head",
            f"Each of {kv_heads} KV heads has a key and a value.",
        ),
    ]
    return Question(
        text=f"A model has {layers} layers, {heads} query heads and {kv_heads} KV heads of "
        f"{head_dim} numbers; its cache takes 2 bytes a number.\n\nHow many KiB (2^10 bytes) does "
        "one token leave in the cache, over all layers?",
        answer=Number.told_apart(size, "KiB", wrong, units=(Unit("bytes", Fraction(1, 1024)),)),
        hints=(
            "What does one token leave in one layer?",
            f"A key and a value of {head_dim} numbers for each of {kv_heads} KV heads.",
        ),
        worked=(
            f"2 · {kv_heads} · {head_dim} · 2 = {4 * kv_heads * head_dim:,} bytes in a layer.",
            f"{layers} · {4 * kv_heads * head_dim:,} / 1,024 = {in_words(size)} KiB.",
        ),
    )


# A calculator that ignores grouped heads


def calculator(model: ModelSize, tokens: int) -> Question:
    """By what factor a calculator is wrong that multiplies by the hidden size."""
    factor = Fraction(model.heads, model.kv_heads)
    said = int(kv_bytes_per_token(model) * tokens * factor)
    wrong = [
        WrongNumber(
            1,
            "believing it",
            f"The hidden size, {model.hidden:,}, is that of all {model.heads} query heads "
            f"together. Keys and values have {counted(model.kv_heads, 'head')}.",
        ),
        WrongNumber(
            model.kv_heads,
            "dividing by the KV heads",
            f"{model.kv_heads} is the number of KV heads. The factor is "
            f"{model.heads} / {model.kv_heads}.",
        ),
        WrongNumber(
            1 / factor,
            "turning it over",
            "That is the other way round: the right answer over the calculator's.",
        ),
        WrongNumber(
            2 * factor,
            "taking the 2 for a mistake as well",
            "The 2 is right: a key and a value.",
        ),
        WrongNumber(
            2,
            "taking the 2 for the mistake",
            "The 2 is right: a key and a value. Look at what the other factors say of the heads.",
        ),
        WrongNumber(
            model.heads,
            "dividing by the query heads",
            f"That would leave one KV head, and the model has {model.kv_heads}.",
        ),
    ]
    return Question(
        text=f"A calculator on the web says that a request of {tokens:,} tokens with {model.name} "
        f"takes {said:,} bytes of cache, and shows its formula: 2 · layers · tokens · hidden size "
        f"· 2 bytes. The model's configuration says: {model.layers} layers, hidden size "
        f"{model.hidden:,}, {model.heads} query heads, {counted(model.kv_heads, 'KV head')}, "
        f"{model.head_dim} numbers a head.\n\nHow many times too large is the answer? (1 if it is "
        "right.)",
        answer=Number.told_apart(factor, "", wrong),
        hints=(
            "Compute the bytes of one token from the configuration, and from the formula.",
            "Which factor of the right formula does the hidden size stand for?",
        ),
        worked=(
            f"hidden size = {model.heads} · {model.head_dim} = {model.hidden:,}: all query heads.",
            f"The cache holds {model.kv_heads} · {model.head_dim} = "
            f"{model.kv_heads * model.head_dim:,}.",
            f"{model.hidden:,} / {model.kv_heads * model.head_dim:,} = {factor}.",
        ),
    )


GROUPED = ("llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-3.2-1b", "qwen3-8b", "gemma-2b")
"""Models with fewer KV heads than heads whose heads together are as wide as the hidden size."""


# What fits beside the weights


class Card(NamedTuple):
    """A device in whole GiB, and requests of one length."""

    memory: int
    reserve: int
    weights: int
    kib: int
    tokens: int

    def request(self) -> Fraction:
        """GiB of one request."""
        return Fraction(self.kib * self.tokens, MiB)


def sequences_fit(card: Card) -> Question:
    """How many requests have room beside the weights."""
    memory, reserve, weights, kib, tokens = card
    request, free = card.request(), memory - reserve - weights
    fit = int(free / request)
    wrong = [
        WrongNumber(
            int((memory - reserve) / request),
            "forgetting the weights",
            f"{weights} GiB of weights lie there all the time, whoever is served.",
        ),
        WrongNumber(
            int((memory - weights) / request),
            "forgetting the reserve",
            f"{reserve} GiB are kept for other things: no cache may take them.",
        ),
        WrongNumber(
            int(memory / request),
            "dividing the whole memory",
            f"Weights and reserve take {weights + reserve} GiB first.",
        ),
        WrongNumber(
            fit + 1, "rounding up", f"The last one finds less than {in_words(request)} GiB."
        ),
    ]
    return Question(
        text=f"A card has {memory} GiB of memory. {reserve} GiB are reserved for activations and "
        f"work space, and the weights take {weights} GiB. A token leaves {kib} KiB in the cache, "
        f"and each request holds {tokens:,} tokens, alone: no prefix is shared.\n\nHow many such "
        "requests have room at once?",
        answer=Number.told_apart(fit, "requests", wrong),
        hints=("How many GiB does one request take?", "What is left beside reserve and weights?"),
        worked=(
            f"One request: {tokens:,} · {kib} KiB = {in_words(request)} GiB.",
            f"Left: {memory} − {reserve} − {weights} = {free} GiB.",
            f"{free} / {in_words(request)} = {in_words(free / request)}, so {fit} whole requests.",
        ),
    )


# From the lightest to the heaviest


def lightest_first(chosen: dict[str, int], dice: random.Random) -> Question:
    """Put models, each with a request of a length, in the order of their caches."""
    caches = {name: kv_cache(name, tokens).bytes for name, tokens in chosen.items()}
    names = sorted(chosen, key=caches.__getitem__)
    items = [f"{model_size(name).name}, {chosen[name]:,} tokens" for name in names]
    shown = drawn(dice, lambda d: d.sample(range(len(items)), len(items)), lambda s: s != sorted(s))
    turns = {
        "by the length of the request": (
            lambda name: chosen[name],
            "That is the order of the lengths. A token weighs more in one model than in another.",
        ),
        "by the size of the model": (
            lambda name: model_size(name).parameters,
            "That is the order of the weights. The cache knows layers, KV heads and the width of a "
            "head, and nothing of the MLP.",
        ),
        "by the query heads": (
            lambda name: chosen[name] * model_size(name).layers * model_size(name).heads,
            "Query heads are not kept. Count the KV heads.",
        ),
    }
    wrong: dict[tuple[int, ...], str] = {}
    for key, says in turns.values():
        order = tuple(names.index(name) for name in sorted(names, key=key))
        if order != tuple(range(len(names))):
            wrong.setdefault(order, says)
    sizes = [model_size(name) for name in names]
    return Question(
        text="One request each, 2 bytes a number. "
        + " ".join(
            f"{one.name}: {one.layers} layers, {one.heads} query heads, "
            f"{counted(one.kv_heads, 'KV head')} of {one.head_dim}."
            for one in sorted(sizes, key=lambda one: one.name)
        )
        + "\n\nOrder the caches from the lightest to the heaviest.",
        answer=Order(
            tuple(items),
            tuple(shown),
            tuple(WrongOrder(order, says) for order, says in wrong.items()),
        ),
        hints=(
            "A token costs layers · KV heads · width of a head, and what all of them share.",
            "Multiply it by the tokens of each request.",
        ),
        worked=tuple(
            f"{item}: {in_words(exact(caches[name] / MiB))} MiB."
            for name, item in zip(names, items, strict=True)
        ),
    )


ORDERED = ("llama-2-7b", "llama-3-8b", "llama-3-70b", "llama-3.2-1b", "gemma-2b", "qwen3-8b")


# Short numbers and their scales


def with_scales(gib: int, form: Precision) -> Question:
    """GiB of a cache that is kept in short numbers with scales."""
    group = form.group or 1
    size = gib * form.bytes_per_element / 2
    bare = gib * form.number_bytes / 2
    scale = gib * Fraction(form.scale_bytes, 2 * group)
    zero = gib * Fraction(form.zero_point_bytes, 2 * group)
    each = f"a scale of {form.scale_bytes} bytes"
    if zero:
        each += f" and a zero point of {form.zero_point_bytes}"
    wrong = [
        WrongNumber(
            bare,
            "leaving out the scales",
            f"Every {group} numbers share {each}, and those lie in memory too.",
        ),
        WrongNumber(
            bare + group * (scale + zero),
            "taking a scale for each number",
            f"{group} numbers share one; a number's part is 1/{group} of it.",
        ),
        WrongNumber(
            bare + (scale + zero) / 2,
            "counting the scales of the keys only",
            "Values are kept in short numbers as well, with scales of their own.",
        ),
        WrongNumber(gib, "changing nothing", "That is the cache in 16 bits."),
    ]
    if zero:
        wrong.append(
            WrongNumber(
                bare + scale,
                "leaving out the zero points",
                "A group has a zero point beside its scale.",
            )
        )
    return Question(
        text=f"A cache takes {gib} GiB in 16 bits a number. Now keys and values are kept in "
        f"{form.bits} bits a number, and every group of {group} numbers has {each}.\n\nHow many "
        "GiB does the cache take then?",
        answer=Number.told_apart(size, "GiB", wrong, units=UNITS, tolerance=exact(size * ROUNDED)),
        hints=(
            f"What do {group} numbers take, with everything that they share?",
            f"Before, they took {group} · 2 = {2 * group} bytes.",
        ),
        worked=(
            f"A group: {group} · {form.bits} / 8 = {in_words(group * form.number_bytes)} bytes of "
            f"numbers and {form.scale_bytes + form.zero_point_bytes} beside them.",
            f"{in_words(group * form.bytes_per_element)} of {2 * group} bytes: {gib} · "
            f"{in_words(form.bytes_per_element / 2)} = {in_words(size)} GiB.",
        ),
    )


# A window in some of the layers


class Mixed(NamedTuple):
    """A model in which some layers look at the last tokens only, and a request."""

    layers: int
    windowed: int
    window: int
    kv_heads: int
    tokens: int


HEAD = 128
LIKE_GEMMA = Mixed(layers=42, windowed=21, window=4096, kv_heads=8, tokens=32_768)
"""Every second layer has a window, as in Gemma-2-9B; its heads are twice as wide."""


def _mib(size: Exact) -> str:
    return in_words(Fraction(size) / MiB)


def wrong_line(mixed: Mixed, slip: str) -> Question:
    """Find the wrong line in the account of a cache with windows. `slip` is one of SLIPS."""
    layers, windowed, window, kv_heads, tokens = mixed
    row = 4 * kv_heads * HEAD
    wide, narrow = (layers - windowed) * tokens * row, windowed * window * row

    def lines(row: int, whole: int, held: int, narrow: int, total: int) -> list[str]:
        return [
            f"a token leaves {row:,} bytes in a layer",
            f"{layers - windowed} layers hold all {tokens:,} tokens: {_mib(whole)} MiB",
            f"{windowed} layers hold {held:,} tokens: {_mib(narrow)} MiB",
            f"together: {_mib(total)} MiB",
        ]

    right = lines(row, wide, window, narrow, wide + narrow)
    at, slipped, answer = {
        "keys only": (
            0,
            lines(row // 2, wide // 2, window, narrow // 2, (wide + narrow) // 2),
            f"It leaves a key and a value: 2 · {kv_heads} · {HEAD} numbers of 2 bytes.",
        ),
        "window not used": (
            2,
            lines(row, wide, tokens, windowed * tokens * row, wide + windowed * tokens * row),
            f"A layer with a window of {window:,} holds the last {window:,} tokens only.",
        ),
        "one window for all": (
            1,
            lines(row, (layers - windowed) * window * row, window, narrow, layers * window * row),
            f"These layers have no window: {layers - windowed} · {tokens:,} · {row:,} bytes.",
        ),
        "mean instead of sum": (
            3,
            lines(row, wide, window, narrow, (wide + narrow) // 2),
            "All layers lie in memory at the same time: add, and divide by nothing.",
        ),
    }[slip]
    should = f'It should read "{right[at]}".'
    says = [
        f"2 · {kv_heads} · {HEAD} numbers of 2 bytes: this line is right.",
        "This line follows from the first: layers · tokens · bytes.",
        "This line follows from the first: layers · tokens held · bytes.",
        "This line is the sum of the two above.",
    ]
    says[at] = f"{answer} {should}"
    return Question(
        text=f"A model has {layers} layers; {windowed} of them look at the last {window:,} tokens "
        f"only. All have {kv_heads} KV heads of {HEAD} numbers, 2 bytes each. The cache of a "
        f"request of {tokens:,} tokens is computed line by line, each from those before it. In one "
        "line something goes wrong.\n\nIn which one?",
        answer=Line(tuple(slipped), at, tuple(says)),
        hints=(
            "Which tokens does a layer with a window still need?",
            "Take the lines one by one: does each follow from the question and the line before it?",
        ),
        worked=(f"Line {at + 1} goes wrong. {answer}", should),
    )


SLIPS = ("keys only", "window not used", "one window for all", "mean instead of sum")


# The exercises


def _warm_up(dice: random.Random) -> Question:
    return warm_up(
        1024 * dice.randint(1, 16), dice.choice((256, 512, 1024, 2048)), dice.choice((2, 4))
    )


def _heaviest(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[Requests, ...]:
        return (
            Requests(1, dice.choice((16_384, 32_768, 65_536)), 8),
            Requests(1, 8192, dice.choice((8, 16, 32))),
            Requests(dice.randint(2, 8), 8192, 8),
        )

    def clear(requests: tuple[Requests, ...]) -> bool:
        sizes = [one.gib() for one in requests]
        return sizes.count(max(sizes)) in (1, len(sizes))

    return heaviest(drawn(dice, draw, clear), dice)


def _bytes_a_token(dice: random.Random) -> Question:
    kv_heads = dice.choice((2, 4, 8))
    heads = kv_heads * dice.choice((2, 4, 8))
    return bytes_a_token(
        Shape(dice.choice((16, 24, 28, 32, 40, 48, 80)), heads, kv_heads, dice.choice((64, 128)))
    )


def _calculator(dice: random.Random) -> Question:
    return calculator(model_size(dice.choice(GROUPED)), 1024 * dice.randint(2, 32))


def _sequences_fit(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Card:
        return Card(
            memory=dice.choice((24, 40, 48, 80, 96, 141)),
            reserve=dice.randint(2, 8),
            weights=dice.randint(8, 40),
            kib=dice.choice((96, 112, 128, 160, 192, 320)),
            tokens=1024 * dice.randint(2, 32),
        )

    def good(card: Card) -> bool:
        free = card.memory - card.reserve - card.weights
        whole = Fraction(free) / card.request()
        return free > 0 and whole.denominator > 1 and whole > 3

    return sequences_fit(drawn(dice, draw, good))


def _lightest_first(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> dict[str, int]:
        return {name: 1024 * dice.choice((1, 2, 4, 8, 16, 32)) for name in dice.sample(ORDERED, 4)}

    def good(chosen: dict[str, int]) -> bool:
        caches = {name: kv_cache(name, tokens).bytes for name, tokens in chosen.items()}
        by_weights = sorted(chosen, key=lambda name: model_size(name).parameters)
        apart = len({*caches.values()}) == len({*chosen.values()}) == len(chosen)
        return apart and sorted(chosen, key=caches.__getitem__) != by_weights

    return lightest_first(drawn(dice, draw, good), dice)


def _with_scales(dice: random.Random) -> Question:
    form = Precision(
        name="drawn",
        bits=dice.choice((4, 8)),
        group=dice.choice((16, 32, 64, 128)),
        scale_bytes=dice.choice((2, 4)),
        zero_point_bytes=dice.choice((0, 2)),
        source="drawn",
    )
    return with_scales(dice.choice((2, 4, 8, 16, 32, 64)), form)


def _wrong_line(dice: random.Random) -> Question:
    layers = dice.choice((24, 32, 36, 48))
    mixed = Mixed(
        layers=layers,
        windowed=layers // 2 if dice.random() < 0.5 else layers * 3 // 4,
        window=dice.choice((512, 1024, 4096)),
        kv_heads=dice.choice((2, 4, 8)),
        tokens=8192 * dice.randint(1, 4),
    )
    return wrong_line(mixed, dice.choice(SLIPS))


WARM_UP = Exercise("kv-warm-up", "Bytes of a table", 5, _warm_up)
HEAVIEST = Exercise(
    "kv-heaviest",
    "Whose cache is the heaviest?",
    5,
    _heaviest,
    first=lambda: heaviest(GUESS, random.Random(0)),
)
BYTES_A_TOKEN = Exercise("kv-bytes-a-token", "What one token leaves behind", 5, _bytes_a_token)
CALCULATOR = Exercise("kv-calculator", "A calculator to be checked", 5, _calculator)
SEQUENCES_FIT = Exercise("kv-sequences-fit", "Beside the weights", 5, _sequences_fit)
LIGHTEST_FIRST = Exercise("kv-lightest-first", "From light to heavy", 5, _lightest_first)
WITH_SCALES = Exercise("kv-with-scales", "Short numbers and their scales", 5, _with_scales)
WRONG_LINE = Exercise(
    "kv-wrong-line",
    "A window in some layers",
    5,
    _wrong_line,
    first=lambda: wrong_line(LIKE_GEMMA, "window not used"),
)
