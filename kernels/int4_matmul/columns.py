"""How the weights of int4_matmul.cpp lie in memory: as many columns of the product side by side as a vector has lanes."""

from __future__ import annotations

import numpy as np

from metalbench.workloads.base import Array

CODES = 8  #: a word


def word_columns(codes: Array, lanes: int) -> Array:
    """uint8 [n, k] → uint32 [n / lanes, k / 8, lanes], padded with zeros: eight codes along k a word, the first in the lowest bits."""
    words = np.bitwise_or.reduce(codes.reshape(len(codes), -1, CODES) << np.arange(0, 32, 4, dtype=np.uint32), axis=-1)
    return parameter_columns(words, lanes)


def parameter_columns(parameters: Array, lanes: int) -> Array:
    """[n, length] → [n / lanes, length, lanes], padded with zeros."""
    n, length = parameters.shape
    padded = np.zeros((-(-n // lanes) * lanes, length), parameters.dtype)
    padded[:n] = parameters
    return np.ascontiguousarray(padded.reshape(-1, lanes, length).swapaxes(1, 2))
