"""mx.squeeze and the operator +, each a new array, without which there would be nothing to evaluate; and through mx.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx

from metalbench.backends.base import Factory, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.dispatch import DispatchCase


def empty(x: mx.array) -> mx.array:
    return mx.squeeze(x, 1)


def tiny(x: mx.array, y: mx.array) -> mx.array:
    return x + y


OPERATORS: Mapping[str, Callable[..., mx.array]] = {"empty": empty, "tiny": tiny}


def native(device: MlxDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(OPERATORS[case.kind], device, case, inputs)


def compiled(device: MlxDevice, case: DispatchCase, inputs: Arrays) -> Step:
    return _calling(mx.compile(OPERATORS[case.kind]), device, case, inputs)


def _calling(function: Callable[..., mx.array], device: MlxDevice, case: DispatchCase, inputs: Arrays) -> Step:
    arguments = [device.put(array, case.dtype) for array in inputs.values()]
    return lambda: {"out": function(*arguments)}


VARIANTS: Mapping[str, Factory] = {"native": native, "compiled": compiled}
DEFAULT = "native"
