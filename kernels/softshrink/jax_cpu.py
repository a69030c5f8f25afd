"""Softshrink in JAX on the CPU: built by the system's C++ compiler, called through XLA's foreign function interface."""

from __future__ import annotations

import functools
from functools import partial
from pathlib import Path

import jax
import numpy as np

from metalbench.kernels.building import CPU, library

SOURCE = Path(__file__).with_name("softshrink.cpp")
HANDLERS = """
#include "../xla_threads.h"

namespace ffi = xla::ffi;

template <typename T>
ffi::Error call(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y, float threshold) {
  softshrink(static_cast<const T*>(x.untyped_data()), static_cast<T*>(y->untyped_data()), x.element_count(), threshold, XlaThreads{pool});
  return ffi::Error::Success();
}

#define BINDING ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>().Attr<float>("threshold")
XLA_FFI_DEFINE_HANDLER_SYMBOL(of_float32, call<float>, BINDING);
XLA_FFI_DEFINE_HANDLER_SYMBOL(of_float16, call<Half>, BINDING);
XLA_FFI_DEFINE_HANDLER_SYMBOL(of_bfloat16, call<BFloat16>, BINDING);
"""


@functools.cache
def registered(dtype: str) -> str:
    """The name under which XLA knows the kernel."""
    handler, name = library(SOURCE, HANDLERS, CPU, (jax.ffi.include_dir(),))[f"of_{dtype}"], f"metalbench_softshrink_cpu_{dtype}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    return name


@partial(jax.jit, static_argnames="threshold")
def softshrink(x: jax.Array, threshold: float = 0.5) -> jax.Array:
    """x in float32, float16 or bfloat16, of any shape → the same shape and dtype. ``threshold`` ≥ 0."""
    y: jax.Array = jax.ffi.ffi_call(registered(x.dtype.name), jax.ShapeDtypeStruct(x.shape, x.dtype))(x, threshold=np.float32(threshold))
    return y
