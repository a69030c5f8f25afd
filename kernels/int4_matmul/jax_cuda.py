"""The product by 4-bit weights in JAX on CUDA: the kernel is compiled by nvcc and called through XLA's foreign function interface."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from metalbench.kernels.building import CPU, library
from metalbench.kernels.int4_matmul.cuda import starter
from metalbench.kernels.int4_matmul.tensor_cores import tiled_codes, tiled_parameters
from metalbench.workloads.base import Array, DType

CALLED = Path(__file__).with_name("jax_cuda.cpp")
NAME = "metalbench_int4_matmul_cuda"


@functools.cache
def register() -> None:
    """Once a process: XLA knows under ``NAME`` what starts any kernel of its arguments by address."""
    handler = library(CALLED, "", CPU, (jax.ffi.include_dir(),)).handler
    jax.ffi.register_ffi_target(NAME, jax.ffi.pycapsule(handler), platform="CUDA")


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[jax.Array], jax.Array]:
    """(x [m, k] in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    n, group = codes.shape[0], codes.shape[1] // scales.shape[1]
    packed, parameters = jnp.asarray(tiled_codes(codes)), jnp.asarray(tiled_parameters(scales, offsets, group), dtype)
    register()

    @jax.jit
    def product(x: jax.Array, packed: jax.Array, parameters: jax.Array) -> jax.Array:
        start = ctypes.cast(starter(dtype, group, x.shape[0]), ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # ctypes hides its type
        shape = jax.ShapeDtypeStruct((x.shape[0], n), x.dtype)
        out: jax.Array = jax.ffi.ffi_call(NAME, shape)(x, packed, parameters, start=np.int64(start))
        return out

    return lambda x: product(x, packed, parameters)
