"""Softshrink in PyTorch: torch.nn.functional's, operator by operator, through torch.compile, and over the CPU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

from metalbench.backends.base import Factory, Step, Unsupported
from metalbench.backends.torch.device import TorchDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.custom_op import LAMBDA, NOWHERE, CustomOpCase


def shrink(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x) * torch.clamp(torch.abs(x) - LAMBDA, min=0)


def builtin(device: TorchDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": functional.softshrink(x, LAMBDA)}


def composed(device: TorchDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": shrink(x)}


def compiled(device: TorchDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    one_kernel = torch.compile(shrink, fullgraph=True, dynamic=False)
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": one_kernel(x)}


def fallback(device: TorchDevice, case: CustomOpCase, inputs: Arrays) -> Step:
    """What PYTORCH_ENABLE_MPS_FALLBACK does for an operator that Metal lacks."""
    if device.kind == "cpu":
        raise Unsupported(NOWHERE)
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": functional.softshrink(x.cpu(), LAMBDA).to(device.torch_device)}


VARIANTS: Mapping[str, Factory] = {
    "builtin": builtin,
    "composed": composed,
    "compiled": compiled,
    "fallback": fallback,
    "kernel": variant("softshrink", "torch"),
}
DEFAULT = "builtin"
