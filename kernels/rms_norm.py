"""RMSNorm, and before it the sum with the residual stream: each row read once, written once.

Meaning: `kernels.reference.rms_norm`. Bytes and FLOPs: `lab.ledgers.kernels.rms_norm_work`.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from kernels.choice import Launch, next_power_of_2, runs_triton

# T token, H head, D width of what is normalized

WIDEST = 16_384  # one program holds a whole row in registers


def rms_norm(
    x_TD: Tensor, weight_D: Tensor, eps: float = 1e-6, residual_TD: Tensor | None = None
) -> Tensor:
    """Each row divided by its root mean square, times the weight.

        x / sqrt(mean(x^2) + eps) x weight

    `x_TD` is [T, D], or [T, H, D] for the heads of each token, whose tokens may lie apart. With a
    residual, x is first added to it in place, and the sum, as stored, is normalized. The squares
    are summed in float32. Returns a new tensor of the shape and format of x.
    ValueError for shapes that do not fit, or a D above 16,384 on a GPU.
    """
    if x_TD.shape[-1:] != weight_D.shape or x_TD.ndim not in (2, 3):
        raise ValueError(
            "rms_norm needs x [T, D] or [T, H, D] and weight [D], "
            f"got {list(x_TD.shape)} and {list(weight_D.shape)}"
        )
    if residual_TD is not None and residual_TD.shape != x_TD.shape:
        raise ValueError(
            "rms_norm needs a residual of the shape of x, "
            f"got {list(residual_TD.shape)} and {list(x_TD.shape)}"
        )
    if runs_triton(x_TD):
        out_TD = x_TD.new_empty(x_TD.shape)
        if x_TD.numel():
            launch(out_TD, x_TD, weight_D, eps, residual_TD).start()
        return out_TD
    if residual_TD is not None:
        x_TD = residual_TD.add_(x_TD)
    return F.rms_norm(x_TD, weight_D.shape, weight_D, eps)


def launch(
    out_TD: Tensor, x_TD: Tensor, weight_D: Tensor, eps: float, residual_TD: Tensor | None
) -> Launch:
    """The kernel over rows: as many in a program as make 2,048 numbers, 32 to a thread."""
    *_, width = x_TD.shape
    x_THD = x_TD if x_TD.ndim == 3 else x_TD[:, None]
    if width > WIDEST:
        raise ValueError(f"rms_norm keeps a whole row on the chip: D {width} is above {WIDEST}")
    for name, tensor in (("x", x_TD[0]), ("weight", weight_D), ("residual", residual_TD)):
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"rms_norm needs a contiguous {name}, got strides {tensor.stride()}")
    columns = next_power_of_2(width)
    rows = max(1, 2048 // columns)
    num_rows = x_TD.numel() // width
    return Launch(
        kernel="rms_norm_kernel",
        grid=(-(-num_rows // rows),),
        arguments=(out_TD, x_TD, weight_D, residual_TD, num_rows, x_THD.stride(0), eps),
        constants={"HEADS": x_THD.shape[1], "WIDTH": width, "ROWS": rows, "COLUMNS": columns},
        warps=rows * columns // 1024,
    )
