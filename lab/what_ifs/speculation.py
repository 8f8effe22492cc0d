"""Chapter 10, guesses: one guess and where its mass goes, what a round saves, and broken rules."""

from __future__ import annotations

from fractions import Fraction

from lab.figures.acceptance import acceptance_board
from lab.figures.examined import examined
from lab.figures.round import round_board
from lab.figures.scene import Scene
from lab.ledgers.rounds import round_times
from lab.ledgers.sizes import device, model_size
from lab.ledgers.table import show
from lab.ledgers.words import counted
from lab.speculation.acceptance import Check
from lab.speculation.gallery import EXAMPLE, GALLERY, exact, examine

CITIES = ("Paris", "Lyon")
COSTS = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2))
"""A draft step over a plain step, from a draft that is hardly felt to one of half the size."""
BATCHES = (1, 8, 32, 64, 128, 256, 512)
SIGNS = ("a", "b", "c", "stop")
RULES = ("as it should be", *(broken.name for broken in GALLERY))


def one_guess(draft: int, target: int, instead: int) -> tuple[Scene]:
    """One guess between two cities: `draft` and `target` are the tenths of Paris, the rest is
    Lyon's. What falls is drawn from what is lacking (`instead` 0) or from the target again (1)."""
    tenths = [(Fraction(n, 10), 1 - Fraction(n, 10)) for n in (draft, target)]
    title = "How often does each city come out?"
    return (acceptance_board(Check(*tenths), CITIES, title, again=bool(instead)),)


def one_round(alpha: int, drafts: int, cost: int) -> tuple[Scene]:
    """A round of `drafts` guesses that stand with `alpha` tenths; `cost` is a place in `COSTS`."""
    return (round_board(Fraction(alpha, 10), drafts, COSTS[cost]),)


def round_in_a_batch(alpha: int, drafts: int, batch: int) -> tuple[Scene]:
    """The same on a device: Llama-3-8B checks guesses of Llama-3.2-1B on an H100, for as many
    requests as stand in `BATCHES` at place `batch`, each with 512 tokens of context."""
    requests = BATCHES[batch]
    times = round_times(
        *(model_size("llama-3-8b"), model_size("llama-3.2-1b"), device("h100")),
        batch=requests,
        context=512,
        drafts=drafts,
    )
    scene = round_board(
        Fraction(alpha, 10),
        drafts,
        round(float(times.cost), 3),
        round(float(times.verification), 3),
        "Does a round save more than it takes, in a batch?",
        conditions=f"{counted(requests, 'request')}, a plain step of at least "
        f"{1000 * float(times.plain.low_s):.1f} ms; the check waits for {times.check.limit}; "
        f"a guess stands with {show(Fraction(alpha, 10))}",
    )
    return (scene,)


def broken_rule(rule: int) -> tuple[Scene]:
    """A rule of the gallery on the bench: 0 is the right one, then in the gallery's order."""
    if rule == 0:
        name, found = "is exact", examine(exact, EXAMPLE, draws=1000)
    else:
        broken = GALLERY[rule - 1]
        name, found = broken.name, examine(broken.rule, EXAMPLE, draws=1000)
    return (examined(name, found, SIGNS),)
