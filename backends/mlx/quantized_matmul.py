"""Quantized weights in MLX: mx.quantized_matmul, and mx.dequantize or a lookup with a dense product."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
import numpy as np

from metalbench.backends.base import Factory, Step, Told, Unsupported, unsupported
from metalbench.backends.mlx.device import MlxDevice
from metalbench.backends.mlx.int4_matmul import dense, stored
from metalbench.backends.mlx.int4_matmul import dequantize as dequantize_int4
from metalbench.backends.mlx.int4_matmul import native as native_int4
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import pack_bytes
from metalbench.workloads.quantized_matmul import QuantizedMatmulCase

LONGEST_GROUP = 128


def native(device: MlxDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    if case.scheme == "int4":
        return native_int4(device, case, inputs)
    if case.scheme == "lookup4":
        raise Unsupported("MLX has no operator that multiplies by weights from a lookup table")
    x, group = device.put(inputs["x"], case.dtype), min(case.group, LONGEST_GROUP)
    words, scales, offsets = _packed_bytes(device, case, inputs)
    return Told(
        lambda: {"out": mx.quantized_matmul(x, words, scales, offsets, transpose=True, group_size=group, bits=8)},
        figures=stored(words, scales, offsets),
    )


@mx.compile
def look_up(packed: mx.array, tables: mx.array) -> mx.array:
    """Two codes a byte [n, k / 2], the even one in the low half; tables [n / rows, 16], each of so many rows. Gives weights [n, k]."""
    codes = mx.stack([packed & 15, packed >> 4], axis=-1).reshape(tables.shape[0], -1)
    return mx.take_along_axis(tables, codes, axis=1).reshape(packed.shape[0], -1)


def dequantize(device: MlxDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    if case.scheme == "int4":
        return dequantize_int4(device, case, inputs)
    x, group = device.put(inputs["x"], case.dtype), min(case.group, LONGEST_GROUP)
    if case.scheme == "int8":
        words, scales, offsets = _packed_bytes(device, case, inputs)
        return Told(
            lambda: {"out": x @ mx.dequantize(words, scales, offsets, group_size=group, bits=8).T}, figures=stored(words, scales, offsets)
        )
    packed, tables = device.put(pack_bytes(inputs["codes"])), device.put(inputs["tables"], case.dtype)
    return Told(lambda: {"out": x @ look_up(packed, tables).T}, figures=stored(packed, tables))


def _packed_bytes(device: MlxDevice, case: QuantizedMatmulCase, inputs: Arrays) -> list[mx.array]:
    """Unsigned codes four to a 32-bit word, scales, and offsets that make them signed again; a longer group repeats its scale."""
    words = (inputs["codes"].view(np.uint8) ^ 128).view("<u4")  # code + 128
    scales = np.repeat(inputs["scales"], max(case.group // LONGEST_GROUP, 1), axis=1)
    return [device.put(words), device.put(scales, case.dtype), device.put(-128 * scales, case.dtype)]


VARIANTS: Mapping[str, Factory] = {
    "native": native,
    "dequantize": dequantize,
    "uint4": unsupported("MLX has no type of 4 bits"),
    "dense": dense,
}
DEFAULT = "native"
