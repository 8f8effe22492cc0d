"""Operations of the live engine, one file each: a torch body, a Triton kernel, and the choice.

`kernels.reference` says in plain float64 what each of them means. `python -m kernels report` shows
what the compiler makes of the Triton kernels, without a GPU.
"""

from kernels.context import Context
from kernels.flash_attention import flash_attention
from kernels.paged_attention import paged_attention
from kernels.quantized_matmul import quantized_matmul
from kernels.rejection_sample import rejection_sample
from kernels.rms_norm import rms_norm
from kernels.rope_store import rope_store

__all__ = [
    "Context",
    "flash_attention",
    "paged_attention",
    "quantized_matmul",
    "rejection_sample",
    "rms_norm",
    "rope_store",
]
