"""When two prompts have the same beginning, and what a key must hold to tell."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lab.answers import Choice, Number, Option, Prediction, WrongNumber
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.reuse import SharedPrefix, shared_prefix
from lab.ledgers.words import counted, listed
from lab.prefix import Identity
from lab.prefix_keys import Prompted, taken

# Warm-up: blocks


def warm_up(tokens: int, block_tokens: int) -> Question:
    """How many blocks of a prompt are full."""
    full, rest = divmod(tokens, block_tokens)
    wrong = [
        WrongNumber(
            full + 1,
            "counting the block that is not full",
            f"The prompt takes so many blocks, but the last one holds only {counted(rest, 'token')}"
            if rest
            else "The last token fills the last block: none is begun after it",
        ),
        WrongNumber(
            rest,
            "taking the rest",
            "That is what is left over when the full blocks are taken away",
        ),
        WrongNumber(
            tokens * block_tokens,
            "multiplying",
            "A block holds several tokens, so there are fewer blocks than tokens",
        ),
    ]
    wrong = [replace(one, says=f"{one.says}.") for one in wrong]
    left = f", and {counted(rest, 'token')} in the next" if rest else ""
    return Question(
        text="K and V of a prompt lie in *blocks* of equal size, and a block is filled before the "
        f"next one is begun. A prompt has {counted(tokens, 'token')}; a block holds "
        f"{block_tokens}.\n\nHow many blocks are full?",
        answer=Number.told_apart(full, "blocks", wrong),
        hints=("Fill block after block. How many tokens are left for the last one?",),
        worked=(f"{tokens} = {full} · {block_tokens} + {rest}: {full} are full{left}.",),
    )


# The guess: one word is changed


class Changed(NamedTuple):
    """A prompt of so many tokens, of which the one at `place` is another now."""

    tokens: int
    place: int
    block_tokens: int

    def shared(self) -> SharedPrefix:
        before = list(range(self.tokens))
        after = [*before[: self.place], -1, *before[self.place + 1 :]]
        return shared_prefix(before, after, block_tokens=self.block_tokens)


SOURCE = Changed(16, 7, 4)
"""The travel assistant's prompt, whose limit of 600 yuan becomes 750."""


def one_word_changes(case: Changed, dice: random.Random) -> Question:
    """Guess how many tokens are computed when one in the middle changes."""
    tokens, place, size = case
    shared = case.shared()
    answer = shared.computed_tokens
    reasons = {
        1: "Every token behind the changed one has read it: their K and V are others too",
        size: "The blocks behind the changed one hold other K and V as well, since their tokens "
        "have read the changed one",
        tokens - place: "A block is taken as a whole or not at all, and the changed token stands "
        "inside one",
        tokens: "What stands before the changed token has not read it, and its K and V are the "
        "same",
    }
    options = [
        Option(str(count), False, f"{says}.") for count, says in reasons.items() if count != answer
    ]
    options.append(
        Option(
            str(answer),
            True,
            f"From the first token of the changed block on: {tokens} − {shared.cached_tokens}.",
        )
    )
    dice.shuffle(options)
    why = (
        f"{counted(shared.positions, 'position')} agree, which fill "
        f"{counted(shared.blocks, 'block')}. The other {answer} tokens are computed, although "
        f"{tokens - 1} of {tokens} words are the same."
    )
    return Question(
        text=f"A has sent a prompt of {tokens} tokens, and its K and V lie in blocks of {size}. B "
        f"sends the same prompt but for one token, the {_nth(place + 1)}: the limit is no longer "
        "600 yuan, it is 750. A block that holds what B would compute is taken as it is.\n\n"
        f"How many of B's {tokens} tokens are computed?",
        answer=Prediction(Choice(tuple(options)), why),
        hints=("Which tokens have read the changed one?", "A block is taken whole or not at all."),
        worked=(
            f"The first {place} tokens agree; the others have read the changed one.",
            f"{place} tokens fill {counted(shared.blocks, 'block')} of {size}: "
            f"{counted(shared.cached_tokens, 'token')}.",
            f"{tokens} − {shared.cached_tokens} = {answer} are computed.",
        ),
    )


def _nth(number: int) -> str:
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{last or 'th'}"


# Shared positions


def shared_positions(one: Sequence[int], other: Sequence[int]) -> Question:
    """The longest common prefix of two lists of ids."""
    shared = shared_prefix(one, other).positions
    anywhere = sum(a == b for a, b in zip(one, other, strict=False))
    wrong = [
        WrongNumber(
            len(set(one) & set(other)),
            "counting the ids that both have",
            "That is a bag of ids. A token's K and V depend on where it stands and on all before.",
        ),
        WrongNumber(
            anywhere,
            "counting the places that agree",
            "Behind the first difference the ids may agree, but they have read another past.",
        ),
        WrongNumber(
            shared + 1,
            "counting the first difference",
            "The first id that differs belongs to the suffix.",
        ),
        WrongNumber(
            len(other) - shared,
            "taking the suffix",
            "That is what is left to compute, not what is shared.",
        ),
        WrongNumber(
            len(one),
            "taking the whole first prompt",
            "The first prompt has so many. One of its ids is another in the second, and all behind "
            "it have read another past.",
        ),
    ]
    agree = listed(one[:shared]) if shared else "none"
    return Question(
        text=f"Two prompts have the token ids {list(one)} and {list(other)}.\n\nHow many positions "
        "do they share, as a prefix cache counts?",
        answer=Number.told_apart(shared, "positions", wrong),
        hints=(
            "Start at position 0 and compare id with id.",
            "Stop at the first that differs.",
        ),
        worked=(f"From position 0 on these agree: {agree}. That is {shared}.",),
    )


# Blocks and the last token


def blocks_reused(prompt: int, positions: int, block_tokens: int) -> Question:
    """How many tokens of the second prompt are computed."""
    shared = SharedPrefix(prompt_tokens=prompt, positions=positions, block_tokens=block_tokens)
    whole = positions // block_tokens * block_tokens
    wrong = [
        WrongNumber(
            prompt - positions,
            "taking parts of blocks",
            "Only full blocks have keys. The rest of the last shared block is computed again.",
        ),
        WrongNumber(
            prompt - whole,
            "taking the last token too",
            "The last token of the prompt is always computed: its logits choose the first token of "
            "the answer. So its block is not taken.",
        ),
        WrongNumber(
            shared.cached_tokens,
            "taking what is cached",
            "That is what need not be computed.",
        ),
        WrongNumber(
            prompt,
            "taking nothing",
            f"{counted(shared.blocks, 'block')} agree from the beginning on and can be taken.",
        ),
        WrongNumber(
            0,
            "computing nothing",
            "The last token always is computed: its logits choose the first token of the answer.",
        ),
    ]
    same = f"all {positions}" if positions == prompt else f"the first {positions}"
    return Question(
        text=f"B's prompt has {prompt} tokens, of which {same} are those of a longer prompt whose "
        f"K and V are all there, in blocks of {block_tokens}. All else that a block key holds is "
        "the same for both.\n\nHow many of B's tokens are computed?",
        answer=Number.told_apart(shared.computed_tokens, "tokens", wrong),
        hints=(
            "How many full blocks do the shared positions make?",
            "Does the last token of B lie in one of them? Its logits are needed.",
        ),
        worked=(
            f"min({positions}, {prompt} − 1) = {min(positions, prompt - 1)} positions may be "
            f"taken, which fill {counted(shared.blocks, 'block')} of {block_tokens}.",
            f"{prompt} − {shared.cached_tokens} = {shared.computed_tokens} are computed.",
        ),
    )


# The same words in another order, and what else must match


def word_order(ids: Sequence[int], other: Sequence[int], dice: random.Random) -> Question:
    """The same words in another order, and what must match where the order is the same."""
    shared = shared_prefix(ids, other).positions
    base = Prompted(tuple(ids), Identity(tenant="A"))
    options = [
        Option(
            says,
            taken(base, replace(base, identity=replace(base.identity, **{name: "x"}))).blocks == 0,
            why,
        )
        for name, (says, why) in _MUST_MATCH.items()
    ]
    options += [Option(says, False, why) for says, why in _NEED_NOT.items()]
    dice.shuffle(options)
    return Question(
        text=f"Two prompts have the same words in another order, as ids {list(ids)} and "
        f"{list(other)}: they share {counted(shared, 'position')}, so that is no hit of the whole "
        "prompt. Now let a third prompt have exactly the ids of the first.\n\nWhat else must match "
        "before K and V of the first may be used for it?",
        answer=Choice(tuple(options), several=True),
        hints=(
            "What goes into the numbers of K and V?",
            "And who is allowed to learn that the first prompt was asked?",
        ),
        worked=(
            "K and V follow from weights, positions, attention and number format: all must match.",
            "The access boundary must allow it too. What comes after the prefix does not matter.",
        ),
    )


_MUST_MATCH = {
    "model": (
        "the model and its version",
        "Other weights make other K and V.",
    ),
    "adapter": (
        "the adapter and its version",
        "An adapter changes weights, and with them K and V.",
    ),
    "positions": (
        "how positions are encoded",
        "K is turned by an angle for its position; another base turns it otherwise.",
    ),
    "quantization": (
        "the number format of the cache",
        "K and V in 8 bits are other numbers than those in 16.",
    ),
    "tenant": (
        "the boundary within which prompts may be shared",
        "The numbers would be right, but a hit tells that somebody has asked this before.",
    ),
}
_NEED_NOT = {
    "the most tokens that the answer may have": "That comes after the prompt and changes none of "
    "its K and V.",
    "the temperature": "Sampling reads the logits. K and V of the prompt know nothing of it.",
    "the moment of arrival": "K and V do not age. They must only be there in time.",
}


# Which field is missing


def missing_field(field: str, dice: random.Random) -> Question:
    """A wrong hit, and the field that its key lacks."""
    told, other, says = _WRONG_HITS[field]
    ids = (1, 2, 3, 4, 5)
    first = Prompted(ids)
    second = Prompted(ids, replace(Identity(), **{field: other}))
    options = [
        Option(
            _NAMES[name],
            taken(first, second, left_out=[name]).blocks > 0,
            says if name == field else _not_it(name),
        )
        for name in _NAMES
    ]
    dice.shuffle(options)
    return Question(
        text=f"{told} Both prompts have the same token ids, and the second request was given the "
        "blocks of the first.\n\nWhich field was missing from the key?",
        answer=Choice(tuple(options)),
        hints=("What is the one thing that differs between the two requests?",),
        worked=(f"What differs is {_NAMES[field]}. {says}",),
    )


_NAMES = {
    "model": "the model and its version",
    "quantization": "the number format of K and V",
    "positions": "how positions are encoded",
    "attention": "which tokens a token sees",
    "adapter": "the adapter and its version",
    "tenant": "whose request it is",
}
_WRONG_HITS = {
    "model": (
        "At noon a service rolled out what had been trained overnight, and kept its cache. Answers "
        "at 12:01 were odd, where a prompt from 11:59 was sent again.",
        "2",
        "With other weights the same ids make other K and V.",
    ),
    "quantization": (
        "To save memory a service began to keep K and V in 8 bits, and kept the blocks that it had "
        "in 16. Prompts that were sent again gave nonsense.",
        "int8",
        "The bytes of one format mean nothing in another.",
    ),
    "positions": (
        "For longer prompts a service changed the base of its rotary positions, and kept its "
        "cache. Prompts that were sent again were answered less well than new ones.",
        "rope 500000",
        "K is turned by an angle for each position, and the base sets the angles.",
    ),
    "attention": (
        "A service limited attention to a window of 4,096 tokens, and kept its cache. A long "
        "document that was sent again was answered as if nothing had been limited.",
        "window 4096",
        "Beyond the first layer K and V depend on what a token has seen.",
    ),
    "adapter": (
        "A clerk asked with the adapter for contract law, and a minute later with the one for tax "
        "law. The second answer was written in the manner of the first.",
        "tax@1",
        "An adapter changes weights, and with them K and V.",
    ),
    "tenant": (
        "Two firms use one service. The second sent a long draft that it had only been rumoured "
        "the first was working on. The answer was right, and its first token came at once.",
        "second",
        "The numbers are right, but the speed told the second firm that the first had asked.",
    ),
}


def _not_it(name: str) -> str:
    """Why a field that was the same for both was not missing."""
    if name == "tenant":
        return "Another tenant's blocks hold the right numbers; here they were wrong."
    return f"{_WRONG_HITS[name][2]} Here that was the same for both."


# The exercises


def _warm_up(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[int, int]:
        size = dice.choice((4, 8, 16, 32))
        return dice.randint(2 * size + 1, 7 * size), size

    return warm_up(*drawn(dice, draw, lambda case: case[0] % case[1] > 0))


def _one_word_changes(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> Changed:
        size = dice.choice((4, 8))
        tokens = size * dice.randint(4, 8)
        return Changed(tokens, dice.randrange(size, tokens - size), size)

    def tells_apart(case: Changed) -> bool:
        counts = {1, case.block_tokens, case.tokens - case.place, case.tokens}
        return len(counts | {case.shared().computed_tokens}) == 5

    return one_word_changes(drawn(dice, draw, tells_apart), dice)


def _shared_positions(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[list[int], list[int]]:
        one = [dice.randint(10, 30) for _ in range(dice.randint(5, 7))]
        other = [*one]
        other[dice.randrange(1, len(one) - 1)] = dice.randint(31, 40)
        return one, [*other, dice.randint(10, 40)]

    return shared_positions(*drawn(dice, draw, lambda pair: len(set(pair[0])) == len(pair[0])))


def _blocks_reused(dice: random.Random) -> Question:
    size = dice.choice((4, 8, 16))
    prompt = size * dice.randint(3, 6) + dice.choice((0, 0, dice.randrange(1, size)))
    positions = dice.choice((prompt, dice.randrange(size, prompt)))
    return blocks_reused(prompt, positions, size)


def _word_order(dice: random.Random) -> Question:
    ids = dice.sample(range(10, 60), 4)
    other = drawn(dice, lambda dice: dice.sample(ids, 4), lambda order: order[0] != ids[0])
    return word_order(ids, other, dice)


def _first_word_order() -> Question:
    return word_order([10, 11, 12], [12, 11, 10], random.Random(0))


def _missing_field(dice: random.Random) -> Question:
    return missing_field(dice.choice(list(_NAMES)), dice)


WARM_UP = Exercise("prefix-warm-up", "Full blocks", 6, _warm_up)
ONE_WORD_CHANGES = Exercise(
    "prefix-one-word-changes",
    "One word is changed",
    6,
    _one_word_changes,
    lambda: one_word_changes(SOURCE, random.Random(0)),
)
SHARED_POSITIONS = Exercise("prefix-shared-positions", "Shared positions", 6, _shared_positions)
BLOCKS_REUSED = Exercise("prefix-blocks-reused", "What is computed", 6, _blocks_reused)
WORD_ORDER = Exercise(
    "prefix-word-order", "The same words in another order", 6, _word_order, _first_word_order
)
MISSING_FIELD = Exercise("prefix-missing-field", "Which field is missing?", 6, _missing_field)
