"""jax.device_put and np.asarray, which share the CPU's memory and copy to and from any other device's.

On the CPU jnp.copy and np.array copy. device_put keeps the memory of an array that begins at a multiple of 64 bytes, even where
may_alias=False asks for a copy; jnp.array copies twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from metalbench.backends.base import Factory, Step
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.transfer import Receiving, Sending, TransferCase


def brought(x: jax.Array) -> Array:
    """By another array of the same memory every time, since each keeps what it once brought to the host."""
    return np.asarray(jax.make_array_from_single_device_arrays(x.shape, x.sharding, [x]))


def copy(device: JaxDevice, case: TransferCase, inputs: Arrays) -> Step:
    if device.kind != "cpu":
        return share(device, case, inputs)
    if case.direction == "to_device":
        return Sending(device, inputs["x"], jax.jit(jnp.copy))
    return Receiving(device, inputs["x"], np.array)


def share(device: JaxDevice, case: TransferCase, inputs: Arrays) -> Step:
    if case.direction == "to_device":
        return Sending(device, inputs["x"], partial(jax.device_put, device=device.jax_device))
    return Receiving(device, inputs["x"], np.asarray if device.kind == "cpu" else brought)


VARIANTS: Mapping[str, Factory] = {"copy": copy, "share": share}
DEFAULT = "copy"
