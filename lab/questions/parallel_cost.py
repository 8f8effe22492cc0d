"""What it costs to be cut: questions on messages, on bubbles and on tokens that go round."""

from __future__ import annotations

import random
from fractions import Fraction

from lab.answers import Number, Unit, WrongNumber, exact, in_words
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.communication import collective
from lab.ledgers.links import MICROSECONDS, Link
from lab.ledgers.pipeline import bubble_of_work, pipeline
from lab.ledgers.roofline import Bounds
from lab.ledgers.sizes import GB, MILLISECONDS, KiB, ModelSize
from lab.ledgers.words import counted
from lab.parallel.layout import layout
from lab.parallel.mesh import Mesh
from lab.parallel.step_time import StepTime
from lab.parallel.traffic import exchanges
from lab.questions.attention import simplest
from lab.questions.rates import ROUNDED

# One message


def one_message(kilobytes: int, gigabytes_per_s: int, latency_us: int) -> Question:
    """Microseconds that one message takes over a link."""
    payload = 1000 * kilobytes
    over = Link(
        name="asked",
        bytes_per_s=gigabytes_per_s * GB,
        latency_s=Fraction(latency_us, MICROSECONDS),
        source="given by the question",
    )
    sent = collective("send", payload, 2, over)
    answer, transfer = (
        simplest(Fraction(seconds) * MICROSECONDS) for seconds in (sent.seconds, sent.transfer_s)
    )
    wrong = [
        WrongNumber(
            transfer,
            "leaving out the latency",
            f"That is how long the bytes take. Before them lie {latency_us} µs, for any message.",
        ),
        WrongNumber(latency_us, "leaving out the bytes", "That is what an empty message takes."),
        WrongNumber(
            simplest(1000 * transfer + latency_us),
            "taking a GB for a million bytes",
            "A GB is 10^9 bytes, so 1 GB/s is 1,000 bytes in a microsecond.",
        ),
        WrongNumber(
            simplest(8 * transfer + latency_us),
            "counting bits",
            "The rate is in bytes a second already.",
        ),
    ]
    return Question(
        text=f"A link carries {gigabytes_per_s} GB/s (10^9 bytes), and every message waits "
        f"{latency_us} µs before its first byte arrives. One message of {kilobytes} kB "
        "(10^3 bytes) crosses it.\n\nHow long does it take?",
        answer=Number.told_apart(
            answer,
            "µs",
            wrong,
            units=(Unit("ms", 1000),),
            tolerance=exact(answer * ROUNDED),
        ),
        hints=(
            "Two things follow one another: the latency, and the bytes.",
            f"In one microsecond {gigabytes_per_s * 1000:,} bytes cross.",
        ),
        worked=(
            f"Bytes: {payload:,} / {gigabytes_per_s * 1000:,} = {in_words(transfer)} µs.",
            f"{latency_us} + {in_words(transfer)} = {in_words(answer)} µs.",
        ),
    )


# What a token makes a rank send


def bytes_sent(layers: int, hidden: int, ranks: int) -> Question:
    """KiB that a rank sends for one decode token in the layers, by all-reduces round a ring."""
    model = ModelSize(
        name="asked",
        layers=layers,
        hidden=hidden,
        ffn=ranks,
        heads=ranks,
        kv_heads=ranks,
        head_dim=1,
        vocab=1,
        tied_embeddings=True,
        source="given: only layers and width matter here",
    )
    sent = exchanges(layout(model, Mesh(tp=ranks)), 0, 1, decode=True)
    answer = simplest(
        Fraction(sum(Fraction(one.sent_bytes) for one in sent if one.times == layers)) / KiB
    )
    vector = simplest(Fraction(2 * hidden, KiB))
    share = Fraction(ranks - 1, ranks)
    wrong = [
        WrongNumber(
            simplest(Fraction(answer, 2)),
            "counting one exchange a layer",
            "A layer has two pairs of matrices, attention and MLP, and each ends in partial sums.",
        ),
        WrongNumber(
            simplest(2 * layers * vector * share),
            "going round once",
            "An all-reduce goes round twice: first the sums are made, then they are handed out.",
        ),
        WrongNumber(
            simplest(2 * layers * vector),
            "sending the vector once",
            f"Round a ring each rank sends 2 · {ranks - 1}/{ranks} of it for each all-reduce.",
        ),
        WrongNumber(
            simplest(2 * layers * vector * (ranks - 1)),
            "sending the whole vector to every other rank",
            "In a ring a rank talks to its neighbour only, and in parts of the vector.",
        ),
    ]
    return Question(
        text=f"A decoder of {layers} layers has {hidden:,} numbers of 2 bytes for each token. "
        f"Tensor parallelism cuts it among {ranks} ranks; attention and MLP of every layer each "
        "end in an all-reduce round a ring.\n\nHow many KiB does a rank send in these layers for "
        "one token of a decode?",
        answer=Number.told_apart(
            answer,
            "KiB",
            wrong,
            units=(Unit("MiB", KiB),),
            tolerance=exact(answer * ROUNDED),
        ),
        hints=(
            "How many all-reduces are there, and how large is the vector of each?",
            f"Each all-reduce makes a rank send 2 · ({ranks} − 1)/{ranks} of the vector.",
        ),
        worked=(
            f"The vector: {hidden:,} · 2 bytes = {in_words(vector)} KiB.",
            f"All-reduces: 2 · {layers} = {2 * layers}.",
            f"{2 * layers} · 2 · {ranks - 1}/{ranks} · {in_words(vector)} = {in_words(answer)} "
            "KiB.",
        ),
    )


# When two are slower than one


def slower(work_us: int, messages: int, sent_us: int) -> Question:
    """The latency of a message at which two devices take as long as one."""
    alone = _step(Fraction(work_us), 0, Fraction(0))
    two = _step(Fraction(work_us, 2), messages, Fraction(sent_us))
    tie = two.tie_latency_s(alone)
    answer = simplest(Fraction(str(tie)) * MICROSECONDS)
    wrong = [
        WrongNumber(
            simplest(Fraction(work_us, 2 * messages)),
            "leaving out the bytes",
            f"Of the {work_us // 2:,} µs that are won, the bytes take {sent_us}.",
        ),
        WrongNumber(
            simplest(Fraction(work_us - sent_us, messages)),
            "winning all of the work",
            "Two devices halve the work; they do not make it vanish.",
        ),
        WrongNumber(
            simplest(Fraction(work_us, messages)),
            "giving all the time to the messages",
            "Two devices still need half of the work, and the bytes take their time.",
        ),
        WrongNumber(
            simplest(Fraction(work_us, 2) - sent_us),
            "counting one message",
            f"A token waits for {messages} messages, one after the other.",
        ),
        WrongNumber(
            simplest(Fraction(work_us - 2 * sent_us, 4 * messages)),
            "halving twice",
            "The messages do not become fewer with two devices: there would be none with one.",
        ),
    ]
    return Question(
        text=f"One device needs {work_us:,} µs for the next token. Two devices halve the work, "
        f"and then send {messages} messages one after the other, whose bytes take {sent_us} µs "
        "in all. Nothing overlaps, and every message has the same latency besides.\n\nAt which "
        "latency do two devices take as long as one?",
        answer=Number.told_apart(answer, "µs", wrong, tolerance=exact(answer * ROUNDED)),
        hints=(
            "How much time do two devices win by sharing the work?",
            "What is left of it after the bytes may be spent on latency.",
        ),
        worked=(
            f"Won: {work_us:,} / 2 = {work_us // 2:,} µs. Bytes: {sent_us} µs.",
            f"({work_us // 2:,} − {sent_us}) / {messages} = {in_words(answer)} µs a message.",
            "With a larger latency two devices are slower than one.",
        ),
    )


def _step(work_us: Fraction, rounds: int, transfer_us: Fraction) -> StepTime:
    work, transfer = work_us / MICROSECONDS, transfer_us / MICROSECONDS
    return StepTime(
        work=Bounds(0, work), rounds=rounds, latency_s=0, path_bytes=0, transfer_s=transfer
    )


# The bubble


def bubble(stages: int, microbatches: int) -> Question:
    """The part of all stage time in which stages of equal length wait."""
    run = pipeline([1] * stages, microbatches)
    answer = simplest(Fraction(run.bubble_of_all))
    wrong = [
        WrongNumber(
            simplest(bubble_of_work(stages, microbatches)),
            "dividing by the work",
            "That is idle time over busy time. Asked is the part of all time.",
        ),
        WrongNumber(
            1 - answer,
            "taking what is used",
            "That is the part in which the stages work.",
        ),
        WrongNumber(
            simplest(Fraction(stages, microbatches + stages)),
            "counting one step too many",
            f"The last microbatch leaves after {microbatches} + {stages} − 1 = {run.end} steps; "
            f"a stage waits for {stages - 1} of them.",
        ),
        WrongNumber(
            simplest(Fraction(stages - 1, stages) / Fraction(run.end)),
            "counting one stage",
            f"Each of {stages} stages waits for {counted(stages - 1, 'step')}, not only one.",
        ),
    ]
    return Question(
        text=f"{microbatches} microbatches go through {stages} stages, each of which needs one "
        "step for each. At the start and at the end stages wait.\n\nFor which part of all stage "
        "time do stages wait? All stage time is the number of stages times the steps until the "
        "end. Answer with a fraction or a decimal.",
        answer=Number.told_apart(answer, "", wrong, tolerance=exact(answer * ROUNDED)),
        hints=(
            "After how many steps is the last microbatch through the last stage?",
            f"How many steps does each stage work? {microbatches}. The rest it waits.",
        ),
        worked=(
            f"Until the end: {microbatches} + {stages} − 1 = {run.end} steps, of which each stage "
            f"waits {counted(stages - 1, 'step')}.",
            f"{stages} · {stages - 1} / ({stages} · {run.end}) = {in_words(answer)}.",
        ),
    )


# A token goes round


def round_trip(stages: int, stage_ms: int, users: int) -> Question:
    """Time between two tokens of one user when fewer users than stages are served."""
    run = pipeline([stage_ms] * stages, users, tokens=2)
    last = [s.stop for s in run.spans if s.task.stage == stages - 1 and s.task.microbatch == 0]
    answer = exact(last[1] - last[0])
    wrong = [
        WrongNumber(
            stage_ms,
            "taking one stage",
            "A full pipeline lets *some* token out so often. Your user's next token needs the one "
            "before it, and must pass all stages.",
        ),
        WrongNumber(
            stages * stage_ms * users,
            "letting the users wait for one another",
            "While one user's token is in the second stage, the next user's is in the first.",
        ),
        WrongNumber(
            simplest(Fraction(stages * stage_ms, users)),
            "sharing the time among the users",
            "That is how often any token comes out, on average; each user waits for their own.",
        ),
        WrongNumber(
            (stages + users - 1) * stage_ms,
            "waiting for the whole batch",
            "That is when the tokens of all users are out. The first user's is out before.",
        ),
    ]
    return Question(
        text=f"A model lies on {stages} stages in a row; each needs {stage_ms} ms for one token "
        f"of one user, and sending takes no time. {counted(users, 'user')} "
        f"{'is' if users == 1 else 'are'} served, fewer than there are stages; a user's next "
        "token starts as soon as the one before is known.\n\nHow long does a user wait from one "
        "token to the next?",
        answer=Number.told_apart(answer, "ms", wrong, units=(Unit("s", MILLISECONDS),)),
        hints=(
            "When may the first stage begin with a user's next token?",
            f"When the last of {stages} stages has made the one before.",
        ),
        worked=(
            f"Every token passes all stages: {stages} · {stage_ms} = {answer} ms.",
            f"With {counted(users, 'user')} each stage works {users * stage_ms} of these "
            f"{answer} ms: more stages hold more, and make no token earlier.",
        ),
    )


# The exercises


def _one_message(dice: random.Random) -> Question:
    rate = dice.choice((1, 2, 5, 10, 25, 50))
    return one_message(rate * dice.randint(2, 40), rate, dice.choice((2, 5, 10, 20, 50)))


def _bytes_sent(dice: random.Random) -> Question:
    return bytes_sent(2 * dice.randint(8, 40), 1024 * dice.randint(1, 8), dice.choice((2, 3, 4, 8)))


def _slower(dice: random.Random) -> Question:
    def draw(dice: random.Random) -> tuple[int, int, int]:
        return 200 * dice.randint(5, 60), 2 * dice.randint(8, 40), 10 * dice.randint(1, 20)

    return slower(*drawn(dice, draw, lambda case: 4 < case[0] / case[2] < 40))


def _bubble(dice: random.Random) -> Question:
    return bubble(dice.randint(2, 8), dice.randint(2, 24))


def _round_trip(dice: random.Random) -> Question:
    stages = dice.randint(3, 8)
    return round_trip(stages, dice.randint(2, 30), dice.randint(2, stages - 1))


ONE_MESSAGE = Exercise("parallel-one-message", "Latency and bandwidth", 11, _one_message)
BYTES_SENT = Exercise(
    "parallel-bytes-sent",
    "What a token sends",
    11,
    _bytes_sent,
    lambda: bytes_sent(layers=40, hidden=5120, ranks=4),
)
SLOWER = Exercise("parallel-slower", "Slower with two", 11, _slower)
BUBBLE = Exercise(
    "parallel-bubble",
    "The bubble",
    11,
    _bubble,
    lambda: bubble(stages=3, microbatches=6),
)
ROUND_TRIP = Exercise("parallel-round-trip", "From token to token", 11, _round_trip)
