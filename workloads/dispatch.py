"""What a call costs before any work is done: a squeeze, which computes nothing, and a sum of a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from metalbench.workloads.base import EPS, ITEMSIZE, Array, Arrays, Case, Cost, Suite, Workload

SIZE = 16


class DispatchCase(Case, frozen=True, kw_only=True):
    """``empty``: x [16, 1] as [16], a new array that needs no kernel. ``tiny``: x [16] plus y [16], the least that needs one."""

    kind: Literal["empty", "tiny"]

    def label(self) -> str:
        return f"{self.kind} {self.dtype}"


class Dispatch(Workload[DispatchCase]):
    """Tolerance: none for a squeeze, which rounds nothing; 2·eps for a sum."""

    name = "dispatch"
    version = 1
    case_type = DispatchCase
    variants = {
        "native": "the operator called by itself",
        "compiled": "called in a function that the framework compiled",
    }

    def cases(self, suite: Suite) -> Iterable[DispatchCase]:
        """The same whatever the device; none in ``quick``, nor in ``documents``, which claim nothing of it."""
        return [] if suite in {"quick", "documents"} else [DispatchCase(kind="empty"), DispatchCase(kind="tiny")]

    def inputs(self, case: DispatchCase, rng: np.random.Generator) -> dict[str, Array]:
        """In the order of the operator's arguments."""
        if case.kind == "empty":
            return {"x": rng.standard_normal((SIZE, 1), dtype=np.float32)}
        return {name: rng.standard_normal(SIZE, dtype=np.float32) for name in "xy"}

    def reference(self, case: DispatchCase, inputs: Arrays) -> dict[str, Array]:
        x = inputs["x"].astype(np.float64)
        return {"out": x.reshape(SIZE) if case.kind == "empty" else x + inputs["y"]}

    def cost(self, case: DispatchCase, variant: str) -> Cost:  # noqa: ARG002 - the same for both
        empty = case.kind == "empty"
        traffic = ITEMSIZE[case.dtype] * SIZE * (2 if empty else 3)
        return Cost(flops=0 if empty else SIZE, bytes=traffic, footprint=traffic)

    def tolerance(self, case: DispatchCase) -> float:
        return 0.0 if case.kind == "empty" else 2 * EPS[case.dtype]


WORKLOAD = Dispatch()
