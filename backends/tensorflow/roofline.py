"""A variable's assignment or a product with 1, and tf.linalg.matmul.

TensorFlow shares memory where it can: tf.identity, an assignment, and a constant 1 in a tf.function copy nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.roofline import RooflineCase


class Copying:
    """A copy into a variable, which XLA writes in place. A new tensor is paged in by the system at every call, longer than the copy."""

    def __init__(self, device: TensorflowDevice, x: tf.Tensor) -> None:
        self._x, self._out = x, tf.Variable(tf.zeros_like(x))

        def assign(x: tf.Tensor) -> None:
            self._out.assign(x)

        self._assign = device.function(assign, jit=True)

    def reset(self) -> None:
        self._out.assign(tf.zeros_like(self._x))

    def __call__(self) -> Outputs:
        self._assign(self._x)
        return {"out": self._out}


def native(device: TensorflowDevice, case: RooflineCase, inputs: Arrays) -> Step:
    if case.kind == "matmul":
        a, b = (device.put(inputs[name], case.dtype) for name in "ab")
        return lambda: {"out": device.product(a, b)}
    x = device.put(inputs["x"], case.dtype)
    if device.kind == "cpu":
        return Copying(device, x)
    one = tf.ones((), x.dtype)
    return lambda: {"out": x * one}  # into memory that TensorFlow's allocator holds


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
