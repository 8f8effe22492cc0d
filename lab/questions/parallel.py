"""What is cut, and what each device then holds: questions answered by laying models out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from lab.answers import (
    Choice,
    Exact,
    Filling,
    Number,
    Option,
    Prediction,
    Unit,
    WrongNumber,
    exact,
    in_words,
)
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.latency import exact_ratio
from lab.ledgers.sizes import GB, MB, ModelSize
from lab.ledgers.table import show
from lab.ledgers.training import ADAM_BYTES, training_state
from lab.ledgers.words import counted, listed
from lab.parallel.layout import layout
from lab.parallel.mesh import Mesh
from lab.parallel.product import split_product
from lab.parallel.sketch import Sketch, Way
from lab.questions.attention import simplest
from lab.questions.rates import ROUNDED

# Which way fits, and who works


def fits_and_busy(layers: int, layer_mb: int, card_mb: int) -> Question:
    """Guess which cut fits on two cards and keeps both at work for one user."""
    ways: dict[str, Way] = {
        "data parallel: a replica of the network on each card": "DP",
        "pipeline parallel: the first half of the layers on one card, the rest on the other": "PP",
        "tensor parallel: half of every layer on each card": "TP by columns",
    }
    sketches = {
        words: Sketch(way=way, layers=layers, layer_mb=layer_mb) for words, way in ways.items()
    }
    options = []
    for words, sketch in sketches.items():
        held = sketch.held_mb(0)
        fits, busy = sketch.fits(card_mb), min(sketch.busy) == 1
        size = f"Each card must hold {show(held)} MB and has {card_mb}."
        works = (
            "both work in every layer, sending not counted"
            if busy
            else f"at work: {_at_work(sketch)} of the time"
        )
        options.append(Option(words, fits and busy, f"{size} While one token is made, {works}."))
    tensor = sketches["tensor parallel: half of every layer on each card"]
    return Question(
        text=f"A network has {layers} layers of {layer_mb} MB of weights each. Two cards hold "
        f"{card_mb} MB each; nothing but weights is counted. There is one user, whose answer is "
        "made token by token.\n\nWhich way to use both cards fits *and* keeps both at work?",
        answer=Prediction(
            Choice(tuple(options)),
            f"Only tensor parallelism does both: {show(tensor.held_mb(0))} MB a card, and both "
            f"work on every layer. It pays with {counted(tensor.messages, 'message')} a token; the "
            "pipeline sends 1, and replicas send none.",
        ),
        hints=(
            f"All layers together weigh {layers} · {layer_mb} MB. Who holds how much of them?",
            "A token needs layer 1 before layer 2. Who works on layer 1?",
        ),
        worked=(
            f"The whole: {layers} · {layer_mb} = {show(tensor.total_mb)} MB. A replica does not "
            f"fit on {card_mb} MB; half of it, {show(tensor.held_mb(0))} MB, does.",
            "In a pipeline one card waits while the other works: each works half of the time.",
            "With half of every layer on each card, both work on every layer.",
        ),
    )


def _at_work(sketch: Sketch) -> str:
    return listed(f"{round(100 * float(part))} %" for part in sketch.busy)


# Partial sums


class Matrices(NamedTuple):
    """One row X and a matrix W of two rows."""

    x: tuple[int, int]
    w: tuple[tuple[int, ...], tuple[int, ...]]


def partial_sums(matrices: Matrices) -> Question:
    """Fill in what two ranks compute when W is cut by rows, and the result."""
    x, w = matrices
    cut = split_product(x, w, 2, "rows")
    columns = range(len(w[0]))
    rows: list[tuple[str | Number, ...]] = []
    for rank, part in enumerate(cut.parts):
        cells = [
            Number.told_apart(
                exact(part[column]),
                "",
                [
                    WrongNumber(
                        exact(cut.whole[column]),
                        "computing the whole product",
                        f"Rank {rank} has {x[rank]} of X and one row of W, and no more.",
                    ),
                    WrongNumber(
                        w[rank][column],
                        "copying the row of W",
                        f"Each number of the row is multiplied by {x[rank]}.",
                    ),
                ],
            )
            for column in columns
        ]
        rows.append((f"rank {rank}", *cells))
    sums = [
        Number.told_apart(
            exact(cut.whole[column]),
            "",
            [
                WrongNumber(
                    exact(cut.concatenated[column]),
                    "putting the parts one behind the other",
                    "Both ranks have a part of this number. The parts are added.",
                )
            ],
        )
        for column in columns
    ]
    rows.append(("Y", *sums))
    matrix = " / ".join(" ".join(map(str, row)) for row in w)
    return Question(
        text=f"Y = X W with X = ({x[0]}, {x[1]}) and W = ({matrix}), row by row. W is cut *by "
        "rows*: rank 0 has the first number of X and the first row of W, rank 1 the second of "
        "each.\n\nFill in what each rank computes, and Y.",
        answer=Filling(("", *(f"y{column + 1}" for column in columns)), tuple(rows)),
        hints=(
            "Each rank multiplies its number of X with every number of its row.",
            "How long is the result of one rank? As long as Y.",
            "An all-reduce adds the results up.",
        ),
        worked=(
            f"Rank 0: {_products(x[0], w[0], cut.parts[0])}.",
            f"Rank 1: {_products(x[1], w[1], cut.parts[1])}.",
            f"Added: {_row(cut.whole)}.",
        ),
    )


def _products(factor: int, row: Sequence[int], products: Sequence[object]) -> str:
    return f"{factor} · {_row(row)} = {_row(products)}"


def _row(numbers: Sequence[object]) -> str:
    return f"({', '.join(map(str, numbers))})"


# KV heads fewer than ranks


def kv_copies(heads: int, kv_heads: int, ranks: int) -> Question:
    """How many KV heads all ranks hold together, when each holds those that its queries use."""
    model = ModelSize(
        name="asked",
        layers=1,
        hidden=1,
        ffn=ranks,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=1,
        vocab=1,
        tied_embeddings=True,
        source="given: only the heads matter here",
    )
    laid = layout(model, Mesh(tp=ranks))
    answer = sum(len(rank.kv_heads) for rank in laid.ranks)
    wrong = [
        WrongNumber(
            kv_heads,
            "holding each once",
            f"A query head must find its K and V on its own rank, and {ranks} ranks have query "
            "heads.",
        ),
        WrongNumber(
            kv_heads * ranks,
            "copying all to every rank",
            "A rank needs only those that its own query heads use.",
        ),
        WrongNumber(
            heads,
            "taking one for each query head",
            f"{heads // kv_heads} query heads share one KV head, also on a rank.",
        ),
        WrongNumber(
            ranks,
            "taking one a rank",
            "Where a rank's query heads belong to two groups, it holds a KV head of each.",
        ),
    ]
    group, share = heads // kv_heads, heads // ranks
    return Question(
        text=f"A layer has {heads} query heads and {kv_heads} KV heads: {group} query heads in a "
        f"row share one. Tensor parallelism among {ranks} ranks gives each {share} query heads in "
        "a row, and every KV head that they use.\n\nHow many KV heads do the ranks hold "
        "together, copies included?",
        answer=Number.told_apart(answer, "KV heads", wrong),
        hints=(
            f"Rank 0 has query heads 1 to {share}. Which KV heads do they use?",
            f"Query heads 1 to {group} use KV head 1. Go on rank by rank, and count.",
        ),
        worked=(
            *(
                f"Rank {rank.number}: query heads {rank.heads.start + 1} to {rank.heads.stop}, "
                f"{counted(len(rank.kv_heads), 'KV head')}."
                for rank in laid.ranks[:3]
            ),
            f"Over all {ranks} ranks: {answer}, of which {answer - kv_heads} are copies.",
        ),
    )


# What ZeRO leaves


def zero_leaves(billions: Exact, ranks: int, stage: int) -> Question:
    """GB of training state on each rank under a stage of ZeRO."""
    parameters = billions * GB
    sizes = [
        simplest(Fraction(training_state(parameters, ranks, at).total) / GB) for at in range(4)
    ]
    answer = sizes[stage]
    cuts = {
        1: "the optimizer's states",
        2: "the optimizer's states and the gradients",
        3: "the optimizer's states, the gradients and the parameters",
    }
    says = {
        0: "That is what a rank holds without ZeRO.",
        1: "That is stage 1, which cuts the optimizer's states only.",
        2: "That is stage 2, which cuts the optimizer's states and the gradients.",
        3: f"That is stage 3, which cuts everything. Stage {stage} leaves a part whole.",
    }
    turns = ["cutting nothing", "stopping at stage 1", "stopping at stage 2", "cutting everything"]
    held = training_state(parameters, ranks, stage)
    state = [exact_ratio(part, GB) for part in held]
    uncut_bytes = {1: 4, 2: 2, 3: 0}[stage]
    wrong = [WrongNumber(sizes[at], turns[at], says[at]) for at in range(4) if at != stage] + [
        WrongNumber(
            simplest(billions * 2),
            "counting the parameters only",
            "Training keeps gradients and the optimizer's states as well.",
        ),
        WrongNumber(
            simplest(Fraction(held.parameters + held.optimizer) / GB),
            "leaving out the gradients",
            f"A rank keeps gradients too, {_gb(state[1])} of them.",
        ),
        WrongNumber(
            simplest(billions * uncut_bytes + Fraction(sizes[3])),
            "dividing what is whole as well",
            f"That is what stays whole, and a share of all three parts. Only what stage {stage} "
            "cuts is shared.",
        ),
    ]
    return Question(
        text=f"A model of {in_words(billions)} billion parameters is trained on {ranks} "
        "data-parallel ranks. A rank keeps 2 bytes of each parameter, 2 bytes of its gradient "
        f"and {ADAM_BYTES} bytes of the optimizer's states. ZeRO stage {stage} cuts {cuts[stage]} "
        "evenly among the ranks.\n\nHow many GB (10^9 bytes) of these are left on each rank?",
        answer=Number.told_apart(
            answer,
            "GB",
            wrong,
            units=(Unit("MB", Fraction(MB, GB)),),
            tolerance=exact(answer * ROUNDED),
        ),
        hints=(
            f"Which of the three parts is cut by stage {stage}, and which is whole on every rank?",
            f"Divide only what is cut by {ranks}, then add up.",
        ),
        worked=(
            f"Parameters {_gb(state[0])}, gradients {_gb(state[1])}, optimizer {_gb(state[2])}.",
            f"Together {in_words(answer)} GB, of {show(sizes[0])} without ZeRO.",
        ),
    )


def _gb(size: object) -> str:
    return f"{float(Fraction(str(size))):.4g} GB"


# The exercises


def _fits_and_busy(dice: random.Random) -> Question:
    layers, layer_mb = 2 * dice.randint(1, 6), 10 * dice.randint(5, 40)
    total = layers * layer_mb
    card = drawn(
        dice, lambda d: 50 * d.randint(1, 100), lambda card: total // 2 <= card < 9 * total // 10
    )
    return fits_and_busy(layers, layer_mb, card)


def _partial_sums(dice: random.Random) -> Question:
    def row() -> tuple[int, ...]:
        return tuple(dice.randint(1, 9) for _ in range(3))

    return partial_sums(Matrices((dice.randint(2, 6), dice.randint(2, 6)), (row(), row())))


def _kv_copies(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[int, int, int]:
        kv_heads = dice.choice((2, 3, 4, 6, 8))
        return kv_heads * dice.choice((2, 3, 4, 6, 8)), kv_heads, dice.choice((2, 3, 4, 6, 8, 12))

    def good(case: tuple[int, int, int]) -> bool:
        heads, kv_heads, ranks = case
        return heads % ranks == 0 and kv_heads % ranks != 0 and heads > ranks

    return kv_copies(*drawn(dice, draw, good))


def _zero_leaves(dice: random.Random) -> Question:
    billions = simplest(Fraction(dice.randint(2, 40), 2))
    return zero_leaves(billions, dice.choice((8, 16, 32, 64, 128)), dice.randint(1, 3))


FITS_AND_BUSY = Exercise(
    "parallel-fits-and-busy",
    "Which way fits?",
    11,
    _fits_and_busy,
    lambda: fits_and_busy(layers=4, layer_mb=100, card_mb=300),
)
PARTIAL_SUMS = Exercise(
    "parallel-partial-sums",
    "Cut by rows",
    11,
    _partial_sums,
    lambda: partial_sums(Matrices((3, 2), ((1, 4, 2), (5, 1, 3)))),
)
KV_COPIES = Exercise(
    "parallel-kv-copies",
    "KV heads on every rank",
    11,
    _kv_copies,
    lambda: kv_copies(heads=6, kv_heads=2, ranks=3),
)
ZERO_LEAVES = Exercise(
    "parallel-zero-leaves",
    "What ZeRO leaves",
    11,
    _zero_leaves,
    lambda: zero_leaves(simplest(Fraction(8)), ranks=32, stage=2),
)
