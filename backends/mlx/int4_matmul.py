"""4-bit weights in MLX: mx.quantized_matmul, and mx.dequantize with a dense product."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from metalbench.backends.base import Factory, Step, Told
from metalbench.backends.mlx.device import MlxDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import Int4MatmulCase, pack_bytes


def native(device: MlxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, packed, scales, offsets = _packed(device, case, inputs)
    return Told(
        lambda: {"out": mx.quantized_matmul(x, packed, scales, offsets, transpose=True, group_size=case.group, bits=4)},
        figures=stored(packed, scales, offsets),
    )


def dequantize(device: MlxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, packed, scales, offsets = _packed(device, case, inputs)
    return Told(
        lambda: {"out": x @ mx.dequantize(packed, scales, offsets, group_size=case.group, bits=4).T},
        figures=stored(packed, scales, offsets),
    )


def dense(device: MlxDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, weights = device.put(inputs["x"], case.dtype), device.put(inputs["weights"], case.dtype)
    return Told(lambda: {"dense": x @ weights.T}, figures=stored(weights))


def stored(*arrays: mx.array) -> dict[str, float]:
    """The figure ``weight_bytes``: of the weights and what belongs to them."""
    return {"weight_bytes": sum(array.nbytes for array in arrays)}


def _packed(device: MlxDevice, case: Int4MatmulCase, inputs: Arrays) -> list[mx.array]:
    """x, the codes eight to a 32-bit word (the first in the lowest bits), scales, and offsets, which MLX calls biases."""
    words = pack_bytes(inputs["codes"]).view("<u4")
    return [
        device.put(inputs["x"], case.dtype),
        device.put(words),
        device.put(inputs["scales"], case.dtype),
        device.put(inputs["offsets"], case.dtype),
    ]


VARIANTS: Mapping[str, Factory] = {
    "native": native,
    "dequantize": dequantize,
    "dense": dense,
    "kernel": variant("int4_matmul", "mlx"),
}
DEFAULT = "native"
