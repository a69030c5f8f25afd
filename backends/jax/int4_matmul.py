"""4-bit weights in JAX: jnp.uint4 arrays, unpacked inside the compiled product. There is no operator on packed groups."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step, unsupported
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import Int4MatmulCase


@jax.jit
def unpack_and_multiply(x: jax.Array, codes: jax.Array, scales: jax.Array, offsets: jax.Array) -> jax.Array:
    """x [m, k]; codes uint4 [n, k / group, group]; scales and offsets [n, k / group, 1]."""
    weights = codes.astype(x.dtype) * scales + offsets
    return jnp.matmul(x, weights.reshape(codes.shape[0], -1).T)


def dequantize(device: JaxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    codes = device.put(inputs["codes"].reshape(*inputs["scales"].shape, -1), "uint4")
    scales, offsets = (device.put(inputs[name][..., None], case.dtype) for name in ("scales", "offsets"))
    return lambda: {"out": unpack_and_multiply(x, codes, scales, offsets)}


@jax.jit
def multiply(x: jax.Array, weights: jax.Array) -> jax.Array:
    return jnp.matmul(x, weights.T)


def dense(device: JaxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, weights = device.put(inputs["x"], case.dtype), device.put(inputs["weights"], case.dtype)
    return lambda: {"dense": multiply(x, weights)}


VARIANTS: Mapping[str, Factory] = {
    "native": unsupported("JAX has no operator that multiplies by packed 4-bit weights with scales by group"),
    "dequantize": dequantize,
    "dense": dense,
}
DEFAULT = "dequantize"
