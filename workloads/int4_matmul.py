"""Activations times 4-bit weights with one scale and offset per group, as language models decode with."""

from __future__ import annotations

from metalbench.workloads.base import Case


class Int4MatmulCase(Case, frozen=True, kw_only=True):
    """x [m, k] in ``dtype`` times weights [n, k] transposed; ``group`` weights along k share a scale and an offset."""

    m: int
    n: int
    k: int
    group: int
