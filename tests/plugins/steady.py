"""A workload of small even cells for NumPy's plug-in framework: a run of it can be interrupted at any moment."""

import numpy as np

from metalbench.backends.base import Implementation
from metalbench.workloads.base import Case, Cost, Workload, reduction_tolerance


class SteadyCase(Case, frozen=True, kw_only=True):
    size: int


class Steady(Workload[SteadyCase]):
    name = "steady"
    version = 1
    case_type = SteadyCase
    variants = {"native": "the only way"}

    def cases(self, suite):
        return [SteadyCase(size=size) for size in (16, 24, 32, 48, 64)]

    def inputs(self, case, rng):
        return {"a": rng.standard_normal((case.size, case.size)).astype(np.float32)}

    def reference(self, case, inputs):
        a = inputs["a"].astype(np.float64)
        return {"out": a @ a}

    def cost(self, case, variant):
        return Cost(flops=2 * case.size**3, bytes=8 * case.size**2, footprint=1 << 20)

    def tolerance(self, case):
        return reduction_tolerance(case.dtype, case.size)


def product(device, case, inputs):
    a = device.put(inputs["a"])
    return lambda: {"out": device.product(a, a)}


WORKLOAD = Steady()
IMPLEMENTATIONS = {("numpy", "steady"): Implementation({"native": product}, "native")}
