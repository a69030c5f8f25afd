"""Mixed-precision training in JAX: parameters cast where they are used, AdamW over the tree, a jitted step that donates its state.

JAX itself has no optimizer; this AdamW is the usual few lines (optax computes the same).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.amp_step import GROWTH_INTERVAL, LOSS_SCALE, NORM_EPSILON, AmpStepCase
from metalbench.workloads.base import Arrays

Tree = dict[str, jax.Array]
State = dict[str, Any]  #: parameters, first, second: trees; step: count of applied steps; scale and good: loss scaling


def norm(p: Tree, name: str, h: jax.Array) -> jax.Array:
    """In float32 whatever h is."""
    wide = h.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    inverse = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + NORM_EPSILON)
    return centred * inverse * p[f"{name}.scale"] + p[f"{name}.shift"]


def linear(p: Tree, name: str, x: jax.Array, dtype: str) -> jax.Array:
    return x.astype(dtype) @ p[f"{name}.weight"].astype(dtype) + p[f"{name}.bias"].astype(dtype)


def loss_of(p: Tree, x: jax.Array, labels: jax.Array, case: AmpStepCase) -> jax.Array:
    h = x
    for block in range(case.blocks):
        up = linear(p, f"block{block}.up", norm(p, f"block{block}.norm", h), case.dtype)
        h = h + linear(p, f"block{block}.down", jax.nn.gelu(up, approximate=False), case.dtype)
    logits = linear(p, "head", norm(p, "norm", h), case.dtype).astype(jnp.float32)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)
    return -chosen.mean()


def adamw(state: State, gradients: Tree) -> State:
    step = state["step"] + 1
    first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, state["first"], gradients)
    second = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, state["second"], gradients)
    unbias_first, unbias_second = 1 - BETAS[0] ** step.astype(jnp.float32), 1 - BETAS[1] ** step.astype(jnp.float32)

    def move(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return p * (1 - LEARNING_RATE * WEIGHT_DECAY) - LEARNING_RATE * (m / unbias_first) / (jnp.sqrt(v / unbias_second) + EPSILON)

    parameters = jax.tree.map(move, state["parameters"], first, second)
    return {**state, "parameters": parameters, "first": first, "second": second, "step": step}


def train(state: State, x: jax.Array, labels: jax.Array, case: AmpStepCase) -> tuple[State, jax.Array]:
    """(next state, loss)."""
    if case.dtype != "float16":
        loss, gradients = jax.value_and_grad(loss_of)(state["parameters"], x, labels, case)
        return adamw(state, gradients), loss
    scale = state["scale"]
    scaled, gradients = jax.value_and_grad(lambda p: loss_of(p, x, labels, case) * scale)(state["parameters"])
    gradients = jax.tree.map(lambda g: g / scale, gradients)
    finite = jnp.all(jnp.stack([jnp.isfinite(g).all() for g in jax.tree.leaves(gradients)]))
    after = jax.tree.map(lambda new, old: jnp.where(finite, new, old), adamw(state, gradients), state)
    good = jnp.where(finite, state["good"] + 1, 0)
    grow = good >= GROWTH_INTERVAL
    after["scale"] = jnp.where(finite, jnp.where(grow, scale * 2, scale), scale / 2)
    after["good"] = jnp.where(grow, 0, good)
    return after, scaled / scale


class Training:
    """A step with its own state; ``step`` is ``train`` for one case, as it is or compiled."""

    def __init__(self, device: JaxDevice, case: AmpStepCase, inputs: Arrays, step: Callable[..., tuple[State, jax.Array]]) -> None:
        self._device, self._step = device, step
        self._initial = {name: inputs[name] for name in case.shapes()}
        self._x, self._labels = device.put(inputs["x"]), device.put(inputs["labels"])
        self.reset()

    def reset(self) -> None:
        parameters = {name: self._device.put(value) for name, value in self._initial.items()}
        first, second = ({name: self._device.put(np.zeros_like(value)) for name, value in self._initial.items()} for _ in range(2))
        counters = {"step": np.int32(0), "good": np.int32(0), "scale": np.float32(LOSS_SCALE)}
        # all of it put on the device by name, as a step's results are: otherwise the second call would compile once more
        self._state: State = {"parameters": parameters, "first": first, "second": second}
        self._state |= {name: self._device.put(np.asarray(value)) for name, value in counters.items()}

    def __call__(self) -> Outputs:
        self._state, loss = self._step(self._state, self._x, self._labels)
        return {"loss": loss, **self._state["parameters"]}


def eager(device: JaxDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    return Training(device, case, inputs, lambda state, x, labels: train(state, x, labels, case))


def compiled(device: JaxDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    step = jax.jit(lambda state, x, labels: train(state, x, labels, case), donate_argnums=0)
    return Training(device, case, inputs, step)


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "compiled"
