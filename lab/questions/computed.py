"""What has to be computed, in how many steps: questions on the tokens of one request, answered by
running the scheduler."""

from __future__ import annotations

import random
from typing import NamedTuple

from lab.answers import Choice, Number, Option, Prediction, WrongNumber
from lab.executors.cost_model import CostModel
from lab.exercises import Exercise, Question, drawn
from lab.ledgers.words import counted
from lab.policy import Continuous
from lab.run import simulate
from lab.trace import Trace
from lab.workload import Workload

TIMES = 10
"""How much longer the prompt is the second time."""


# The same answer behind a longer prompt


def longer_prompt(prompt: int, output: int) -> Question:
    """Guess how many steps an answer takes when its prompt is ten times as long."""
    longer = TIMES * prompt
    before, after = (_alone(tokens, output).num_steps for tokens in (prompt, longer))
    one_by_one = _alone(longer, output, token_budget=1).num_steps
    told = [
        (after, "One step reads the whole prompt, however long it is, and makes the first token."),
        (
            one_by_one,
            "That would be a step for each token of the prompt. They are all known, so one step "
            "can compute them together.",
        ),
        (
            TIMES * before,
            "Only the prompt is ten times as long. The answer has as many tokens as before, and "
            "they are what takes the steps.",
        ),
    ]
    return Question(
        text=f"A request brings a prompt of {counted(prompt, 'token')} and gets an answer of "
        f"{counted(output, 'token')}. It has the machine to itself, and a step may read a whole "
        f"prompt. That takes {counted(before, 'step')}.\n\nNow the prompt is ten times as long, "
        f"{counted(longer, 'token')}, and the answer has as many tokens as before. How many steps "
        "does it take?",
        answer=Prediction(
            Choice(
                tuple(
                    Option(counted(steps, "step"), steps == after, why)
                    for steps, why in sorted(told)
                )
            ),
            f"As many as before, {after}. What has grown is the first step: it computes {longer} "
            f"tokens, and not {prompt}.",
        ),
        hints=(
            "Which of the tokens are known from the start?",
            "The step that reads the prompt makes the first token. Which steps are left?",
        ),
        worked=(
            f"Prefill: 1 step with {counted(longer, 'token')}, which makes token 1.",
            f"Decode: {counted(output - 1, 'step')}, one for each further token.",
            f"Together: 1 + {output - 1} = {counted(after, 'step')}, as before.",
        ),
    )


def _alone(prompt: int, output: int, token_budget: int | None = None) -> Trace:
    work = Workload.given({"A": (0, prompt, output)})
    policy = Continuous(seats=1, token_budget=token_budget)
    return simulate(work, policy, CostModel.equal_steps())


# Computed again after a preemption


class Crowded(NamedTuple):
    """Two requests, prompt and output tokens of each, in a pool that both together outgrow."""

    a: tuple[int, int]
    b: tuple[int, int]
    blocks: int

    def run(self) -> Trace:
        """Both on two seats, in blocks of four tokens; who must, gives up its blocks."""
        work = Workload.given({"A": (0, *self.a), "B": (0, *self.b)})
        policy = Continuous(seats=2, blocks=self.blocks, block_tokens=4)
        return simulate(work, policy, CostModel.equal_steps())


def computed_again(crowded: Crowded) -> Question:
    """How many tokens the first step computes for a request that was preempted."""
    record = crowded.run()["B"]
    again = next(run for run in record.runs if run.kind == "recompute")
    had = sum(run.delivered * run.count for run in record.runs if run.first < again.first)
    prompt = record.prompt_tokens
    wrong = [
        WrongNumber(
            prompt,
            "reading only the prompt again",
            f"The {counted(had, 'token')} that it has written are part of its context as well, and "
            "their keys and values are gone, too.",
        ),
        WrongNumber(
            had,
            "computing only the answer again",
            "The keys and values of the prompt lay in the same blocks, and all of them were given "
            "up.",
        ),
        WrongNumber(
            prompt + had - 1,
            "counting what was lost",
            f"So many were in the cache. Token {had} of the answer was delivered and not yet "
            "computed; the step needs it as well.",
        ),
        WrongNumber(
            1,
            "going on as if nothing had happened",
            "That is a step with a full cache. Its blocks are empty now.",
        ),
    ]
    return Question(
        text=f"B brings a prompt of {counted(prompt, 'token')} and has got "
        f"{counted(had, 'token')} of its answer when the blocks run out. B is *preempted*: it "
        "gives up its seat and all its blocks, and with them the keys and values of its tokens. "
        "Nothing of them is kept. What it has delivered stays delivered.\n\nLater B has a seat and "
        "blocks again. One step may compute as many tokens as it needs to. How many tokens does "
        f"the step compute for B that makes token {had + 1} of its answer?",
        answer=Number.told_apart(again.tokens, "tokens", wrong),
        hints=(
            "The next token depends on everything before it. What stands before it?",
            "Of which of these tokens are keys and values still in the cache?",
        ),
        worked=(
            f"Before token {had + 1} of the answer stand {prompt} tokens of the prompt and {had} "
            "of the answer.",
            "Their keys and values are gone, so the step computes all of them: "
            f"{prompt} + {had} = {again.tokens} tokens.",
            "The user sees none of it twice; the next token only comes late.",
        ),
    )


def draw_crowded(dice: random.Random) -> Crowded:
    """Two requests, and a few blocks less than both may need."""
    a, b = ((dice.randrange(6, 31), dice.randrange(8, 25)) for _ in range(2))
    need = sum(-(-(prompt + output - 1) // 4) for prompt, output in (a, b))
    return Crowded(a, b, need - dice.randrange(1, 6))


def _is_preempted_once(crowded: Crowded) -> bool:
    """Whether B, and nobody else, loses its seat once, with some of its answer written."""
    largest = max(-(-(prompt + output - 1) // 4) for prompt, output in (crowded.a, crowded.b))
    if crowded.blocks < largest:
        return False
    trace = crowded.run()
    lost = [stay.preempted for name in "AB" for stay in trace[name].stays]
    again = [run for run in trace["B"].runs if run.kind == "recompute"]
    return sum(lost) == 1 and len(again) == 1 and again[0].tokens > crowded.b[0] + 2


# The exercises


LONGER_PROMPT = Exercise(
    "request-longer-prompt",
    "Ten times the prompt",
    1,
    lambda dice: longer_prompt(dice.randrange(8, 61), dice.randrange(4, 41)),
    lambda: longer_prompt(prompt=17, output=24),
)
COMPUTED_AGAIN = Exercise(
    "batching-computed-again",
    "Computed again",
    2,
    lambda dice: computed_again(drawn(dice, draw_crowded, _is_preempted_once)),
)
