"""Few rows times 4-bit weights by hand. Here: what a module of it offers, and how the work is laid out on a GPU of Apple's."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from metalbench.backends.base import Device, DeviceArray, Step
from metalbench.kernels.binding import Kernel
from metalbench.workloads.base import Array, Arrays, DType
from metalbench.workloads.int4_matmul import Int4MatmulCase

#: (dtype, codes, scales, offsets) → (x → x times the weights): packing is done once, outside of what is timed.
ByWeights = Callable[[DType, Array, Array, Array], Callable[[DeviceArray], DeviceArray]]

LANES = 32  #: of a SIMD group
MOST_ROWS = 8  #: of a tile: with 4 columns 32 sums a lane, which leaves registers for what they are made of


class Layout(NamedTuple):
    """A threadgroup of ``simdgroups`` computes a tile of rows × columns outputs, and all its lanes share out the sum over k."""

    rows: int
    columns: int
    simdgroups: int
    grid: tuple[int, int]  #: threads along columns and rows
    threadgroup: tuple[int, int]


def layout(m: int, n: int) -> Layout:
    """For m rows of x and n columns of the product. Tiles are as tall as m needs, up to a limit, so that weights are read once for it."""
    rows = min(1 << (m - 1).bit_length(), MOST_ROWS)
    columns, simdgroups = 4, 2
    width = simdgroups * LANES
    return Layout(rows, columns, simdgroups, (-(-n // columns) * width, -(-m // rows)), (width, 1))


def step(by_weights: ByWeights, device: Device, case: Int4MatmulCase, inputs: Arrays) -> Step:
    """``by_weights(dtype, codes, scales, offsets)``: NumPy's uint8 [n, k] of 0…15, float32 [n, k / group] twice → the product.

    The product takes x [m, k] in ``dtype``, on the device, and gives [m, n] in the same.
    """
    x = device.put(inputs["x"], case.dtype)
    product = by_weights(case.dtype, inputs["codes"], inputs["scales"], inputs["offsets"])
    return lambda: {"out": product(x)}


KERNEL = Kernel("int4_matmul", "by_weights", step)
