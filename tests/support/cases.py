"""Frameworks, each opened once in this process, and small cases of every workload in every dtype."""

import functools
import os

import numpy as np
import pytest

from metalbench.harness.catalog import Catalog
from metalbench.workloads.amp_step import AmpStepCase
from metalbench.workloads.attention import AttentionCase
from metalbench.workloads.fft import FFTCase
from metalbench.workloads.int4_matmul import Int4MatmulCase
from metalbench.workloads.roofline import RooflineCase

CATALOG = Catalog()
ACCELERATOR = os.environ.get("CONTRACT_ACCELERATOR", "")  #: "metal" or "cuda" runs the contracts there instead of on the CPU
FRAMEWORKS = ("torch", "jax", "mlx", "tensorflow")
DTYPES = ("float32", "float16", "bfloat16")


def attention(dtype, heads, kv_heads, queries, keys, causal):
    return AttentionCase(dtype=dtype, batch=2, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, head_size=32, causal=causal)


def fft(kind, rows, length, direction):
    return FFTCase(kind=kind, batch=3, rows=rows, length=length, direction=direction)


def int4(dtype, m, group):
    return Int4MatmulCase(dtype=dtype, m=m, n=64, k=1024, group=group)


def amp_step(dtype):
    return AmpStepCase(dtype=dtype, batch=32, width=64, hidden=128, blocks=1, classes=32)


def roofline(kind, dtype, size):
    return RooflineCase(kind=kind, dtype=dtype, size=size)


#: One telling case a dtype: for variants that take seconds to compile, and for planted faults.
TELLING = {
    "attention": [attention(dtype, 4, 2, 16, 64, causal=True) for dtype in DTYPES],
    "fft": [fft("complex", 1, 64, "forward"), fft("real", 12, 45, "roundtrip")],
    "int4_matmul": [int4(dtype, 16, 64) for dtype in DTYPES],
    "amp_step": [amp_step(dtype) for dtype in DTYPES],
    "roofline": [roofline(kind, dtype, 256) for kind in ("matmul", "copy") for dtype in DTYPES],
}
#: What is quick to build is tried in every shape.
THOROUGH = {
    "attention": [
        attention(dtype, 4, kv_heads, queries, keys, causal)
        for dtype in DTYPES
        for kv_heads in (4, 1)
        for queries, keys in ((64, 64), (16, 64), (1, 64))
        for causal in (True, False)
    ],
    "fft": [
        fft(kind, rows, length, direction)
        for kind in ("complex", "real")
        for rows in (1, 12)
        for length in (64, 45, 101)
        for direction in ("forward", "roundtrip")
    ],
    "int4_matmul": [int4(dtype, m, group) for dtype in DTYPES for m in (1, 16) for group in (32, 64, 128)],
    "amp_step": [],
    "roofline": [roofline(kind, dtype, size) for dtype in DTYPES for kind, size in (("copy", 100_003), ("matmul", 63))],
}
SLOW_TO_BUILD = {"compiled", "dequantize", "eager"}


@functools.cache
def open_device(framework):
    if "CONTRACT_ALL_FRAMEWORKS" not in os.environ:
        pytest.importorskip({"mlx": "mlx.core"}.get(framework, framework), reason=f"{framework} is not installed", exc_type=ImportError)
    kinds = CATALOG.frameworks[framework].devices
    return CATALOG.open_device(framework, next(name for name, kind in kinds.items() if kind.accelerator == ACCELERATOR))


@functools.cache
def data(workload, case):
    own = CATALOG.workload(workload)
    inputs = own.inputs(case, np.random.default_rng(0))
    return inputs, own.reference(case, inputs)


def verdict(framework, workload, case, variant, *, inputs=None, built_as=None):
    """The check of a fresh step: built from ``inputs`` and as the case ``built_as`` where these differ from what is right."""
    device, own = open_device(framework), CATALOG.workload(workload)
    true_inputs, reference = data(workload, case)
    step = CATALOG.implementation(framework, workload).variants[variant](device, built_as or case, inputs or true_inputs)
    outputs = []
    for _ in range(own.checked_calls):
        out = step()
        device.wait(out)
        outputs.append({name: np.array(device.get(array)) for name, array in out.items()})
    return own.check(case, true_inputs, outputs, reference)


def diagnosed(framework, error):
    return open_device(framework).diagnose(error)
