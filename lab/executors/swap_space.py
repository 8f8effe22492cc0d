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
        for who in plan.ended:
            self.saved.pop(who, None)
        for chunk in plan.written:
            if not chunk.restored:  # it is back since its last step, or starts over
                self.saved.pop(chunk.request_id, None)
        moved_bytes = 0
        for who, blocks in plan.swap_out:
            self.saved[who] = self.kv.to_host(blocks)
            moved_bytes += self.saved[who].nbytes
        for who, blocks in plan.swap_in:
            self.kv.from_host(self.saved[who], blocks)
            moved_bytes += self.saved[who].nbytes
        self.kv.copy_blocks(plan.copies)
        return moved_bytes
