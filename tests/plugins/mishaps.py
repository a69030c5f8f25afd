"""A workload whose cases do on PyTorch, in the words of its real releases, what a device without an operator or memory does."""

import os
import warnings

import numpy as np

from metalbench.backends.base import DeviceKind, Framework, Implementation
from metalbench.workloads.base import Case, Cost, Workload, reduction_tolerance

FALLBACK = (
    "The operator 'aten::linalg_eigh' is not currently supported on the MPS backend and will fall back to run on the CPU. "
    "This may have performance implications. (Triggered internally at MPSFallback.mm:15.)"
)
AUTOCAST = (
    "In MPS autocast, but the target dtype is not supported. Disabling autocast.\n"
    "MPS Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
)
EXHAUSTED = (
    "MPS backend out of memory (MPS allocated: 5.50 GB, other allocations: 14.76 GB, max allowed: 20.40 GB). "
    "Tried to allocate 147.24 MB on private pool."
)
#: A framework whose device can't even be opened.
FRAMEWORK = Framework(
    name="brittle",
    prefix="brittle",
    title="Brittle",
    package="numpy",
    distributions=["numpy"],
    install="numpy",
    devices={"cpu": DeviceKind()},
)


def open_device(kind):
    print("the plug-in and the runtime disagree", flush=True)
    os.abort()


class MishapCase(Case, frozen=True, kw_only=True):
    mishap: str


class Mishaps(Workload[MishapCase]):
    name = "mishaps"
    version = 1
    case_type = MishapCase
    variants = {"native": "the only way"}

    def cases(self, suite):
        return [MishapCase(mishap=mishap) for mishap in ("none", "fallback", "printed", "autocast", "oom", "abort", "warning")]

    def inputs(self, case, rng):
        return {"a": rng.standard_normal((32, 32)).astype(np.float32)}

    def reference(self, case, inputs):
        a = inputs["a"].astype(np.float64)
        return {"out": a @ a}

    def cost(self, case, variant):
        return Cost(flops=2 * 32**3, bytes=8 * 32**2, footprint=1 << 20)

    def tolerance(self, case):
        return reduction_tolerance(case.dtype, 32)


def step_of(device, case, inputs):
    a = device.put(inputs["a"])

    def step():
        match case.mishap:
            case "fallback":
                warnings.warn(FALLBACK, UserWarning, stacklevel=1)
            case "printed":
                os.write(2, f"[W1201 MPSFallback.mm:15] Warning: {FALLBACK}\n".encode())
            case "autocast":
                warnings.warn(AUTOCAST, UserWarning, stacklevel=1)
            case "warning":
                warnings.warn("this operator is experimental", UserWarning, stacklevel=1)
            case "oom":
                raise RuntimeError(EXHAUSTED)
            case "abort":
                os.abort()
        return {"out": device.product(a, a)}

    return step


WORKLOAD = Mishaps()
IMPLEMENTATIONS = {
    ("torch", "mishaps"): Implementation({"native": step_of}, "native"),
    ("brittle", "mishaps"): Implementation({"native": step_of}, "native"),
}
