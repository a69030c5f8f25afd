"""Mixed-precision training in MLX: float32 parameters cast where they are used, mlx.optimizers.AdamW, the step through mx.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mlx.core as mx
from mlx import nn, optimizers
from mlx.utils import tree_flatten, tree_map

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.amp_step import GROWTH_INTERVAL, LOSS_SCALE, NORM_EPSILON, AmpStepCase
from metalbench.workloads.base import Arrays

Tree = dict[str, mx.array]


def norm(p: Tree, name: str, h: mx.array) -> mx.array:
    return mx.fast.layer_norm(h, p[f"{name}.scale"], p[f"{name}.shift"], NORM_EPSILON)


def linear(p: Tree, name: str, x: mx.array, dtype: mx.Dtype) -> mx.array:
    return mx.addmm(p[f"{name}.bias"].astype(dtype), x.astype(dtype), p[f"{name}.weight"].astype(dtype))


def loss_of(p: Tree, x: mx.array, labels: mx.array, scale: mx.array, case: AmpStepCase) -> tuple[mx.array, mx.array]:
    """(scaled loss, which is differentiated; loss). The residual stream is float32, as the embedding of a float32 input is."""
    dtype = getattr(mx, case.dtype)
    h = x
    for block in range(case.blocks):
        up = linear(p, f"block{block}.up", norm(p, f"block{block}.norm", h), dtype)
        h = h + linear(p, f"block{block}.down", nn.gelu(up), dtype)
    logits = linear(p, "head", norm(p, "norm", h), dtype).astype(mx.float32)
    loss = nn.losses.cross_entropy(logits, labels, reduction="mean")
    return loss * scale, loss


class Training:
    """A step with its own state; ``compiler`` makes the step of a function that changes the state it is given."""

    def __init__(self, device: MlxDevice, case: AmpStepCase, inputs: Arrays, compiler: Callable[..., Any]) -> None:
        self._device, self._case, self._compiler = device, case, compiler
        self._initial = {name: inputs[name] for name in case.shapes()}
        self._x, self._labels = device.put(inputs["x"]), device.put(inputs["labels"])
        self.reset()

    def reset(self) -> None:
        optimizer = optimizers.AdamW(LEARNING_RATE, betas=list(BETAS), eps=EPSILON, weight_decay=WEIGHT_DECAY, bias_correction=True)
        parameters = {name: self._device.put(value) for name, value in self._initial.items()}
        optimizer.init(parameters)
        scaling = {"scale": mx.array(LOSS_SCALE), "good": mx.array(0)}
        self._state = {"parameters": parameters, "optimizer": optimizer.state, "scaling": scaling}
        mx.eval(self._state)
        self._step = self._compiler(partial(_train, optimizer, self._state, self._case), inputs=self._state, outputs=self._state)

    def __call__(self) -> Outputs:
        loss = self._step(self._x, self._labels)
        return {"loss": loss, **self._state["parameters"], **{f"state {name}": array for name, array in tree_flatten(self._state)}}


def _train(optimizer: optimizers.AdamW, state: dict[str, Any], case: AmpStepCase, x: mx.array, labels: mx.array) -> mx.array:
    """One step in place; the loss."""
    before, scaling = state["parameters"], state["scaling"]
    if case.dtype != "float16":
        (_, loss), gradients = mx.value_and_grad(loss_of)(before, x, labels, mx.array(1.0), case)
        state["parameters"] = optimizer.apply_gradients(gradients, before)
        return loss
    moments = dict(optimizer.state)
    (_, loss), gradients = mx.value_and_grad(loss_of)(before, x, labels, scaling["scale"], case)
    gradients = tree_map(lambda g: g / scaling["scale"], gradients)
    finite = mx.all(mx.stack([mx.isfinite(g).all() for g in gradients.values()]))
    after = optimizer.apply_gradients(gradients, before)
    state["parameters"] = tree_map(lambda new, old: mx.where(finite, new, old), after, before)
    for name, old in moments.items():
        optimizer.state[name] = tree_map(lambda new, old: mx.where(finite, new, old), optimizer.state[name], old)
    good = mx.where(finite, scaling["good"] + 1, 0)
    grow = good >= GROWTH_INTERVAL
    state["scaling"] = {
        "scale": mx.where(finite, mx.where(grow, scaling["scale"] * 2, scaling["scale"]), scaling["scale"] / 2),
        "good": mx.where(grow, 0, good),
    }
    return loss


def eager(device: MlxDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    return Training(device, case, inputs, lambda step, **_: step)


def compiled(device: MlxDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    return Training(device, case, inputs, mx.compile)


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "eager"  # as in MLX's own training examples; compiling this step for the CPU takes a C++ compiler 10 s
