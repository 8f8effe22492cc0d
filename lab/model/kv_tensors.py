"""K and V of all layers in blocks: memory taken once, which block tables then hand out.

`lab.kv_blocks` keeps the books; here lie the numbers. Memory that was never written is zero, and a
block is cleared before another sequence gets it: what attention masks out must be finite, and the
last one may have left what is no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lab.model.config import ModelConfig


class KVTensors:
    """Keys and values of `num_blocks` blocks of `block_tokens` tokens, for every layer.

    A slot is a place for one token: slot = block x block_tokens + place in the block. In memory a
    slot holds its keys, then its values, so that one copy moves both. `layers` has for each layer
    what the kernels take: (num_blocks, block_tokens, 2, kv_heads, head_dim), a view. ValueError if
    a count is below 1.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_tokens: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, value in (("num_blocks", num_blocks), ("block_tokens", block_tokens)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_blocks, self.block_tokens = num_blocks, block_tokens
        shape = (config.layers, num_blocks, block_tokens, 2, config.kv_heads, config.head_dim)
        self._all = torch.zeros(shape, dtype=dtype, device=device)
        self.layers = self._all.unbind()

    @property
    def dtype(self) -> torch.dtype:
        """The format of the numbers."""
        return self._all.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes of all keys and values: those of `lab.ledgers.memory.kv_bytes`."""
        return self._all.nbytes

    def k(self, layer: int) -> Tensor:
        """Keys of one layer: (num_blocks, block_tokens, kv_heads, head_dim), a view."""
        return self._all[layer, :, :, 0]

    def v(self, layer: int) -> Tensor:
        """Values of one layer: (num_blocks, block_tokens, kv_heads, head_dim), a view."""
        return self._all[layer, :, :, 1]

    def copy_blocks(self, copies: Iterable[tuple[int, int]]) -> None:
        """Copy blocks, (source, destination) each, as they all were before."""
        if copies := list(copies):
            sources, destinations = (self.index(blocks) for blocks in zip(*copies, strict=True))
            self._all.index_copy_(1, destinations, self._all.index_select(1, sources))

    def clear(self, blocks: Sequence[int]) -> None:
        """Make everything in these blocks zero again."""
        for block in blocks:
            self._all.select(1, block).zero_()

    def to_host(self, blocks: Sequence[int]) -> Tensor:
        """A copy of these blocks in host memory, for `from_host`. Its `nbytes` were moved."""
        return self._all.index_select(1, self.index(blocks)).cpu()

    def from_host(self, saved: Tensor, blocks: Sequence[int]) -> None:
        """Put what `to_host` returned into these blocks, in the same order. ValueError if their
        number differs."""
        if saved.shape[1] != len(blocks):
            raise ValueError(f"{saved.shape[1]} blocks were saved, and {len(blocks)} are given")
        self._all.index_copy_(1, self.index(blocks), saved.to(self._all.device))

    def index(self, numbers: Iterable[int] | Iterable[list[int]]) -> Tensor:
        """Numbers of blocks, slots or positions as a tensor beside the blocks."""
        return torch.tensor(list(numbers), dtype=torch.long, device=self._all.device)
