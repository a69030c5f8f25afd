"""The product by 4-bit weights in JAX on CUDA: the kernel is compiled by nvcc and called through XLA's foreign function interface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

from metalbench.kernels.building import library
from metalbench.kernels.int4_matmul.tensor_cores import template, tiled_codes, tiled_parameters
from metalbench.workloads.base import Array, DType

SOURCE = Path(__file__).with_name("int4_matmul.cu")
HANDLER = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static ffi::Error call(
    cudaStream_t stream, ffi::AnyBuffer x, ffi::AnyBuffer codes, ffi::AnyBuffer parameters, ffi::Result<ffi::AnyBuffer> out) {{
  const int m = x.dimensions()[0], k = x.dimensions()[1], n = out->dimensions()[1];
  const int error = launch<{}, {}, {}, {}, {}>(
      x.untyped_data(), codes.untyped_data(), parameters.untyped_data(), out->untyped_data(), m, n, k, stream);
  return error ? ffi::Error::Internal("CUDA did not start the kernel") : ffi::Error::Success();
}}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    handler, call,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<cudaStream_t>>().Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>(),
    {{ffi::Traits::kCmdBufferCompatible}});
"""


@functools.cache
def registered(dtype: DType, group: int, rows: int) -> str:
    """The name under which XLA knows the kernel, for so many rows of activations."""
    arguments = template(dtype, group, rows)
    name = f"metalbench_int4_matmul_{'_'.join(map(str, arguments))}"
    handler = library(SOURCE, HANDLER.format(*arguments), included=(jax.ffi.include_dir(),)).handler
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="CUDA")
    return name


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[jax.Array], jax.Array]:
    """(x [m, k] in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    n, group = codes.shape[0], codes.shape[1] // scales.shape[1]
    packed, parameters = jnp.asarray(tiled_codes(codes)), jnp.asarray(tiled_parameters(scales, offsets, group), dtype)

    @jax.jit
    def product(x: jax.Array, packed: jax.Array, parameters: jax.Array) -> jax.Array:
        shape = jax.ShapeDtypeStruct((x.shape[0], n), x.dtype)
        out: jax.Array = jax.ffi.ffi_call(registered(dtype, group, x.shape[0]), shape)(x, packed, parameters)
        return out

    return lambda x: product(x, packed, parameters)
