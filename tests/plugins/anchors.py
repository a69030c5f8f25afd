"""Plain work whose time on an accelerator is known: products, a copy, a small addition, an activation, dense 16-bit weights."""

from __future__ import annotations

from typing import Literal

import numpy as np

from metalbench.backends.base import Implementation
from metalbench.workloads.base import EPS, ITEMSIZE, Case, Cost, Workload, reduction_tolerance, rounded

LAMBDA = 0.5
BLOCK = 1_000_003  #: random numbers that are drawn; longer arrays repeat them, and since this is a prime no two rows are the same
SAMPLED = 1 << 16  #: elements of an elementwise output that are checked
SAMPLED_ROWS = 4


class AnchorCase(Case, frozen=True, kw_only=True):
    """``matmul``: [n, n] @ [n, n]. ``copy``, ``add``, ``softshrink``: n elements. ``bf16_weights``: x [m, k] @ w [n, k] transposed."""

    work: Literal["matmul", "copy", "add", "softshrink", "bf16_weights"]
    n: int
    m: int = 1
    k: int = 1

    def label(self) -> str:
        sizes = {"matmul": f"{self.n}×{self.n}×{self.n}", "bf16_weights": f"{self.m}×{self.n}×{self.k}"}
        return f"{self.work} {sizes.get(self.work, self.n)} {self.dtype}"


class Anchor(Workload[AnchorCase]):
    """A copy must be exact and elementwise work is rounded once; products keep the common tolerance."""

    name = "anchor"
    version = 1
    case_type = AnchorCase
    variants = {"native": "the framework's own operator"}

    def cases(self, suite):
        small = suite == "quick"
        side, elements = (512, 1 << 16) if small else (8192, 1 << 28)
        return [
            AnchorCase(work="matmul", dtype="bfloat16", n=side // 2 if small else side),
            AnchorCase(work="copy", dtype="float16", n=elements),
            AnchorCase(work="add", n=16),
            AnchorCase(work="softshrink", dtype="float16", n=elements),
            *(AnchorCase(work="bf16_weights", dtype="bfloat16", m=m, n=side, k=side) for m in (1, 16, 64 if small else 512)),
        ]

    def inputs(self, case, rng):
        shapes = {
            "matmul": {"a": (case.n, case.n), "b": (case.n, case.n)},
            "copy": {"x": (case.n,)},
            "add": {"a": (case.n,), "b": (case.n,)},
            "softshrink": {"x": (case.n,)},
            "bf16_weights": {"x": (case.m, case.k), "w": (case.n, case.k)},
        }[case.work]
        return {name: _drawn(rng, shape, case.dtype) for name, shape in shapes.items()}

    def reference(self, case, inputs):
        if case.work in {"matmul", "bf16_weights"}:
            left, right = (inputs["a"], inputs["b"]) if case.work == "matmul" else (inputs["x"], inputs["w"].T)
            rows = np.unique(np.linspace(0, len(left) - 1, SAMPLED_ROWS).astype(int))
            at = rows[:, None] * case.n + np.arange(case.n)
            return {"out": (left[rows].astype(np.float64) @ right.astype(np.float64)).reshape(-1), "out.at": at.reshape(-1)}
        at = np.unique([0, case.n - 1, *np.random.default_rng(0).integers(case.n, size=SAMPLED)])
        sampled = [array[at].astype(np.float64) for array in inputs.values()]
        if case.work == "softshrink":
            (x,) = sampled
            return {"out": np.sign(x) * np.maximum(np.abs(x) - LAMBDA, 0), "out.at": at}
        return {"out": sum(sampled), "out.at": at}

    def cost(self, case, variant):
        size = ITEMSIZE[case.dtype]
        if case.work in {"matmul", "bf16_weights"}:
            m, k = (case.n, case.n) if case.work == "matmul" else (case.m, case.k)
            flops, elements = 2 * m * case.n * k, m * k + k * case.n + m * case.n
        else:
            flops, elements = (0 if case.work == "copy" else case.n), (3 if case.work == "add" else 2) * case.n
        return Cost(flops=flops, bytes=size * elements, footprint=2 * size * elements)

    def tolerance(self, case):
        if case.work in {"matmul", "bf16_weights"}:
            return reduction_tolerance(case.dtype, case.n if case.work == "matmul" else case.k)
        return 0.0 if case.work == "copy" else EPS[case.dtype]


def _drawn(rng, shape, dtype):
    """Of the dtype's values; float16 as itself, so that half a gigabyte of it is no more than that."""
    block = rounded(rng.standard_normal(min(BLOCK, int(np.prod(shape))), dtype=np.float32), dtype)
    return np.resize(block.astype(np.float16) if dtype == "float16" else block, shape)


def torch_step(device, case, inputs):
    from torch.nn import functional

    on = {name: device.put(array, case.dtype) for name, array in inputs.items()}
    match case.work:
        case "matmul":
            a, b = on["a"], on["b"]
            return lambda: {"out": a @ b}
        case "add":
            a, b = on["a"], on["b"]
            return lambda: {"out": a + b}
        case "bf16_weights":
            x, w = on["x"], on["w"]
            return lambda: {"out": functional.linear(x, w)}
        case "copy":
            x = on["x"]
            return lambda: {"out": x.clone()}
        case "softshrink":
            x = on["x"]
            return lambda: {"out": functional.softshrink(x, LAMBDA)}


def jax_step(device, case, inputs):
    import jax
    import jax.numpy as jnp

    def softshrink(x):
        return jnp.where(x > LAMBDA, x - LAMBDA, jnp.where(x < -LAMBDA, x + LAMBDA, 0))

    names, function = {
        "matmul": ("ab", jnp.matmul),
        "add": ("ab", jnp.add),
        "bf16_weights": ("xw", lambda x, w: jnp.matmul(x, w.T)),
        "copy": ("x", jnp.copy),
        "softshrink": ("x", softshrink),
    }[case.work]
    compiled, args = jax.jit(function), [device.put(inputs[name], case.dtype) for name in names]
    return lambda: {"out": compiled(*args)}


def mlx_step(device, case, inputs):
    import mlx.core as mx
    from mlx import nn

    on = {name: device.put(array, case.dtype) for name, array in inputs.items()}
    match case.work:
        case "matmul":
            a, b = on["a"], on["b"]
            return lambda: {"out": a @ b}
        case "add":
            a, b = on["a"], on["b"]
            return lambda: {"out": a + b}
        case "bf16_weights":
            x, w = on["x"], on["w"]
            return lambda: {"out": x @ w.T}
        case "copy":  # arrays are immutable and shared, so no operator copies a whole one; joining its halves does
            halves = mx.split(on["x"], 2)
            mx.eval(halves)
            return lambda: {"out": mx.concatenate(halves)}
        case "softshrink":
            x, softshrink = on["x"], mx.compile(nn.softshrink)
            return lambda: {"out": softshrink(x, LAMBDA)}


WORKLOAD = Anchor()
IMPLEMENTATIONS = {
    ("torch", "anchor"): Implementation({"native": torch_step}, default="native"),
    ("jax", "anchor"): Implementation({"native": jax_step}, default="native"),
    ("mlx", "anchor"): Implementation({"native": mlx_step}, default="native"),
}
