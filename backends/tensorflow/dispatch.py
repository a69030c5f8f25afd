"""tf.squeeze, which shares memory, and the operator +: called by themselves, and in a tf.function through XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from metalbench.backends.base import Factory, Step
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.dispatch import DispatchCase


def empty(x: tf.Tensor) -> tf.Tensor:
    return tf.squeeze(x, axis=1)


def tiny(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x + y


OPERATORS: Mapping[str, Callable[..., Any]] = {"empty": empty, "tiny": tiny}


def native(device: TensorflowDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(OPERATORS[case.kind], device, case, inputs)


def compiled(device: TensorflowDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(device.function(OPERATORS[case.kind], jit=True), device, case, inputs)


def _calling(function: Callable[..., Any], device: TensorflowDevice, case: DispatchCase, inputs: Arrays) -> Step:
    arguments = [device.put(array, case.dtype) for array in inputs.values()]
    return lambda: {"out": function(*arguments)}


VARIANTS: Mapping[str, Factory] = {"native": native, "compiled": compiled}
DEFAULT = "native"
