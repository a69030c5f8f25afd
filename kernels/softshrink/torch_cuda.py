"""Softshrink in PyTorch on CUDA: the kernel is compiled by nvcc and started on PyTorch's stream."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from metalbench.kernels.building import library
from metalbench.kernels.softshrink.blocks import THREADS, blocks

SOURCE = Path(__file__).with_name("softshrink.cu")


@functools.cache
def starter(dtype: torch.dtype) -> Callable[..., int]:
    """The function that starts the kernel."""
    start = library(SOURCE, "")[f"of_{str(dtype).removeprefix('torch.')}"]
    place, count = ctypes.c_void_p, ctypes.c_uint
    start.argtypes = [place, place, ctypes.c_longlong, ctypes.c_float, count, count, place]
    return start


def softshrink(x: torch.Tensor, threshold: float = 0.5) -> torch.Tensor:
    """x in float32, float16 or bfloat16, of any shape and offset → the same shape and dtype. ``threshold`` ≥ 0."""
    x = x.contiguous()
    y = torch.empty_like(x)
    if not x.numel():  # CUDA starts no empty grid
        return y
    start, stream = starter(x.dtype), torch.cuda.current_stream().cuda_stream
    if error := start(x.data_ptr(), y.data_ptr(), x.numel(), threshold, blocks(x.numel(), x.itemsize), THREADS, stream):
        raise RuntimeError(f"CUDA did not start the kernel: error {error}")
    return y
