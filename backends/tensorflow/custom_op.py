"""Softshrink in TensorFlow: Keras's in a tf.function, operator by operator, through XLA, and over the CPU."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import tensorflow as tf

from metalbench.backends.base import Factory, Outputs, Step, Unsupported
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.custom_op import LAMBDA, NOWHERE, CustomOpCase


def shrink(x: tf.Tensor) -> tf.Tensor:
    return tf.sign(x) * tf.maximum(tf.abs(x) - LAMBDA, 0)


def kerass(x: tf.Tensor) -> tf.Tensor:
    return keras.ops.soft_shrink(x, LAMBDA)


def builtin(device: TensorflowDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    own = device.function(kerass)
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": own(x)}


def composed(device: TensorflowDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": shrink(x)}


def compiled(device: TensorflowDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    one_kernel = device.function(shrink, jit=True)
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": one_kernel(x)}


def fallback(device: TensorflowDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    """What soft placement does for an operator that the device lacks; identity copies what is on another device."""
    if device.kind == "cpu":
        raise Unsupported(NOWHERE)
    own = device.function(kerass)
    x = device.put(inputs["x"], case.dtype)

    def step() -> Outputs:
        with tf.device("CPU:0"):
            host = own(tf.identity(x))
        with tf.device(device.name):
            return {"out": tf.identity(host)}

    return step


VARIANTS: Mapping[str, Factory] = {
    "builtin": builtin,
    "composed": composed,
    "compiled": compiled,
    "fallback": fallback,
    "kernel": variant("softshrink", "tensorflow"),
}
DEFAULT = "builtin"
