"""Softshrink in JAX, which has none of its own: operator by operator, through jit, and over the CPU."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step, Unsupported, unsupported
from metalbench.backends.jax.device import JaxDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.custom_op import LAMBDA, NOWHERE, CustomOpCase


def shrink(x: jax.Array) -> jax.Array:
    return jnp.sign(x) * jnp.maximum(jnp.abs(x) - LAMBDA, 0)


def composed(device: JaxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": shrink(x)}


def compiled(device: JaxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    one_kernel = jax.jit(shrink)
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": one_kernel(x)}


def fallback(device: JaxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    """A compiled function runs where its argument was put."""
    if device.kind == "cpu":
        raise Unsupported(NOWHERE)
    on_cpu, cpu = jax.jit(shrink), jax.devices("cpu")[0]
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": jax.device_put(on_cpu(jax.device_put(x, cpu)), device.jax_device)}


VARIANTS: Mapping[str, Factory] = {
    "builtin": unsupported("JAX has no operator softshrink: jax.nn lacks it"),
    "composed": composed,
    "compiled": compiled,
    "fallback": fallback,
    "kernel": variant("softshrink", "jax"),
}
DEFAULT = "compiled"
