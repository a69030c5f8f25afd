"""The product by 4-bit weights in MLX on CUDA: mx.fast.cuda_kernel, which takes a body and writes the signature."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from metalbench.kernels.int4_matmul.tensor_cores import WARPS, blocks, template, tiled_codes, tiled_parameters
from metalbench.workloads.base import Array, DType

SOURCE = Path(__file__).with_name("int4_matmul.cuh").read_text("utf-8")
BODY = """
    int4_matmul<{}, {}, {}, {}, {}>(
        x, reinterpret_cast<const uint4*>(codes), reinterpret_cast<const Parameters<{}>*>(parameters), out, x_shape[0], N, x_shape[1]);
"""


@functools.cache
def kernel(dtype: DType, group: int, rows: int) -> Any:
    """MLX compiles it when it first needs it."""
    arguments = template(dtype, group, rows)
    return mx.fast.cuda_kernel(
        name=f"int4_matmul_{dtype}_{group}_{arguments[2]}",
        input_names=["x", "codes", "parameters"],
        output_names=["out"],
        source=BODY.format(*arguments, arguments[0]),
        header=SOURCE,
    )


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[mx.array], mx.array]:
    """(x [m, k] in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    n, group = codes.shape[0], codes.shape[1] // scales.shape[1]
    packed, parameters = mx.array(tiled_codes(codes)), mx.array(tiled_parameters(scales, offsets, group)).astype(getattr(mx, dtype))

    def product(x: mx.array) -> mx.array:
        across, down = blocks(dtype, x.shape[0], n)
        (out,) = kernel(dtype, group, x.shape[0])(
            inputs=[x, packed, parameters],
            template=[("N", n)],
            grid=(across * WARPS * 32, down, 1),
            threadgroup=(WARPS * 32, 1, 1),
            output_shapes=[(x.shape[0], n)],
            output_dtypes=[x.dtype],
        )
        return out

    return product
