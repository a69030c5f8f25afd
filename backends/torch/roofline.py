"""Tensor.copy_ or clone, and the operator @."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.roofline import RooflineCase


class Copying:
    """A copy into an output that is kept. A new one is paged in by the system at every call, which takes longer than the copy."""

    def __init__(self, x: torch.Tensor) -> None:
        self._x, self._out = x, torch.zeros_like(x)

    def reset(self) -> None:
        self._out.zero_()

    def __call__(self) -> Outputs:
        return {"out": self._out.copy_(self._x)}


def native(device: TorchDevice, case: RooflineCase, inputs: Arrays) -> Step:
    if case.kind == "matmul":
        a, b = (device.put(inputs[name], case.dtype) for name in "ab")
        return lambda: {"out": device.product(a, b)}
    x = device.put(inputs["x"], case.dtype)
    if device.kind == "cpu":
        return Copying(x)
    return lambda: {"out": x.clone()}  # into memory that PyTorch holds


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
