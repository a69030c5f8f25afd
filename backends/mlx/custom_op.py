"""Softshrink in MLX: mlx.nn's, operator by operator, through mx.compile, and by the CPU."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
from mlx import nn

from metalbench.backends.base import Factory, Outputs, Step, Unsupported
from metalbench.backends.mlx.device import MlxDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.custom_op import LAMBDA, NOWHERE, CustomOpCase


def shrink(x: mx.array) -> mx.array:
    return mx.sign(x) * mx.maximum(mx.abs(x) - LAMBDA, 0)


def builtin(device: MlxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": nn.softshrink(x, LAMBDA)}


def composed(device: MlxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": shrink(x)}


def compiled(device: MlxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    one_kernel = mx.compile(shrink)
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": one_kernel(x)}


def fallback(device: MlxDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    """On the CPU's stream. An array of MLX has no device: both read and write the same memory, and no copy is there to be made."""
    if device.kind == "cpu":
        raise Unsupported(NOWHERE)
    x = device.put(inputs["x"], case.dtype)

    def step() -> Outputs:
        with mx.stream(mx.cpu):
            return {"out": nn.softshrink(x, LAMBDA)}

    return step


VARIANTS: Mapping[str, Factory] = {
    "builtin": builtin,
    "composed": composed,
    "compiled": compiled,
    "fallback": fallback,
    "kernel": variant("softshrink", "mlx"),
}
DEFAULT = "builtin"
