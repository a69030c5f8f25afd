"""jnp.copy and jnp.matmul under jit: a compiled function shares no output with an argument that isn't donated."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.roofline import RooflineCase


class Copying:
    """A copy into the output before it, which is donated. A new one is paged in by the system at every call, longer than the copy."""

    def __init__(self, x: jax.Array) -> None:
        self._x = x
        self._copy = jax.jit(lambda x, _: jnp.copy(x), donate_argnums=1, keep_unused=True)
        self.reset()

    def reset(self) -> None:
        self._out = jnp.zeros_like(self._x)

    def __call__(self) -> Outputs:
        self._out = self._copy(self._x, self._out)
        return {"out": self._out}


def native(device: JaxDevice, case: RooflineCase, inputs: Arrays) -> Step:
    if case.kind == "matmul":
        a, b = (device.put(inputs[name], case.dtype) for name in "ab")
        return lambda: {"out": device.product(a, b)}
    x = device.put(inputs["x"], case.dtype)
    if device.kind == "cpu":
        return Copying(x)
    copy = jax.jit(jnp.copy)
    return lambda: {"out": copy(x)}  # into memory that XLA's allocator holds


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
