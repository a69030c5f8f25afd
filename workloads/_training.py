"""What training steps have in common: AdamW in float64, and whether the losses and updates of an implementation follow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from metalbench.workloads.base import Array, Arrays, Check, DType, rounded

LEARNING_RATE = 1e-4
BETAS = (0.9, 0.999)
EPSILON = 1e-10  #: small against any gradient: Keras adds it before the bias correction, the others after
WEIGHT_DECAY = 0.01  #: of every tensor, decoupled: p ← p·(1 − rate·decay) before Adam's update

SAMPLED = 1 << 16  #: elements of a tensor whose updates are compared, a seeded choice of larger ones
#: The least cosine of an update with its reference. In float32 an honest one misses 1 by 1e-9 to 1e-6, one that multiplied in float16
#: or TF32 by 3e-5 and more.
COSINE: dict[DType, float] = {"float32": 1 - 5e-6, "float16": 0.9, "bfloat16": 0.9}


def trajectory(
    initial: Arrays, steps: int, loss_and_gradients: Callable[[int, Arrays], tuple[float, Mapping[str, Array]]]
) -> dict[str, Array]:
    """What AdamW makes of the ``initial`` parameters in float64.

    ``losses`` [steps]; for each parameter the updates, without decay, [steps, elements], and ``.at``, the flat indices of these elements.
    ``loss_and_gradients`` is told the number of the step, from 0, and the parameters before it.
    """
    parameters = {name: value.astype(np.float64) for name, value in initial.items()}
    at = {name: _sample(value.size) for name, value in parameters.items()}
    moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in parameters.items()}
    losses, updates = [], {name: np.empty((steps, at[name].size)) for name in parameters}
    for step in range(steps):
        loss, gradients = loss_and_gradients(step, parameters)
        losses.append(loss)
        for name, gradient in gradients.items():
            update = _adam(gradient, moments[name], step + 1)
            updates[name][step] = update.reshape(-1)[at[name]]
            parameters[name] = parameters[name] * (1 - LEARNING_RATE * WEIGHT_DECAY) + update
    return {"losses": np.array(losses)} | updates | {f"{name}.at": indices for name, indices in at.items()}


def followed(dtype: DType, initial: Arrays, outputs: Sequence[Arrays], reference: Arrays, tolerance: float) -> Check:
    """Whether the outputs of consecutive steps from the ``initial`` parameters follow a ``trajectory``; the error is that of the losses."""
    names = list(initial)
    if any(out[name].shape != initial[name].shape for out in outputs for name in names):
        return Check(ok=False, error=math.inf, tolerance=tolerance, detail="a parameter has another shape")
    if not all(np.isfinite(out[name]).all() for out in outputs for name in names):
        return Check(ok=False, error=math.inf, tolerance=tolerance, detail="a parameter holds NaN or infinity")
    before, applied, error = dict(initial), 0, 0.0
    moved = {name: np.zeros(reference[f"{name}.at"].size) for name in names}
    for out in outputs:
        loss, expected = float(out["loss"]), float(reference["losses"][applied])
        error = max(error, abs(loss - expected) / float(reference["losses"].max())) if math.isfinite(loss) else math.inf
        if dtype == "float16" and all(np.array_equal(out[name], before[name]) for name in names):
            continue  # the gradients overflowed, and the step was skipped as it should be
        for name in names:
            at = reference[f"{name}.at"]
            new, old = (array.reshape(-1)[at].astype(np.float64) for array in (out[name], before[name]))
            moved[name] += new - old * (1 - LEARNING_RATE * WEIGHT_DECAY)
        before, applied = {name: out[name] for name in names}, applied + 1
    cosines = {name: _cosine(moved[name], reference[name][:applied].sum(0)) for name in names}
    worst = min(names, key=lambda name: cosines[name])
    figures = {"lowest_cosine": cosines[worst], "skipped_steps": float(len(outputs) - applied)}
    detail = ""
    if not error <= tolerance:
        detail = f"a loss is off by {error:.2g}, tolerance {tolerance:.2g}" if math.isfinite(error) else "the loss is NaN or infinite"
    elif not cosines[worst] >= COSINE[dtype]:
        detail = f"the update of {worst} does not point along the reference's: cosine {cosines[worst]:.2g}"
    elif dtype != "float32" and all(np.array_equal(before[name], rounded(before[name], dtype)) for name in names):
        detail = f"the master weights are {dtype}, not float32"
    return Check(ok=not detail, error=error, tolerance=tolerance, detail=detail, figures=figures)


def _adam(gradient: Array, moments: tuple[Array, Array], step: int) -> Array:
    """The update without decay, moments advanced in place (Kingma and Ba, algorithm 1)."""
    first, second = moments
    first += (1 - BETAS[0]) * (gradient - first)
    second += (1 - BETAS[1]) * (gradient**2 - second)
    update: Array = -LEARNING_RATE * (first / (1 - BETAS[0] ** step)) / (np.sqrt(second / (1 - BETAS[1] ** step)) + EPSILON)
    return update


def _sample(size: int) -> Array:
    return np.arange(size) if size <= SAMPLED else np.sort(np.random.default_rng(0).choice(size, SAMPLED, replace=False))


def _cosine(a: Array, b: Array) -> float:
    """0 where either is zero; NaN if a value is."""
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(a @ b) / norms if norms else 0.0
