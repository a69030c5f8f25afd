"""The product by 4-bit weights in PyTorch on CUDA: the kernel is compiled by nvcc and started on PyTorch's stream."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from metalbench.kernels.building import library
from metalbench.kernels.int4_matmul.tensor_cores import template, tiled_codes, tiled_parameters
from metalbench.workloads.base import Array, DType

SOURCE = Path(__file__).with_name("int4_matmul.cu")
START = """extern "C" int start(
    const void* x, const void* codes, const void* parameters, void* out, int m, int n, int k, cudaStream_t stream) {{
  return launch<{}, {}, {}, {}, {}>(x, codes, parameters, out, m, n, k, stream);
}}"""


@functools.cache
def starter(dtype: DType, group: int, rows: int) -> Callable[..., int]:
    """The function that starts the kernel, for so many rows of activations."""
    start = library(SOURCE, START.format(*template(dtype, group, rows))).start
    start.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int] * 3 + [ctypes.c_void_p]
    return start


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
