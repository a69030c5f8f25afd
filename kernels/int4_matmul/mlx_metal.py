"""The product by 4-bit weights in MLX on Metal: mx.fast.metal_kernel takes a body and writes the signature from the names it uses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from metalbench.kernels.int4_matmul import layout
from metalbench.workloads.base import Array, DType
from metalbench.workloads.int4_matmul import pack_bytes

SOURCE = Path(__file__).with_name("int4_matmul.metal").read_text("utf-8")
BODY = """
    threadgroup float partial[SIMDGROUPS * ROWS * COLUMNS];
    int4_matmul<T, GROUP, ROWS, COLUMNS, SIMDGROUPS>(
        x, codes, scales, offsets, out, x_shape[0], codes_shape[0], x_shape[1], partial,
        threadgroup_position_in_grid.xy, simdgroup_index_in_threadgroup, thread_index_in_simdgroup);
"""


@functools.cache
def kernel() -> Any:
    """MLX compiles it for each dtype, group and layout when it first needs it."""
    names = ["x", "codes", "scales", "offsets"]
    return mx.fast.metal_kernel(name="int4_matmul", input_names=names, output_names=["out"], source=BODY, header=SOURCE)


def int4_matmul(x: mx.array, codes: mx.array, scales: mx.array, offsets: mx.array) -> mx.array:
    """x [m, k], scales and offsets [n, k / group] in one of float32, float16 and bfloat16; codes uint8 [n, k / 2] → [m, n] in that dtype.

    ``codes`` begins at a multiple of 4 bytes. Written for m = 1…32, right for any m.
    """
    (m, k), n = x.shape, codes.shape[0]
    how = layout(m, n)
    (out,) = kernel()(
        inputs=[x, codes, scales, offsets],
        template=[
            ("T", x.dtype),
            ("GROUP", k // scales.shape[1]),
            ("ROWS", how.rows),
            ("COLUMNS", how.columns),
            ("SIMDGROUPS", how.simdgroups),
        ],
        grid=(*how.grid, 1),
        threadgroup=(*how.threadgroup, 1),
        output_shapes=[(m, n)],
        output_dtypes=[x.dtype],
    )
    return out


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[mx.array], mx.array]:
    """(x [m, k] on the device in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    packed = mx.array(pack_bytes(codes))
    parameters = [mx.array(array).astype(getattr(mx, dtype)) for array in (scales, offsets)]
    return lambda x: int4_matmul(x, packed, *parameters)
