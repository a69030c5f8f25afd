"""What a workload is: the work, its inputs, its float64 reference, its cost and its tolerance. It knows no framework.

One file a workload; the file is its registration. Each module ends with ``WORKLOAD = …()``. What a workload shares with every
other one stands here: low-precision rounding, seeded generators, the normwise error and the tolerance that goes with it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

DType = Literal["float32", "float16", "bfloat16"]
Suite = Literal["quick", "standard", "large", "documents"]
Scalar = str | int | float | bool
Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

#: Distance from 1 to the next number, by dtype.
EPS: Mapping[str, float] = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SAMPLED_ELEMENTS = 1 << 16  #: of an output that is too large to be checked whole
#: Bytes of one element, by dtype.
ITEMSIZE: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One set of a workload's parameters. Subclasses add their own as fields, scalars only."""

    dtype: DType = "float32"

    def parameters(self) -> dict[str, Scalar]:
        """The fields by name, in the order they are declared: what is stored, filtered by ``--case`` and printed."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def label(self) -> str:
        """A short name for tables; workloads with a customary notation override it."""
        return " ".join(f"{name}={value}" for name, value in self.parameters().items())


C = TypeVar("C", bound=Case)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of the work amounts to, whatever the implementation.

    ``flops``: floating-point operations by the customary count. ``bytes``: the least traffic through device memory, every input
    read once and every output written once. ``footprint``: bytes alive at the peak, inputs, outputs and what the named variant
    materialises on the way; a cell whose footprint can't fit is not started. ``amounts``: what else a call gets through that people
    know rates of, by the plural of its unit: ``{"tokens": 512}`` is shown as tokens/s.
    """

    flops: int
    bytes: int
    footprint: int
    amounts: dict[str, int] = {}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """How far outputs are from the reference. ``ok`` is the verdict; NaN and infinity never pass.

    ``detail`` names what failed (an output, a tensor) and is empty when all is well. ``figures`` are further numbers worth showing,
    such as the error that quantization itself costs, or the number of skipped steps.
    """

    ok: bool
    error: float
    tolerance: float
    detail: str = ""
    figures: dict[str, float] = {}


class Workload(ABC, Generic[C]):
    """The contract. Inputs are NumPy arrays in float32 (or integers), rounded to the case's dtype where that is lower."""

    name: ClassVar[str]
    version: ClassVar[int]  #: part of the series key: raise it when the work changes
    case_type: ClassVar[type[Case]]
    #: name → what it means; every backend answers for each of them, if only by saying why it can't
    variants: ClassVar[Mapping[str, str]]
    #: whether the memory of a call is worth a process that does nothing else, which takes longer to start than most cells
    memory_matters: ClassVar[bool] = True
    #: whether it is measured only where it is named: one whose question is another than which backend is fastest
    by_name_only: ClassVar[bool] = False

    @abstractmethod
    def cases(self, suite: Suite) -> Iterable[C]:
        """The cases of a suite, in a fixed order; ``quick`` has few, telling ones, sized for the slowest CPU backend.

        ``documents`` has what the source documents' claims compare (results/claims.toml), and nothing where there is none.
        """

    def variants_of(self, case: C) -> Collection[str]:  # noqa: ARG002 - for overriders
        """Those of the variants that mean something for this case; no backend is asked for the others."""
        return self.variants

    @abstractmethod
    def inputs(self, case: C, rng: np.random.Generator) -> dict[str, Array]:
        """What every backend is given, byte for byte the same."""

    @abstractmethod
    def reference(self, case: C, inputs: Arrays) -> dict[str, Array]:
        """The outputs in float64 (or complex128), by name.

        Where all of an output would cost seconds, a seeded sample: ``name`` holds the exact values and ``name.at`` their flat
        indices in the output.
        """

    @abstractmethod
    def cost(self, case: C, variant: str) -> Cost: ...

    def calls_checked(self, case: C) -> int:  # noqa: ARG002 - for overriders
        """How many consecutive calls from a fresh state are checked together: a training trajectory, or 1 for a pure function."""
        return 1

    @abstractmethod
    def tolerance(self, case: C) -> float:
        """The largest normwise error that passes."""

    def check(self, case: C, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:  # noqa: ARG002 - for overriders
        """Compare the outputs of ``calls_checked`` calls, each a mapping from name to host array, with the reference.

        This one serves pure functions: one call, each output against its reference, the worst error counts.
        """
        (out,) = outputs
        return compared(out, reference, self.tolerance(case))


def compared(out: Arrays, reference: Arrays, tolerance: float) -> Check:
    """Each output of a call against its reference; the worst error counts."""
    errors = {name: normwise_error(out[name], reference, name) for name in reference if not name.endswith(".at")}
    return judged(errors, dict.fromkeys(errors, tolerance))


def judged(errors: Mapping[str, float], allowed: Mapping[str, float]) -> Check:
    """Errors by output against what is allowed of each; the worst one that isn't allowed counts, else the worst of all."""
    worst = max(errors, key=lambda name: (not errors[name] <= allowed[name], errors[name]))
    error, tolerance = errors[worst], allowed[worst]
    if error <= tolerance:
        return Check(ok=True, error=error, tolerance=tolerance)
    detail = f"{worst} is off by {error:.2g}, tolerance {tolerance:.2g}" if math.isfinite(error) else f"{worst} holds NaN or infinity"
    return Check(ok=False, error=error, tolerance=tolerance, detail=detail)


def normwise_error(out: Array, reference: Arrays, name: str) -> float:
    """‖out − ref‖ / ‖ref‖ in float64 over all elements, or over the sampled ones.

    Infinite where the shape differs or a value is not finite. ``out`` is read at ``reference[name + ".at"]`` where that exists, else whole.
    """
    expected = reference[name]
    at = reference.get(f"{name}.at")
    if not np.all(np.isfinite(out)):  # anywhere, not only where it is sampled
        return math.inf
    if at is not None:
        out = out.reshape(-1)[at] if at.size and int(at.max()) < out.size else out.reshape(-1)[:0]
    if out.shape != expected.shape:
        return math.inf
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    norm = float(np.linalg.norm(expected.reshape(-1)))
    distance = float(np.linalg.norm((out.astype(wide) - expected).reshape(-1)))
    return distance / norm if norm else distance


def reduction_tolerance(dtype: DType, length: int) -> float:
    """2·eps(output dtype) + 4·√K·eps(float32) for a reduction over ``length`` terms, accumulated in float32 whatever the dtype."""
    return 2 * EPS[dtype] + 4 * math.sqrt(length) * EPS["float32"]


def sampled(size: int) -> Array:
    """Flat indices of a seeded sample of so many elements, the first and the last among them, in order."""
    return np.unique(np.append(np.random.default_rng(0).integers(size, size=SAMPLED_ELEMENTS), [0, size - 1]))


def rounded(array: Array, dtype: DType) -> Array:
    """``array`` as float32 whose values the dtype holds exactly (round to nearest, ties to even)."""
    single = np.asarray(array, dtype=np.float32)
    if dtype == "float16":
        return single.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = single.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return single


def matches(parameters: Mapping[str, object], filters: Sequence[tuple[str, str]]) -> bool:
    """Whether a case with these parameters has one of the wanted values for every key that is filtered by."""
    texts = {name: _text(value) for name, value in parameters.items()}
    keys = {key for key, _ in filters}
    return all(any(texts.get(key) == value.lower() for name, value in filters if name == key) for key in keys)


def _text(value: object) -> str:
    return str(value).lower()
