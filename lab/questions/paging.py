"""Where the cache lies: questions on blocks, on what is wasted in them, and on who shares one."""

from __future__ import annotations

import random

from lab.answers import Filling, Number, WrongNumber
from lab.exercises import Exercise, Question, drawn
from lab.kv_blocks import BlockPool
from lab.ledgers.words import counted

# Waste in last blocks


def last_blocks(block: int, lengths: tuple[int, ...]) -> Question:
    """Fill in the blocks that requests hold, and the slots that stay empty in them."""
    pool = BlockPool(sum(lengths), block)
    rows = []
    for who, tokens in zip("ABC", lengths, strict=True):
        blocks = pool.blocks_for(tokens)
        waste = blocks * block - tokens
        rows.append(
            (
                who,
                f"{tokens:,}",
                Number.told_apart(
                    blocks,
                    "blocks",
                    [
                        WrongNumber(
                            tokens // block,
                            "rounding down",
                            f"{tokens // block} blocks have {tokens // block * block} slots: some "
                            "tokens would lie nowhere.",
                        ),
                        WrongNumber(
                            tokens // block + 1,
                            "always adding a block",
                            "The last block is full. A further one comes with the next token.",
                        ),
                    ],
                ),
                Number.told_apart(
                    waste,
                    "slots",
                    [
                        WrongNumber(
                            tokens % block,
                            "taking what is used of the last block",
                            "So many slots of the last block hold a token. Asked for are the "
                            "others.",
                        ),
                        WrongNumber(
                            block,
                            "taking a whole block",
                            "A block that holds a token is not wasted whole.",
                        ),
                    ],
                ),
            )
        )
    return Question(
        text=f"The cache is kept in blocks of {block} slots, a token a slot. A request holds as "
        "many blocks as its tokens need.\n\nFill in how many blocks each holds, and how many slots "
        "of its last block are empty.",
        answer=Filling(("request", "tokens", "blocks", "empty slots"), tuple(rows)),
        hints=(
            "How many full blocks are there, and is anything left over?",
            f"Blocks · {block} − tokens is what stays empty.",
        ),
        worked=tuple(
            f"{who}: {pool.blocks_for(tokens)} · {block} − {tokens:,} = "
            f"{pool.blocks_for(tokens) * block - tokens}."
            for who, tokens in zip("ABC", lengths, strict=True)
        ),
    )


# A reservation and pages


def with_pages(slots: int, most: int, tokens: int, block: int) -> Question:
    """How many requests have room in blocks, where a reservation takes the longest answer."""
    pool = BlockPool(slots // block, block)
    each = pool.blocks_for(tokens)
    fit = pool.num_blocks // each
    reserved = slots // most
    wrong = [
        WrongNumber(
            reserved,
            "reserving the most",
            f"So many have room where each reserves {most:,} slots. With blocks a request takes "
            "those that it fills.",
        ),
        WrongNumber(
            slots // tokens,
            "filling every slot",
            "That leaves no slot empty. A last block that is begun belongs to one request whole.",
        ),
        WrongNumber(
            pool.num_blocks,
            "giving one block to each",
            f"A request of {tokens:,} tokens needs {each} blocks.",
        ),
        WrongNumber(
            fit - reserved,
            "taking the difference",
            "So many more are they. All that have room were asked for.",
        ),
    ]
    return Question(
        text=f"A cache has {slots:,} slots, a token a slot. Every request of today ends with "
        f"{tokens:,} tokens, prompt and answer together, but could have grown to {most:,}. With "
        f"one contiguous area of {most:,} slots for each, {counted(reserved, 'request')} would "
        f"have room.\n\nThe cache is now kept in blocks of {block} slots, and a request takes a "
        "block when it needs one. Nothing is shared. How many requests have room at once, each "
        "with all of its tokens?",
        answer=Number.told_apart(fit, "requests", wrong),
        hints=(
            "How many blocks are there, and how many does one request need?",
            "A block belongs to one request: round up first, then divide.",
        ),
        worked=(
            f"{slots:,} / {block} = {pool.num_blocks:,} blocks.",
            f"A request: {tokens:,} / {block}, rounded up, = {each} blocks.",
            f"{pool.num_blocks:,} / {each}, rounded down, = {fit} requests, in place of "
            f"{reserved}.",
        ),
    )


# Shared blocks


def branched(block: int, prefix: int, branches: int) -> tuple[BlockPool, list[list[int]]]:
    """A pool and the tables of `branches` answers that share `prefix` tokens and have each written
    one of their own: blocks are shared until one is written to."""
    pool = BlockPool(branches * (prefix // block + 2), block)
    tables = [pool.allocate(pool.blocks_for(prefix))]
    for _ in range(branches - 1):
        pool.share(tables[0])
        tables.append(list(tables[0]))
    for table in tables:
        if prefix % block:
            pool.own(table, len(table) - 1)
        else:
            table += pool.allocate(1)
    return pool, tables


def shared_blocks(block: int, prefix: int, branches: int) -> Question:
    """How many blocks answers hold that share their prompt."""
    pool, tables = branched(block, prefix, branches)
    full, begun = divmod(prefix, block)
    apart = branches * len(tables[0])
    wrong = [
        WrongNumber(
            apart,
            "sharing nothing",
            f"The {full} full blocks of the prompt are never written to again: one of each is "
            "enough.",
        ),
        WrongNumber(
            pool.blocks_for(prefix),
            "sharing everything",
            "Each answer has written a token of its own, and nobody may write into a block that "
            "others read.",
        ),
        WrongNumber(
            full + 1 + branches,
            "keeping the begun block beside its copies" if begun else "counting one block too many",
            "The last answer that shares the begun block keeps it and needs no copy."
            if begun
            else f"The prompt fills its {full} blocks: none is begun.",
        ),
        WrongNumber(
            full + 1,
            "one block for all new tokens",
            "Tokens of different answers at the same place have different keys and values.",
        ),
    ]
    if begun:
        wrong.append(
            WrongNumber(
                full + branches - 1,
                "counting the copies only",
                "The original begun block is still in use, by the last answer.",
            )
        )
    last = (
        f"The last, with {begun} tokens, is written to: each of {branches} answers ends with one "
        "of its own."
        if begun
        else f"It ends with a full block, so each of {branches} answers begins a new one."
    )
    return Question(
        text=f"{branches} answers grow from one prompt of {prefix} tokens. The cache is kept in "
        f"blocks of {block} slots; the answers share the blocks of the prompt, and a shared block "
        "is copied before somebody writes into it (*copy on write*); who is its only holder "
        "writes into it as it is. Each answer has written one token.\n\nHow many blocks are in "
        "use?",
        answer=Number.told_apart(pool.used, "blocks", wrong),
        hints=(
            "How many blocks of the prompt are full?",
            "Who writes into a full block? Who writes into the one that is begun?",
        ),
        worked=(
            f"{prefix} tokens fill {full} blocks, which all share.",
            last,
            f"{full} + {branches} = {pool.used} blocks; without sharing, {apart}.",
        ),
    )


# The exercises


def _last_blocks(dice: random.Random) -> Question:
    block = dice.choice((8, 16, 32))

    def draw(dice: random.Random) -> tuple[int, ...]:
        full = block * dice.randint(1, 4)
        lengths = [full, full + 1, dice.randint(1, 8 * block)]
        dice.shuffle(lengths)
        return tuple(lengths)

    def good(lengths: tuple[int, ...]) -> bool:
        return len(set(lengths)) == 3 and sum(n % block == 0 for n in lengths) == 1

    return last_blocks(block, drawn(dice, draw, good))


def _with_pages(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[int, int, int, int]:
        most = dice.choice((1024, 2048, 4096))
        slots = most * dice.randint(4, 12)
        return slots, most, dice.randrange(100, most // 3), 16

    def good(drawn: tuple[int, int, int, int]) -> bool:
        slots, most, tokens, block = drawn
        pages = slots // block // -(-tokens // block)
        return len({pages, slots // most, slots // tokens}) == 3

    return with_pages(*drawn(dice, draw, good))


def _shared_blocks(dice: random.Random) -> Question:
    block = dice.choice((8, 16, 32))
    return shared_blocks(block, dice.randint(block + 1, 5 * block), dice.randint(2, 5))


LAST_BLOCKS = Exercise("paged-last-blocks", "What stays empty", 5, _last_blocks)
WITH_PAGES = Exercise("paged-with-pages", "In place of a reservation", 5, _with_pages)
SHARED_BLOCKS = Exercise(
    "paged-shared-blocks",
    "Answers from one prompt",
    5,
    _shared_blocks,
    first=lambda: shared_blocks(16, 40, 3),
)
