"""What a prefix cache holds and when: questions on time, eviction, hit rates and isolation."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

from lab.answers import Number, Order, WrongNumber, WrongOrder, in_words
from lab.exercises import Exercise, Question, drawn
from lab.kv_blocks import BlockPool
from lab.ledgers.reuse import SharedPrefix
from lab.ledgers.words import counted, listed
from lab.prefix_replay import prefix_hits
from lab.questions.attention import simplest
from lab.workload import Workload

# When a prefix is there


def available(prompt: int, chunk: int, step_ms: int, seated: int, block_tokens: int) -> Question:
    """What a second request finds that gets its seat at the start of step `seated`."""
    done = min(prompt, (seated - 1) * chunk)
    shared = SharedPrefix(prompt_tokens=prompt, positions=done, block_tokens=block_tokens)
    answer = shared.cached_tokens
    at = (seated - 1) * step_ms
    ideal = SharedPrefix(prompt_tokens=prompt, positions=prompt, block_tokens=block_tokens)
    after = SharedPrefix(
        prompt_tokens=prompt, positions=min(prompt, done + chunk), block_tokens=block_tokens
    )
    wrong = [
        WrongNumber(
            ideal.cached_tokens,
            "taking all that agrees",
            "The ids agree, but K and V of A's later tokens are not computed yet.",
        ),
        WrongNumber(
            done,
            "taking parts of blocks",
            "Only a full block has a key.",
        ),
        WrongNumber(
            after.cached_tokens,
            "counting the step that begins now",
            "In this engine what a step computes is known when the step has ended.",
        ),
        WrongNumber(
            0,
            "taking nothing before A's first token",
            "Blocks are there as soon as they are computed, not only when A has its first token.",
        ),
    ]
    return Question(
        text=f"A's prompt of {prompt} tokens is computed {chunk} tokens a step; a step takes "
        f"{step_ms} ms, and the first begins at 0 ms. B has the same prompt and gets its seat at "
        f"{at} ms, when a step begins. Blocks hold {block_tokens} tokens.\n\nHow many tokens does "
        "B find in the cache then, if a block is known when its step has ended?",
        answer=Number.told_apart(answer, "tokens", wrong),
        hints=(
            f"How many steps have ended by {at} ms?",
            "How many full blocks are that?",
        ),
        worked=(
            f"By {at} ms {counted(seated - 1, 'step')} ended: {done} of A's tokens are computed.",
            f"They fill {counted(done // block_tokens, 'block')}; B finds {answer} tokens.",
        ),
    )


# Which block goes first


def eviction(tails: Mapping[str, int], again: str) -> Question:
    """The order in which cached blocks are given up: the least recently used, the last first.

    Each prompt has the block S and so many of its own; `again` is asked once more at the end.
    """
    names = ["S", *(f"{who}{n}" for who, count in tails.items() for n in range(1, count + 1))]
    gone: list[str] = []
    pool = BlockPool(len(names), 16, lambda block: gone.append(names[block]))
    (system,) = pool.allocate(1)
    pool.keep([system])
    tables: dict[str, list[int]] = {}
    for who, count in tails.items():
        if tables:
            pool.share([system])
        tail = pool.allocate(count)
        pool.keep(tail)
        tables[who] = [system, *tail]
        pool.release(reversed(tables[who]))
    pool.share(tables[again])
    pool.release(reversed(tables[again]))
    pool.allocate(len(names))
    return Question(
        text=_told(tails, again),
        answer=Order(
            items=tuple(gone),
            shown=_places(gone, sorted(gone)),
            wrong=_wrong_orders(gone, names, tails, again),
        ),
        hints=(
            "Who was asked last? Those blocks go last.",
            "Within one prompt: which block is worth nothing without the other?",
        ),
        worked=(
            f"{again} was asked last, so its blocks stay longest.",
            "A block goes before the one in front of it: S is in front of all, and goes last.",
            f"So the order is {listed(gone)}.",
        ),
    )


def _told(tails: Mapping[str, int], again: str) -> str:
    prompts = [
        f"{who} the {'block' if count == 1 else 'blocks'} "
        f"{listed(f'{who}{n}' for n in range(1, count + 1))}"
        for who, count in tails.items()
    ]
    order = " and then ".join(tails)
    return (
        "All prompts begin with the same block S, the system prompt. Behind it have "
        f"{listed(prompts)}. {order} were asked, and after that {again} once more; each was done "
        "before the next one came. Now all blocks are cached, nobody uses them, and others need "
        "the room.\n\nIn which order are the blocks given up, if the least recently used goes "
        "first and none goes before those that follow it?"
    )


def _wrong_orders(
    gone: Sequence[str], names: Sequence[str], tails: Mapping[str, int], again: str
) -> tuple[WrongOrder, ...]:
    other = [name for name in gone if name[0] != again and name != "S"]
    its = [name for name in names if name[0] == again]
    turns = {
        tuple(names): "That is the order in which they came. What was used again is younger, and "
        "without S nothing that follows it can be found.",
        ("S", *other, *gone[len(other) : -1]): "S is in front of all others: without it "
        "none of them can be found again.",
        (*sorted(other), *its, "S"): "Within a prompt the last block goes first: without "
        "the one in front of it, it is worth nothing.",
    }
    right = tuple(gone)
    return tuple(
        WrongOrder(_places(gone, order), says) for order, says in turns.items() if order != right
    )


def _places(right: Sequence[str], order: Sequence[str]) -> tuple[int, ...]:
    return tuple(right.index(name) for name in order)


# The hit rate of a short list


def hit_rate(prompts: Sequence[str], block_tokens: int) -> Question:
    """The hit rate of prompts whose blocks are letters, with a question of one token behind."""
    work = _lettered(prompts, block_tokens)
    found = prefix_hits(work, block_tokens=block_tokens)
    answer = simplest(100 * Fraction(found.hit_rate))
    seen: set[str] = set()
    anywhere = 0
    for prompt in prompts:
        anywhere += sum(letter in seen for letter in prompt)
        seen |= set(prompt)
    first = len(prompts[0]) * block_tokens + 1
    wrong = [
        WrongNumber(
            simplest(Fraction(100 * anywhere * block_tokens, found.prompt_tokens)),
            "counting a block wherever it stands",
            "A block is the same only behind the same beginning.",
        ),
        WrongNumber(
            simplest(Fraction(100 * found.cached_tokens, found.prompt_tokens - first)),
            "leaving out the first prompt",
            "The first prompt finds nothing, and counts all the same.",
        ),
        WrongNumber(
            simplest(Fraction(100 * found.cached_blocks, found.full_blocks)),
            "counting full blocks",
            "That is the share of the full blocks. Each prompt has one token more, which is never "
            "found.",
        ),
        WrongNumber(
            100 - answer,
            "taking the misses",
            "That is the share that is computed.",
        ),
    ]
    hits = [_hits(prompts, place) for place in range(len(prompts))]
    return Question(
        text=f"Prompts come one after the other: {listed(prompts)}. A letter is a block of "
        f"{block_tokens} tokens, the same letter stands for the same ids, and behind the last "
        "letter each prompt has one token of its own. The cache has room for all, and each prompt "
        "is computed before the next comes.\n\nWhich share of all prompt tokens is taken from the "
        "cache?",
        answer=Number.told_apart(answer, "%", wrong, tolerance=simplest(Fraction(1, 2))),
        hints=(
            "For each prompt: how many letters from the left were there before, as a beginning?",
            f"Count the prompt tokens: {block_tokens} a letter, and one more a prompt.",
        ),
        worked=(
            f"Blocks found: {listed(hits)}, together {found.cached_blocks}.",
            f"{found.cached_blocks} · {block_tokens} = {found.cached_tokens} of "
            f"{found.prompt_tokens} tokens: {in_words(answer)} %.",
        ),
    )


def _lettered(prompts: Sequence[str], block_tokens: int) -> Workload:
    own = 1000 * block_tokens
    rows = {}
    for place, prompt in enumerate(prompts):
        starts = [ord(letter) * block_tokens for letter in prompt]
        ids = [start + n for start in starts for n in range(block_tokens)]
        rows[f"r{place}"] = {"arrival": place, "prompt": (*ids, own + place), "output": 1}
    return Workload.given(rows)


def _hits(prompts: Sequence[str], place: int) -> int:
    work = _lettered(prompts[: place + 1], 1)
    before = prefix_hits(_lettered(prompts[:place], 1), block_tokens=1) if place else None
    return prefix_hits(work, block_tokens=1).cached_blocks - (before.cached_blocks if before else 0)


# What isolation costs


def isolation(tenants: int, each: int, system: int, own: int, block_tokens: int) -> Question:
    """How many more tokens are computed when every tenant has keys of its own."""
    rows = {}
    next_id = system
    for number in range(tenants * each):
        ids = (*range(system), *range(next_id, next_id + own))
        next_id += own
        tenant = f"t{number % tenants}"
        rows[f"r{number}"] = {"arrival": number, "prompt": ids, "output": 1, "tenant": tenant}
    work = Workload.given(rows)
    apart = prefix_hits(work, block_tokens=block_tokens).computed_tokens
    shared = prefix_hits(work, block_tokens=block_tokens, left_out=["tenant"]).computed_tokens
    blocks = system // block_tokens * block_tokens
    wrong = [
        WrongNumber(
            (tenants - 1) * system,
            "taking parts of blocks",
            "Only full blocks can be shared: the rest of the system prompt is computed each time.",
        ),
        WrongNumber(
            tenants * blocks,
            "counting every tenant",
            "Somebody has to compute it in any case. Only the others pay for being apart.",
        ),
        WrongNumber(
            (tenants * each - 1) * blocks,
            "computing it for each request",
            "Within a tenant it is still shared: each tenant computes it once.",
        ),
        WrongNumber(
            apart,
            "taking all that is computed",
            f"That is what is computed with keys of their own. Shared, {shared} are.",
        ),
    ]
    return Question(
        text=f"{counted(tenants, 'tenant')} use one service, and each sends {each} prompts. All "
        f"begin with the same system prompt of {counted(system, 'token')} and go on with "
        f"{counted(own, 'token')} of their own. The cache has room for all, in blocks of "
        f"{block_tokens}, and prompts come one after the other.\n\nHow many tokens more are "
        "computed if keys hold the tenant than if all share?",
        answer=Number.told_apart(apart - shared, "tokens", wrong),
        hints=(
            "How often is the system prompt computed, in each of the two cases?",
            f"How many of its {system} tokens fill blocks?",
        ),
        worked=(
            f"Shared: the first request computes the system prompt. Apart: the first of each of "
            f"{tenants} tenants does.",
            f"{system} tokens fill {counted(system // block_tokens, 'block')}: {blocks} tokens.",
            f"({tenants} − 1) · {blocks} = {apart - shared}.",
        ),
    )


# The exercises


def _available(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[int, int, int, int, int]:
        size = dice.choice((4, 8, 16))
        chunk = dice.randrange(size, 4 * size)
        steps = dice.randint(3, 6)
        prompt = chunk * (steps - 1) + dice.randint(1, chunk)
        return prompt, chunk, dice.choice((10, 20, 25)), dice.randint(2, steps), size

    return available(*drawn(dice, draw, lambda case: case[1] % case[4] > 0))


def _eviction(dice: random.Random) -> Question:
    tails = {"A": dice.randint(1, 3), "B": dice.randint(1, 3)}
    if dice.random() < 0.5:
        tails["C"] = 1
    # whoever came last would be no news
    return eviction(tails, dice.choice(list(tails)[:-1]))


def _hit_rate(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Sequence[str]:
        return ["S" + "".join(dice.sample("XYZ", dice.randint(1, 2))) for _ in range(4)]

    def good(prompts: Sequence[str]) -> bool:
        return len(set(prompts)) == 4

    return hit_rate(drawn(dice, draw, good), dice.choice((4, 8, 16)))


def _isolation(dice: random.Random) -> Question:
    size = dice.choice((4, 8, 16))
    system = size * dice.randint(2, 6) + dice.randrange(1, size)
    own = dice.randint(2, size)
    return isolation(dice.randint(2, 5), dice.randint(2, 4), system, own, size)


AVAILABLE = Exercise("prefix-available", "When it is there", 6, _available)
EVICTION = Exercise("prefix-eviction", "Which block goes first?", 6, _eviction)
HIT_RATE = Exercise("prefix-hit-rate", "The hit rate of a short list", 6, _hit_rate)
ISOLATION = Exercise("prefix-isolation", "What isolation costs", 6, _isolation)
