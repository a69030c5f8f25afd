"""int4_matmul.cu compiled: a function of C that starts the kernel, whoever has the stream. Knows no framework."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

from metalbench.kernels.building import library
from metalbench.kernels.int4_matmul.tensor_cores import template
from metalbench.workloads.base import DType

SOURCE = Path(__file__).with_name("int4_matmul.cu")
START = """extern "C" int start(
    const void* x, const void* codes, const void* parameters, void* out, int m, int n, int k, cudaStream_t stream) {{
  return launch<{}, {}, {}, {}, {}>(x, codes, parameters, out, m, n, k, stream);
}}"""


@functools.cache
def starter(dtype: DType, group: int, rows: int) -> Callable[..., int]:
    """(x, codes, parameters, out, m, n, k, stream) → CUDA's error or 0, for so many ``rows`` of activations as m is.

    Raises Unsupported where there is no nvcc.
    """
    start = library(SOURCE, START.format(*template(dtype, group, rows))).start
    start.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int] * 3 + [ctypes.c_void_p]
    return start
