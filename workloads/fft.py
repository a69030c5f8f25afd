"""Discrete Fourier transforms: one- and two-dimensional, complex and real, forward and there-and-back."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import numpy as np

from metalbench.workloads.base import EPS, Array, Arrays, Case, Check, Cost, Suite, Workload, compared, reduction_tolerance

FULL_REFERENCE = 1 << 22  #: elements up to which every transform of a batch is computed
SAMPLED_TRANSFORMS = 3
NAIVE_LENGTH = 8192  #: points of the longest transform that is also made as a product; its matrix takes 512 MiB
NOT_NAIVE = f"only a one-dimensional complex forward transform of up to {NAIVE_LENGTH} points is made as a product"


class FFTCase(Case, frozen=True, kw_only=True):
    """``x`` is [batch, length], or [batch, rows, length] where ``rows`` > 1: complex64, or float32 for ``real``.

    ``forward`` gives the unnormalised spectrum (``real``: the non-negative half along the last axis); ``roundtrip`` the inverse
    of it, scaled by 1/N, which is ``x`` again.
    """

    kind: Literal["complex", "real"]
    batch: int
    rows: int
    length: int
    direction: Literal["forward", "roundtrip"]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch, self.rows, self.length) if self.rows > 1 else (self.batch, self.length)

    @property
    def points(self) -> int:
        """N, the points of one transform."""
        return self.rows * self.length

    @property
    def has_product(self) -> bool:
        """Whether there is a variant ``naive`` of it."""
        return self.kind == "complex" and self.rows == 1 and self.direction == "forward" and self.length <= NAIVE_LENGTH

    def label(self) -> str:
        return f"{'×'.join(map(str, self.shape))} {self.kind}{' there and back' if self.direction == 'roundtrip' else ''}"


class FFT(Workload[FFTCase]):
    """Tolerance: an FFT sums N terms in log₂N stages, so that K = log₂N in the common formula (Higham, Accuracy and Stability, §24.1).

    For lengths with a prime factor above 13 the customary algorithms are Bluestein's and Rader's, both a convolution by two
    transforms of 2N to 4N points: K = 2·log₂(4N), and one more rounding of the chirp at each end. There and back is twice that.
    The product with the transform's matrix sums N terms one by one: K = N, for an output of its own name.
    """

    name = "fft"
    version = 1
    case_type = FFTCase
    variants = {
        "native": "the framework's own transform",
        "naive": "the definition: a product with the N×N matrix of the transform, as the yardstick",
    }

    def cases(self, suite: Suite) -> Iterable[FFTCase]:
        if suite == "quick":
            return [
                _case("complex", 16, 1, 16384),
                _case("real", 4, 192, 384, "roundtrip"),
                _case("complex", 16, 1, 1009),
            ]
        if suite == "documents":
            return [_case("complex", 16, 1, 4096)]
        batch, power, side, triple, prime = (16, 1 << 16, 1024, 3 * (1 << 14), 16381)
        if suite == "large":
            batch, power, side, triple, prime = (64, 1 << 20, 2048, 3 * (1 << 18), 262139)
        return [
            *(_case(kind, batch, 1, length) for kind in ("complex", "real") for length in (power, triple, prime)),
            _case("complex", batch, 1, 4096),
            *(_case(kind, batch, 1, power, "roundtrip") for kind in ("complex", "real")),
            *(_case(kind, batch, side, side) for kind in ("complex", "real")),
            *(_case(kind, batch, side * 3 // 4, side, "roundtrip") for kind in ("complex", "real")),
        ]

    def variants_of(self, case: FFTCase) -> Collection[str]:
        return self.variants if case.has_product else ["native"]

    def inputs(self, case: FFTCase, rng: np.random.Generator) -> dict[str, Array]:
        real = rng.standard_normal(case.shape, dtype=np.float32)
        if case.kind == "real":
            return {"x": real}
        return {"x": (real + 1j * rng.standard_normal(case.shape, dtype=np.float32)).astype(np.complex64)}

    def reference(self, case: FFTCase, inputs: Arrays) -> dict[str, Array]:
        if case.batch * case.points <= FULL_REFERENCE:
            return {"out": _transform(case, inputs["x"])}
        chosen = np.sort(np.random.default_rng(0).choice(case.batch, SAMPLED_TRANSFORMS, replace=False))
        exact = _transform(case, inputs["x"][chosen])
        each = exact[0].size
        at = chosen[:, None] * each + np.arange(each)
        return {"out": exact.reshape(-1), "out.at": at.reshape(-1)}

    def cost(self, case: FFTCase, variant: str) -> Cost:
        """FLOPs 5·N·log₂N for a complex transform and half of it for a real one, as FFTW's benchmark counts whatever the algorithm."""
        passes = 2 if case.direction == "roundtrip" else 1
        per_point = 5.0 if case.kind == "complex" else 2.5
        flops = round(passes * case.batch * per_point * case.points * math.log2(case.points))
        size = case.batch * case.points * (8 if case.kind == "complex" else 4)
        matrix = 8 * case.points**2 if variant == "naive" else 0
        return Cost(flops=flops, bytes=2 * size, footprint=8 * size + matrix)

    def tolerance(self, case: FFTCase) -> float:
        smooth = all(_largest_prime(length) <= 13 for length in (case.rows, case.length))
        terms = math.log2(case.points) if smooth else 2 * math.log2(4 * case.points) + 2
        passes = 2 if case.direction == "roundtrip" else 1
        return (2 + 4 * math.sqrt(passes * terms)) * EPS["float32"]

    def check(self, case: FFTCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:
        """The output that the variant gives, ``out`` or ``naive``: the same spectrum, rounded otherwise."""
        (out,) = outputs
        if set(out) != {"naive"}:
            return super().check(case, inputs, outputs, reference)
        own = {name.replace("out", "naive"): value for name, value in reference.items()}
        return compared(out, own, reduction_tolerance("float32", case.points))


def dft_matrix(length: int) -> Array:
    """exp(−2πi·jk/N), complex64 [N, N], each the float64 root of unity rounded once; jk is reduced modulo N before it is scaled."""
    at = np.arange(length, dtype=np.int32)  # holds jk up to N = 46 341
    roots = np.exp(-2j * np.pi * at / length).astype(np.complex64)
    matrix: Array = roots[np.outer(at, at) % length]
    return matrix


def _case(
    kind: Literal["complex", "real"], batch: int, rows: int, length: int, direction: Literal["forward", "roundtrip"] = "forward"
) -> FFTCase:
    return FFTCase(kind=kind, batch=batch, rows=rows, length=length, direction=direction)


def _transform(case: FFTCase, x: Array) -> Array:
    """In complex128, over all axes but the first."""
    if case.direction == "roundtrip":
        return x.astype(np.complex128 if case.kind == "complex" else np.float64)
    axes = tuple(range(1, x.ndim))
    return np.fft.fftn(x.astype(np.complex128), axes=axes) if case.kind == "complex" else np.fft.rfftn(x.astype(np.float64), axes=axes)


def _largest_prime(n: int) -> int:
    """The largest prime factor of n; 1 for 1."""
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)


WORKLOAD = FFT()
