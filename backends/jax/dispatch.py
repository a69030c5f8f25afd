"""jnp.squeeze and the operator +: called by themselves, and under jit. Either way XLA runs a program, for a squeeze too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.dispatch import DispatchCase


def empty(x: jax.Array) -> jax.Array:
    return jnp.squeeze(x, 1)


def tiny(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y


OPERATORS: Mapping[str, Callable[..., jax.Array]] = {"empty": empty, "tiny": tiny}


def native(device: JaxDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(OPERATORS[case.kind], device, case, inputs)


def compiled(device: JaxDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(jax.jit(OPERATORS[case.kind]), device, case, inputs)


def _calling(function: Callable[..., jax.Array], device: JaxDevice, case: DispatchCase, inputs: Arrays) -> Step:
    arguments = [device.put(array, case.dtype) for array in inputs.values()]
    return lambda: {"out": function(*arguments)}


VARIANTS: Mapping[str, Factory] = {"native": native, "compiled": compiled}
DEFAULT = "compiled"
