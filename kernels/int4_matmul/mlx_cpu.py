"""The product by 4-bit weights in MLX on the CPU: built by the system's C++ compiler as an extension of MLX, a primitive of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import mlx.core as mx

from metalbench.kernels.int4_matmul.columns import parameter_columns, word_columns
from metalbench.kernels.mlx_extension import extension
from metalbench.workloads.base import Array, DType

MODULE = """
#include "../mlx_primitive.h"

NB_MODULE(int4_matmul, module) {
  module.def("knows", [](nanobind::handle object) { return nanobind::isinstance<mx::array>(object); });
  module.def("lanes", lanes);
  module.def("int4_matmul", [](const mx::array& x, const mx::array& words, const mx::array& scales, const mx::array& offsets, int n) {
    return called({x, words, scales, offsets}, {x.shape(0), n}, x.dtype(), [](auto type, auto& inputs, mx::array& out) {
      using T = decltype(type);
      const int64_t m = out.shape(0), n = out.shape(1), k = inputs[0].shape(1), group = k / inputs[2].shape(1);
      const auto data = [&](int i) { return inputs[i].template data<T>(); };
      const Weights<T> weights{inputs[1].template data<uint32_t>(), data(2), data(3), n, k, group};
      int4_matmul<T>(data(0), weights, out.data<T>(), m, MlxThreads());
    });
  });
}
"""


@functools.cache
def compiled() -> ModuleType:
    return extension(Path(__file__).with_name("int4_matmul.cpp"), MODULE)


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[mx.array], mx.array]:
    """(x [m, k] on the device in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    own = compiled()
    words = mx.array(word_columns(codes, own.lanes()))
    parameters = [mx.array(parameter_columns(array, own.lanes())).astype(getattr(mx, dtype)) for array in (scales, offsets)]
    return lambda x: own.int4_matmul(x, words, *parameters, len(codes))
