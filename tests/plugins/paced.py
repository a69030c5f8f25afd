"""A workload whose variants do the same product a known number of times."""

import numpy as np

from metalbench.backends.base import Implementation
from metalbench.workloads.base import Case, Cost, Workload, reduction_tolerance

COUNTS = {"base": 100, "equal": 100, "slower6": 106, "slower10": 110, "slower40": 140}


class PacedCase(Case, frozen=True, kw_only=True):
    size: int


class Paced(Workload[PacedCase]):
    name = "paced"
    version = 1
    case_type = PacedCase
    variants = {name: f"{count} times" for name, count in COUNTS.items()}

    def cases(self, suite):
        return [PacedCase(size=size) for size in (12, 24, 32)]

    def inputs(self, case, rng):
        return {"a": rng.standard_normal((case.size, case.size)).astype(np.float32)}

    def reference(self, case, inputs):
        a = inputs["a"].astype(np.float64)
        return {"out": a @ a}

    def cost(self, case, variant):
        return Cost(flops=2 * COUNTS[variant] * case.size**3, bytes=8 * case.size**2, footprint=1 << 20)

    def tolerance(self, case):
        return reduction_tolerance(case.dtype, case.size)


def repeated(count):
    def build(device, case, inputs):
        a = device.put(inputs["a"])

        def step():
            for _ in range(count):
                out = device.product(a, a)
            return {"out": out}

        return step

    return build


WORKLOAD = Paced()
IMPLEMENTATIONS = {("numpy", "paced"): Implementation({name: repeated(count) for name, count in COUNTS.items()}, "base")}
