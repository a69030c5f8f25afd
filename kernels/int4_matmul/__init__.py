"""Few rows times 4-bit weights by hand. Here: how the work is laid out on a GPU of Apple's, whoever starts it."""

from __future__ import annotations

from typing import NamedTuple

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
