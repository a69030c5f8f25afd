"""Softshrink in MLX on the CPU: built by the system's C++ compiler as an extension of MLX, with a primitive of its own."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

import mlx.core as mx

from metalbench.kernels.mlx_extension import extension

MODULE = """
#include "../mlx_primitive.h"

NB_MODULE(softshrink, module) {
  module.def("knows", [](nanobind::handle object) { return nanobind::isinstance<mx::array>(object); });
  module.def("softshrink", [](const mx::array& x, float threshold) {
    return called({x}, x.shape(), x.dtype(), [threshold](auto type, auto& inputs, mx::array& y) {
      using T = decltype(type);
      softshrink(inputs[0].template data<T>(), y.data<T>(), y.size(), threshold, MlxThreads());
    });
  });
}
"""


@functools.cache
def compiled() -> ModuleType:
    return extension(Path(__file__).with_name("softshrink.cpp"), MODULE)


def softshrink(x: mx.array, threshold: float = 0.5) -> mx.array:
    """x in float32, float16 or bfloat16, of any shape and strides → the same shape and dtype. ``threshold`` ≥ 0."""
    return compiled().softshrink(x, threshold)
