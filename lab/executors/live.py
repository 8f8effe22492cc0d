"""A real model behind the scheduler: the plan says what is computed, the model says what comes.

The executor keeps what the scheduler never sees: token ids, block tables, K and V, and text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lab.clock import Clock
from lab.model.decoder import Decoder
from lab.model.flat_batch import FlatBatch, Span
from lab.model.kv_tensors import KVTensors
from lab.model.sampling import Choosing, Logprobs, choose
from lab.model.tokenizer import TextStream, Tokenizer
from lab.plan import Chunk, StepOutcome, StepPlan
from lab.policy import Policy
from lab.request import Request, Time


@dataclass(slots=True)
class Answer:
    """One sequence as the executor knows it: what was asked and said, and where its K and V lie."""

    request: Request
    prompt: list[int]
    output: list[int] = field(default_factory=list)
    logprobs: list[Logprobs | None] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    saved: Tensor | None = None
    """Its K and V while they are in host memory."""
    text: TextStream | None = None
    """Its tokens as text, where a reader or a stop text needs it."""
    piece: str = ""
    """What the last step that brought a token has added to the text."""

    def say(self, token: int) -> bool:
        """Add a token to the text; one that ends the answer is none of it. Returns whether the
        text is over with it, because of a stop text."""
        if self.text is None:
            return False
        self.piece = "" if self.request.ends_with(token) else self.text.push(token)
        return self.text.is_stopped

    def ids(self, start: int, stop: int) -> list[int]:
        """The tokens at positions `[start, stop)`."""
        known = len(self.prompt)
        return self.prompt[start:stop] + self.output[max(0, start - known) : max(0, stop - known)]

    def take(self, chunk: Chunk) -> None:
        """Bring the block table up to date with a chunk."""
        if chunk.begins:
            self.table = list(chunk.blocks)
            return
        if chunk.copy:
            source, target = chunk.copy
            self.table[self.table.index(source)] = target
        self.table += chunk.blocks

    @property
    def choosing(self) -> Choosing:
        """What its next token depends on besides the logits."""
        position = len(self.prompt) + len(self.output)
        return Choosing(self.request.sampling, position, self.prompt, self.output)


class LiveExecutor:
    """Computes plans with a decoder. Its K and V are allocated once, for all blocks of the pool.

    `answers` holds everybody who was taken in and is not yet told to have ended. With a
    `tokenizer`, there are texts, and stop texts end answers.
    """

    def __init__(
        self,
        decoder: Decoder,
        policy: Policy,
        clock: Clock,
        *,
        tokenizer: Tokenizer | None = None,
        link_bytes_per_s: float | None = None,
    ) -> None:
        """`policy` must have blocks: ValueError without. What moves to host memory and back takes
        at least as long as a link of `link_bytes_per_s` would need; None: as long as it takes."""
        if link_bytes_per_s is not None and not link_bytes_per_s > 0:
            raise ValueError(f"link_bytes_per_s must be above 0, got {link_bytes_per_s}")
        if policy.blocks is None:
            raise ValueError(
                "a live model keeps K and V in blocks: give the policy blocks, got None"
            )
        where = decoder.weights.embed_VD.device
        self.decoder, self.clock, self.tokenizer = decoder, clock, tokenizer
        self._link_bytes_per_s = link_bytes_per_s
        self.kv = KVTensors(
            decoder.config, policy.blocks, policy.block_tokens, decoder.dtype, where
        )
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

    def run(self, plan: StepPlan, now: Time, until: Time | None) -> StepOutcome:
        """Carry out one step: move blocks, compute all chunks in one flat batch, choose tokens."""
        self._move(plan)
        for chunk in plan.written:
            self.answers[chunk.request_id].take(chunk)
        computed = sorted(
            (chunk for chunk in plan.written if chunk.fork_of is None),
            key=lambda chunk: (chunk.num_tokens, chunk.stop),
        )
        logits_RV = self._compute(computed)
        for who, _ in plan.swap_in:  # not before: a plan that fails is made again
            self.answers[who].saved = None
        row_of = {
            chunk.request_id: row
            for row, chunk in enumerate(chunk for chunk in computed if chunk.samples)
        }
        brings = [chunk for chunk in plan.written if chunk.samples]
        rows = [row_of[chunk.fork_of or chunk.request_id] for chunk in brings]
        tokens, failures = self._choose([chunk.request_id for chunk in brings], logits_RV[rows])
        stops = {who: "stop" for who, token in tokens.items() if self.answers[who].say(token)}
        return StepOutcome(
            (self.clock.now(),), {who: (token,) for who, token in tokens.items()},
            failures=failures, stops=stops,
        )  # fmt: skip

    def _move(self, plan: StepPlan) -> None:
        for who in plan.ended:
            self.answers.pop(who, None)
        began, moved_bytes = self.clock.now(), 0
        for who, blocks in plan.swap_out:
            saved = self.answers[who].saved = self.kv.to_host(blocks)
            moved_bytes += saved.nbytes
        for who, blocks in plan.swap_in:
            answer = self.answers[who]
            assert answer.saved is not None, "what comes back was moved out before"
            self.kv.from_host(answer.saved, blocks)
            moved_bytes += answer.saved.nbytes
        if self._link_bytes_per_s:
            self.clock.wait_until(began + moved_bytes / self._link_bytes_per_s)
        self.kv.copy_blocks(plan.copies)

    def _compute(self, chunks: Sequence[Chunk]) -> Tensor:
        """A row of logits for each chunk that samples, in their order."""
        ids, spans = [], []
        for chunk in chunks:
            answer = self.answers[chunk.request_id]
            ids += answer.ids(chunk.start, chunk.stop)
            spans.append(Span(chunk.num_tokens, chunk.stop, answer.table, int(chunk.samples)))
        batch = FlatBatch.of(spans, self.kv)
        return self.decoder.forward(self.kv.index(ids), batch, self.kv)

    def _choose(
        self, who: Sequence[str], logits_RV: Tensor
    ) -> tuple[dict[str, int], dict[str, str]]:
        """The next token of each, and who has none because its logits are no numbers."""
        if not who:
            return {}, {}
        is_good = torch.isfinite(logits_RV.amax(dim=-1)).tolist()
        good = [row for row, fine in enumerate(is_good) if fine]
        failures = {
            name: "the model's logits are not finite"
            for name, fine in zip(who, is_good, strict=True)
            if not fine
        }
        answers = [self.answers[who[row]] for row in good]
        tokens, said = choose(logits_RV[good], [answer.choosing for answer in answers])
        for answer, token, logprobs in zip(answers, tokens, said, strict=True):
            answer.output.append(token)
            answer.logprobs.append(logprobs)
        return {who[row]: token for row, token in zip(good, tokens, strict=True)}, failures
