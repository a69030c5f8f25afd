"""Softshrink by hand. Here: what a module of it offers, and how its work is laid out on a GPU, whoever starts it."""

from __future__ import annotations

from collections.abc import Callable

from metalbench.backends.base import Device, DeviceArray, Step
from metalbench.kernels.binding import Kernel
from metalbench.workloads.base import Arrays
from metalbench.workloads.custom_op import LAMBDA, CustomOpCase

ELEMENTS = 4  #: that one thread takes
THREADS = 256  #: of a threadgroup


def threads(length: int) -> int:
    """How many threads take ``length`` elements; the last one may have fewer."""
    return -(-length // ELEMENTS)


def step(softshrink: Callable[[DeviceArray, float], DeviceArray], device: Device, case: CustomOpCase, inputs: Arrays) -> Step:
    """``softshrink(x, threshold)``: x [size] in the case's dtype, on the device → a new array like it; x stays as it is."""
    x = device.put(inputs["x"], case.dtype)
    return lambda: {"out": softshrink(x, LAMBDA)}


KERNEL = Kernel("custom_op", "softshrink", step)
