"""mx.fft, and the operator @ on complex numbers."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from metalbench.backends.base import Factory, Step, Unsupported
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.fft import NOT_NAIVE, FFTCase, dft_matrix


def native(device: MlxDevice, case: FFTCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"])
    axes = list(range(1, x.ndim))
    forward, inverse = (mx.fft.rfftn, mx.fft.irfftn) if case.kind == "real" else (mx.fft.fftn, mx.fft.ifftn)
    if case.direction == "forward":
        return lambda: {"out": forward(x, axes=axes)}
    size = x.shape[1:]  # a real spectrum doesn't tell whether the length was odd
    return lambda: {"out": inverse(forward(x, axes=axes), s=size, axes=axes)}


def naive(device: MlxDevice, case: FFTCase, inputs: Arrays) -> Step:
    if not case.has_product:
        raise Unsupported(NOT_NAIVE)
    x, matrix = device.put(inputs["x"]), device.put(dft_matrix(case.length))
    return lambda: {"naive": device.product(x, matrix)}


VARIANTS: Mapping[str, Factory] = {"native": native, "naive": naive}
DEFAULT = "native"
