"""Blocks that move before a step: to host memory, back from it, and into copies."""

from __future__ import annotations

from torch import Tensor

from lab.model.kv_tensors import KVTensors
from lab.plan import StepPlan


class SwapSpace:
    """Host memory for the blocks of one `KVTensors`.

    `saved` has K and V of each sequence that was moved out. They stay until the sequence is known
    to be back, or to start over: a plan that fails is made again.
    """

    def __init__(self, kv: KVTensors) -> None:
        self.kv = kv
        self.saved: dict[str, Tensor] = {}

    def move(self, plan: StepPlan) -> int:
        """Move what a plan moves. Returns the bytes between device and host, both ways together."""
        moved_bytes, copies = 0, []
        for who in plan.ended:
            self.saved.pop(who, None)
        for who, blocks in plan.swap_out:
            self.saved[who] = self.kv.to_host(blocks)
            moved_bytes += self.saved[who].nbytes
        for chunk in plan.written:
            who = chunk.request_id
            if chunk.restored:
                self.kv.from_host(self.saved[who], chunk.blocks[: chunk.restored])
                moved_bytes += self.saved[who].nbytes
            elif who in self.saved:  # it is back since its last step, or starts over
                del self.saved[who]
            if chunk.copy:
                copies.append(chunk.copy)
        self.kv.copy_blocks(copies)
        return moved_bytes
