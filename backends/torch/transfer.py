"""torch.tensor and Tensor.to, which copy; torch.as_tensor and Tensor.numpy, which share the CPU's memory and copy any other device's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from metalbench.backends.base import Factory, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.transfer import Receiving, Sending, TransferCase


def brought(x: torch.Tensor) -> Array:
    return x.to("cpu", copy=True).numpy()


def kept(x: torch.Tensor) -> Array:
    return x.numpy(force=True)


def copy(device: TorchDevice, case: TransferCase, inputs: Arrays) -> Step:
    if case.direction == "to_device":
        return Sending(device, inputs["x"], partial(torch.tensor, device=device.torch_device))
    return Receiving(device, inputs["x"], brought)


def share(device: TorchDevice, case: TransferCase, inputs: Arrays) -> Step:
    if case.direction == "to_device":
        return Sending(device, inputs["x"], partial(torch.as_tensor, device=device.torch_device))
    return Receiving(device, inputs["x"], kept)


VARIANTS: Mapping[str, Factory] = {"copy": copy, "share": share}
DEFAULT = "copy"
