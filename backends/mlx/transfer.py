"""mx.array and np.array, which copy, and mx.from_dlpack and np.asarray, which share memory where MLX can."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
import numpy as np

from metalbench.backends.base import Factory, Step, Unsupported
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.transfer import Receiving, Sending, TransferCase


def copy(device: MlxDevice, case: TransferCase, inputs: Arrays) -> Step:
    if case.direction == "to_device":
        return Sending(device, inputs["x"], mx.array)
    return Receiving(device, inputs["x"], np.array)


def share(device: MlxDevice, case: TransferCase, inputs: Arrays) -> Step:
    if case.direction == "to_host":
        return Receiving(device, inputs["x"], np.asarray)
    if not hasattr(mx, "from_dlpack"):
        raise Unsupported("this release of MLX has no mx.from_dlpack, and mx.array copies")
    return Sending(device, inputs["x"], mx.from_dlpack)


VARIANTS: Mapping[str, Factory] = {"copy": copy, "share": share}
DEFAULT = "copy"
