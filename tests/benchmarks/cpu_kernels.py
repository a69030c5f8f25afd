"""The C++ kernels against what the frameworks have themselves on the CPU, in turns in one process.

python tests/benchmarks/cpu_kernels.py [rounds]

Each round times every way of a case for a while, in an order of its own, and takes the least time: whatever else the machine does only adds
to it. Shown are the median of that over the rounds, and of its ratio to the first way's in the same round with the least and the greatest.
Fails where JAX with the kernel for one row isn't twice as fast as its own best way with 4-bit weights, or takes more than 1.5 times what
PyTorch's operator takes.
"""

import random
import statistics
import sys
import time

import numpy as np

from metalbench.harness.catalog import Catalog
from metalbench.workloads.custom_op import CustomOpCase
from metalbench.workloads.int4_matmul import Int4MatmulCase

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SPAN = 0.15  # seconds of a way in a round
DTYPES = ("float32", "float16", "bfloat16")
SHAPES = [(dtype, 1, 64) for dtype in DTYPES] + [("bfloat16", m, group) for m, group in ((1, 32), (1, 128), (4, 64), (16, 64), (32, 64))]
CATALOG = Catalog()
KERNELS = ("jax kernel", "torch kernel", "mlx kernel")
OWN = {
    "int4_matmul": ("jax dequantize", "torch native", "mlx native", "jax dense", "torch dense"),
    "custom_op": ("jax compiled", "torch builtin", "mlx compiled"),
}


def steps(workload, case):
    """name → (a call that waits): the kernels first."""
    own = CATALOG.workload(workload)
    inputs = own.inputs(case, np.random.default_rng(0))
    ways = {}
    devices = {framework: CATALOG.open_device(framework, "cpu") for framework in ("torch", "jax", "mlx")}
    for name in (*KERNELS, *OWN[workload]):
        framework, variant = name.split()
        device = devices[framework]
        step = CATALOG.implementation(framework, workload).variants[variant](device, case, inputs)
        ways[name] = lambda step=step, device=device: device.wait(step())
        ways[name]()
    return ways


def least_time(call):
    times, end = [], time.perf_counter() + SPAN
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def rounds(ways):
    """name → its least time in every round."""
    found = {name: [] for name in ways}
    for turn in range(ROUNDS):
        for name in random.Random(turn).sample(list(ways), len(ways)):
            found[name].append(least_time(ways[name]))
    return found


def ratios(found, name):
    """To the first way, round by round."""
    return [own / base for own, base in zip(found[name], next(iter(found.values())), strict=True)]


def show(label, found):
    print(f"\n{label}")
    for name, times in found.items():
        least, *_, most = own = sorted(ratios(found, name))
        print(f"  {name:16} {statistics.median(times) * 1e3:8.3f} ms  {statistics.median(own):.2f} × ({least:.2f}…{most:.2f})", flush=True)


def held(found):
    dequantize, native = (statistics.median(ratios(found, name)) for name in ("jax dequantize", "torch native"))
    return dequantize >= 2 and native >= 1 / 1.5


if __name__ == "__main__":
    good = True
    for dtype, m, group in SHAPES:
        case = Int4MatmulCase(dtype=dtype, m=m, n=4096, k=4096, group=group)
        found = rounds(steps("int4_matmul", case))
        show(f"int4_matmul {case.label()}", found)
        good &= m > 1 or held(found)
    for dtype in DTYPES:
        case = CustomOpCase(dtype=dtype, size=1 << 24)
        show(f"custom_op {case.label()}", rounds(steps("custom_op", case)))
    sys.exit(not good)
