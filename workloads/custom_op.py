"""Softshrink, an operator that accelerators had to do without for long: the framework's own, composed, compiled, and over the CPU.

Every call gives a new tensor, as everywhere in a network. On the CPU the system pages a large one in at every call, and that is
part of what each variant takes there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from metalbench.workloads.base import EPS, ITEMSIZE, Array, Arrays, Case, Cost, DType, Suite, Workload, rounded, sampled

LAMBDA = 0.5  #: exact in every dtype, and every framework's own choice
NOWHERE = "the device is the CPU: there is nothing to fall back from"
FULL_REFERENCE = 1 << 20  #: elements up to which all are computed


class CustomOpCase(Case, frozen=True, kw_only=True):
    """x [size] in ``dtype``; the output has the same shape and dtype."""

    size: int

    def label(self) -> str:
        return f"softshrink {self.size * ITEMSIZE[self.dtype] / 2**20:g} MiB {self.dtype}"


class CustomOp(Workload[CustomOpCase]):
    """sign(x)·max(|x| − λ, 0), elementwise. Tolerance: one subtraction and no sum, so that nothing but 2·eps of the dtype is due."""

    name = "custom_op"
    version = 1
    case_type = CustomOpCase
    variants = {
        "builtin": "the framework's own softshrink",
        "composed": "sign, absolute value, difference, maximum and product, one after the other",
        "compiled": "the same through the framework's compiler",
        "fallback": "copied to the CPU, computed there, copied back",
        "kernel": "a hand-written kernel of this project",
    }

    def cases(self, suite: Suite) -> Iterable[CustomOpCase]:
        if suite == "quick":
            return []
        if suite == "documents":
            return [CustomOpCase(size=1 << 24)]
        dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")
        return [CustomOpCase(size=1 << 26 if suite == "standard" else 1 << 28, dtype=dtype) for dtype in dtypes]

    def inputs(self, case: CustomOpCase, rng: np.random.Generator) -> dict[str, Array]:
        return {"x": rounded(rng.standard_normal(case.size, dtype=np.float32), case.dtype)}

    def reference(self, case: CustomOpCase, inputs: Arrays) -> dict[str, Array]:
        x = inputs["x"]
        if case.size <= FULL_REFERENCE:
            return {"out": _softshrink(x)}
        at = sampled(case.size)
        return {"out": _softshrink(x[at]), "out.at": at}

    def cost(self, case: CustomOpCase, variant: str) -> Cost:
        """Two FLOPs an element, a comparison and a difference. One operator after the other leaves up to four more arrays on the way."""
        traffic = 2 * case.size * ITEMSIZE[case.dtype]
        between = 2 * traffic if variant in {"builtin", "composed"} else 0  # a framework's own need not be one kernel
        return Cost(flops=2 * case.size, bytes=traffic, footprint=traffic + between)

    def tolerance(self, case: CustomOpCase) -> float:
        return 2 * EPS[case.dtype]


def _softshrink(x: Array) -> Array:
    """In float64, by cases."""
    wide = x.astype(np.float64)
    return np.where(wide > LAMBDA, wide - LAMBDA, np.where(wide < -LAMBDA, wide + LAMBDA, 0.0))


WORKLOAD = CustomOp()
