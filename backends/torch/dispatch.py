"""Tensor.squeeze, which makes a view, and the operator +: called by themselves, and through torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from metalbench.backends.base import Factory, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.dispatch import DispatchCase


def empty(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze(1)


def tiny(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


OPERATORS: Mapping[str, Callable[..., torch.Tensor]] = {"empty": empty, "tiny": tiny}


def native(device: TorchDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(OPERATORS[case.kind], device, case, inputs)


def compiled(device: TorchDevice, case: DispatchCase, inputs: Arrays) -> Step:
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    return _calling(torch.compile(OPERATORS[case.kind], fullgraph=True, dynamic=False), device, case, inputs)


def _calling(function: Callable[..., torch.Tensor], device: TorchDevice, case: DispatchCase, inputs: Arrays) -> Step:
    arguments = [device.put(array, case.dtype) for array in inputs.values()]
    return lambda: {"out": function(*arguments)}


VARIANTS: Mapping[str, Factory] = {"native": native, "compiled": compiled}
DEFAULT = "native"
