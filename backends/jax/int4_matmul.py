"""4-bit weights in JAX: two codes a byte, unpacked inside the compiled product. There is no operator on packed groups.

Arrays of jnp.uint4 would read nicer, but are unknown to the Metal plug-in; what they take is a figure of quantized_matmul.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step, Told, unsupported
from metalbench.backends.jax.device import JaxDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import Int4MatmulCase, pack_bytes


@jax.jit
def unpack_and_multiply(x: jax.Array, packed: jax.Array, scales: jax.Array, offsets: jax.Array) -> jax.Array:
    """x [m, k]; two codes a byte [n, k / 2], the even one in the low half; scales and offsets [n, k / group, 1]."""
    codes = jnp.stack((packed & 15, packed >> 4), axis=-1).reshape(*scales.shape[:2], -1)
    weights = codes.astype(x.dtype) * scales + offsets
    return jnp.matmul(x, weights.reshape(packed.shape[0], -1).T)


def dequantize(device: JaxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, packed = device.put(inputs["x"], case.dtype), device.put(pack_bytes(inputs["codes"]))
    scales, offsets = (device.put(inputs[name][..., None], case.dtype) for name in ("scales", "offsets"))
    return Told(lambda: {"out": unpack_and_multiply(x, packed, scales, offsets)}, figures=stored(packed, scales, offsets))


@jax.jit
def multiply(x: jax.Array, weights: jax.Array) -> jax.Array:
    return jnp.matmul(x, weights.T)


def dense(device: JaxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, weights = device.put(inputs["x"], case.dtype), device.put(inputs["weights"], case.dtype)
    return Told(lambda: {"dense": multiply(x, weights)}, figures=stored(weights))


def stored(*arrays: jax.Array) -> dict[str, float]:
    """The figure ``weight_bytes``: of the weights and what belongs to them, in types of whole bytes."""
    return {"weight_bytes": sum(array.nbytes for array in arrays)}


VARIANTS: Mapping[str, Factory] = {
    "native": unsupported("JAX has no operator that multiplies by packed 4-bit weights with scales by group"),
    "dequantize": dequantize,
    "dense": dense,
    "kernel": variant("int4_matmul", "jax"),
}
DEFAULT = "dequantize"
