"""A workload that sleeps: its cells take as long whatever else the machine does."""

import time

import numpy as np

from metalbench.backends.base import Implementation
from metalbench.workloads.base import Case, Cost, Workload, reduction_tolerance


class SleeperCase(Case, frozen=True, kw_only=True):
    number: int
    milliseconds: int  #: a call


class Sleeper(Workload[SleeperCase]):
    name = "sleeper"
    version = 1
    case_type = SleeperCase
    variants = {"native": "the only way"}

    def cases(self, suite):
        return [SleeperCase(number=number, milliseconds=long) for long in (100, 3000) for number in range(8)]

    def inputs(self, case, rng):
        return {"a": rng.standard_normal((8, 8)).astype(np.float32)}

    def reference(self, case, inputs):
        return {"out": inputs["a"].astype(np.float64)}

    def cost(self, case, variant):
        return Cost(flops=64, bytes=512, footprint=1 << 20)

    def tolerance(self, case):
        return reduction_tolerance(case.dtype, 1)


def nap(device, case, inputs):
    a = device.put(inputs["a"])

    def step():
        time.sleep(case.milliseconds / 1000)
        return {"out": a}

    return step


WORKLOAD = Sleeper()
IMPLEMENTATIONS = {("numpy", "sleeper"): Implementation({"native": nap}, "native")}
