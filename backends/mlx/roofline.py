"""A product with 1 and the operator @.

Arrays of MLX don't change and share their memory, so that no operator copies a whole one: mx.contiguous and copy.copy hand on what they
got. To multiply by 1 reads and writes every byte. There is no output to give either; on the CPU the system pages a new one in at every
call, and that is the most that MLX does there.
"""

from __future__ import annotations

from collections.abc import Mapping

from metalbench.backends.base import Factory, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.roofline import RooflineCase


def native(device: MlxDevice, case: RooflineCase, inputs: Arrays) -> Step:
    if case.kind == "matmul":
        a, b = (device.put(inputs[name], case.dtype) for name in "ab")
        return lambda: {"out": device.product(a, b)}
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": x * 1}


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
