"""The product by 4-bit weights in PyTorch on the CPU: built by the system's C++ compiler, called by its address, on PyTorch's threads."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch

from metalbench.kernels.building import CPU, library
from metalbench.kernels.int4_matmul.columns import parameter_columns, word_columns
from metalbench.kernels.torch_threads import parallel_for
from metalbench.workloads.base import Array, DType

SOURCE = Path(__file__).with_name("int4_matmul.cpp")
CALLED = """
#include "../torch_threads.h"

#define CALLED(NAME, T)                                                                                                            \\
  extern "C" void NAME(const T* x, const uint32_t* words, const T* scales, const T* offsets, T* out, int64_t m, int64_t n, int64_t k, \\
                       int64_t group, TorchThreads::ParallelFor* parallel_for) {                                                   \\
    int4_matmul(x, Weights<T>{words, scales, offsets, n, k, group}, out, m, TorchThreads{parallel_for});                           \\
  }
CALLED(of_float32, float)
CALLED(of_float16, Half)
CALLED(of_bfloat16, BFloat16)
"""


@functools.cache
def compiled() -> ctypes.CDLL:
    return library(SOURCE, CALLED, CPU)


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[torch.Tensor], torch.Tensor]:
    """(x [m, k] on the device in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    (n, k), group = codes.shape, codes.shape[1] // scales.shape[1]
    own, lanes = compiled(), compiled().lanes()
    words = torch.tensor(word_columns(codes, lanes).view("int32"))
    parameters = [torch.tensor(parameter_columns(array, lanes)).to(getattr(torch, dtype)) for array in (scales, offsets)]
    start = own[f"of_{dtype}"]
    start.argtypes, start.restype = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 4 + [ctypes.c_void_p], None

    def product(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty((x.shape[0], n), dtype=x.dtype)
        places = [tensor.data_ptr() for tensor in (x, words, *parameters, out)]
        start(*places, x.shape[0], n, k, group, threads)
        return out

    threads = parallel_for()
    return product
