"""Quantized weights in JAX, unpacked or converted inside the compiled product. There is no operator on packed groups.

Arrays of jnp.uint4 say that they take a byte a code (``nbytes``, ``on_device_size_in_bytes``) where they take half of one; how the
compiled product has its arguments in memory is what counts here.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step, Told, Unsupported, unsupported
from metalbench.backends.jax.device import JaxDevice
from metalbench.backends.jax.int4_matmul import dense, stored
from metalbench.backends.jax.int4_matmul import dequantize as dequantize_int4
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import pack_bytes
from metalbench.workloads.quantized_matmul import QuantizedMatmulCase


@jax.jit
def scale_and_multiply(x: jax.Array, codes: jax.Array, scales: jax.Array) -> jax.Array:
    """x [m, k]; signed codes, a byte each, [n, k]; scales [n, k / group, 1]."""
    weights = codes.reshape(*scales.shape[:2], -1).astype(x.dtype) * scales
    return jnp.matmul(x, weights.reshape(codes.shape).T)


@jax.jit
def look_up_and_multiply(x: jax.Array, packed: jax.Array, tables: jax.Array) -> jax.Array:
    """x [m, k]; two codes a byte [n, k / 2], the even one in the low half; tables [n / rows, 16], each of so many rows."""
    codes = jnp.stack((packed & 15, packed >> 4), axis=-1).reshape(tables.shape[0], -1)
    weights = jnp.take_along_axis(tables, codes, axis=1, mode="promise_in_bounds")
    return jnp.matmul(x, weights.reshape(packed.shape[0], -1).T)


def dequantize(device: JaxDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    if case.scheme == "int4":
        return dequantize_int4(device, case, inputs)
    x = device.put(inputs["x"], case.dtype)
    if case.scheme == "int8":
        codes, scales = device.put(inputs["codes"]), device.put(inputs["scales"][..., None], case.dtype)
        return Told(lambda: {"out": scale_and_multiply(x, codes, scales)}, figures=stored(codes, scales))
    packed, tables = device.put(pack_bytes(inputs["codes"])), device.put(inputs["tables"], case.dtype)
    return Told(lambda: {"out": look_up_and_multiply(x, packed, tables)}, figures=stored(packed, tables))


@jax.jit
def convert_and_multiply(x: jax.Array, codes: jax.Array, scales: jax.Array, offsets: jax.Array) -> jax.Array:
    """x [m, k]; codes of any type [n, k]; scales and offsets [n, k / group, 1]."""
    weights = codes.reshape(*scales.shape[:2], -1).astype(x.dtype) * scales + offsets
    return jnp.matmul(x, weights.reshape(codes.shape).T)


def uint4(device: JaxDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    if case.scheme != "int4":
        raise Unsupported("this variant is one of linear 4-bit codes")
    x, codes = device.put(inputs["x"], case.dtype), device.put(inputs["codes"], "uint4")
    scales, offsets = (device.put(inputs[name][..., None], case.dtype) for name in ("scales", "offsets"))
    layout = convert_and_multiply.lower(x, codes, scales, offsets).compile().memory_analysis()
    figures = {"weight_bytes": layout.argument_size_in_bytes - x.nbytes}
    return Told(lambda: {"out": convert_and_multiply(x, codes, scales, offsets)}, figures=figures)


VARIANTS: Mapping[str, Factory] = {
    "native": unsupported("JAX has no operator that multiplies by packed weights with scales by group, or from a lookup table"),
    "dequantize": dequantize,
    "uint4": uint4,
    "dense": dense,
}
DEFAULT = "dequantize"
