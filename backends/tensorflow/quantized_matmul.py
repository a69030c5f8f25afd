"""Quantized weights in TensorFlow, unpacked or converted inside the compiled product. There is no operator on packed groups."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from metalbench.backends.base import Factory, Step, Told, Unsupported, unsupported
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.backends.tensorflow.int4_matmul import dense, stored
from metalbench.backends.tensorflow.int4_matmul import dequantize as dequantize_int4
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import pack_bytes
from metalbench.workloads.quantized_matmul import QuantizedMatmulCase


def scale_and_multiply(x: tf.Tensor, codes: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    """x [m, k]; signed codes, a byte each, [n, k]; scales [n, k / group, 1]."""
    weights = tf.cast(tf.reshape(codes, (*scales.shape[:2], -1)), x.dtype) * scales
    return tf.linalg.matmul(x, tf.reshape(weights, codes.shape), transpose_b=True)


def look_up_and_multiply(x: tf.Tensor, packed: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """x [m, k]; two codes a byte [n, k / 2], the even one in the low half; tables [n / rows, 16], each of so many rows."""
    codes = tf.stack((tf.bitwise.bitwise_and(packed, 15), tf.bitwise.right_shift(packed, 4)), axis=-1)
    weights = tf.gather(tables, tf.cast(tf.reshape(codes, (tables.shape[0], -1)), tf.int32), batch_dims=1)
    return tf.linalg.matmul(x, tf.reshape(weights, (packed.shape[0], -1)), transpose_b=True)


def dequantize(device: TensorflowDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    if case.scheme == "int4":
        return dequantize_int4(device, case, inputs)
    x = device.put(inputs["x"], case.dtype)
    if case.scheme == "int8":
        product = device.function(scale_and_multiply, jit=True)
        codes, scales = device.put(inputs["codes"]), device.put(inputs["scales"][..., None], case.dtype)
        return Told(lambda: {"out": product(x, codes, scales)}, figures=stored(codes, scales))
    product = device.function(look_up_and_multiply, jit=True)
    packed, tables = device.put(pack_bytes(inputs["codes"])), device.put(inputs["tables"], case.dtype)
    return Told(lambda: {"out": product(x, packed, tables)}, figures=stored(packed, tables))


def convert_and_multiply(x: tf.Tensor, codes: tf.Tensor, scales: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """x [m, k]; uint4 codes [n, k], which convert to whole bytes only; scales and offsets [n, k / group, 1]."""
    whole = tf.reshape(tf.cast(codes, tf.uint8), (*scales.shape[:2], -1))
    weights = tf.cast(whole, x.dtype) * scales + offsets
    return tf.linalg.matmul(x, tf.reshape(weights, codes.shape), transpose_b=True)


def uint4(device: TensorflowDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    """Not through XLA: it takes the codes, of which TensorFlow stores each in a byte, for packed ones."""
    if case.scheme != "int4":
        raise Unsupported("this variant is one of linear 4-bit codes")
    product = device.function(convert_and_multiply)
    x, codes = device.put(inputs["x"], case.dtype), device.put(inputs["codes"], "uint4")
    scales, offsets = (device.put(inputs[name][..., None], case.dtype) for name in ("scales", "offsets"))
    return Told(lambda: {"out": product(x, codes, scales, offsets)}, figures=stored(codes, scales, offsets))


VARIANTS: Mapping[str, Factory] = {
    "native": unsupported("TensorFlow has no operator that multiplies by packed weights with scales by group, or from a lookup table"),
    "dequantize": dequantize,
    "uint4": uint4,
    "dense": dense,
}
DEFAULT = "dequantize"
