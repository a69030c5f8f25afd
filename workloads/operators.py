"""The operators that models are made of, forward and backward: what a framework has, and whether it is right. Only where it is named.

The list, where it is from, and how each is judged stand in ``operators.toml``; a framework answers with one public function or layer of its
own for an operator, or says that it has none. What would have to be put together of several is not counted.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from metalbench.workloads._operators_inputs import OPERATORS
from metalbench.workloads._operators_references import REFERENCES
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
    judged,
    normwise_error,
    reduction_tolerance,
    rounded,
)

DIRECTIONS = 3  #: in which a derivative is compared, for each operand
STEP = 1e-5  #: of the difference quotient, on values of about 1
UNDERIVED = {"condition", "index", "mean", "variance"}  #: operands that are no floating numbers, or that no framework derives by


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of ``operators.toml``, whose head says what the fields mean."""

    named: bool = False
    terms: int = 1
    condition: float = 1.0
    flops: int = 1
    exact: bool = False
    dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")


@cache
def judgements() -> Mapping[str, Judgement]:
    """Operator → how it is judged, in the order of the list."""
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return msgspec.convert(entries, dict[str, Judgement])


class OperatorsCase(Case, frozen=True, kw_only=True):
    """Floating operands are in ``dtype``, which for integer ones says nothing."""

    operator: str

    def label(self) -> str:
        return f"{self.operator} {self.dtype}"


class Operators(Workload[OperatorsCase]):
    """The result is ``out``. Where there is a derivative, ``inputs`` hold a ``cotangent`` c, and ``gradient.x`` is that of ⟨out, c⟩ by x.

    Gradients are compared in ``DIRECTIONS`` seeded random directions d for each operand, ⟨gradient, d⟩ with the central difference quotient
    of the float64 forward: its own error is of the order of STEP² and eps(float64) / STEP, 1e-10, far below any tolerance.

    Tolerance: the common one over the longest sum, forward or backward, times the ``condition`` of the list. In linear algebra every step's
    rounding counts as often as the condition of the matrix says, once for each time that its inverse is a factor (Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, chapters 8, 10 and 14).
    """

    name = "operators"
    version = 1
    case_type = OperatorsCase
    variants = {"native": "one public function or layer of the framework, and its own derivative"}
    memory_matters = False  # of so small arrays, and there are hundreds of cells
    by_name_only = True  # for their number: the question is whether, not how fast

    def cases(self, suite: Suite) -> Iterable[OperatorsCase]:
        """The same for every device. None in ``quick`` and ``documents``."""
        if suite in {"quick", "documents"}:
            return []
        return [OperatorsCase(operator=name, dtype=dtype) for name, judgement in judgements().items() for dtype in judgement.dtypes]

    def inputs(self, case: OperatorsCase, rng: np.random.Generator) -> dict[str, Array]:
        given = OPERATORS[case.operator]
        drawn = {name: draw(rng) for name, draw in given.operands.items()}
        if given.differentiable:
            drawn["cotangent"] = _cotangent(case.operator, given.out, rng)
        return {name: rounded(array, case.dtype) if array.dtype.kind == "f" else array for name, array in drawn.items()}

    def reference(self, case: OperatorsCase, inputs: Arrays) -> dict[str, Array]:
        """``gradient.x`` holds the derivatives in the directions, [DIRECTIONS]."""
        forward = REFERENCES[case.operator]
        wide = {name: _wide(inputs[name]) for name in operands(case)}
        reference = {"out": np.asarray(forward(*wide.values()), np.float64)}
        for name in differentiated(case):
            slopes = []
            for direction in _directions(case, wide[name]):
                near = ({**wide, name: wide[name] + step * direction} for step in (STEP, -STEP))
                ahead, behind = (forward(*moved.values()) for moved in near)
                slopes.append(np.vdot(ahead - behind, inputs["cotangent"]) / (2 * STEP))
            reference[f"gradient.{name}"] = np.array(slopes)
        return reference

    def cost(self, case: OperatorsCase, variant: str) -> Cost:  # noqa: ARG002 - there is one
        """Backward counts twice what forward does."""
        judgement, out = judgements()[case.operator], OPERATORS[case.operator].out
        inputs = self.inputs(case, np.random.default_rng(0))
        sizes = {name: array.size * (ITEMSIZE[case.dtype] if array.dtype.kind == "f" else array.itemsize) for name, array in inputs.items()}
        traffic = sum(sizes.values()) + math.prod(out) * ITEMSIZE[case.dtype] + sum(sizes[name] for name in differentiated(case))
        passes = 3 if OPERATORS[case.operator].differentiable else 1
        return Cost(flops=0 if judgement.exact else passes * judgement.flops * math.prod(out), bytes=traffic, footprint=3 * traffic)

    def tolerance(self, case: OperatorsCase) -> float:
        judgement = judgements()[case.operator]
        return judgement.condition * reduction_tolerance(case.dtype, judgement.terms)

    def check(self, case: OperatorsCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:
        """An exact result has no tolerance, its gradient, if it has one, the common one. That of topk may come in any order."""
        (out,) = outputs
        result = np.sort(out["out"]) if case.operator == "topk" else out["out"]
        errors = {"out": normwise_error(result, reference, "out")}
        for name in differentiated(case):
            errors[f"gradient.{name}"] = _slope_error(case, out[f"gradient.{name}"], inputs[name], reference[f"gradient.{name}"])
        allowed = dict.fromkeys(errors, self.tolerance(case)) | ({"out": 0.0} if judgements()[case.operator].exact else {})
        return judged(errors, allowed)


def operands(case: OperatorsCase) -> list[str]:
    """The operands in the order of the function's arguments, which the mapping of inputs doesn't keep."""
    return list(OPERATORS[case.operator].operands)


def differentiated(case: OperatorsCase) -> list[str]:
    """The operands by which the operator is derived, in order: those in floating point, or none."""
    return [name for name in operands(case) if name not in UNDERIVED] if OPERATORS[case.operator].differentiable else []


def _cotangent(operator: str, out: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Normal; for topk the same along a row, whose order is the framework's."""
    drawn = rng.standard_normal((*out[:-1], 1) if operator == "topk" else out, dtype=np.float32)
    return np.array(np.broadcast_to(drawn, out))


def _directions(case: OperatorsCase, operand: Array) -> Array:
    """[DIRECTIONS, …]; symmetric where the operator reads a matrix as symmetric, by half of it or by both."""
    drawn = np.random.default_rng(0).standard_normal((DIRECTIONS, *operand.shape))
    return (drawn + drawn.swapaxes(-1, -2)) / 2 if case.operator == "cholesky" else drawn


def _slope_error(case: OperatorsCase, gradient: Array, operand: Array, slopes: Array) -> float:
    """The root mean square, over the directions, of ⟨gradient, d⟩ against the slope, relative to ‖gradient‖.

    That is ‖gradient − true one‖ / ‖gradient‖ in the mean over random directions; relative to the slopes themselves, which may happen to
    be small, it would not be.
    """
    if gradient.shape != operand.shape or not np.all(np.isfinite(gradient)):
        return math.inf
    wide = gradient.astype(np.float64)
    found = _directions(case, wide).reshape(DIRECTIONS, -1) @ wide.reshape(-1)
    norm = math.sqrt(DIRECTIONS) * float(np.linalg.norm(wide.reshape(-1)))
    distance = float(np.linalg.norm(found - slopes))
    return distance / norm if norm else math.inf


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


WORKLOAD = Operators()
