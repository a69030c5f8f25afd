"""tf.constant and Tensor.numpy, which copy; DLPack and np.asarray, which share the CPU's memory and copy any other device's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from metalbench.backends.base import Factory, Step
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.transfer import Receiving, Sending, TransferCase


def copy(device: TensorflowDevice, case: TransferCase, inputs: Arrays) -> Step:
    def sent(x: Array) -> tf.Tensor:
        with tf.device(device.name):
            return tf.constant(x)

    if case.direction == "to_device":
        return Sending(device, inputs["x"], sent)
    return Receiving(device, inputs["x"], lambda x: x.numpy())


def share(device: TensorflowDevice, case: TransferCase, inputs: Arrays) -> Step:
    def sent(x: Array) -> tf.Tensor:
        with tf.device(device.name):
            return tf.identity(tf.experimental.dlpack.from_dlpack(x.__dlpack__()))

    if case.direction == "to_device":
        return Sending(device, inputs["x"], sent)
    return Receiving(device, inputs["x"], np.asarray)


VARIANTS: Mapping[str, Factory] = {"copy": copy, "share": share}
DEFAULT = "copy"
