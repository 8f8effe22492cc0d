"""Who guesses the next tokens of an answer: a smaller model, the text itself, or a script.

Shapes: A sequences that still guess, S all of them, K guess, V vocabulary of the target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from lab.executors.answer import Answer
from lab.executors.swap_space import SwapSpace
from lab.model.flat_batch import FlatBatch, Span
from lab.model.folder import Model
from lab.model.kv_tensors import KVTensors
from lab.model.sampling import are_plain, distributions, draws
from lab.plan import Chunk, StepPlan
from lab.sampling import uniform


class Guess(NamedTuple):
    """Guessed tokens, one after the other."""

    tokens: tuple[int, ...]
    probs_KV: Tensor | None = None
    """The distribution that each was drawn from. None: nothing was drawn, each has all of it."""


@runtime_checkable
class Proposer(Protocol):
    """Guesses tokens for a step; `name` is for the trace."""

    @property
    def name(self) -> str: ...

    def move(self, plan: StepPlan) -> int:
        """Move what `plan` moves, where K and V are kept. Called before `propose`, and before any
        block table changes. Returns the bytes between device and host memory."""
        ...

    def propose(self, plan: StepPlan, answers: Mapping[str, Answer]) -> dict[str, Guess]:
        """Guesses for the chunks of `plan` that have drafts, at most so many for each.

        Called before every step that is computed, when `answers` have their new block tables. What
        it returns may depend on a request's own tokens only, and not on its neighbours.
        """
        ...


@dataclass(frozen=True)
class Script:
    """Guesses that were written down: for each request, what its answer might be.

    `Script({"A": (7, 8, 9)})` guesses 8 and 9 when A has said one token, whatever it was.
    """

    answers: Mapping[str, Sequence[int]]
    name: str = field(default="script", init=False)

    def move(self, plan: StepPlan) -> int:
        return 0

    def propose(self, plan: StepPlan, answers: Mapping[str, Answer]) -> dict[str, Guess]:
        return {
            chunk.request_id: Guess(tuple(written[said : said + chunk.drafts]))
            for chunk in plan.written
            if chunk.drafts
            for written in (self.answers.get(chunk.request_id, ()),)
            for said in (len(answers[chunk.request_id].output),)
        }


@dataclass(frozen=True)
class PromptLookup:
    """Guesses that the text goes on as it did before: behind the last place in prompt and answer
    that reads like the end of it.

    The longest end counts that occurs before, of at most `longest` tokens and at least `shortest`.
    Where none does there is no guess. ValueError unless 1 <= shortest <= longest.
    """

    longest: int = 3
    shortest: int = 1
    name: str = field(default="prompt-lookup", init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"shortest must be from 1 to longest = {self.longest}, got {self.shortest}"
            )

    def move(self, plan: StepPlan) -> int:
        return 0

    def propose(self, plan: StepPlan, answers: Mapping[str, Answer]) -> dict[str, Guess]:
        found = {}
        for chunk in plan.written:
            if chunk.drafts:
                answer = answers[chunk.request_id]
                guessed = self.continuation([*answer.prompt, *answer.output], chunk.drafts)
                found[chunk.request_id] = Guess(tuple(guessed))
        return found

    def continuation(self, ids: Sequence[int], count: int) -> list[int]:
        """`count` tokens that may follow `ids`, or none. What follows the place that was found may
        reach into the guesses themselves: a b a b goes on with a b a b a b."""
        text = "".join(map(chr, ids))
        for length in range(min(self.longest, len(ids) - 1), self.shortest - 1, -1):
            at = text.rfind(text[-length:], 0, -1)
            if at >= 0:
                known = list(ids)
                known += [0] * count
                for place in range(len(ids), len(known)):
                    known[place] = known[place - (len(ids) - at - length)]
                return known[len(ids) :]
        return []


class DraftModel:
    """A smaller model guesses. Its K and V lie in blocks of their own with the same numbers, so
    the target's block tables are also the draft's.

    It remembers of each block how many of its first tokens have K and V here. Whatever brings a
    sequence its blocks (a prompt in pieces, a prefix that others computed, a fork, a return from
    host memory, a new start), the draft computes what is missing there and no more, in the step
    that needs it; so it also makes up for tokens that stood without having been computed here, and
    for those of requests without guesses whose blocks are shared. It reads a prompt along with the
    target. A rejection needs no word: a chunk begins where the good K and V end, and what was
    remembered behind its beginning is void.

    Blocks that move to host memory move here too; a copy is copied.
    """

    def __init__(self, model: Model, blocks: int, block_tokens: int, vocab: int) -> None:
        """`model` guesses for a target with logits of `vocab` tokens."""
        self.name, self.decoder, self._vocab = model.name, model.decoder, vocab
        where = model.decoder.weights.embed_VD.device
        self.kv = KVTensors(model.config, blocks, block_tokens, model.decoder.dtype, where)
        self.known = [0] * blocks
        """Of each block in a table, how many of its first tokens have K and V here."""
        self._swap_space = SwapSpace(self.kv)
        self.saved: dict[str, list[int]] = {}
        """The same of each block of those in host memory."""

    def propose(self, plan: StepPlan, answers: Mapping[str, Answer]) -> dict[str, Guess]:
        for chunk in plan.written:
            self._enter(chunk, answers[chunk.request_id].table)
        limit = self.decoder.config.max_positions
        reading: list[tuple[Chunk, Answer]] = []
        guessing: list[tuple[Chunk, Answer, int]] = []
        for chunk in plan.written:
            answer, stop = answers[chunk.request_id], chunk.stop - chunk.drafts
            if answer.request.draft_tokens == 0 or stop > limit:
                continue
            if chunk.drafts:
                guessing.append((chunk, answer, min(chunk.drafts, limit + 1 - stop)))
            elif chunk.num_tokens > 1 or chunk.start < len(answer.prompt):
                reading.append((chunk, answer))
        guessing.sort(key=lambda one: (-one[2], one[0].stop))  # of equals, as the target has them
        logits_SV = self._catch_up(reading, guessing)
        return self._guess(guessing, logits_SV) if guessing else {}

    # What the draft knows

    def move(self, plan: StepPlan) -> int:
        moved_bytes = self._swap_space.move(plan)
        for who, blocks in plan.swap_out:
            self.saved[who] = [self.known[block] for block in blocks]
        for who in self.saved.keys() - self._swap_space.saved.keys():
            del self.saved[who]
        for who, blocks in plan.swap_in:
            for block, count in zip(blocks, self.saved[who], strict=True):
                self.known[block] = count
        for source, target in plan.copies:
            self.known[target] = self.known[source]
        return moved_bytes

    def _enter(self, chunk: Chunk, table: Sequence[int]) -> None:
        """Of blocks that are new nothing is known, and nothing from the chunk's start on."""
        if chunk.fork_of:
            return
        size = self.kv.block_tokens
        for block in chunk.new_blocks(size):
            self.known[block] = 0
        place, rest = divmod(chunk.start, size)
        if rest:
            self.known[table[place]] = min(self.known[table[place]], rest)

    def num_known(self, table: Sequence[int]) -> int:
        """How many positions of a table, from the first on, have K and V here."""
        size = self.kv.block_tokens
        for place, block in enumerate(table):
            if self.known[block] < size:
                return place * size + self.known[block]
        return len(table) * size

    def _learn(self, table: Sequence[int], start: int, stop: int) -> None:
        """From now on the positions `[start, stop)` have K and V here."""
        size = self.kv.block_tokens
        for place in range(start // size, -(-stop // size)):
            self.known[table[place]] = min(size, stop - place * size)

    # What it computes

    def _catch_up(
        self, reading: list[tuple[Chunk, Answer]], guessing: list[tuple[Chunk, Answer, int]]
    ) -> Tensor:
        """Compute what is missing up to the last token that exists. Returns the logits there of
        those who guess."""
        spans, ids = [], []
        for chunk, answer, asked in (
            *((chunk, answer, 1) for chunk, answer, _ in guessing),
            *((chunk, answer, 0) for chunk, answer in reading),
        ):
            stop = chunk.stop - chunk.drafts
            start = min(self.num_known(answer.table), chunk.start)
            spans.append(Span(stop - start, stop, answer.table, asked))
            ids += answer.ids(start, stop)
            self._learn(answer.table, start, stop)
        if not spans:
            return torch.empty(0)
        return self._forward(ids, spans)

    def _forward(self, ids: Sequence[int], spans: Sequence[Span]) -> Tensor:
        """Logits over the target's vocabulary. Tokens that only one of the models has room for are
        padding of its embedding: the draft cannot guess them, and reads them as its last one. Where
        logits are no numbers, all tokens are equally good guesses: it must be known what a guess
        was drawn from, not that it is good."""
        ids_T = self.kv.index(ids).clamp_(max=self.decoder.config.vocab - 1)
        logits_SV = self.decoder.forward(ids_T, FlatBatch.of(spans, self.kv), self.kv)
        logits_SV = F.pad(logits_SV, (0, self._vocab - logits_SV.shape[1]), value=-math.inf)
        is_good_S1 = torch.isfinite(logits_SV.amax(dim=-1, keepdim=True))
        return torch.where(is_good_S1, logits_SV, 0.0)

    def _guess(
        self, guessing: list[tuple[Chunk, Answer, int]], logits_SV: Tensor
    ) -> dict[str, Guess]:
        """Token after token for all at once; those who need most come first, so that the others
        drop out at the end."""
        counts = [count for _, _, count in guessing]
        choosing = [answer.choosing for _, answer, _ in guessing]
        is_plain = are_plain(choosing)
        said: list[list[int]] = [[] for _ in guessing]
        probs_SKV: Tensor | None = None
        for k in range(counts[0]):
            active = sum(count > k for count in counts)
            rows = [choosing[s].after(said[s]) for s in range(active)]
            if is_plain:
                tokens = logits_SV[:active].argmax(dim=-1).tolist()
            else:
                probs_AV = distributions(logits_SV[:active], rows)
                if probs_SKV is None:
                    probs_SKV = probs_AV.new_zeros(len(guessing), counts[0], self._vocab)
                probs_SKV[:active, k] = probs_AV
                at = [uniform(row.sampling.seed, row.position, "draft") for row in rows]
                tokens = draws(probs_AV, at)
            for s, token in enumerate(tokens):
                said[s].append(token)
            going_on = [s for s in range(active) if counts[s] > k + 1]
            if going_on:
                logits_SV = self._go_on([guessing[s] for s in going_on], tokens, k)
        return {
            chunk.request_id: Guess(
                tuple(said[s]), None if probs_SKV is None else probs_SKV[s, :count]
            )
            for s, (chunk, _, count) in enumerate(guessing)
        }

    def _go_on(
        self, guessing: Sequence[tuple[Chunk, Answer, int]], tokens: Sequence[int], k: int
    ) -> Tensor:
        """Compute the guesses number `k`. Returns the logits behind them."""
        spans = []
        for chunk, answer, _ in guessing:
            start = chunk.stop - chunk.drafts + k
            spans.append(Span(1, start + 1, answer.table))
            self._learn(answer.table, start, start + 1)
        return self._forward(tokens[: len(spans)], spans)
