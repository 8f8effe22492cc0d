"""Attention in tiles: questions on what is kept of a tile, and on how tiles are merged."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from lab.answers import (
    Choice,
    Exact,
    Filling,
    Line,
    Number,
    Option,
    Prediction,
    WrongNumber,
    exact,
    in_words,
)
from lab.attention.online_softmax import (
    Score,
    Statistics,
    Step,
    Value,
    equal_average,
    ln,
    merge,
    of_block,
    online_softmax,
    quotient,
    softmax_average,
)
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.table import show
from lab.ledgers.words import counted, listed
from lab.questions.rates import ROUNDED


class Tiles(NamedTuple):
    """Two tiles of keys that one query looks at: exp(score) and value of each key."""

    weights: tuple[tuple[int, ...], tuple[int, ...]]
    values: tuple[tuple[int, ...], tuple[int, ...]]

    def block(self, place: int) -> Statistics:
        """The statistics of a tile by itself."""
        return of_block([ln(weight) for weight in self.weights[place]], self.values[place])

    def alone(self, place: int) -> Exact:
        """The output of a tile by itself."""
        return simplest(self.block(place).output)

    def mass(self, place: int) -> int:
        """The sum of the weights of a tile."""
        return sum(self.weights[place])

    def whole(self) -> Exact:
        """The output over all keys."""
        scores = [ln(weight) for tile in self.weights for weight in tile]
        return simplest(softmax_average(scores, [value for tile in self.values for value in tile]))


SOURCE = Tiles(((4, 2), (1, 1)), ((1, 3), (0, 2)))
"""The tiles of the chapter's first example."""


def simplest(value: object) -> Exact:
    """A computed number as an answer: an int where it is whole. ValueError for a float."""
    fraction = Fraction(exact(value))
    return fraction.numerator if fraction.denominator == 1 else fraction


def draw_tiles(dice: random.Random, sizes: tuple[int, int] = (2, 2)) -> Tiles:
    """Tiles like the chapter's."""

    def row(low: int, high: int, size: int) -> tuple[int, ...]:
        return tuple(dice.randint(low, high) for _ in range(size))

    return Tiles(
        (row(1, 6, sizes[0]), row(1, 6, sizes[1])), (row(0, 9, sizes[0]), row(0, 9, sizes[1]))
    )


# Warm-up: a weighted mean


def warm_up(weights: Sequence[int], values: Sequence[int]) -> Question:
    """The mean of some values by their weights."""
    sums = sum(w * v for w, v in zip(weights, values, strict=True))
    mean = simplest(softmax_average([ln(weight) for weight in weights], values))
    wrong = [
        WrongNumber(
            simplest(Fraction(sum(values), len(values))),
            "leaving out the weights",
            "That is the mean in which each value counts the same.",
        ),
        WrongNumber(
            sums,
            "not dividing",
            f"That is the sum of weight times value. Divide it by all weights, {sum(weights)}.",
        ),
        WrongNumber(
            simplest(Fraction(sums, len(values))),
            "dividing by the number of values",
            f"A value of weight 2 counts twice: divide by the weights, {sum(weights)}.",
        ),
        WrongNumber(
            values[list(weights).index(max(weights))],
            "taking the heaviest",
            "That is the value with the largest weight. The others count too.",
        ),
    ]
    products = " + ".join(f"{w} · {v}" for w, v in zip(weights, values, strict=True))
    return Question(
        text=f"Three values are {listed(values)}, and their weights {listed(weights)}, in this "
        "order.\n\nWhat is their weighted mean?",
        answer=Number.told_apart(mean, "", wrong, tolerance=exact(mean * ROUNDED)),
        hints=(
            "A value of weight 2 counts as if it stood there twice.",
            "Add weight times value, and divide by the sum of the weights.",
        ),
        worked=(f"({products}) / {sum(weights)} = {sums} / {sum(weights)} = {in_words(mean)}.",),
    )


# What must be kept of a tile


def what_to_keep(tiles: Tiles, dice: random.Random) -> Question:
    """Guess what must be kept of each half so that the whole comes out exactly."""
    outputs = [tiles.alone(0), tiles.alone(1)]
    whole, mean = tiles.whole(), simplest(equal_average(outputs))
    masses = [tiles.mass(0), tiles.mass(1)]
    merged = f"({_kept(masses[0], outputs[0])} + {_kept(masses[1], outputs[1])}) / {sum(masses)}"
    options = [
        Option(
            "its output alone",
            False,
            f"All that can be done then is to take the mean of {show(outputs[0])} and "
            f"{show(outputs[1])}, which is {show(mean)}. The halves do not weigh the same: "
            f"{masses[0]} and {masses[1]}.",
        ),
        Option(
            "its output, and how many keys it had",
            False,
            f"Both had two keys, so that gives their mean, {show(mean)}. What counts is how much "
            f"those keys weigh: {masses[0]} and {masses[1]}.",
        ),
        Option(
            "its output, and the sum of its weights",
            True,
            f"{merged} = {show(whole)}.",
        ),
        Option(
            "all its weights and values",
            False,
            f"That is enough, and it is what the big matrix does. Two numbers do: {merged} = "
            f"{show(whole)}.",
        ),
    ]
    dice.shuffle(options)
    halves = [
        f"weights {listed(w)} and values {listed(v)}"
        for w, v in zip(tiles.weights, tiles.values, strict=True)
    ]
    return Question(
        text="Attention makes a weighted mean of values. A query looks at four keys, and the chip "
        f"has room for two. It reads the first half ({halves[0]}), finds the output "
        f"{show(outputs[0])} for it, and forgets what it has read. It reads the second half "
        f"({halves[1]}) and finds {show(outputs[1])}.\n\nWhat is the least that must have been "
        "kept of each half, so that the output over all four keys comes out exactly?",
        answer=Prediction(
            Choice(tuple(options)),
            f"A half weighs as much as its weights together, {masses[0]} and {masses[1]}. With "
            f"these the outputs can be merged: {merged} = {show(whole)}. The mean of the outputs "
            f"is {show(mean)}.",
        ),
        hints=(
            "Compute the weighted mean over all four keys first.",
            "By how much does each half count in it?",
        ),
        worked=(
            f"Over all four keys: {show(whole)}.",
            f"The first half weighs {masses[0]}, the second {masses[1]}.",
            f"Merged by these: {merged} = {show(whole)}. The mean of the two would be "
            f"{show(mean)}.",
        ),
    )


def _kept(mass: int, output: Exact) -> str:
    return f"{mass} · {show(output)}"


# Merging two tiles


def merge_two(tiles: Tiles) -> Question:
    """The output over all keys, from the outputs and weights of two tiles of unequal size."""
    outputs, masses = [tiles.alone(0), tiles.alone(1)], [tiles.mass(0), tiles.mass(1)]
    counts = [len(tile) for tile in tiles.weights]
    merged = merge(tiles.block(0), tiles.block(1))
    answer = simplest(merged.output)

    def by(shares: Sequence[int]) -> Exact:
        sums = sum(share * output for share, output in zip(shares, outputs, strict=True))
        return simplest(Fraction(sums) / sum(shares))

    wrong = [
        WrongNumber(
            simplest(equal_average(outputs)),
            "taking the mean of the outputs",
            f"That lets both tiles count the same. They weigh {masses[0]} and {masses[1]}.",
        ),
        WrongNumber(
            by(counts),
            "weighing by the number of keys",
            f"The tiles have {counts[0]} and {counts[1]} keys, but what counts is the sum of "
            f"their weights, {masses[0]} and {masses[1]}.",
        ),
        WrongNumber(
            by(masses[::-1]),
            "exchanging the two sums",
            "Each output goes with the weights of its own tile.",
        ),
        WrongNumber(
            simplest(sum(outputs)),
            "adding the outputs",
            "A mean of means lies between them. Weigh them, and divide by all weights.",
        ),
    ]
    numerators = [simplest(mass * output) for mass, output in zip(masses, outputs, strict=True)]
    return Question(
        text="One query, two tiles of keys. The tile of "
        f"{counted(counts[0], 'key')} has the output {show(outputs[0])} by itself, and its weights "
        f"sum to {masses[0]}. The tile of {counted(counts[1], 'key')} has the output "
        f"{show(outputs[1])}, and its weights sum to {masses[1]}."
        "\n\nWhat is the output over all keys?",
        answer=Number.told_apart(answer, "", wrong, tolerance=exact(answer * ROUNDED)),
        hints=(
            "What were the numerators of the two tiles?",
            "A numerator is the output times the sum of the weights.",
        ),
        worked=(
            f"Numerators: {show(outputs[0])} · {masses[0]} = {show(numerators[0])} and "
            f"{show(outputs[1])} · {masses[1]} = {show(numerators[1])}.",
            f"({show(numerators[0])} + {show(numerators[1])}) / ({masses[0]} + {masses[1]}) = "
            f"{in_words(answer)}.",
        ),
    )


# When the maximum rises


class Rise(NamedTuple):
    """What was kept, and a tile with a larger maximum; maxima as exp(maximum)."""

    before: int
    kept: int
    after: int
    added: Fraction

    def denominators(self) -> tuple[Statistics, Statistics]:
        """Both as statistics whose numerators do not matter."""
        return (
            Statistics(ln(self.before), 0, self.kept),
            Statistics(ln(self.after), 0, self.added),
        )


def rescale_kept(rise: Rise) -> Question:
    """The denominator after a tile whose largest score is above the maximum so far."""
    kept, added = rise.denominators()
    answer = simplest(merge(kept, added).denominator)
    factor = Fraction(rise.before, rise.after)
    wrong = [
        WrongNumber(
            simplest(rise.kept + rise.added),
            "adding without rescaling",
            f"The two sums are relative to different maxima, ln {rise.before} and ln {rise.after}.",
        ),
        WrongNumber(
            simplest(rise.kept / factor + rise.added),
            "rescaling the wrong way round",
            f"The maximum rises, so old weights shrink: the factor is exp(ln {rise.before} − "
            f"ln {rise.after}) = {show(factor)}.",
        ),
        WrongNumber(
            simplest((rise.kept + rise.added) * factor),
            "rescaling both sums",
            "The new tile is relative to the new maximum already.",
        ),
        WrongNumber(
            simplest(rise.kept + rise.added * factor),
            "rescaling the new tile",
            "What must change is the sum that was made with the old maximum.",
        ),
    ]
    return Question(
        text=f"So far the largest score of a query is ln {rise.before}, and the denominator kept "
        f"is {rise.kept}. The next tile has the largest score ln {rise.after}; relative to it, "
        f"its weights sum to {show(rise.added)}.\n\nWhat is the denominator afterwards?",
        answer=Number.told_apart(answer, "", wrong, tolerance=exact(answer * ROUNDED)),
        hints=(
            "A weight is exp(score − maximum). What happens to the old weights when the maximum "
            "rises?",
            f"They are multiplied by exp(ln {rise.before} − ln {rise.after}).",
        ),
        worked=(
            f"The factor: exp(ln {rise.before} − ln {rise.after}) = {rise.before}/{rise.after} = "
            f"{show(factor)}.",
            f"{rise.kept} · {show(factor)} + {show(rise.added)} = {in_words(answer)}.",
        ),
    )


# The pass as a table


def step_table(tiles: Tiles) -> Question:
    """Fill in what is kept after each of two tiles."""
    weights, values = sum(tiles.weights, ()), sum(tiles.values, ())
    size = len(tiles.weights[0])
    first, second = online_softmax([ln(weight) for weight in weights], values, size)
    output = simplest(second.kept.output)
    raw = [_sums(weights[:size], values[:size]), _sums(weights, values)]
    kept = [_pair(first.kept), _pair(second.kept)]
    unscaled = [
        before + simplest(getattr(second.added, name))
        for before, name in zip(kept[0], _NAMES, strict=True)
    ]
    says = "That takes exp(score) as it is. Here weights are relative to the maximum, {}."
    rows = []
    for number, (step, sums) in enumerate(zip((first, second), kept, strict=True)):
        top = f"ln {show(max(weights[: size * (number + 1)]))}"
        cells = []
        for place, value in enumerate(sums):
            wrong = [
                WrongNumber(raw[number][place], "using no maximum", says.format(top)),
                WrongNumber(
                    unscaled[place] if number else _last_only(step.scores, step.values, place),
                    "leaving out the rescale" if number else "relative to the last key",
                    "What was kept must be multiplied by the rescale first."
                    if number
                    else f"Weights are relative to the largest score, {top}.",
                ),
            ]
            cells.append(Number.told_apart(value, "", wrong))
        rescale: str | Number = "–"
        if number:
            factor = simplest(step.rescale)
            wrong = [
                WrongNumber(
                    simplest(1 / Fraction(factor)),
                    "dividing the wrong way round",
                    "The maximum rises, so what was kept shrinks.",
                ),
                WrongNumber(1, "leaving it", f"The maximum has changed: it is {top} now."),
            ]
            rescale = Number.told_apart(factor, "", wrong)
        rows.append((str(number + 1), top, rescale, *cells))
    return Question(
        text=f"{_asks(tiles)}\n\nFill in what is kept after each tile. *Rescale* is what "
        "the sums so far are multiplied by.",
        answer=Filling(("tile", "maximum", "rescale", "numerator", "denominator"), tuple(rows)),
        hints=(
            "The heaviest key seen so far has the weight 1.",
            "When the maximum goes from ln a to ln b, what was kept is multiplied by a/b.",
            f"When all is right, numerator over denominator is {in_words(output)} in the end.",
        ),
        worked=(
            f"Tile 1: weights {_shown(first.weights)}; numerator {show(kept[0][0])}, denominator "
            f"{show(kept[0][1])}.",
            f"The maximum rises: what was kept is multiplied by {show(second.rescale)}.",
            f"Tile 2: weights {_shown(second.weights)}; numerator {show(kept[1][0])}, denominator "
            f"{show(kept[1][1])}.",
            f"The output: {_over(*kept[1])} = {in_words(output)}.",
        ),
    )


_NAMES = ("numerator", "denominator")


def _pair(kept: Statistics) -> tuple[Exact, Exact]:
    return simplest(kept.numerator), simplest(kept.denominator)


def _sums(weights: Sequence[int], values: Sequence[int]) -> tuple[int, int]:
    return sum(w * v for w, v in zip(weights, values, strict=True)), sum(weights)


def _last_only(scores: Sequence[Score], values: Sequence[Value], place: int) -> Exact:
    """A sum of the first tile relative to its last score."""
    block = of_block(scores, values).relative_to(scores[-1])
    return _pair(block)[place]


def _over(numerator: Exact, denominator: Exact) -> str:
    """A quotient in words: "12 / 8", "(17/2) / (7/3)"."""
    parts = (f"({text})" if "/" in (text := show(x)) else text for x in (numerator, denominator))
    return " / ".join(parts)


def _shown(numbers: Sequence[object]) -> str:
    return listed(map(show, numbers))


def _rises(tiles: Tiles) -> bool:
    """Whether the table has something to rescale, and no cell is right by a wrong way."""
    top = [max(weights) for weights in tiles.weights]
    sums = _sums(tiles.weights[0], tiles.values[0])
    return 1 < top[0] < top[1] and tiles.weights[0][-1] < top[0] and all(sums)


# The wrong line


def wrong_line(tiles: Tiles, slip: str) -> Question:
    """Find the line of a pass that is wrong. `slip` is one of SLIPS."""
    first, second = _pass(tiles)
    lines, says = _lines(first.kept, second)
    at, line, answer = SLIPS[slip](first.kept, second)
    should = f'It should read "{lines[at]}".'
    lines[at], says[at] = line, f"{answer} {should}"
    return Question(
        text=f"{_asks(tiles)}\n\nOne line of this pass is wrong; each of the others is "
        "right. Which one?",
        answer=Line(tuple(lines), at, tuple(says)),
        hints=(
            "Write down the largest score after each tile.",
            "By what are old sums multiplied when the maximum rises, and which sums?",
            "Compute the weighted mean over all keys, and compare.",
        ),
        worked=(f"Line {at + 1} is wrong. {answer}", should),
    )


def _asks(tiles: Tiles) -> str:
    first, second = (
        f"scores {listed(f'ln {w}' for w in ws)} and values {listed(vs)}"
        for ws, vs in zip(tiles.weights, tiles.values, strict=True)
    )
    return (
        f"One query, two tiles: the first has {first}, the second {second}. Weights are "
        "exp(score − maximum so far)."
    )


def _pass(tiles: Tiles) -> tuple[Step, Step]:
    scores = [ln(weight) for tile in tiles.weights for weight in tile]
    values = [value for tile in tiles.values for value in tile]
    first, second = online_softmax(scores, values, len(tiles.weights[0]))
    return first, second


def _lines(kept: Statistics, second: Step) -> tuple[list[str], list[str]]:
    """The pass in five lines, and why each holds."""
    n, d = _pair(kept)
    added, after = _pair(second.added), _pair(second.kept)
    lines = [
        f"after tile 1: maximum {kept.maximum}, numerator {show(n)}, denominator {show(d)}",
        f"tile 2 raises the maximum to {second.kept.maximum}: multiply by {show(second.rescale)}",
        f"numerator: {show(n)} · {show(second.rescale)} + {show(added[0])} = {show(after[0])}",
        f"denominator: {show(d)} · {show(second.rescale)} + {show(added[1])} = {show(after[1])}",
        f"output: {_over(*after)} = {show(simplest(second.kept.output))}",
    ]
    right = "This line is right:"
    says = [
        f"{right} relative to {kept.maximum} the weights sum to {show(d)}.",
        f"{right} exp({kept.maximum} − {second.kept.maximum}) = {show(second.rescale)}.",
        f"{right} the old sum is rescaled, and the tile adds {show(added[0])}.",
        f"{right} the old sum is rescaled, and the tile adds {show(added[1])}.",
        f"{right} it is the weighted mean over all keys.",
    ]
    return lines, says


Slip: TypeAlias = tuple[int, str, str]
"""Which line is wrong, how it reads, and what is wrong with it."""


def _wrong_way_round(kept: Statistics, second: Step) -> Slip:
    return (
        1,
        f"tile 2 raises the maximum to {second.kept.maximum}: multiply by "
        f"{show(quotient(1, second.rescale))}",
        f"The factor is exp({kept.maximum} − {second.kept.maximum}), which is below 1: old weights "
        "shrink when the maximum rises.",
    )


def _not_rescaled(place: int) -> Callable[[Statistics, Step], Slip]:
    def slip(kept: Statistics, second: Step) -> Slip:
        old, added = _pair(kept)[place], _pair(second.added)[place]
        return (
            2 + place,
            f"{_NAMES[place]}: {show(old)} + {show(added)} = {show(simplest(old + added))}",
            f"The {_NAMES[place]} kept is relative to {kept.maximum}, and what is added to "
            f"{second.kept.maximum}. Both sums are rescaled.",
        )

    return slip


def _mean_of_outputs(kept: Statistics, second: Step) -> Slip:
    outputs = [simplest(kept.output), simplest(second.added.output)]
    mean = simplest(equal_average(outputs))
    return (
        4,
        f"output: ({show(outputs[0])} + {show(outputs[1])}) / 2 = {show(mean)}",
        "That is the mean of the two tiles' own outputs, which do not weigh the same.",
    )


SLIPS: dict[str, Callable[[Statistics, Step], Slip]] = {
    "the wrong way round": _wrong_way_round,
    "numerator not rescaled": _not_rescaled(0),
    "denominator not rescaled": _not_rescaled(1),
    "mean of the outputs": _mean_of_outputs,
}
"""The wrong turns that a line may take."""


# The exercises


def _warm_up(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[list[int], list[int]]:
        return [dice.randint(1, 5) for _ in range(3)], dice.sample(range(1, 13), 3)

    def good(found: tuple[list[int], list[int]]) -> bool:
        weights, values = found
        sums = _sums(weights, values)[0]
        top = weights.count(max(weights)) == 1
        return top and sums % sum(weights) == 0 and 3 * sums != sum(values) * sum(weights)

    return warm_up(*drawn(dice, draw, good))


def _differ(tiles: Tiles) -> bool:
    """Whether the mean of the outputs is wrong, and the tiles have outputs of their own."""
    outputs = [tiles.alone(0), tiles.alone(1)]
    return tiles.whole() != equal_average(outputs) and outputs[0] != outputs[1]


def _small(tiles: Tiles) -> bool:
    """Whether the numbers can be read."""
    outputs = Fraction(tiles.alone(0)), Fraction(tiles.alone(1)), Fraction(tiles.whole())
    return _differ(tiles) and all(output.denominator <= 12 for output in outputs)


def _what_to_keep(dice: random.Random) -> Question:
    return what_to_keep(drawn(dice, draw_tiles, _small), dice)


def _merge_two(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Tiles:
        return draw_tiles(dice, dice.choice(((1, 3), (3, 1), (2, 3), (3, 2))))

    def good(tiles: Tiles) -> bool:
        """Whether no wrong turn comes near the answer, or near another one."""
        answer = merge_two(tiles).answer
        return isinstance(answer, Number) and len(answer.wrong) == 4

    def telling(dice: random.Random) -> Tiles:
        return drawn(dice, draw, _small)

    return merge_two(drawn(dice, telling, good))


def _rescale_kept(dice: random.Random) -> Question:
    before, times = dice.randint(1, 4), dice.choice((2, 3, 4, 5))
    kept = times * dice.randint(1, 4) if dice.random() < 0.5 else dice.randint(2, 9)
    added = 1 + Fraction(dice.randint(1, 5), dice.choice((2, 4)))
    return rescale_kept(Rise(before, kept, before * times, added))


def _step_table(dice: random.Random) -> Question:
    return step_table(drawn(dice, _draw_rise, _rises))


def _draw_rise(dice: random.Random) -> Tiles:
    low, high = dice.choice(((2, 4), (2, 8), (3, 6), (4, 8), (2, 6)))
    first, second = (low, dice.randint(1, low)), (high, dice.randint(1, high))
    values = tuple((dice.randint(1, 6), dice.randint(0, 6)) for _ in range(2))
    return Tiles((first, second), (values[0], values[1]))


def _wrong_line(dice: random.Random) -> Question:
    return wrong_line(drawn(dice, _draw_rise, _telling), dice.choice(list(SLIPS)))


def _telling(tiles: Tiles) -> bool:
    """Whether every slip changes its line."""
    return _rises(tiles) and _differ(tiles)


WARM_UP = Exercise("attention-warm-up", "A weighted mean", 8, _warm_up)
WHAT_TO_KEEP = Exercise(
    "attention-what-to-keep",
    "What must be kept?",
    8,
    _what_to_keep,
    first=lambda: what_to_keep(SOURCE, random.Random(0)),
)
MERGE_TWO = Exercise("attention-merge-two", "Two tiles, one output", 8, _merge_two)
RESCALE_KEPT = Exercise("attention-rescale-kept", "The maximum rises", 8, _rescale_kept)
STEP_TABLE = Exercise("attention-step-table", "Tile by tile", 8, _step_table)
WRONG_LINE = Exercise("attention-wrong-line", "The wrong line", 8, _wrong_line)
