"""A real model behind the scheduler: the plan says what is computed, the model says what comes.

The executor keeps what the scheduler never sees: token ids, block tables, K and V, and text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from lab.clock import Clock
from lab.executors.answer import Answer
from lab.executors.swap_space import SwapSpace
from lab.model.decoder import Decoder
from lab.model.flat_batch import FlatBatch, Span
from lab.model.kv_tensors import KVTensors
from lab.model.sampling import Logprobs, choose
from lab.model.tokenizer import Tokenizer
from lab.plan import Chunk, StepOutcome, StepPlan
from lab.policy import Policy
from lab.request import Request, Time
from lab.speculation.proposer import Guess, Proposer
from lab.speculation.verify import Check, verify


class LiveExecutor:
    """Computes plans with a decoder. Its K and V are allocated once, for all blocks of the pool.

    `answers` holds everybody who was taken in and is not yet told to have ended. With a
    `tokenizer`, there are texts, and stop texts end answers. With a `proposer`, chunks that have
    room for drafts check its guesses.
    """

    def __init__(
        self,
        decoder: Decoder,
        policy: Policy,
        clock: Clock,
        *,
        tokenizer: Tokenizer | None = None,
        proposer: Proposer | None = None,
        link_bytes_per_s: float | None = None,
    ) -> None:
        """`policy` must have blocks: ValueError without. A policy with drafts needs somebody who
        guesses, and nobody guesses for a policy without: ValueError as well. What moves to host
        memory and back takes at least as long as a link of `link_bytes_per_s` would need; None: as
        long as it takes."""
        if link_bytes_per_s is not None and not link_bytes_per_s > 0:
            raise ValueError(f"link_bytes_per_s must be above 0, got {link_bytes_per_s}")
        if policy.blocks is None:
            raise ValueError(
                "a live model keeps K and V in blocks: give the policy blocks, got None"
            )
        if (proposer is None) != (policy.draft_tokens == 0):
            raise ValueError(
                "draft_tokens say how many guesses a step checks, and a draft makes them: "
                f"got draft_tokens = {policy.draft_tokens} and "
                f"{'no draft' if proposer is None else f'the draft {proposer.name!r}'}"
            )
        where = decoder.weights.embed_VD.device
        self.proposer, self.block_tokens = proposer, policy.block_tokens
        self.decoder, self.clock, self.tokenizer = decoder, clock, tokenizer
        self._link_bytes_per_s = link_bytes_per_s
        self.kv = KVTensors(
            decoder.config, policy.blocks, policy.block_tokens, decoder.dtype, where
        )
        self._swap_space = SwapSpace(self.kv)
        self.answers: dict[str, Answer] = {}

    def reason_against(self, request: Request) -> str:
        """Why the model can never compute a request, with both numbers; nothing where it can."""
        config, name = self.decoder.config, f"request {request.id!r}"
        if request.max_computed > config.max_positions:
            return (
                f"{name} may need {request.max_computed} positions, "
                f"and the model has {config.max_positions}"
            )
        for token in request.prompt:
            if not isinstance(token, int) or not 0 <= token < config.vocab:
                return f"{name}: token {token!r} is none of the model's {config.vocab}"
        if request.stop and self.tokenizer is None:
            return f"{name}: stop texts need a tokenizer, and there is none"
        if "" in request.stop:
            return f"{name}: a stop text must hold at least 1 character, got ''"
        return ""

    def take(self, request: Request, *, text: bool = False) -> None:
        """Remember what was asked, until a plan says that it has ended; with `text`, somebody
        reads it."""
        tokenizer = self.tokenizer if text or request.stop else None
        for answer in request.answers:
            self.answers[answer.id] = Answer(
                answer,
                [token for token in request.prompt if isinstance(token, int)],
                text=tokenizer.stream(request.stop) if tokenizer else None,
            )

    @torch.inference_mode()
    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        """Carry out one step: move blocks, guess, compute all chunks in one flat batch, choose."""
        self._move(plan)
        size = self.block_tokens
        for chunk in plan.written:
            self.answers[chunk.request_id].take(chunk, size)
        self.kv.clear([b for chunk in plan.written if chunk.blocks for b in chunk.new_blocks(size)])
        guesses = self._guesses(plan)
        computed = sorted(
            (
                chunk.with_drafts(_num_guesses(guesses, chunk), size)
                for chunk in plan.written
                if chunk.fork_of is None
            ),
            key=lambda chunk: (chunk.num_tokens, chunk.stop),
        )
        logits_RV = self._compute(computed, guesses)
        brings: dict[str, range] = {}
        row = 0
        for chunk in computed:
            if chunk.samples:
                brings[chunk.request_id] = range(row, row := row + _asked(chunk))
        for chunk in plan.written:
            if chunk.fork_of is not None:
                brings[chunk.request_id] = brings[chunk.fork_of]
        return self._outcome(plan, brings, guesses, logits_RV)

    def _outcome(
        self,
        plan: StepPlan,
        brings: Mapping[str, range],
        guesses: Mapping[str, Guess],
        logits_RV: Tensor,
    ) -> StepOutcome:
        """What the rows of logits say for each sequence that gets tokens."""
        good: Mapping[str, range] = brings
        try:
            chosen = [*self._choose(good, guesses, logits_RV)]
        except ValueError:  # some logits are no numbers
            is_good_R = logits_RV.amax(dim=-1).isfinite().tolist()
            good = {who: rows for who, rows in brings.items() if all(is_good_R[r] for r in rows)}
            if len(good) == len(brings):
                raise
            chosen = [*self._choose(good, guesses, logits_RV)]
        tokens: dict[str, tuple[int, ...]] = {}
        stops = {}
        for who, said, logprobs in chosen:
            tokens[who], is_stopped = self.answers[who].hear(said, logprobs)
            if is_stopped:
                stops[who] = "stop"
        return StepOutcome(
            (self.clock.now(),),
            tokens,
            accepted={who: len(tokens[who]) - 1 for who in guesses if who in tokens},
            failures={
                who: "the model's logits are not finite" for who in brings if who not in good
            },
            stops=stops,
            drafted={
                chunk.request_id: drafts
                for chunk in plan.written
                if chunk.drafts and (drafts := _num_guesses(guesses, chunk)) < chunk.drafts
            },
        )

    def _move(self, plan: StepPlan) -> None:
        for who in plan.ended:
            self.answers.pop(who, None)
        began, moved_bytes = self.clock.now(), self._swap_space.move(plan)
        if self.proposer is not None:
            moved_bytes += self.proposer.move(plan)
        if self._link_bytes_per_s:
            self.clock.wait_until(began + moved_bytes / self._link_bytes_per_s)

    def _guesses(self, plan: StepPlan) -> dict[str, Guess]:
        """The guesses for chunks with drafts, where there are any. ValueError for what is none."""
        if self.proposer is None:
            return {}
        found = self.proposer.propose(plan, self.answers)
        room, vocab = {c.request_id: c.drafts for c in plan.written}, self.decoder.config.vocab
        for who, (tokens, probs_KV) in found.items():
            if len(tokens) > room.get(who, 0) or (
                tokens and not 0 <= min(tokens) <= max(tokens) < vocab
            ):
                raise ValueError(
                    f"request {who!r}: {self.proposer.name!r} must guess at most "
                    f"{room.get(who, 0)} of {vocab} tokens, got {tokens}"
                )
            if probs_KV is not None and probs_KV.shape != (len(tokens), vocab):
                raise ValueError(
                    f"request {who!r}: {self.proposer.name!r} must say what each guess was drawn "
                    f"from, [{len(tokens)}, {vocab}], got {[*probs_KV.shape]}"
                )
        return {who: guess for who, guess in found.items() if guess.tokens}

    def _compute(self, chunks: Sequence[Chunk], guesses: Mapping[str, Guess]) -> Tensor:
        """A row of logits for each token that a chunk asks for, in their order."""
        ids, spans = [], []
        for chunk in chunks:
            answer = self.answers[chunk.request_id]
            ids += answer.ids(chunk.start, chunk.stop - chunk.drafts)
            if chunk.drafts:
                ids += guesses[chunk.request_id].tokens
            spans.append(Span(chunk.num_tokens, chunk.stop, answer.table, _asked(chunk)))
        return self._forward(ids, spans)

    def _forward(self, ids: Sequence[int], spans: Sequence[Span]) -> Tensor:
        """The rows of logits that the spans ask for, in order; `ids` are the tokens of all."""
        batch = FlatBatch.of(spans, self.kv)
        return self.decoder.forward(self.kv.index(ids), batch, self.kv)

    def _choose(
        self, rows_of: Mapping[str, range], guesses: Mapping[str, Guess], logits_RV: Tensor
    ) -> Iterator[tuple[str, Sequence[int], Sequence[Logprobs | None]]]:
        """The next tokens of each: one, or those of its guesses that stand and one more."""
        plain = [who for who in rows_of if who not in guesses]
        if plain:
            rows = [rows_of[who][0] for who in plain]
            tokens, said = choose(
                _rows(logits_RV, rows), [self.answers[who].choosing for who in plain]
            )
            for who, token, logprobs in zip(plain, tokens, said, strict=True):
                yield who, (token,), (logprobs,)
        checked = [who for who in rows_of if who in guesses]
        if checked:
            rows = [row for who in checked for row in rows_of[who]]
            checks = [Check(self.answers[who].choosing, guesses[who]) for who in checked]
            yield from zip(checked, *verify(_rows(logits_RV, rows), checks), strict=True)


def _num_guesses(guesses: Mapping[str, Guess], chunk: Chunk) -> int:
    guess = guesses.get(chunk.request_id)
    return len(guess.tokens) if guess else 0


def _rows(logits_RV: Tensor, rows: list[int]) -> Tensor:
    """These rows; without a copy where they stand together."""
    first, stop = rows[0], rows[-1] + 1
    return logits_RV[first:stop] if rows == [*range(first, stop)] else logits_RV[rows]


def _asked(chunk: Chunk) -> int:
    """How many rows of logits a chunk asks for."""
    return chunk.drafts + 1 if chunk.samples else 0
