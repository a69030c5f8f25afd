"""Softshrink in PyTorch on the CPU: built by the system's C++ compiler, called by its address, on PyTorch's threads."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from metalbench.kernels.building import CPU, library
from metalbench.kernels.torch_threads import parallel_for

SOURCE = Path(__file__).with_name("softshrink.cpp")
CALLED = """
#include "../torch_threads.h"

#define CALLED(NAME, T)                                                                                          \\
  extern "C" void NAME(const T* x, T* y, int64_t length, float lambda, TorchThreads::ParallelFor* parallel_for) { \\
    softshrink(x, y, length, lambda, TorchThreads{parallel_for});                                                \\
  }
CALLED(of_float32, float)
CALLED(of_float16, Half)
CALLED(of_bfloat16, BFloat16)
"""


@functools.cache
def compiled(dtype: torch.dtype) -> Callable[..., None]:
    function = library(SOURCE, CALLED, CPU)[f"of_{str(dtype).removeprefix('torch.')}"]
    function.argtypes, function.restype = [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_float, ctypes.c_void_p], None
    return function


def softshrink(x: torch.Tensor, threshold: float = 0.5) -> torch.Tensor:
    """x in float32, float16 or bfloat16, of any shape and offset → the same shape and dtype. ``threshold`` ≥ 0."""
    x = x.contiguous()
    y = torch.empty_like(x)
    compiled(x.dtype)(x.data_ptr(), y.data_ptr(), x.numel(), threshold, parallel_for())
    return y
