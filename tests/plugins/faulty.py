"""A plug-in with a framework of its own, NumPy, and a workload whose cases go wrong in every way a worker can."""

import os
import signal
import time

import numpy as np

from metalbench.backends.base import DeviceKind, DeviceMemory, Framework, Implementation
from metalbench.workloads.base import Case, Cost, Workload, reduction_tolerance

FRAMEWORK = Framework(
    name="numpy",
    prefix="numpy",
    title="NumPy",
    package="numpy",
    distributions=["numpy"],
    install="numpy",
    devices={"cpu": DeviceKind()},
)


class NumpyDevice:
    def put(self, array, dtype=None):
        return np.array(array, dtype=dtype)

    def get(self, array):
        return array

    def wait(self, outputs):
        pass

    def product(self, a, b):
        return a @ b

    def memory(self):
        return DeviceMemory(source="NumPy counts nothing")

    def reset_peak(self):
        pass

    def release(self):
        pass

    def facts(self):
        return {"numpy": np.__version__}

    def diagnose(self, error):
        return "failed"


def open_device(kind):
    return NumpyDevice()


class FaultCase(Case, frozen=True, kw_only=True):
    fault: str


class Faults(Workload[FaultCase]):
    name = "faults"
    version = 1
    case_type = FaultCase
    variants = {"native": "the only way"}

    def cases(self, suite):
        faults = ("none", "kill", "abort", "hang", "hog", "wrong", "nan", "raise", "exit", "slow", "late", "huge")
        return [FaultCase(fault=fault) for fault in faults]

    def inputs(self, case, rng):
        return {"a": rng.standard_normal((64, 64)).astype(np.float32)}

    def reference(self, case, inputs):
        return {"out": inputs["a"].astype(np.float64) @ inputs["a"].astype(np.float64)}

    def cost(self, case, variant):
        return Cost(flops=2 * 64**3, bytes=2 * 4 * 64 * 64, footprint=1 << 60 if case.fault == "huge" else 1 << 20)

    def tolerance(self, case):
        return reduction_tolerance(case.dtype, 64)


def faulty(device, case, inputs):
    a = device.put(inputs["a"])
    calls = 0

    def step():
        nonlocal calls
        calls += 1
        if case.fault == "late" and calls > 20:  # right when checked first, wrong when timed
            return {"out": a}
        return FAULTS.get(case.fault, product)(a)

    return step


def product(a):
    return {"out": a @ a}


def kill(a):
    os.kill(os.getpid(), signal.SIGKILL)


def abort(a):
    print("about to abort", flush=True)
    os.abort()


def hang(a):
    while True:
        time.sleep(1)


def hog(a):
    hoard = []
    while True:
        hoard.append(np.ones(32 << 20))


def raise_(a):
    raise ValueError("the framework\nwas not amused")


def exit_(a):
    os._exit(7)


def slow(a):
    time.sleep(0.05)
    return product(a)


FAULTS = {
    "kill": kill,
    "abort": abort,
    "hang": hang,
    "hog": hog,
    "wrong": lambda a: {"out": a},
    "nan": lambda a: {"out": np.where(np.eye(64) > 0, np.nan, a @ a).astype(np.float32)},
    "raise": raise_,
    "exit": exit_,
    "slow": slow,
}

WORKLOAD = Faults()
IMPLEMENTATIONS = {("numpy", "faults"): Implementation({"native": faulty}, "native")}
