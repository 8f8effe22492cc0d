"""What tiles save and what they do not: questions on tiles read, bytes moved and time spent."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from lab.answers import Choice, Number, Option, Unit, WrongNumber, exact, in_words
from lab.attention.tiling import tile_grid
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.attention_io import in_tiles, written_out
from lab.ledgers.compute import attention_pairs
from lab.ledgers.latency import exact_ratio
from lab.ledgers.sizes import GB, MB
from lab.ledgers.table import show
from lab.ledgers.words import grouped, listed
from lab.questions.attention import simplest
from lab.questions.rates import ROUNDED

# Which tiles are read


def tiles_read(tokens: int, tile: int) -> Question:
    """How many tiles a causal prefill reads."""
    grid = tile_grid(tokens, tokens, tile, tile)
    flat = list(chain.from_iterable(grid))
    found = {sees: sum(t.sees == sees for t in flat) for sees in ("all", "some", "none")}
    answer, side = found["all"] + found["some"], len(grid)
    wrong = [
        WrongNumber(
            len(flat),
            "counting all tiles",
            f"Tiles in which every key lies ahead of every query are not read: {found['none']}.",
        ),
        WrongNumber(
            found["all"],
            "leaving out the tiles that the mask cuts",
            f"The {found['some']} tiles on the diagonal hold pairs that count, so they are read.",
        ),
        WrongNumber(
            simplest(Fraction(len(flat), 2)),
            "taking half of them",
            "Half of the pairs, about; but the tiles on the diagonal are read whole.",
        ),
        WrongNumber(
            side,
            "counting the rows",
            "That is how many tiles of queries there are. Each reads several tiles of keys.",
        ),
    ]
    return Question(
        text=f"A prompt of {tokens:,} tokens is computed in tiles of {tile} queries and {tile} "
        "keys, and each token sees itself and those before it. A tile in which the mask hides "
        "everything is not read.\n\nHow many tiles are read?",
        answer=Number.told_apart(answer, "tiles", wrong),
        hints=(
            f"How many tiles of queries are there, and how many of keys? {side} each.",
            "The first row of tiles reads 1 tile of keys, the second 2, and so on.",
        ),
        worked=(
            f"{tokens:,} / {tile} = {side}, so {side} · {side} = {len(flat)} tiles.",
            f"Row n reads n tiles: 1 + 2 + … + {side} = {side} · {side + 1} / 2 = {answer}.",
        ),
    )


# The bytes of the matrix


def matrix_bytes(tokens: int, heads: int) -> Question:
    """Bytes that the matrix moves when scores and probabilities are written out."""
    elements = written_out(tokens, tokens, 128).matrix
    pairs = attention_pairs(tokens, causal=False)
    crossings = elements // pairs
    moved = simplest(Fraction(2 * elements * heads, GB))
    wrong = [
        WrongNumber(
            simplest(Fraction(2 * pairs * heads, GB)),
            "moving the matrix once",
            f"That is its size. It crosses {crossings} times: S written, S read, P written, P "
            "read.",
        ),
        WrongNumber(
            simplest(moved / 2),
            "leaving out the probabilities",
            "S is written and read, and so is P, which is as large.",
        ),
        WrongNumber(
            simplest(moved / heads),
            "counting one head",
            f"Each of {heads} heads has a matrix of its own.",
        ),
        WrongNumber(
            simplest(2 * moved),
            "taking 4 bytes each",
            "That would be right for 32 bits a number. Here a number takes 2 bytes.",
        ),
        WrongNumber(
            simplest(Fraction(2 * crossings * tokens * heads, GB)),
            "counting one query",
            f"Each of {tokens:,} tokens is a query with a row of {tokens:,} scores.",
        ),
    ]
    return Question(
        text=f"A layer has {heads} heads and reads a prompt of {tokens:,} tokens. The scores S of "
        "all pairs are written to device memory and read back for the softmax; its result P is "
        "written and read back to mix the values. A number takes 2 bytes, and the causal mask "
        "saves nothing here.\n\nHow many GB (10^9 bytes) of S and P are moved in this layer?",
        answer=Number.told_apart(
            moved,
            "GB",
            wrong,
            units=(Unit("MB", Fraction(MB, GB)),),
            tolerance=exact(moved * ROUNDED),
        ),
        hints=(
            "How many numbers has the matrix of one head?",
            "How often does it cross between memory and chip? Count S and P.",
        ),
        worked=(
            f"One head: {tokens:,} · {tokens:,} = {pairs:,} numbers.",
            f"{crossings} crossings, {heads} heads, 2 bytes: {crossings} · {pairs:,} · {heads} · 2 "
            f"= {in_words(moved)} GB.",
        ),
    )


# A longer prompt


def longer(tokens: int, tile: int, times: int, dice: random.Random) -> Question:
    """What grows with the square of the length, and what with the length."""
    before, after = (_costs(count, tile) for count in (tokens, times * tokens))
    options = []
    for name in before:
        growth = exact_ratio(after[name], before[name]) if before[name] else 1
        told = f"{grouped(before[name])} → {grouped(after[name])}"
        square = growth == times**2
        says = (
            f"{told}: {show(growth)} times as many." if before[name] else "Not one, now as before."
        )
        options.append(Option(name, square, says))
    dice.shuffle(options)
    right = [option.text for option in options if option.right]
    return Question(
        text=f"Attention without a mask, in tiles of {tile} queries and {tile} keys, with heads of "
        f"128 elements; the matrix stays on the chip. Instead of {tokens:,} tokens the prompt has "
        f"{times * tokens:,}, {_TIMES[times]} as many.\n\nWhat grows {times**2} times?",
        answer=Choice(tuple(options), several=True),
        hints=(
            f"{_TIMES[times].capitalize()} as many queries, and {_TIMES[times]} as many keys for "
            "each.",
            "Each tile of queries reads all keys once. How many tiles of queries are there?",
        ),
        worked=(
            f"Pairs: {tokens:,} · {tokens:,} before, so {times} · {times} = {times**2} times as "
            "many.",
            f"Every tile of queries reads every key: tiles and keys both grow {times} times.",
            f"So it is {listed(right)}. All else grows with the length or is not there.",
        ),
    )


_TIMES = {2: "twice", 3: "three times", 4: "four times"}


def _costs(tokens: int, tile: int) -> dict[str, int]:
    moved = in_tiles(tokens, tokens, 128, query_tile=tile, key_tile=tile)
    return {
        "the pairs of query and key that are computed": attention_pairs(tokens, causal=False),
        "the elements of K and V that are read": moved.keys_values,
        "the elements of Q that are read": moved.queries,
        "the elements of the output that are written": moved.output,
        "the scores that are written to device memory": moved.matrix,
    }


# Less memory, and no less time


class Measured(NamedTuple):
    """An answer measured before and after a change of attention, in ms: attention and everything
    else of one step, the wait in the queue, and how many steps there are."""

    before: int
    now: int
    rest: int
    queue: int
    steps: int

    def shares(self) -> dict[str, int]:
        """Where the time lies now."""
        return {
            "in attention": self.steps * self.now,
            "in the rest of the steps, where weights are read": self.steps * self.rest,
            "in the queue": self.queue,
        }


def memory_down(found: Measured, dice: random.Random) -> Question:
    """Where the time lies when attention needs less memory and the answer comes no sooner."""
    shares = found.shares()
    total, largest = sum(shares.values()), max(shares, key=shares.__getitem__)
    options = [
        Option(
            where,
            where == largest,
            f"{time:,} of {total:,} ms lie there, about {round(100 * time / total)} %.",
        )
        for where, time in shares.items()
    ]
    options.append(
        Option(
            "where the memory went down, in attention's work space",
            False,
            "Memory that is not needed any more says nothing of time. The measured times do.",
        )
    )
    dice.shuffle(options)
    saved = found.steps * (found.before - found.now)
    return Question(
        text="With a new kernel attention needs far less memory, and a user's answer hardly comes "
        f"sooner. Measured under the same load: attention on the device took {found.before} ms a "
        f"step and now takes {found.now}; everything else in a step takes {found.rest} ms, as "
        f"before; the answer waits {found.queue:,} ms in the queue and then needs {found.steps} "
        "steps.\n\nWhere does most of its time lie now?",
        answer=Choice(tuple(options)),
        hints=(
            "Which of the measured times does a user wait for once, and which in every step?",
            f"Multiply what is in a step by {found.steps}.",
        ),
        worked=(
            *(f"{time:,} ms {where}." for where, time in shares.items()),
            f"The kernel saved {saved:,} ms of {total + saved:,}. Most of the time lies {largest}.",
        ),
    )


# The exercises


def _tiles_read(dice: random.Random) -> Question:
    tile = dice.choice((16, 32, 64, 128))
    return tiles_read(tile * dice.randint(4, 24), tile)


def _matrix_bytes(dice: random.Random) -> Question:
    return matrix_bytes(1000 * dice.randint(2, 16), dice.choice((8, 16, 32, 64)))


def _longer(dice: random.Random) -> Question:
    tile = dice.choice((64, 128))
    return longer(tile * dice.randint(8, 40), tile, dice.choice((2, 3, 4)), dice)


def _memory_down(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Measured:
        now = dice.randint(1, 3)
        return Measured(
            before=now + dice.randint(1, 3),
            now=now,
            rest=dice.randint(8, 20),
            queue=dice.randrange(50, 6000, 50),
            steps=dice.randrange(50, 300, 10),
        )

    def clear(found: Measured) -> bool:
        *_, second, first = sorted(found.shares().values())
        return first > 1.5 * second

    return memory_down(drawn(dice, draw, clear), dice)


TILES_READ = Exercise("attention-tiles-read", "Which tiles are read?", 8, _tiles_read)
MATRIX_BYTES = Exercise("attention-matrix-bytes", "What the matrix moves", 8, _matrix_bytes)
LONGER = Exercise("attention-longer", "A longer prompt", 8, _longer)
MEMORY_DOWN = Exercise("attention-memory-down", "Less memory, no less time", 8, _memory_down)
