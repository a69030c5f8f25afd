"""The hand-written kernels on a GPU: checked against float64, then timed beside a copy and beside what each framework has itself.

    python tests/benchmarks/gpu_kernels.py [torch] [jax] [mlx] [--device cuda|cpu] [--small] [--check] [--out FILE]

Each framework has a process of its own. Timed are ``CALLS`` calls, each of which takes what the one before it gave, so that none can be
left out: the median of ``ROUNDS`` rounds and their range, divided by the calls. PyTorch queues them behind a pause, between two events.
JAX has compiled them into one program, and of MLX the graph of them is evaluated, both by the host's clock, in which is what starting a
program or an evaluation costs. So ``each further`` is what a call more costs when there are ``MORE`` times as many: the device's time.
Products go through ``SETS`` sets of weights, more than a cache holds. ``negate`` reads and writes what a copy does, as each framework does
it; ``copy`` is PyTorch's, by the driver. ``--check`` times nothing: for compute-sanitizer. ``--small`` is for trying this script out.

Fails where a kernel is wrong.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from metalbench.backends.base import Unsupported
from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import current, worker_variables
from metalbench.kernels.binding import binding
from metalbench.workloads.base import EPS, normwise_error, reduction_tolerance, rounded
from metalbench.workloads.int4_matmul import dequantize, pack_bytes, quantize

FRAMEWORKS = ("torch", "jax", "mlx")
DTYPES = ("float32", "float16", "bfloat16")
LENGTHS = (0, 1, 2047, 2048, 5003, 100_001)
SHAPES = ((1, 64, 256), (3, 37, 384), (8, 100, 128), (16, 128, 1024), (17, 50, 256), (32, 200, 512), (70, 48, 384))
GROUPS = (32, 64, 128)
ROUNDS, CALLS, MORE, SETS = 9, 100, 5, 5
PAUSE = 20_000_000  #: cycles in which PyTorch queues all calls
LAMBDA = 0.5


def check_softshrink(device, softshrink):
    """How many of the results are right; the first that is not raises."""
    for dtype, length, offset in itertools.product(DTYPES, LENGTHS, range(3)):
        x = rounded(np.random.default_rng(length).standard_normal(length + offset, dtype=np.float32), dtype)
        x[offset : offset + 1] = np.nan
        wide = x[offset:].astype(np.float64)
        exact = np.where(wide > LAMBDA, wide - LAMBDA, np.where(wide < -LAMBDA, wide + LAMBDA, 0 * wide))
        found = device.get(softshrink(device.put(x, dtype)[offset:], LAMBDA))
        assert np.allclose(found, exact, rtol=EPS[dtype], atol=2**-25, equal_nan=True), f"softshrink {dtype} {length} from {offset}"
    return len(DTYPES) * len(LENGTHS) * 3


def check_products(device, by_weights):
    """The greatest error in tolerances; the first beyond one raises."""
    worst = 0.0
    for dtype, group, (m, n, k) in itertools.product(DTYPES, GROUPS, SHAPES):
        rng = np.random.default_rng([m, n, k, group])
        codes, scales, offsets = quantize(
            rng.standard_normal((n, k), dtype=np.float32) * rng.uniform(0.2, 5, (n, 1)).astype("f") + 1, group
        )
        x = rounded(rng.standard_normal((m, k), dtype=np.float32), dtype)
        found = device.get(by_weights(dtype, codes, scales, offsets)(device.put(x, dtype)))
        reference = x.astype(np.float64) @ dequantize(codes, scales, offsets).T
        error = normwise_error(found, {"out": reference}, "out") / reduction_tolerance(dtype, k)
        assert error <= 1, f"int4_matmul {dtype} {m}×{n}×{k} g{group}: {error:.2f} of the tolerance"
        worst = max(worst, error)
    return worst


def compile_ahead():
    """nvcc's instances for the checks all at once, not one by one; PyTorch and JAX share them."""
    from metalbench.kernels.int4_matmul.cuda import starter

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: starter(*key), itertools.product(DTYPES, GROUPS, [m for m, _, _ in SHAPES])))


class Torch:
    def __init__(self, kind):
        import torch

        self.torch, self.cuda = torch, kind == "cuda"

    def elementwise(self):
        functional = self.torch.nn.functional
        return {"copy": lambda y: y.clone(), "negate": lambda y: -y, "own": lambda y: functional.softshrink(y, LAMBDA)}

    def dense(self, weights):
        return lambda y: y @ weights.T

    def own_int4(self, device, codes, scales, offsets):
        torch, group = self.torch, codes.shape[1] // scales.shape[1]
        aten, zeros = torch.ops.aten, offsets + 8 * scales
        pairs = torch.stack((device.put(scales.T, "bfloat16"), device.put(zeros.T, "bfloat16")), dim=-1).contiguous()
        if not self.cuda:
            packed = aten._convert_weight_to_int4pack_for_cpu(device.put(codes, "int32"), 1)
            return lambda y: aten._weight_int4pack_mm_for_cpu(y, packed, group, pairs)
        packed = aten._convert_weight_to_int4pack(device.put((codes[:, ::2] << 4) | codes[:, 1::2]), 8)
        return lambda y: aten._weight_int4pack_mm(y, packed, group, pairs)

    def chained(self, functions, x):
        """A call that gives the seconds of all functions, one after the other."""

        def run():
            y = x
            for function in functions:
                y = function(y)
            return y

        if not self.cuda:
            return lambda: host_time(run)

        def timed():
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.torch.cuda._sleep(PAUSE)
            start.record()
            run()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1e3

        return timed


class Jax:
    def __init__(self, kind):
        import jax

        self.jax = jax

    def elementwise(self):
        from metalbench.backends.jax.custom_op import shrink

        return {"negate": lambda y: -y, "own": shrink}

    def dense(self, weights):
        return lambda y: y @ weights.T

    def own_int4(self, device, codes, scales, offsets):
        from metalbench.backends.jax.int4_matmul import unpack_and_multiply

        arrays = [device.put(pack_bytes(codes)), *(device.put(array[..., None], "bfloat16") for array in (scales, offsets))]
        fresh = self.jax.lax.optimization_barrier  # else all calls of a set would share what one of them has unpacked
        return lambda y: unpack_and_multiply(*fresh((y, *arrays)))

    def chained(self, functions, x):
        def run(y):
            for function in functions:
                y = self.jax.lax.optimization_barrier(function(y))  # else it would be fused with its neighbours
            return y

        traced = self.jax.make_jaxpr(run)(x)  # weights that a function closes over become arguments; as constants they might be folded
        compiled = self.jax.jit(lambda weights, x: self.jax.core.eval_jaxpr(traced.jaxpr, weights, x))
        return lambda: host_time(lambda: self.jax.block_until_ready(compiled(traced.consts, x)))


class Mlx:
    def __init__(self, kind):
        import mlx.core as mx
        from mlx import nn

        self.mx, self.nn = mx, nn

    def elementwise(self):
        own = self.mx.compile(lambda y: self.nn.softshrink(y, LAMBDA))
        return {"negate": lambda y: -y, "own": own}

    def dense(self, weights):
        return lambda y: y @ weights.T

    def own_int4(self, device, codes, scales, offsets):
        group = min(codes.shape[1] // scales.shape[1], 64)  # a greater one only slows it down
        scales, offsets = (np.repeat(array, codes.shape[1] // group // array.shape[1], axis=1) for array in (scales, offsets))
        words = device.put(pack_bytes(codes).view("<u4"))
        parameters = [device.put(array, "bfloat16") for array in (scales, offsets)]
        return lambda y: self.mx.quantized_matmul(y, words, *parameters, transpose=True, group_size=group, bits=4)

    def chained(self, functions, x):
        def timed():
            y = x
            for function in functions:
                y = function(y)
            return host_time(lambda: self.mx.eval(y))

        return timed


OWN = {"torch": Torch, "jax": Jax, "mlx": Mlx}


def host_time(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def times(own, functions, x, calls):
    """µs of a call of the functions in turn: (median, least, greatest) of ``calls``, and what each further one costs."""
    few, many = (own.chained(list(itertools.islice(itertools.cycle(functions), count)), x) for count in (calls, MORE * calls))
    few(), many()  # warm-up
    found = [(few() * 1e6, many() * 1e6) for _ in range(ROUNDS)]
    short, long = zip(*found, strict=True)
    further = (statistics.median(long) - statistics.median(short)) / ((MORE - 1) * calls)
    return statistics.median(short) / calls, min(short) / calls, max(short) / calls, further


def softshrink_times(device, own, softshrink, length, calls):
    x = device.put(np.resize(np.random.default_rng(0).standard_normal(1_000_003, dtype=np.float32), length), "float16")
    ways = own.elementwise() | {"kernel": lambda y: softshrink(y, LAMBDA)}
    for name, function in ways.items():
        yield name, times(own, [function], x, calls)


def product_times(device, own, by_weights, rows, size, calls):
    """Weights whose product has the length of what it is of, on average."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (size, size), np.uint8)
    scales = np.full((size, size // 128), 1 / (4.61 * size**0.5), np.float32)  # 4.61: the deviation of 0…15
    offsets = np.float32(-7.5) * scales
    x = device.put(rng.standard_normal((rows, size), dtype=np.float32), "bfloat16")
    made = {
        "bf16 product": lambda codes: own.dense(device.put(dequantize(codes, scales, offsets), "bfloat16")),
        "own": lambda codes: own.own_int4(device, codes, scales, offsets),
        "kernel": lambda codes: by_weights("bfloat16", codes, scales, offsets),
    }
    for name, make in made.items():
        sets = [make(np.roll(codes, number, axis=0)) for number in range(SETS)]
        yield name, times(own, sets, x, calls)


def records(framework, options):
    """(name, what is told of it), as it is found."""
    device, own = Catalog().open_device(framework, options.device), OWN[framework](options.device)
    softshrink = binding("softshrink", framework, options.device).softshrink
    by_weights = binding("int4_matmul", framework, options.device).by_weights
    yield "facts", device.facts()
    if options.device == "cuda" and framework != "mlx":
        compile_ahead()
    yield "softshrink, right", check_softshrink(device, softshrink)
    yield "int4_matmul, greatest error in tolerances", check_products(device, by_weights)
    if options.check:
        return
    length, size, calls = (1 << 16, 512, 10) if options.small else (1 << 28, 8192, CALLS)
    for name, found in softshrink_times(device, own, softshrink, length, calls):
        yield f"softshrink {length} float16, {name}", found
    for rows in (1, 16):
        for name, found in product_times(device, own, by_weights, rows, size, calls):
            yield f"{rows}×{size}×{size} g128 bfloat16, {name}", found


def child(framework, options):
    """All of one framework, in this process; what is found is written at once."""
    try:
        for name, found in records(framework, options):
            text = "{:8.2f} µs ({:.2f} … {:.2f}), each further {:.2f}".format(*found) if isinstance(found, tuple) else found
            print(f"{framework:6} {name:52} {text}", flush=True)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"framework": framework, "name": name, "found": found}, ensure_ascii=False) + "\n")
    except (AssertionError, Unsupported) as error:
        print(f"{framework:6} {error}", flush=True)
        return 1
    return 0


def parent(options):
    status = 0
    for framework in options.frameworks:
        variables = worker_variables(Catalog().frameworks[framework], options.device, current())
        command = [sys.executable, __file__, *sys.argv[1:], "--child", framework]
        status = max(status, subprocess.run(command, env=variables, check=False).returncode != 0)
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", default=FRAMEWORKS, choices=FRAMEWORKS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.exit(child(given.child, given) if given.child else parent(given))
