"""The two speeds that all other work is held against: a copy larger than any cache, and a product of square matrices.

No work is done sooner than its bytes are moved and its FLOPs are done, so that the slower of the two is a bound on any
implementation's time (Williams, Waterman and Patterson, Roofline, 2009). Here both are measured, through each framework, not looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from metalbench.workloads.base import ITEMSIZE, Array, Arrays, Case, Cost, DType, Suite, Workload, reduction_tolerance, rounded, sampled

FULL_REFERENCE = 1 << 20  #: elements of an output up to which all are computed
SAMPLED_ROWS = 6


class RooflineCase(Case, frozen=True, kw_only=True):
    """``copy``: x [size], every byte read and written. ``matmul``: a [size, size] times b [size, size]."""

    kind: Literal["copy", "matmul"]
    size: int

    def label(self) -> str:
        if self.kind == "matmul":
            return f"matmul {self.size}×{self.size}×{self.size} {self.dtype}"
        return f"copy {self.size * ITEMSIZE[self.dtype] / 2**20:g} MiB {self.dtype}"


class Roofline(Workload[RooflineCase]):
    """Tolerance: the common one over K = size terms for a product; none for a copy, which rounds nothing."""

    name = "roofline"
    version = 1
    case_type = RooflineCase
    variants = {"native": "the framework's own copy and product"}

    def cases(self, suite: Suite) -> Iterable[RooflineCase]:
        """One copy a suite, since its speed is in bytes, whatever they mean; products in every dtype but for ``documents``.

        None in ``quick``: a product that a CPU does in a blink says nothing of a GPU's peak.
        """
        if suite == "quick":
            return []
        if suite == "documents":
            return [_case("copy", 1 << 24), _case("matmul", 1024)]
        copied, side = (1 << 26, 2048) if suite == "standard" else (1 << 28, 8192)
        dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")
        return [_case("copy", copied), *(_case("matmul", side, dtype) for dtype in dtypes)]

    def inputs(self, case: RooflineCase, rng: np.random.Generator) -> dict[str, Array]:
        shapes: dict[str, tuple[int, ...]] = {"x": (case.size,)} if case.kind == "copy" else dict.fromkeys("ab", (case.size, case.size))
        return {name: rounded(rng.standard_normal(shape, dtype=np.float32), case.dtype) for name, shape in shapes.items()}

    def reference(self, case: RooflineCase, inputs: Arrays) -> dict[str, Array]:
        if case.kind == "copy":
            return _copied(inputs["x"])
        return _multiplied(inputs["a"], inputs["b"])

    def cost(self, case: RooflineCase, variant: str) -> Cost:  # noqa: ARG002 - there is one
        copy = case.kind == "copy"
        traffic = ITEMSIZE[case.dtype] * (2 * case.size if copy else 3 * case.size**2)
        return Cost(flops=0 if copy else 2 * case.size**3, bytes=traffic, footprint=2 * traffic)

    def tolerance(self, case: RooflineCase) -> float:
        return 0.0 if case.kind == "copy" else reduction_tolerance(case.dtype, case.size)


def _case(kind: Literal["copy", "matmul"], size: int, dtype: DType = "float32") -> RooflineCase:
    return RooflineCase(kind=kind, size=size, dtype=dtype)


def _copied(x: Array) -> dict[str, Array]:
    if x.size <= FULL_REFERENCE:
        return {"out": x.astype(np.float64)}
    at = sampled(x.size)
    return {"out": x[at].astype(np.float64), "out.at": at}


def _multiplied(a: Array, b: Array) -> dict[str, Array]:
    size = len(a)
    if size * size <= FULL_REFERENCE:
        return {"out": a.astype(np.float64) @ b.astype(np.float64)}
    rows = np.unique([0, size - 1, *np.random.default_rng(0).choice(size, min(size, SAMPLED_ROWS - 2), replace=False)])
    at = rows[:, None] * size + np.arange(size)
    return {"out": (a[rows].astype(np.float64) @ b.astype(np.float64)).reshape(-1), "out.at": at.reshape(-1)}


WORKLOAD = Roofline()
