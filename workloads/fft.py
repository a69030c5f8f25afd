"""Discrete Fourier transforms: one- and two-dimensional, complex and real, forward and there-and-back."""

from __future__ import annotations

from typing import Literal

from metalbench.workloads.base import Case


class FFTCase(Case, frozen=True, kw_only=True):
    """``x`` is [batch, length], or [batch, rows, length] where ``rows`` > 1: complex64, or float32 for ``real``.

    ``forward`` gives the unnormalised spectrum (``real``: the non-negative half along the last axis); ``roundtrip`` the inverse
    of it, scaled by 1/N, which is ``x`` again.
    """

    kind: Literal["complex", "real"]
    batch: int
    rows: int
    length: int
    direction: Literal["forward", "roundtrip"]
