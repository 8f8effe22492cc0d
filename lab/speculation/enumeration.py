"""Every way that chance can go: the exact distribution of what a sampling program returns.

A program draws through the `choose` that it is given, and in no other way. Given dice it is run
once and returns one result; here it is run once for each way that its draws can go.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TypeAlias, TypeVar

from lab.speculation.acceptance import Choose, Model, Probs, Tokens, quotient
from lab.speculation.exactness import Number

Result = TypeVar("Result", bound=Hashable)
Round: TypeAlias = Callable[[Tokens, Choose], Tokens]
"""Takes the text so far and gives the tokens that it goes on with, at least one."""


def distribution(program: Callable[[Choose], Result]) -> dict[Result, Number]:
    """How probable each result of a program is.

    Two tosses of a fair coin, added: {0: 1/4, 1: 1/2, 2: 1/4}.
    """
    found: dict[Result, Number] = {}
    scripts: list[Tokens] = [()]
    while scripts:
        way = _Way(scripts.pop())
        result = program(way.choose)
        found[result] = found.get(result, 0) + way.prob
        scripts += way.others
    return found


@dataclass(slots=True)
class _Way:
    """One way through a program: the draws of `script` first, then the first possible ones."""

    script: Tokens
    drawn: Tokens = ()
    prob: Number = 1
    others: list[Tokens] = field(default_factory=list)
    """The scripts of ways that leave this one behind its script."""

    def choose(self, probs: Probs) -> int:
        possible = [token for token, prob in enumerate(probs) if prob]
        if len(self.drawn) < len(self.script):
            token = self.script[len(self.drawn)]
        else:
            token, *rest = possible
            self.others += [(*self.drawn, other) for other in rest]
        self.drawn += (token,)
        self.prob = self.prob * probs[token]
        return token


def texts(round: Round, length: int, stop: int | None = None) -> dict[Tokens, Number]:
    """How probable each beginning of `length` tokens is when text is made in rounds.

    A text goes on round by round until it has `length` tokens, and is cut there, or holds `stop`.
    """
    over: dict[Tokens, Number] = {}
    open: dict[Tokens, Number] = {(): 1}
    while open:
        text = min(open, key=len)  # nothing that is still open can grow into it
        prob = open.pop(text)
        for tokens, share in distribution(partial(round, text)).items():
            longer = (text + tokens)[:length]
            where = over if len(longer) == length or stop in longer else open
            where[longer] = where.get(longer, 0) + prob * share
    return over


def one_by_one(model: Model) -> Round:
    """Rounds of one token each, drawn from the model: plain decoding."""
    return lambda text, choose: (choose(model(text)),)


def total_variation(one: Mapping[Result, Number], other: Mapping[Result, Number]) -> Number:
    """The largest difference that any question about the result can see: half the sum of the
    differences of all probabilities. 0: equal; 1: nothing in common."""
    pairs = [(one.get(result, 0), other.get(result, 0)) for result in {*one, *other}]
    return quotient(sum(max(a, b) - min(a, b) for a, b in pairs), 2)


def mean_tokens(round: Round, text: Tokens = ()) -> Number:
    """The tokens that a round behind `text` brings on average."""
    ways = distribution(partial(round, text))
    return sum(len(tokens) * prob for tokens, prob in ways.items())


def dice(seed: int | str) -> Choose:
    """Draws with random numbers of their own. A token of probability 0 is never drawn."""
    rng = random.Random(seed)

    def choose(probs: Probs) -> int:
        mass: list[float] = list(accumulate(map(float, probs)))
        at = rng.random() * mass[-1]
        return next(token for token, below in enumerate(mass) if at < below)

    return choose
