"""Mixed-precision training in TensorFlow: Keras layers under a mixed dtype policy, LossScaleOptimizer, AdamW, a step in tf.function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.amp_step import GROWTH_INTERVAL, LOSS_SCALE, NORM_EPSILON, AmpStepCase
from metalbench.workloads.base import Arrays

POLICY = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def network(case: AmpStepCase) -> tuple[keras.Model, dict[str, keras.Variable]]:
    """Logits [batch, classes] in float32 of x [batch, width], and the parameters under the workload's names."""
    policy = POLICY[case.dtype]
    named: dict[str, keras.Variable] = {}

    def norm(name: str, h: Any) -> Any:
        layer = keras.layers.LayerNormalization(epsilon=NORM_EPSILON, dtype=policy)
        out = layer(h)
        named[f"{name}.scale"], named[f"{name}.shift"] = layer.gamma, layer.beta
        return out

    def dense(name: str, h: Any, units: int) -> Any:
        layer = keras.layers.Dense(units, dtype=policy)
        out = layer(h)
        named[f"{name}.weight"], named[f"{name}.bias"] = layer.kernel, layer.bias
        return out

    x = keras.Input((case.width,), batch_size=case.batch)
    h = x
    for block in range(case.blocks):
        up = dense(f"block{block}.up", norm(f"block{block}.norm", h), case.hidden)
        h = keras.layers.Add(dtype=policy)([h, dense(f"block{block}.down", keras.ops.gelu(up, approximate=False), case.width)])
    logits = dense("head", norm("norm", h), case.classes)
    return keras.Model(x, keras.layers.Activation("linear", dtype="float32")(logits)), named


class Training:
    """A step with its own state; ``compiler`` makes the step of a function over the network's and the optimizer's variables."""

    def __init__(self, device: TensorflowDevice, case: AmpStepCase, inputs: Arrays, compiler: Callable[..., Any]) -> None:
        self._x, self._labels = device.put(inputs["x"]), device.put(inputs["labels"])
        with tf.device(device.name):
            model, self._named = network(case)
            optimizer = keras.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY, beta_1=BETAS[0], beta_2=BETAS[1], epsilon=EPSILON)
            if case.dtype == "float16":
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=LOSS_SCALE, dynamic_growth_steps=GROWTH_INTERVAL)
            optimizer.build(model.trainable_variables)
        for name, variable in self._named.items():
            variable.assign(inputs[name])
        variables = [*model.trainable_variables, *optimizer.variables]
        self._initial = [(variable, variable.numpy()) for variable in variables]
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def train(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(x, training=True))
                scaled = optimizer.scale_loss(loss)
            optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
            return loss

        self._step = compiler(train)

    def reset(self) -> None:
        for variable, value in self._initial:
            variable.assign(value)

    def __call__(self) -> Outputs:
        loss = self._step(self._x, self._labels)
        return {"loss": loss, **{name: variable.value for name, variable in self._named.items()}}


def eager(device: TensorflowDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    return Training(device, case, inputs, lambda step: step)


def compiled(device: TensorflowDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    return Training(device, case, inputs, lambda step: device.function(step, jit=True))


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "compiled"
