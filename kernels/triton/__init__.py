"""The Triton kernels, one file an operation. Nothing else in `kernels` imports triton."""

from triton import knobs

from kernels.triton.flash_attention import flash_attention_kernel
from kernels.triton.paged_attention import combine_kernel, paged_attention_kernel
from kernels.triton.quantized_matmul import int4_matmul_kernel, int8_matmul_kernel
from kernels.triton.rejection_sample import rejection_sample_kernel
from kernels.triton.rms_norm import rms_norm_kernel
from kernels.triton.rope_store import rope_store_kernel

INTERPRETED = bool(knobs.runtime.interpret)
"""Whether TRITON_INTERPRET was set when the kernels were read: they then run on a CPU, slowly."""

__all__ = [
    "INTERPRETED",
    "combine_kernel",
    "flash_attention_kernel",
    "int4_matmul_kernel",
    "int8_matmul_kernel",
    "paged_attention_kernel",
    "rejection_sample_kernel",
    "rms_norm_kernel",
    "rope_store_kernel",
]
