"""How the weights of int4_matmul.cuh lie in memory, and how many warps share its work."""

from __future__ import annotations

import numpy as np

from metalbench.workloads.base import Array, DType

TILE_ROWS, TILE_K = 16, 64
COLUMNS = 8  #: of one product on the tensor cores
MOST_SETS = 4  #: of columns that a block takes
WARPS, DEPTH = 8, 2  #: warps of a block, and tiles that each reads at once: the fastest of those tried on an H200
C_TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
TERMS = {"float32": 3, "float16": 1, "bfloat16": 1}  #: columns that a row of activations takes


def template(dtype: DType, group: int, rows: int) -> tuple[str, int, int, int, int]:
    """The arguments of the template for ``rows`` rows of activations."""
    sets = min(MOST_SETS, -(-rows * TERMS[dtype] // COLUMNS))
    return C_TYPES[dtype], group, sets, WARPS, DEPTH


def blocks(dtype: DType, rows: int, columns: int) -> tuple[int, int]:
    """Of the grid, for ``rows`` rows of activations and ``columns`` columns of the product."""
    sets = template(dtype, TILE_K, rows)[2]
    return -(-columns // TILE_ROWS), -(-rows // (sets * COLUMNS // TERMS[dtype]))


def tiled_codes(codes: Array) -> Array:
    """uint8 [n, k] → uint32 [n / 16, k / 64, 32, 4], padded with zeros: a lane's four words for mma.m16n8k16, one after the other.

    A word has four codes of the lane's upper row and four of the lower one, 8 rows below. The even of two neighbouring codes is in the
    lower half-word, and the odd in the same place of the upper.
    """
    n, k = codes.shape
    rows, tiles = -(-n // TILE_ROWS), -(-k // TILE_K)
    padded = np.zeros((rows * TILE_ROWS, tiles * TILE_K), np.uint32)
    padded[:n, :k] = codes
    axes = padded.reshape(rows, 2, 8, tiles, 2, 4, 2, 2, 2)  # tile; upper or lower, row; tile, half, quarter, step, pair, even or odd
    # tile, tile; row, quarter: a lane; half, step: a word; pair, upper or lower, even or odd
    words = axes.transpose(0, 3, 2, 5, 4, 6, 7, 1, 8)
    pair, lower, odd = np.ogrid[:2, :2, :2]
    shifts = (4 * (2 * pair + lower + 4 * odd)).astype(np.uint32)
    packed: Array = np.bitwise_or.reduce(words << shifts, axis=(-3, -2, -1)).reshape(rows, tiles, 32, 4)
    return packed


def tiled_parameters(scales: Array, offsets: Array, group: int) -> Array:
    """float32 [n, k / group] twice → float32 [n / 16, k / group, 16, 2], padded with zeros to whole tiles, the scale first."""
    n, groups = scales.shape
    rows, all_groups = -(-n // TILE_ROWS), -(-groups * group // TILE_K) * TILE_K // group
    padded = np.zeros((rows * TILE_ROWS, all_groups, 2), np.float32)
    padded[:n, :groups, 0], padded[:n, :groups, 1] = scales, offsets
    return np.ascontiguousarray(padded.reshape(rows, TILE_ROWS, all_groups, 2).transpose(0, 2, 1, 3))
