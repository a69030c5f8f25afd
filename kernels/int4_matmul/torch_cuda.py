"""The product by 4-bit weights in PyTorch on CUDA: the kernel is compiled by nvcc and started on PyTorch's stream."""

from __future__ import annotations

from collections.abc import Callable

import torch

from metalbench.kernels.int4_matmul.cuda import starter
from metalbench.kernels.int4_matmul.tensor_cores import tiled_codes, tiled_parameters
from metalbench.workloads.base import Array, DType


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[torch.Tensor], torch.Tensor]:
    """(x [m, k] on the device in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    (n, k), group = codes.shape, codes.shape[1] // scales.shape[1]
    packed = torch.tensor(tiled_codes(codes).view("int32"), device="cuda")
    parameters = torch.tensor(tiled_parameters(scales, offsets, group)).to("cuda", getattr(torch, dtype))

    def product(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty((x.shape[0], n), dtype=x.dtype, device=x.device)
        stream = torch.cuda.current_stream().cuda_stream
        places = (x.data_ptr(), packed.data_ptr(), parameters.data_ptr(), out.data_ptr())
        if error := starter(dtype, group, x.shape[0])(*places, x.shape[0], n, k, stream):
            raise RuntimeError(f"CUDA did not start the kernel: error {error}")
        return out

    return product
