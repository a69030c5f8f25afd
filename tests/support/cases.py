"""Frameworks, each opened once in this process, and small cases of every workload in every dtype."""

import functools
import os

import numpy as np
import pytest

from metalbench.harness.catalog import Catalog
from metalbench.workloads.amp_step import AmpStepCase
from metalbench.workloads.attention import AttentionCase
from metalbench.workloads.custom_op import CustomOpCase
from metalbench.workloads.dispatch import DispatchCase
from metalbench.workloads.fft import FFTCase
from metalbench.workloads.int4_matmul import Int4MatmulCase
from metalbench.workloads.kv_cache import KvCacheCase
from metalbench.workloads.lora_step import LoraStepCase
from metalbench.workloads.operators import OperatorsCase
from metalbench.workloads.quantized_matmul import QuantizedMatmulCase
from metalbench.workloads.roofline import RooflineCase
from metalbench.workloads.transfer import TransferCase
from metalbench.workloads.transformer_block import TransformerBlockCase

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


def quantized(dtype, scheme, group, weights="even"):
    return QuantizedMatmulCase(dtype=dtype, m=16, n=64, k=1024, group=group, scheme=scheme, weights=weights)


def amp_step(dtype):
    return AmpStepCase(dtype=dtype, batch=32, width=64, hidden=128, blocks=1, classes=32)


def roofline(kind, dtype, size):
    return RooflineCase(kind=kind, dtype=dtype, size=size)


def custom_op(dtype, size):
    return CustomOpCase(dtype=dtype, size=size)


def dispatch(kind):
    return DispatchCase(kind=kind)


def transfer(direction, size):
    return TransferCase(direction=direction, size=size)


def block(dtype, queries, context):
    shape = {"batch": 2, "width": 128, "heads": 4, "kv_heads": 2, "hidden": 192}
    return TransformerBlockCase(dtype=dtype, **shape, queries=queries, context=context)


def lora_step(dtype, base, **changes):
    shape = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 128, "vocabulary": 96, "block": 16, "batch": 2}
    return LoraStepCase(dtype=dtype, base=base, **(shape | changes))


def kv_cache(dtype, tokens=5, capacity=8, heads=4, kv_heads=2, head_size=16, batch=2):
    shape = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_size": head_size}
    return KvCacheCase(dtype=dtype, **shape, tokens=tokens, capacity=capacity)


def operator(name, dtype):
    return OperatorsCase(operator=name, dtype=dtype)


#: One telling case a dtype: for variants that take seconds to compile, and for planted faults.
TELLING = {
    "attention": [attention(dtype, 4, 2, 16, 64, causal=True) for dtype in DTYPES],
    "fft": [fft("complex", 1, 64, "forward"), fft("real", 12, 45, "roundtrip")],
    "int4_matmul": [int4(dtype, 16, 64) for dtype in DTYPES],
    "quantized_matmul": [
        quantized("float32", "int4", 64),
        quantized("float16", "lookup4", 16, "clustered"),
        quantized("bfloat16", "int8", 1024),
    ],
    "amp_step": [amp_step(dtype) for dtype in DTYPES],
    "roofline": [roofline(kind, dtype, 256) for kind in ("matmul", "copy") for dtype in DTYPES],
    "custom_op": [custom_op(dtype, 1000) for dtype in DTYPES],
    "dispatch": [dispatch(kind) for kind in ("empty", "tiny")],
    "transfer": [transfer(direction, 1000) for direction in ("to_device", "to_host")],
    "transformer_block": [block("float32", 16, 0), block("float16", 8, 40), block("bfloat16", 1, 40)],
    "lora_step": [
        lora_step("float32", "dense"),
        lora_step("float32", "int8"),
        lora_step("bfloat16", "dense"),
        lora_step("bfloat16", "int4"),
    ],
    "kv_cache": [kv_cache(dtype) for dtype in DTYPES],
    "operators": [operator("conv2d", "float32"), operator("softmax", "float16"), operator("topk", "bfloat16")],
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
    "quantized_matmul": [
        quantized(dtype, scheme, group) for dtype in DTYPES for scheme, group in (("int8", 1024), ("int4", 128), ("lookup4", 16))
    ],
    "amp_step": [],
    "roofline": [roofline(kind, dtype, size) for dtype in DTYPES for kind, size in (("copy", 100_003), ("matmul", 63))],
    "custom_op": [custom_op(dtype, 100_003) for dtype in DTYPES],
    "dispatch": [],
    "transfer": [transfer(direction, size) for direction in ("to_device", "to_host") for size in (1, 100_003)],
    "transformer_block": [],
    "lora_step": [lora_step("float32", "int4")],
    "kv_cache": [kv_cache("float32", tokens=8, kv_heads=4)],
    "operators": [],  # test_operators.py tries them all
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
    for _ in range(own.calls_checked(case)):
        out = step()
        device.wait(out)
        outputs.append({name: np.array(device.get(array)) for name, array in out.items()})
    return own.check(case, true_inputs, outputs, reference)


def diagnosed(framework, error):
    return open_device(framework).diagnose(error)
