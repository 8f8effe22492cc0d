"""Chapter 6, when a prefix is the same prefix: a key with something left out, and a second request
that comes while the first is computed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from lab.executors.cost_model import CostModel
from lab.figures.rows import request_rows
from lab.figures.scene import Frame, Mark, Scene
from lab.ledgers.latency import latency
from lab.ledgers.table import show
from lab.ledgers.words import counted
from lab.policy import Continuous
from lab.prefix import Identity
from lab.prefix_keys import FIELDS, IDS, ORDER, SHOWN, Prompted, Taken, taken
from lab.run import simulate
from lab.trace import Trace
from lab.workload import Workload

# A key with something left out

BLOCK_TOKENS = 4
RULE = "you plan trips :", "the limit is 600", "yuan a night .", "book for A now"
"""The prompt of the travel assistant, a word a token, in blocks of 4."""
NOTHING = "nothing"
CHOICES = (NOTHING, *(SHOWN.get(name, name) for name in FIELDS))
_KEYS = (NOTHING, *FIELDS)
OTHERS = {
    "model": "8B, version 2",
    "tokenizer": "another vocabulary",
    "quantization": "KV in int8",
    "positions": "another base",
    "attention": "a window of 4,096",
    "adapter": "law@3",
    "tenant": "another tenant",
    IDS: "750, not 600",
    ORDER: "the same words in another order",
}
"""What is different about the second request, for each thing that a key holds."""
_BECAUSE = {
    "model": "they were computed with other weights",
    "quantization": "they were rounded otherwise",
    "positions": "their K was turned by other angles",
    "attention": "their tokens saw other tokens",
    "adapter": "they were computed with other weights",
    IDS: "they are those of another rule",
    ORDER: "what stands before a token has gone into its K and V",
}


def left_out(differs: int, without: int) -> tuple[Scene]:
    """The second of two requests, which differs in one thing, and keys that lack one thing; both
    are places in `CHOICES`."""
    changed, lacking = _KEYS[differs], _KEYS[without]
    first, second = _asked(changed)
    left = [] if lacking == NOTHING else [lacking]
    found = taken(first, second, left_out=left, block_tokens=BLOCK_TOKENS)
    blocks = len(first.ids) // BLOCK_TOKENS
    marks = [*_words_of(first, "A has"), *_words_of(second, "B asks"), *_got(found, blocks)]
    other = OTHERS.get(changed)
    key = f"key without {CHOICES[without]}" if left else "whole key"
    no_beginning = (changed, lacking) == (IDS, ORDER)
    return (
        Scene(
            title="What does B take from the cache?",
            finding=_said(found, changed, blocks),
            conditions=f"blocks of {BLOCK_TOKENS} tokens, {key}; "
            + (f"B differs from A: {other}" if other else "B is the same as A"),
            tag="derived",
            unit="block",
            lanes=("A has", "B asks", "B gets"),
            marks=tuple(marks),
            frames=tuple(_frames(second, found, blocks, no_beginning)),
        ),
    )


def _asked(differs: str) -> tuple[Prompted, Prompted]:
    first = Prompted(_words(RULE))
    if differs == NOTHING:
        return first, first
    if differs == IDS:
        return first, Prompted(tuple("750" if word == "600" else word for word in first.ids))
    if differs == ORDER:
        return first, Prompted(_words((RULE[1], RULE[0], *RULE[2:])))
    return first, Prompted(first.ids, replace(Identity(), **{differs: OTHERS[differs]}))


def _words(blocks: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(word for block in blocks for word in block.split())


def _words_of(prompt: Prompted, lane: str) -> list[Mark]:
    return [
        Mark(
            f"{lane} {block + 1}",
            "kept",
            lane,
            block,
            block + 1,
            _block(prompt, block),
            lane[0],
        )
        for block in range(len(prompt.ids) // BLOCK_TOKENS)
    ]


def _block(prompt: Prompted, block: int) -> str:
    return " ".join(map(str, prompt.ids[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]))


def _got(found: Taken, blocks: int) -> list[Mark]:
    roles = [("read", "A's")] * found.right
    roles += [("partly", "A's, not its own")] * (found.blocks - found.right)
    roles += [("prefill", "new")] * (blocks - found.blocks)
    return [
        Mark(f"B gets {block + 1}", role, "B gets", block, block + 1, label, "B")
        for block, (role, label) in enumerate(roles)
    ]


def _frames(second: Prompted, found: Taken, blocks: int, no_beginning: bool) -> list[Frame]:
    frames = []
    for block in range(blocks):
        if block < found.right:
            why = "the key is that of A's block, and B takes it"
        elif block < found.blocks:
            why = "the short key is that of A's block, and the whole one is not"
        elif block == blocks - 1:
            why = "computed: the last token always is, since its logits are needed"
        elif no_beginning:
            why = "a bag of words has no beginning, and one word in it is another: computed"
        else:
            why = "no block has this key: computed"
        frames.append(Frame(block, str(block + 1), f"“{_block(second, block)}”: {why}"))
    return frames


def _said(found: Taken, differs: str, blocks: int) -> str:
    computed = blocks - found.blocks
    if found.verdict == "none":
        return f"B takes nothing and computes {counted(computed, 'block')}."
    if found.verdict == "right":
        own = counted(found.blocks, "block")
        return f"B takes {own} of A's, right for B, and computes {computed}."
    wrong = f"B takes {counted(found.blocks - found.right, 'block')} that are not its own"
    if found.verdict == "not allowed":
        return f"{wrong}: the numbers would be right, and B's time tells what A has asked."
    if found.verdict == "other text":
        return f"{wrong}: the same ids stand for another text there."
    return f"{wrong}: {_BECAUSE[differs]}."


# A second request while the first is computed

PROMPT_TOKENS = 32
STEPS, SEAT = "steps", "B's seat"
PIECES = (None, 12)
"""Token budgets: the prompt in one go, and in pieces."""


def second_request(arrival: int, pieces: int) -> tuple[Scene]:
    """A asks at 0, and B asks the same at `arrival` ms; `pieces` is a place in `PIECES`. A step
    takes 20 ms, and 2.5 ms more for each prompt token in it."""
    ids = tuple(range(PROMPT_TOKENS))
    asked = {
        who: {"arrival": at, "prompt": ids, "output": 3} for who, at in (("A", 0), ("B", arrival))
    }
    price = CostModel.affine(20, Fraction(5, 2), 0, unit="ms")
    rule = Continuous(
        seats=2, token_budget=PIECES[pieces], blocks=32, block_tokens=4, prefix_cache=True
    )
    run = simulate(Workload.given(asked, unit="ms"), rule, price)
    rows, cached = latency(run), run["B"].runs[0].cached
    known = "what A has computed by then" if cached < PROMPT_TOKENS - 4 else "all that it may"
    found = f"{cached} of {PROMPT_TOKENS} tokens, {known}" if cached else "nothing"
    return (
        _with_steps(
            request_rows(
                run,
                "When can B take what A computes?",
                f"B looks when it gets its seat and finds {found}; "
                f"its first token takes {show(rows['B'].ttft)} ms.",
            ),
            run,
        ),
    )


def _with_steps(scene: Scene, run: Trace) -> Scene:
    """The scene with a lane of the engine's steps on top: whose tokens each computes, and how many.
    Below stands the seat of B, with what B finds when it gets it."""
    told = {frame.at: [frame.caption] for frame in scene.frames}
    marks = []
    for step in run.steps():
        work = {chunk.request_id: chunk.stop - chunk.start for chunk in step.chunks}
        looks = any(chunk.request_id == "B" and chunk.begins for chunk in step.chunks)
        label = ", ".join(f"{who} {tokens}" for who, tokens in work.items())
        if looks:
            found = f"finds {run['B'].runs[0].cached}"
            marks.append(Mark("seat", "kept", SEAT, step.start, scene.frames[-1].at, found, "B"))
        marks.append(Mark(f"step {step.number}", "span", STEPS, step.start, step.end, label))
        whose = " and ".join(f"{counted(tokens, 'token')} of {who}" for who, tokens in work.items())
        told.setdefault(step.start, []).append(
            f"a step begins, with {whose}{': B has its seat, and looks' * looks}"
        )
    return replace(
        scene,
        lanes=(STEPS, *scene.lanes, SEAT),
        marks=(*marks, *scene.marks),
        frames=tuple(Frame(at, show(at), "; ".join(told[at])) for at in sorted(told)),
    )
