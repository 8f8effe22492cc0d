"""One sequence as an executor of a real model knows it: its tokens, its blocks, its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.model.sampling import Choosing, Logprobs
from lab.model.tokenizer import TextStream
from lab.plan import Chunk
from lab.request import Request


@dataclass(slots=True)
class Answer:
    """What was asked and said, and where its K and V lie."""

    request: Request
    prompt: list[int]
    output: list[int] = field(default_factory=list)
    logprobs: list[Logprobs | None] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    text: TextStream | None = None
    """Its tokens as text, where a reader or a stop text needs it."""
    piece: str = ""
    """What the last step that brought tokens has added to the text."""

    def hear(
        self, tokens: Sequence[int], logprobs: Sequence[Logprobs | None]
    ) -> tuple[tuple[int, ...], bool]:
        """Add the tokens of a step, up to one that ends the answer.

        Returns those that count, and whether a stop text ended it with the last of them. A token
        that ends the answer by its id is none of the text.
        """
        self.piece = ""
        if self.text is None and not (self.request.stop_ids or self.request.end_ids):
            self.output += tokens
            self.logprobs += logprobs
            return tuple(tokens), False
        for count, (token, said) in enumerate(zip(tokens, logprobs, strict=True), 1):
            self.output.append(token)
            self.logprobs.append(said)
            if self.request.ends_with(token):
                return tuple(tokens[:count]), False
            if self.text is not None:
                self.piece += self.text.push(token)
                if self.text.is_stopped:
                    return tuple(tokens[:count]), True
        return tuple(tokens), False

    def ids(self, start: int, stop: int) -> list[int]:
        """The tokens at positions `[start, stop)`."""
        known = len(self.prompt)
        return self.prompt[start:stop] + self.output[max(0, start - known) : max(0, stop - known)]

    def take(self, chunk: Chunk, block_tokens: int) -> None:
        """Bring the block table up to date with a chunk.

        Blocks behind the first position of the chunk are not its own any more: they were for
        guesses that did not stand, or for a plan that failed.
        """
        if chunk.begins:
            self.table = list(chunk.blocks)
            return
        del self.table[-(-chunk.start // block_tokens) :]
        if chunk.copy:
            _, self.table[-1] = chunk.copy
        self.table += chunk.blocks

    @property
    def choosing(self) -> Choosing:
        """What its next token depends on besides the logits."""
        position = len(self.prompt) + len(self.output)
        return Choosing(self.request.sampling, position, self.prompt, self.output)
