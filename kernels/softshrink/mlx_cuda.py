"""Softshrink in MLX on CUDA: mx.fast.cuda_kernel, which takes a body and writes the signature."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import mlx.core as mx

from metalbench.kernels.softshrink.blocks import THREADS, blocks

SOURCE = Path(__file__).with_name("softshrink.cuh").read_text("utf-8")
BODY = "softshrink<T>(x, y, x_shape[0], threshold[0]);"


@functools.cache
def kernel() -> Any:
    """MLX compiles it for each dtype when it first needs it."""
    return mx.fast.cuda_kernel(name="softshrink", input_names=["x", "threshold"], output_names=["y"], source=BODY, header=SOURCE)


def softshrink(x: mx.array, threshold: float = 0.5) -> mx.array:
    """x in float32, float16 or bfloat16, of any shape → the same shape and dtype. ``threshold`` ≥ 0."""
    if not x.size:  # CUDA starts no empty grid
        return mx.zeros_like(x)
    (y,) = kernel()(
        inputs=[x.reshape(-1), mx.array([threshold], mx.float32)],
        template=[("T", x.dtype)],
        grid=(blocks(x.size, x.itemsize) * THREADS, 1, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(x.size,)],
        output_dtypes=[x.dtype],
    )
    return y.reshape(x.shape)
