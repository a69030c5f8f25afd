"""A training step in mixed precision: forward, loss, backward and AdamW on residual MLP blocks, as language models are trained.

The network on x [batch, width]: for each block h ← h + down(gelu(up(norm(h)))), then norm, then head; the loss is the mean cross-entropy
with integer labels. ``up``, ``down`` and ``head`` are x·weight + bias; ``norm`` is layer norm over the width; GELU is the exact one.
Master weights, their moments, layer norm, softmax and loss are float32; products run in the case's dtype. float16 scales the loss
dynamically: gradients that overflow skip the step and halve the scale, ``GROWTH_INTERVAL`` good ones in a row double it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from metalbench.workloads._training import BETAS, followed, trajectory
from metalbench.workloads.base import EPS, Array, Arrays, Case, Check, Cost, DType, Suite, Workload, reduction_tolerance, rounded

NORM_EPSILON = 1e-5
LOSS_SCALE = 2.0**15
GROWTH_INTERVAL = 2000

STEPS = 5  #: length of the trajectory that is checked
LONG = 50  #: steps after which precisions are compared by the loss that is left


class AmpStepCase(Case, frozen=True, kw_only=True):
    """``hidden`` is the width inside a block. ``steps`` are followed from the initial parameters on: checked are the first of them."""

    batch: int
    width: int
    hidden: int
    blocks: int
    classes: int
    steps: int = STEPS

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters by name: ``block0.norm.scale``, ``block0.norm.shift``, ``block0.up.weight`` [width, hidden] …, ``head.bias``."""
        shapes: dict[str, tuple[int, ...]] = {}
        for block in range(self.blocks):
            shapes |= _norm(f"block{block}.norm", self.width)
            shapes |= _linear(f"block{block}.up", self.width, self.hidden) | _linear(f"block{block}.down", self.hidden, self.width)
        return shapes | _norm("norm", self.width) | _linear("head", self.width, self.classes)

    def label(self) -> str:
        long = f", {self.steps} steps" if self.steps != STEPS else ""
        return f"{self.batch}×{self.width}, {self.blocks}×{self.hidden} hidden, {self.classes} classes{long} {self.dtype}"


class AmpStep(Workload[AmpStepCase]):
    """Outputs of a call: ``loss`` before the update, and every parameter after it.

    Right is a trajectory whose losses follow the float64 one and whose updates, decay removed and summed over the steps, point along
    the float64 ones, tensor by tensor: an optimizer that only decays moves parameters too.

    Tolerance of the loss: the logits pass 2·blocks + 1 products one after the other, each with the common error of a reduction, which
    add up as independent ones do; the loss is of the logits' order. Adam's bias correction √(1 − β₂ᵗ) in float32 is off by up to
    eps / (4·(1 − β₂)) at the first step, and the update, and what it takes off the loss, by as much.
    """

    name = "amp_step"
    version = 1
    case_type = AmpStepCase
    variants = {
        "eager": "operator by operator, with the framework's own automatic mixed precision and optimizer",
        "compiled": "the same through the framework's compiler",
    }

    def cases(self, suite: Suite) -> Iterable[AmpStepCase]:
        dtypes: tuple[DType, ...] = ("float32", "bfloat16") if suite == "quick" else ("float32", "bfloat16", "float16")
        batch, width, blocks, classes = {
            "quick": (64, 128, 1, 64),
            "documents": (1024, 128, 2, 128),  # activations weigh more than parameters, as where memory is short
            "standard": (256, 1024, 4, 1000),
            "large": (2048, 2048, 2, 8192),
        }[suite]
        cases = [AmpStepCase(dtype=d, batch=batch, width=width, hidden=4 * width, blocks=blocks, classes=classes) for d in dtypes]
        if suite == "documents":  # the loss after many steps, of a network that takes a blink a step
            cases += [AmpStepCase(dtype=d, batch=32, width=64, hidden=256, blocks=1, classes=32, steps=LONG) for d in dtypes]
        return cases

    def inputs(self, case: AmpStepCase, rng: np.random.Generator) -> dict[str, Array]:
        """x [batch, width], labels int32 [batch], and the initial parameters, float32 and not rounded: they are master weights."""
        x = rounded(rng.standard_normal((case.batch, case.width), dtype=np.float32), case.dtype)
        labels = rng.integers(0, case.classes, case.batch, dtype=np.int32)
        return {"x": x, "labels": labels} | {name: _initial(name, shape, rng) for name, shape in case.shapes().items()}

    def reference(self, case: AmpStepCase, inputs: Arrays) -> dict[str, Array]:
        """``losses`` [steps]; for each parameter the updates of the first ones, without decay, [STEPS, elements], and ``.at`` of these."""
        x, labels = inputs["x"].astype(np.float64), inputs["labels"]
        initial = {name: inputs[name] for name in case.shapes()}
        whole = trajectory(initial, case.steps, lambda _, parameters: loss_and_gradients(case, parameters, x, labels))
        return whole | {name: whole[name][:STEPS] for name in initial}

    def cost(self, case: AmpStepCase, variant: str) -> Cost:  # noqa: ARG002 - both do the same
        """FLOPs 6·batch a weight of a product: 2 forward, 4 backward. Bytes: parameters and two moments, read and written."""
        weights = sum(math.prod(shape) for shape in case.shapes().values() if len(shape) == 2)
        parameters = sum(math.prod(shape) for shape in case.shapes().values())
        activations = 4 * case.batch * (case.blocks * (3 * case.width + 3 * case.hidden) + 2 * case.width + 3 * case.classes)
        traffic = 6 * 4 * parameters + 4 * case.batch * (case.width + 1)
        return Cost(flops=6 * case.batch * weights, bytes=traffic, footprint=7 * 4 * parameters + 2 * activations)

    def calls_checked(self, case: AmpStepCase) -> int:
        return case.steps

    def tolerance(self, case: AmpStepCase) -> float:
        forward = math.sqrt(2 * case.blocks + 1) * reduction_tolerance(case.dtype, case.hidden)
        return forward + EPS["float32"] / (4 * (1 - BETAS[1]))

    def check(self, case: AmpStepCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:
        """Error: that of the losses, relative to the largest. Figures: ``lowest_cosine`` of a tensor's update, ``skipped_steps``.

        Further ``relative_loss``, that of the last call over the float64 one: what a precision has learnt, whatever it learnt from.
        """
        initial, tolerance = {name: inputs[name] for name in case.shapes()}, self.tolerance(case)
        check = followed(case.dtype, initial, outputs[:STEPS], reference, tolerance)
        final = float(outputs[-1]["loss"])
        if check.ok and not math.isfinite(final):
            return Check(ok=False, error=math.inf, tolerance=tolerance, detail=f"the loss of step {len(outputs)} is NaN or infinite")
        check.figures["relative_loss"] = final / float(reference["losses"][len(outputs) - 1])
        return check


def loss_and_gradients(case: AmpStepCase, parameters: Arrays, x: Array, labels: Array) -> tuple[float, dict[str, Array]]:
    """Forward and hand-written backward in float64: the loss, and its derivative by every parameter."""
    from scipy.special import erf  # noqa: PLC0415 - references are made by the parent; a worker has no SciPy

    p, gradients = parameters, dict[str, Array]()
    hidden, saved = x, []
    for block in (f"block{index}" for index in range(case.blocks)):
        y, normal = _normalise(hidden, p[f"{block}.norm.scale"], p[f"{block}.norm.shift"])
        u = y @ p[f"{block}.up.weight"] + p[f"{block}.up.bias"]
        phi = (1 + erf(u / math.sqrt(2))) / 2
        saved.append((block, normal, y, u, phi))
        hidden = hidden + (u * phi) @ p[f"{block}.down.weight"] + p[f"{block}.down.bias"]
    y, normal = _normalise(hidden, p["norm.scale"], p["norm.shift"])
    logits = y @ p["head.weight"] + p["head.bias"]
    logits -= logits.max(-1, keepdims=True)
    rows = np.arange(case.batch)
    total = np.exp(logits).sum(-1)
    loss = float(np.mean(np.log(total) - logits[rows, labels]))

    d_logits = np.exp(logits) / total[:, None]
    d_logits[rows, labels] -= 1
    d_y = _linear_backward("head", y, d_logits / case.batch, p, gradients)
    d_hidden = _norm_backward("norm", normal, d_y, p, gradients)
    for block, normal, y, u, phi in reversed(saved):
        d_gelu = _linear_backward(f"{block}.down", u * phi, d_hidden, p, gradients)
        d_u = d_gelu * (phi + u * np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi))
        d_y = _linear_backward(f"{block}.up", y, d_u, p, gradients)
        d_hidden = d_hidden + _norm_backward(f"{block}.norm", normal, d_y, p, gradients)
    return loss, gradients


Normal = tuple[Array, Array]  #: the normalised rows, and one over their deviation


def _normalise(h: Array, scale: Array, shift: Array) -> tuple[Array, Normal]:
    centred = h - h.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + NORM_EPSILON)
    return centred * inverse * scale + shift, (centred * inverse, inverse)


def _norm_backward(name: str, normal: Normal, d_y: Array, p: Arrays, gradients: dict[str, Array]) -> Array:
    unit, inverse = normal
    gradients[f"{name}.scale"], gradients[f"{name}.shift"] = (d_y * unit).sum(0), d_y.sum(0)
    d_unit = d_y * p[f"{name}.scale"]
    d_h: Array = inverse * (d_unit - d_unit.mean(-1, keepdims=True) - unit * (d_unit * unit).mean(-1, keepdims=True))
    return d_h


def _linear_backward(name: str, x: Array, d_out: Array, p: Arrays, gradients: dict[str, Array]) -> Array:
    gradients[f"{name}.weight"], gradients[f"{name}.bias"] = x.T @ d_out, d_out.sum(0)
    d_x: Array = d_out @ p[f"{name}.weight"].T
    return d_x


def _initial(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if len(shape) == 2:
        return (rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(shape[0]))).astype(np.float32)
    return np.full(shape, 1 if name.endswith(".scale") else 0, np.float32)


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.scale": (width,), f"{name}.shift": (width,)}


def _linear(name: str, inside: int, outside: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (inside, outside), f"{name}.bias": (outside,)}


WORKLOAD = AmpStep()
