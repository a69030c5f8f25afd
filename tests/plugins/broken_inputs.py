"""A workload, with annotations that are strings, one of whose cases can't be prepared."""

from __future__ import annotations

from typing import Literal

import numpy as np

from metalbench.backends.base import Implementation
from metalbench.workloads.base import Case, Cost, Workload


class BrokenCase(Case, frozen=True, kw_only=True):
    at: Literal["nowhere", "inputs", "reference", "cost"]


class BrokenInputs(Workload[BrokenCase]):
    name = "broken_inputs"
    version = 1
    case_type = BrokenCase
    variants = {"native": "the only way"}

    def cases(self, suite):
        return [BrokenCase(at=at) for at in ("nowhere", "inputs", "reference", "cost")]

    def inputs(self, case, rng):
        if case.at == "inputs":
            raise KeyError("inputs")
        return {"a": np.ones((4, 4), np.float32)}

    def reference(self, case, inputs):
        if case.at == "reference":
            raise ZeroDivisionError("reference")
        return {"out": np.full((4, 4), 4.0)}

    def cost(self, case, variant):
        if case.at == "cost":
            raise ValueError("cost")
        return Cost(flops=128, bytes=128, footprint=128)

    def tolerance(self, case):
        return 1e-6


def product(device, case, inputs):
    a = device.put(inputs["a"])
    return lambda: {"out": device.product(a, a)}


WORKLOAD = BrokenInputs()
IMPLEMENTATIONS = {("numpy", "broken_inputs"): Implementation({"native": product}, "native")}
