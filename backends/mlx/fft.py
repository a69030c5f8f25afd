"""mx.fft."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from metalbench.backends.base import Factory, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.fft import FFTCase


def native(device: MlxDevice, case: FFTCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"])
    axes = list(range(1, x.ndim))
    forward, inverse = (mx.fft.rfftn, mx.fft.irfftn) if case.kind == "real" else (mx.fft.fftn, mx.fft.ifftn)
    if case.direction == "forward":
        return lambda: {"out": forward(x, axes=axes)}
    size = x.shape[1:]  # a real spectrum doesn't tell whether the length was odd
    return lambda: {"out": inverse(forward(x, axes=axes), s=size, axes=axes)}


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
