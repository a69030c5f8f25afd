"""tf.signal in a tf.function, and tf.linalg.matmul."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from metalbench.backends.base import Factory, Step, Unsupported
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.fft import NOT_NAIVE, FFTCase, dft_matrix

#: (kind, two-dimensional) → forward and inverse, each over the last axes
TRANSFORMS = {
    ("complex", False): (tf.signal.fft, tf.signal.ifft),
    ("complex", True): (tf.signal.fft2d, tf.signal.ifft2d),
    ("real", False): (tf.signal.rfft, tf.signal.irfft),
    ("real", True): (tf.signal.rfft2d, tf.signal.irfft2d),
}


def native(device: TensorflowDevice, case: FFTCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"])
    forward, inverse = TRANSFORMS[case.kind, case.rows > 1]
    length = {"fft_length": list(x.shape[1:])} if case.kind == "real" else {}  # a real spectrum doesn't tell whether it was odd

    @device.function
    def transform(x: tf.Tensor) -> tf.Tensor:
        spectrum = forward(x)
        return spectrum if case.direction == "forward" else inverse(spectrum, **length)

    return lambda: {"out": transform(x)}


def naive(device: TensorflowDevice, case: FFTCase, inputs: Arrays) -> Step:
    if not case.has_product:
        raise Unsupported(NOT_NAIVE)
    x, matrix = device.put(inputs["x"]), device.put(dft_matrix(case.length))
    return lambda: {"naive": device.product(x, matrix)}


VARIANTS: Mapping[str, Factory] = {"native": native, "naive": naive}
DEFAULT = "native"
