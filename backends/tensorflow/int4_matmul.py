"""4-bit weights in TensorFlow: two codes a byte, unpacked inside a compiled product. There is no operator on packed groups."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from metalbench.backends.base import Factory, Step, Told, unsupported
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import Int4MatmulCase, pack_bytes


def unpack_and_multiply(x: tf.Tensor, packed: tf.Tensor, scales: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """x [m, k]; two codes a byte [n, k / 2], the even one in the low half; scales and offsets [n, k / group, 1]."""
    codes = tf.stack((tf.bitwise.bitwise_and(packed, 15), tf.bitwise.right_shift(packed, 4)), axis=-1)
    weights = tf.cast(tf.reshape(codes, (*scales.shape[:2], -1)), x.dtype) * scales + offsets
    return tf.linalg.matmul(x, tf.reshape(weights, (packed.shape[0], -1)), transpose_b=True)


def dequantize(device: TensorflowDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    product = device.function(unpack_and_multiply, jit=True)
    x, packed = device.put(inputs["x"], case.dtype), device.put(pack_bytes(inputs["codes"]))
    scales, offsets = (device.put(inputs[name][..., None], case.dtype) for name in ("scales", "offsets"))
    return Told(lambda: {"out": product(x, packed, scales, offsets)}, figures=stored(packed, scales, offsets))


def dense(device: TensorflowDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, weights = device.put(inputs["x"], case.dtype), device.put(inputs["weights"], case.dtype)
    product = device.function(lambda x, weights: tf.linalg.matmul(x, weights, transpose_b=True))
    return Told(lambda: {"dense": product(x, weights)}, figures=stored(weights))


def stored(*tensors: tf.Tensor) -> dict[str, float]:
    """The figure ``weight_bytes``: of the weights and what belongs to them; a tensor's buffer holds its elements and nothing else."""
    return {"weight_bytes": sum(tensor.dtype.size * tensor.shape.num_elements() for tensor in tensors)}


VARIANTS: Mapping[str, Factory] = {
    "native": unsupported("TensorFlow has no operator that multiplies by packed 4-bit weights with scales by group"),
    "dequantize": dequantize,
    "dense": dense,
    "kernel": variant("int4_matmul", "tensorflow"),
}
DEFAULT = "dequantize"
