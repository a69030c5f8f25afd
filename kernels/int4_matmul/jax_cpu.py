"""The product by 4-bit weights in JAX on the CPU: built by the system's C++ compiler, called through XLA's foreign function interface."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

from metalbench.kernels.building import CPU, library
from metalbench.kernels.int4_matmul.columns import parameter_columns, word_columns
from metalbench.workloads.base import Array, DType

SOURCE = Path(__file__).with_name("int4_matmul.cpp")
HANDLERS = """
#include "../xla_threads.h"

namespace ffi = xla::ffi;

template <typename T>
ffi::Error call(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer words, ffi::AnyBuffer scales, ffi::AnyBuffer offsets,
                ffi::Result<ffi::AnyBuffer> out) {
  const auto data = [](const ffi::AnyBuffer& buffer) { return static_cast<const T*>(buffer.untyped_data()); };
  const int64_t m = x.dimensions()[0], k = x.dimensions()[1], n = out->dimensions()[1], group = k / scales.dimensions()[1];
  const Weights<T> weights{static_cast<const uint32_t*>(words.untyped_data()), data(scales), data(offsets), n, k, group};
  int4_matmul(data(x), weights, static_cast<T*>(out->untyped_data()), m, XlaThreads{pool});
  return ffi::Error::Success();
}

#define ARRAY Arg<ffi::AnyBuffer>()
#define BINDING ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().ARRAY.ARRAY.ARRAY.ARRAY.Ret<ffi::AnyBuffer>()
XLA_FFI_DEFINE_HANDLER_SYMBOL(of_float32, call<float>, BINDING);
XLA_FFI_DEFINE_HANDLER_SYMBOL(of_float16, call<Half>, BINDING);
XLA_FFI_DEFINE_HANDLER_SYMBOL(of_bfloat16, call<BFloat16>, BINDING);
"""


@functools.cache
def registered(dtype: DType) -> tuple[str, int]:
    """The name under which XLA knows the kernel, and how many columns lie side by side for it."""
    own, name = library(SOURCE, HANDLERS, CPU, (jax.ffi.include_dir(),)), f"metalbench_int4_matmul_cpu_{dtype}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(own[f"of_{dtype}"]), platform="cpu")
    return name, own.lanes()


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[jax.Array], jax.Array]:
    """(x [m, k] in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    name, lanes = registered(dtype)
    words = jnp.asarray(word_columns(codes, lanes))
    parameters = [jnp.asarray(parameter_columns(array, lanes), dtype) for array in (scales, offsets)]

    @jax.jit
    def product(x: jax.Array, words: jax.Array, scales: jax.Array, offsets: jax.Array) -> jax.Array:
        out: jax.Array = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((x.shape[0], len(codes)), x.dtype))(x, words, scales, offsets)
        return out

    return lambda x: product(x, words, *parameters)
