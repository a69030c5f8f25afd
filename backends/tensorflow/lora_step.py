"""LoRA fine-tuning in TensorFlow: packed products with a gradient of their own, that unpacks again, in a tf.function; Keras's AdamW.

Not through XLA: it doesn't respect what keeps the second unpacking from being made one with the first, tf.control_dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from metalbench.backends.base import Factory, Outputs
from metalbench.backends.tensorflow.attention import attend
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.backends.tensorflow.int4_matmul import stored
from metalbench.backends.tensorflow.transformer_block import normalise, rotate
from metalbench.backends.twinned import twinned
from metalbench.workloads._lora_step_inputs import packed_parts
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.attention import causal_mask
from metalbench.workloads.base import Arrays
from metalbench.workloads.lora_step import BATCHES, KEEP, SCALE, LoraStepCase, batches, frozen, unfolded
from metalbench.workloads.transformer_block import rotary_tables

Packed = Sequence[tf.Tensor]  #: as ``packed_parts`` has it
Frozen = Mapping[str, Packed]
Tree = Mapping[str, tf.Variable]


def unpacked(packed: Packed, dtype: tf.DType) -> tf.Tensor:
    """[out, in]."""
    codes, scales, *offsets = packed
    if not offsets:
        return tf.reshape(tf.cast(tf.reshape(codes, (*scales.shape[:2], -1)), dtype) * scales, codes.shape)
    pairs = tf.stack((tf.bitwise.bitwise_and(codes, 15), tf.bitwise.right_shift(codes, 4)), axis=-1)
    return tf.reshape(tf.cast(tf.reshape(pairs, (*scales.shape[:2], -1)), dtype) * scales + offsets[0], (codes.shape[0], -1))


@tf.custom_gradient
def packed_product(x: tf.Tensor, *packed: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """The backward pass finds the weight as it is stored."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        with tf.control_dependencies([upstream]):  # or the graph's optimizer would make one of both unpackings
            again = [tf.identity(array) for array in packed]
        return tf.linalg.matmul(upstream, unpacked(again, upstream.dtype)), *(None for _ in packed)

    return tf.linalg.matmul(x, unpacked(packed, x.dtype), transpose_b=True), gradient


def product(x: tf.Tensor, packed: Packed) -> tf.Tensor:
    """x [rows, in] times weightᵀ."""
    return tf.linalg.matmul(x, packed[0], transpose_b=True) if len(packed) == 1 else packed_product(x, *packed)


def adapted(w: Frozen, adapters: Tree, name: str, x: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """The frozen projection and what its adapter adds."""
    a, b = (tf.cast(adapters[f"{name}.{which}"], x.dtype) for which in "ab")
    low = tf.linalg.matmul(tf.where(tf.reshape(kept, x.shape), x / KEEP, tf.zeros_like(x)), a, transpose_b=True)
    return product(x, w[name]) + tf.linalg.matmul(low, b, transpose_b=True) * SCALE


def layer_of(w: Frozen, adapters: Tree, layer: str, h: tf.Tensor, kept: tf.Tensor, tables: Packed, case: LoraStepCase) -> tf.Tensor:
    """h [batch · tokens, width], as Keras's layers multiply; ``kept`` [q and v, batch, tokens, width]; ``tables``: cosines, sines, mask."""
    *turn, mask = tables
    normal = normalise(h, w[f"{layer}.attention_norm"][0])
    q, v = (adapted(w, adapters, f"{layer}.{name}", normal, kept[index]) for index, name in enumerate("qv"))
    k = product(normal, w[f"{layer}.k"])
    split = (tf.reshape(rows, (case.batch, case.block, -1, case.of_layer().head_size)) for rows in (q, k, v))
    q, k, v = (tf.transpose(heads, (0, 2, 1, 3)) for heads in split)
    attended = attend(rotate(q, *turn), rotate(k, *turn), v, mask)
    h += product(tf.reshape(tf.transpose(attended, (0, 2, 1, 3)), h.shape), w[f"{layer}.o"])
    normal = normalise(h, w[f"{layer}.mlp_norm"][0])
    gated = tf.nn.silu(product(normal, w[f"{layer}.gate"])) * product(normal, w[f"{layer}.up"])
    return h + product(gated, w[f"{layer}.down"])


def loss_of(w: Frozen, adapters: Tree, tokens: tf.Tensor, kept: Sequence[tf.Tensor], tables: Packed, case: LoraStepCase) -> tf.Tensor:
    h = tf.cast(tf.gather(w["embedding"][0], tf.reshape(tokens[:, :-1], (-1,))), case.dtype)
    for layer, masks in enumerate(kept):
        h = layer_of(w, adapters, f"layer{layer}", h, masks, tables, case)
    logits = tf.cast(product(normalise(h, w["norm"][0]), w["embedding"]), tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(tokens[:, 1:], (-1,)), logits))


class Training:
    """A step with its own state. ``frozen``: by name, what is not trained; trained is every variable."""

    ran = ""

    def __init__(self, device: TensorflowDevice, case: LoraStepCase, inputs: Arrays) -> None:
        given, (matrices, norms) = unfolded(case, inputs), frozen(case)
        self.frozen = {
            name: [device.put(array, case.dtype if array.dtype.kind == "f" else None) for array in packed_parts(name, given)]
            for name in ("embedding", *matrices)
        }
        self.figures: Mapping[str, float] = stored(*(array for packed in self.frozen.values() for array in packed))
        self.frozen |= {name: [device.put(given[name], case.dtype)] for name in norms}
        self._batches = [(device.put(tokens), [device.put(kept) for kept in masks]) for tokens, masks in batches(case, given)]
        self._tables = [device.put(table) for table in (*rotary_tables(case.of_layer()), causal_mask(case.block, case.block))]
        with tf.device(device.name):
            self._adapters = {name: keras.Variable(given[name], dtype="float32") for name in case.adapters()}
            optimizer = keras.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY, beta_1=BETAS[0], beta_2=BETAS[1], epsilon=EPSILON)
            optimizer.build(list(self._adapters.values()))
        variables = [*self._adapters.values(), *optimizer.variables]
        self._initial = [(variable, variable.numpy()) for variable in variables]

        def train(w: Frozen, tokens: tf.Tensor, kept: Sequence[tf.Tensor], tables: Packed) -> tf.Tensor:
            trained = {name: variable.value for name, variable in self._adapters.items()}
            with tf.GradientTape() as tape:
                loss = loss_of(w, trained, tokens, kept, tables, case)
            optimizer.apply(tape.gradient(loss, list(trained.values())), list(self._adapters.values()))
            return loss

        self._train = device.function(train)
        self.reset()

    def reset(self) -> None:
        for variable, value in self._initial:
            variable.assign(value)
        self._calls = 0

    def __call__(self) -> Outputs:
        loss = self._train(self.frozen, *self._batches[self._calls % BATCHES], self._tables)
        self._calls += 1
        return {"loss": loss, **{name: variable.value for name, variable in self._adapters.items()}}


VARIANTS: Mapping[str, Factory] = {"native": twinned(Training)}
DEFAULT = "native"
