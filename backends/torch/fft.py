"""torch.fft, and the operator @ on complex numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from metalbench.backends.base import Factory, Step, Unsupported
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.fft import NOT_NAIVE, FFTCase, dft_matrix


def native(device: TorchDevice, case: FFTCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"])
    dim = tuple(range(1, x.ndim))
    forward, inverse = (torch.fft.rfftn, torch.fft.irfftn) if case.kind == "real" else (torch.fft.fftn, torch.fft.ifftn)
    if case.direction == "forward":
        return lambda: {"out": forward(x, dim=dim)}
    size = x.shape[1:]  # a real spectrum doesn't tell whether the length was odd
    return lambda: {"out": inverse(forward(x, dim=dim), s=size, dim=dim)}


def naive(device: TorchDevice, case: FFTCase, inputs: Arrays) -> Step:
    if not case.has_product:
        raise Unsupported(NOT_NAIVE)
    x, matrix = device.put(inputs["x"]), device.put(dft_matrix(case.length))
    return lambda: {"naive": device.product(x, matrix)}


VARIANTS: Mapping[str, Factory] = {"native": native, "naive": naive}
DEFAULT = "native"
