"""Activations times 4-bit weights with one scale and offset per group, as language models decode with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from metalbench.workloads.base import (
    ITEMSIZE,
    Array,
    Arrays,
    Case,
    Check,
    Cost,
    DType,
    Suite,
    Workload,
    compared,
    normwise_error,
    reduction_tolerance,
    rounded,
)

FULL_REFERENCE = 1 << 31  #: multiply-adds up to which every row is computed
SAMPLED_ROWS = 6
SCALE_BITS = 4


class Int4MatmulCase(Case, frozen=True, kw_only=True):
    """x [m, k] in ``dtype`` times weights [n, k] transposed; ``group`` weights along k share a scale and an offset."""

    m: int
    n: int
    k: int
    group: int

    def label(self) -> str:
        return f"{self.m}×{self.n}×{self.k} g{self.group} {self.dtype}"


class Int4Matmul(Workload[Int4MatmulCase]):
    """A weight is ``code·scale + offset`` with code 0…15 and offset = −scale·zero for an integer zero 0…15.

    Scales keep ``SCALE_BITS`` significant bits. So scale, offset, scale·(8 − zero) (the form in which PyTorch wants the offset) and
    the weight itself, scale times an integer of at most four bits, have at most eight: exact in bfloat16 and float16 alike, and
    every backend multiplies the same weights however it packs or unpacks them. What quantization itself costs is a figure beside
    the error: the product of the dequantized weights against that of the original ones.
    """

    name = "int4_matmul"
    version = 1
    case_type = Int4MatmulCase
    variants = {
        "native": "the framework's 4-bit operator on packed weights",
        "dequantize": "unpack packed weights, then a dense product",
        "dense": "the unquantized weights, as the yardstick",
        "kernel": "a hand-written kernel of this project for few rows, on the weights packed two a byte",
    }

    def cases(self, suite: Suite) -> Iterable[Int4MatmulCase]:
        if suite == "quick":
            return [_case("float32", 1, 1024, 1024, 64), _case("float32", 16, 1024, 1024, 32)]
        if suite == "documents":
            return []
        size = 4096 if suite == "standard" else 8192
        dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")
        return [
            *(_case(dtype, m, size, size, 128) for dtype in dtypes for m in (1, 16, 512)),
            *(_case("bfloat16", m, size, size, group) for group in (32, 64) for m in (1, 16, 512)),
        ]

    def inputs(self, case: Int4MatmulCase, rng: np.random.Generator) -> dict[str, Array]:
        x = rounded(rng.standard_normal((case.m, case.k), dtype=np.float32), case.dtype)
        weights = rng.standard_normal((case.n, case.k), dtype=np.float32) / np.float32(math.sqrt(case.k))
        codes, scales, offsets = quantize(weights, case.group)
        return {"x": x, "weights": rounded(weights, case.dtype), "codes": codes, "scales": scales, "offsets": offsets}

    def reference(self, case: Int4MatmulCase, inputs: Arrays) -> dict[str, Array]:
        """Both products, ``out`` with the dequantized weights and ``dense`` with the original ones; the check takes the one it needs."""
        return products(case, inputs, dequantize(inputs["codes"], inputs["scales"], inputs["offsets"]))

    def cost(self, case: Int4MatmulCase, variant: str) -> Cost:
        packed = case.n * case.k // 2 + 2 * ITEMSIZE[case.dtype] * case.n * case.k // case.group
        return product_cost(case, variant, packed)

    def tolerance(self, case: Int4MatmulCase) -> float:
        return reduction_tolerance(case.dtype, case.k)

    def check(self, case: Int4MatmulCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:  # noqa: ARG002 - the reference holds both products
        return check_product(outputs, reference, self.tolerance(case))


def products(case: Int4MatmulCase, inputs: Arrays, quantized: Array) -> dict[str, Array]:
    """x times the ``quantized`` weights, float64 [n, k], and times the original ones: of all rows, or of a few."""
    rows = np.arange(case.m)
    if case.m * case.n * case.k > FULL_REFERENCE and case.m > SAMPLED_ROWS:
        rows = np.unique([0, case.m - 1, *np.random.default_rng(0).choice(case.m, SAMPLED_ROWS - 2, replace=False)])
    x = inputs["x"][rows].astype(np.float64)
    out, dense = x @ quantized.T, x @ inputs["weights"].astype(np.float64).T
    if len(rows) == case.m:
        return {"out": out, "dense": dense}
    at = (rows[:, None] * case.n + np.arange(case.n)).reshape(-1)
    return {"out": out.reshape(-1), "out.at": at, "dense": dense.reshape(-1), "dense.at": at}


def product_cost(case: Int4MatmulCase, variant: str, packed: int) -> Cost:
    """``packed``: bytes of the quantized weights with all that belongs to them."""
    size = ITEMSIZE[case.dtype]
    dense = size * case.n * case.k
    weights = dense if variant == "dense" else packed
    ends = size * case.m * (case.k + case.n)
    unpacked = 0 if variant in {"native", "dense"} else dense
    return Cost(flops=2 * case.m * case.n * case.k, bytes=weights + ends, footprint=2 * (weights + ends) + unpacked)


def check_product(outputs: Sequence[Arrays], reference: Arrays, tolerance: float) -> Check:
    """The one output that the variant gives, ``out`` or ``dense``, against its own reference."""
    (out,) = outputs
    if set(out) not in ({"out"}, {"dense"}):
        return Check(ok=False, error=math.inf, tolerance=tolerance, detail=f"gave {', '.join(out) or 'nothing'}")
    (name,) = out
    check = compared(out, {key: value for key, value in reference.items() if key.partition(".")[0] == name}, tolerance)
    check.figures["quantization_error"] = normwise_error(reference["out"], {"dense": reference["dense"]}, "dense")
    return check


def quantize(weights: Array, group: int, scale_bits: int = SCALE_BITS) -> tuple[Array, Array, Array]:
    """(codes uint8 [n, k], scales, offsets float32 [n, k / group]): the least scale that spans each group's range and 0, asymmetric."""
    grouped = weights.reshape(weights.shape[0], -1, group).astype(np.float64)
    low, high = np.minimum(grouped.min(-1), 0), np.maximum(grouped.max(-1), 0)
    scales = least_scale(np.maximum(high - low, 1e-6) / 15, scale_bits)
    zeros = np.clip(np.rint(-low / scales), 0, 15)
    codes = np.clip(np.rint(grouped / scales[..., None]) + zeros[..., None], 0, 15)
    return codes.astype(np.uint8).reshape(weights.shape), scales.astype(np.float32), (-scales * zeros).astype(np.float32)


def least_scale(wanted: Array, bits: int) -> Array:
    """The least float64 of so many significant bits that is no smaller, element by element."""
    mantissa, exponent = np.frexp(wanted)
    scale: Array = np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits)
    return scale


def pack_bytes(codes: Array) -> Array:
    """Two codes a byte, uint8 [n, k / 2]: the even one in the low half, as most frameworks have it."""
    packed: Array = codes[:, ::2] | (codes[:, 1::2] << 4)
    return packed


def dequantize(codes: Array, scales: Array, offsets: Array) -> Array:
    """The weights that the codes stand for, float64 [n, k]."""
    grouped = codes.reshape(*scales.shape, -1).astype(np.float64)
    return (grouped * scales[..., None] + offsets[..., None]).reshape(codes.shape)


def _case(dtype: DType, m: int, n: int, k: int, group: int) -> Int4MatmulCase:
    return Int4MatmulCase(dtype=dtype, m=m, n=n, k=k, group=group)


WORKLOAD = Int4Matmul()
