"""The corpus as tokens: the vocabulary, batches to learn from, bits per byte on held-out text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional as F

from lab.model.tiny.corpus import Novel
from lab.model.tiny.network import CONTEXT, VOCABULARY

END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class Texts:
    """Training text in one row, and the held-out part of each novel."""

    tokenizer: Tokenizer
    training_T: Tensor
    held_out: tuple[Tensor, ...]
    held_out_bytes: int

    @classmethod
    def of(cls, novels: Sequence[Novel], kept: Path) -> Texts:
        """The novels in tokens. The vocabulary is made once and lies in the file `kept`."""
        if not kept.exists():
            vocabulary(novels).save(str(kept))
        tokenizer = Tokenizer.from_file(str(kept))
        return cls(
            tokenizer,
            torch.cat([_ids(tokenizer, novel.training) for novel in novels]),
            tuple(_ids(tokenizer, novel.held_out) for novel in novels),
            sum(len(text.encode()) for novel in novels for text in novel.held_out),
        )

    def batch(self, size: int, seed: int) -> tuple[Tensor, Tensor]:
        """`size` stretches of CONTEXT tokens from anywhere in the training text, and the token
        that follows each of theirs."""
        dice = torch.Generator().manual_seed(seed)
        last = len(self.training_T) - CONTEXT - 1
        starts = torch.randint(0, last + 1, (size, 1), generator=dice)
        ids = self.training_T[starts + torch.arange(CONTEXT + 1)]
        return ids[:, :-1], ids[:, 1:]

    @torch.no_grad()
    def bits_per_byte(self, logits_of: Callable[[Tensor], Tensor]) -> float:
        """Bits that the held-out text costs over its bytes, for a model that gives logits_TV.

        Windows of CONTEXT tokens advance by half of it, and a token counts in the first window
        that reaches it: all but those of a novel's first window have at least CONTEXT / 2 tokens
        before them. Ends of text cost bits as well, and have no bytes.
        """
        nats = 0.0
        for ids_T in self.held_out:
            counted = 1  # nothing stands before the first token, so nobody can guess it
            for start in range(0, len(ids_T) - 1, CONTEXT // 2):
                window = ids_T[start : start + CONTEXT + 1]
                loss_T = F.cross_entropy(logits_of(window[:-1]), window[1:], reduction="none")
                nats += float(loss_T[counted - start - 1 :].sum())
                counted = start + len(window)
                if counted == len(ids_T):
                    break
        return nats / math.log(2) / self.held_out_bytes


def vocabulary(novels: Sequence[Novel]) -> Tokenizer:
    """Byte-level BPE, learned on the training part alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((t for novel in novels for t in novel.training), trainer)
    return tokenizer


def _ids(tokenizer: Tokenizer, documents: Sequence[str]) -> Tensor:
    """Documents in a row, an end of text after each."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    return torch.tensor([i for text in documents for i in (*tokenizer.encode(text).ids, end)])
