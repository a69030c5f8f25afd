"""Activations times weights of 8 or 4 bits: linear by group or through lookup tables, on evenly spread and on clustered weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

from metalbench.workloads.base import ITEMSIZE, Array, Arrays, Check, Cost, DType, Suite, Workload, reduction_tolerance, rounded
from metalbench.workloads.int4_matmul import Int4MatmulCase, check_product, dequantize, least_scale, product_cost, products, quantize

Scheme = Literal["int8", "int4", "lookup4"]
Spread = Literal["even", "clustered"]

SIGNIFICAND: dict[DType, int] = {"float32": 24, "float16": 11, "bfloat16": 8}  #: bits that a number of the dtype holds
LEVELS = 16
CELLS = 64
ROUNDS = 5
CENTRES = tuple(NormalDist().inv_cdf((place + 0.5) / 8) for place in range(8))  #: of clustered weights, spaced as normal numbers are
CLUSTER_WIDTH = 0.05  #: their deviation around a centre


class QuantizedMatmulCase(Int4MatmulCase, frozen=True, kw_only=True):
    """x [m, k] in ``dtype`` times weights [n, k] transposed. ``weights``: how the original ones are spread.

    ``int8`` and ``int4``: ``group`` weights along k share a scale. ``lookup4``: ``group`` rows share a table of 16 values.
    """

    scheme: Scheme
    weights: Spread

    def label(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {self.scheme} g{self.group} {self.weights} {self.dtype}"


class QuantizedMatmul(Workload[QuantizedMatmulCase]):
    """A weight is ``code·scale`` with a signed code of 8 bits, ``code·scale + offset`` as in int4_matmul, or ``table[code]``.

    Scales keep the bits that the dtype leaves beside the code, at least one: 3 for 8-bit codes in float16, and in bfloat16 a power of
    two, as the microscaling formats have it (OCP MX 1.0). So weights are exact in the dtype, and so is what a framework comes by on
    the way, ``(code + 128)·scale`` and ``−128·scale``; the tolerance is the common one over K = k terms. Such a scale exceeds the
    least one by at most 1/4 or 1, and the error of quantization by as much; that of 4-bit codes by 1/64 or 1/8.

    Tables are what k-means gives, as Core ML's tools palettize, rounded to the dtype. Quantization's own error is a figure beside the
    check's. Adapters tell ``weight_bytes``: of the arrays that hold the weights and what belongs to them, as they are stored.
    """

    name = "quantized_matmul"
    version = 1
    case_type = QuantizedMatmulCase
    variants = {
        "native": "the framework's own operator on packed weights",
        "dequantize": "unpack weights that are packed in bytes, then a dense product",
        "uint4": "linear 4-bit codes in the framework's own type of that size, however it stores them, then as dequantize",
        "dense": "the unquantized weights, as the yardstick",
    }

    def cases(self, suite: Suite) -> Iterable[QuantizedMatmulCase]:
        """``documents``: what Core ML does to float16. Elsewhere 8-bit weights have a scale a row, as PyTorch's operator wants them."""
        if suite == "quick":
            return []
        if suite == "documents":
            int8 = _case("float16", 4, 1024, "int8", 128)
            return [int8, *_of_4_bits("float16", 4, 1024, "even"), *_of_4_bits("float16", 4, 1024, "clustered")]
        size = 4096 if suite == "standard" else 8192
        dtypes: tuple[DType, ...] = ("float16", "bfloat16")
        pairs = [(dtype, m) for dtype in dtypes for m in (1, 512)]
        even = [case for dtype, m in pairs for case in (_case(dtype, m, size, "int8", size), *_of_4_bits(dtype, m, size, "even"))]
        return [*even, *_of_4_bits("float16", 1, size, "clustered")]

    def variants_of(self, case: QuantizedMatmulCase) -> Collection[str]:
        return [name for name in self.variants if name != "uint4" or case.scheme == "int4"]

    def inputs(self, case: QuantizedMatmulCase, rng: np.random.Generator) -> dict[str, Array]:
        """x and the original ``weights``; codes int8 and scales, or uint8, scales and offsets, or uint8 and tables [n / group, 16]."""
        x = rounded(rng.standard_normal((case.m, case.k), dtype=np.float32), case.dtype)
        weights = _spread(case, rng) / np.float32(math.sqrt(case.k))
        given = {"x": x, "weights": rounded(weights, case.dtype)}
        if case.scheme == "int8":
            codes, scales = quantize_bytes(weights, case.group, max(SIGNIFICAND[case.dtype] - 8, 1))
            return given | {"codes": codes, "scales": scales}
        if case.scheme == "int4":
            codes, scales, offsets = quantize(weights, case.group, SIGNIFICAND[case.dtype] - 4)
            return given | {"codes": codes, "scales": scales, "offsets": offsets}
        by_table = weights.reshape(case.n // case.group, -1)
        tables = np.stack([rounded(nearest_levels(values, LEVELS), case.dtype) for values in by_table])
        codes = np.stack([np.searchsorted((table[1:] + table[:-1]) / 2, row) for table, row in zip(tables, by_table, strict=True)])
        return given | {"codes": codes.astype(np.uint8).reshape(case.n, case.k), "tables": tables}

    def reference(self, case: QuantizedMatmulCase, inputs: Arrays) -> dict[str, Array]:
        """As for int4_matmul: ``out`` with the quantized weights and ``dense`` with the original ones."""
        if case.scheme == "lookup4":
            codes = inputs["codes"].reshape(case.n // case.group, -1)
            quantized = np.take_along_axis(inputs["tables"].astype(np.float64), codes, axis=1).reshape(case.n, case.k)
        else:
            quantized = dequantize(inputs["codes"], inputs["scales"], inputs.get("offsets", np.zeros_like(inputs["scales"])))
        return products(case, inputs, quantized)

    def cost(self, case: QuantizedMatmulCase, variant: str) -> Cost:
        codes = case.n * case.k // (1 if case.scheme == "int8" else 2)
        shared = {
            "int8": case.n * case.k // case.group,
            "int4": 2 * case.n * case.k // case.group,
            "lookup4": LEVELS * case.n // case.group,
        }
        return product_cost(case, variant, codes + ITEMSIZE[case.dtype] * shared[case.scheme])

    def tolerance(self, case: QuantizedMatmulCase) -> float:
        return reduction_tolerance(case.dtype, case.k)

    def check(self, case: QuantizedMatmulCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:  # noqa: ARG002 - the reference holds both products
        return check_product(outputs, reference, self.tolerance(case))


def quantize_bytes(weights: Array, group: int, scale_bits: int) -> tuple[Array, Array]:
    """(codes int8 [n, k], −127…127, scales float32 [n, k / group]): the least scale that spans each group's largest, symmetric."""
    grouped = weights.reshape(weights.shape[0], -1, group).astype(np.float64)
    scales = least_scale(np.maximum(np.abs(grouped).max(-1), 1e-6) / 127, scale_bits)
    codes = np.rint(grouped / scales[..., None])
    return codes.astype(np.int8).reshape(weights.shape), scales.astype(np.float32)


def nearest_levels(values: Array, levels: int) -> Array:
    """The ``levels`` numbers, float64 in order, from the nearest of which ``values`` deviate least in the square: k-means on a line.

    Its clusters are runs of the sorted values. The best ones among those that end where one of ``CELLS`` cells of equal width does, or one
    of equal count, are found by dynamic programming (Wang and Song, Ckmeans.1d.dp, 2011); ``ROUNDS`` of Lloyd's then move their ends.
    """
    ordered = np.sort(values.reshape(-1)).astype(np.float64)
    sums, squares = (np.append(0.0, np.cumsum(ordered**power)) for power in (1, 2))
    wide = np.searchsorted(ordered, np.linspace(ordered[0], ordered[-1], CELLS + 1)[:-1])
    full = np.linspace(0, ordered.size, CELLS + 1).astype(int)
    ends = np.unique([*wide, *full])
    count = ends - ends[:, None]  # [begin, end]
    spread = squares[ends] - squares[ends, None] - (sums[ends] - sums[ends, None]) ** 2 / np.maximum(count, 1)
    within = np.where(count > 0, spread, np.inf)
    least, begins = within[0], []  # of the runs up to each end
    for _ in range(levels - 1):
        total = least[:, None] + within
        begins.append(total.argmin(0))
        least = total.min(0)
    cuts = [len(ends) - 1]
    for begin in reversed(begins):
        cuts.append(int(begin[cuts[-1]]))
    runs = ends[[0, *cuts[::-1]]]
    means: Array = np.diff(sums[runs]) / np.diff(runs)
    for _ in range(ROUNDS):
        runs[1:-1] = np.searchsorted(ordered, (means[1:] + means[:-1]) / 2)
        means = np.diff(sums[runs]) / np.diff(runs)
    return means


def _spread(case: QuantizedMatmulCase, rng: np.random.Generator) -> Array:
    """Float32 [n, k] of variance 1 or a little less: uniform, or normal around one of a few centres each."""
    if case.weights == "even":
        return (rng.random((case.n, case.k), dtype=np.float32) * 2 - 1) * np.float32(math.sqrt(3))
    centres = np.array(CENTRES, np.float32)
    around = rng.standard_normal((case.n, case.k), dtype=np.float32) * np.float32(CLUSTER_WIDTH)
    return centres[rng.integers(len(CENTRES), size=around.shape, dtype=np.uint8)] + around


def _of_4_bits(dtype: DType, m: int, size: int, weights: Spread) -> list[QuantizedMatmulCase]:
    return [_case(dtype, m, size, "int4", 128, weights), _case(dtype, m, size, "lookup4", 16, weights)]


def _case(dtype: DType, m: int, size: int, scheme: Scheme, group: int, weights: Spread = "even") -> QuantizedMatmulCase:
    return QuantizedMatmulCase(dtype=dtype, m=m, n=size, k=size, group=group, scheme=scheme, weights=weights)


WORKLOAD = QuantizedMatmul()
