"""Decoding in TensorFlow: a tf.function a token, the cache in variables.

XLA writes a variable in place, and shapes stay what they are: what isn't valid yet is masked. It would compile a history that grows once
for every length, so that there the tf.function is left as it is, with shapes of any length.
"""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.tensorflow.attention import attend
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.kv_cache import KvCacheCase, require_room


class Layer:
    def __init__(self, device: TensorflowDevice, case: KvCacheCase, inputs: Arrays) -> None:
        self._wq, self._wk, self._wv, self._wo = (device.put(inputs[name], case.dtype) for name in ("wq", "wk", "wv", "wo"))
        self._head_size = case.head_size
        self.tokens = [device.put(inputs["x"][:, position : position + 1], case.dtype) for position in range(case.tokens)]

    def keys_and_values(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[batch, kv_heads, tokens, head_size] each, of rows [batch, tokens, width]."""
        return self._heads(rows, self._wk), self._heads(rows, self._wv)

    def attended(self, token: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """[batch, 1, width]; ``mask`` [1, keys] is true where there is a key to be seen."""
        found = attend(self._heads(token, self._wq), keys, values, mask)
        return tf.linalg.matmul(tf.reshape(tf.transpose(found, (0, 2, 1, 3)), token.shape), self._wo)

    def _heads(self, rows: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        split = tf.reshape(tf.linalg.matmul(rows, weight), (rows.shape[0], -1, weight.shape[1] // self._head_size, self._head_size))
        return tf.transpose(split, (0, 2, 1, 3))


class Cache:
    """Allocated once."""

    def __init__(self, device: TensorflowDevice, case: KvCacheCase) -> None:
        self._compiled = device.kind != "metal"
        with tf.device(device.name):
            self.keys, self.values = (tf.Variable(tf.zeros(case.cache_shape(), case.dtype)) for _ in "kv")

    def update(self, position: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> None:
        """``position`` is a scalar; whether it is there, the host must have asked."""
        for variable, new in ((self.keys, k), (self.values, v)):
            if self._compiled:
                variable.assign(keras.ops.slice_update(variable, (0, 0, position, 0), new))
            else:  # that would copy all; this copies where something still reads the variable. XLA wants its bounds to be constants
                variable[:, :, position : position + 1].assign(new)


def in_place(device: TensorflowDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer, cache = Layer(device, case, inputs), Cache(device, case)
    positions = [tf.constant(position) for position in range(case.tokens)]

    def decode_token(token: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        cache.update(position, *layer.keys_and_values(token))
        return layer.attended(token, cache.keys, cache.values, tf.range(case.capacity)[None] <= position)

    compiled = device.function(decode_token, jit=True)

    def step() -> Outputs:
        rows = []
        for position, token in enumerate(layer.tokens):
            require_room(position, case.capacity)
            rows.append(compiled(token, positions[position]))
        return {"out": tf.concat(rows, axis=1)}

    return step


def concatenate(device: TensorflowDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer = Layer(device, case, inputs)
    empty = device.put(np.zeros((case.batch, case.kv_heads, 0, case.head_size), np.float32), case.dtype)
    one, any_length = (
        tf.TensorSpec(layer.tokens[0].shape, case.dtype),
        tf.TensorSpec((case.batch, case.kv_heads, None, case.head_size), case.dtype),
    )

    @tf.function(input_signature=(one, any_length, any_length), autograph=False)
    def decode_token(token: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        k, v = layer.keys_and_values(token)
        keys, values = tf.concat((keys, k), axis=2), tf.concat((values, v), axis=2)
        return layer.attended(token, keys, values), keys, values

    def step() -> Outputs:
        keys = values = empty
        rows = []
        for token in layer.tokens:
            row, keys, values = decode_token(token, keys, values)
            rows.append(row)
        return {"out": tf.concat(rows, axis=1)}

    return step


def recompute(device: TensorflowDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer, x = Layer(device, case, inputs), device.put(inputs["x"], case.dtype)
    lengths = [tf.constant(position + 1) for position in range(case.tokens)]

    @device.function
    def decode_token(token: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        return layer.attended(token, *layer.keys_and_values(x[:, :length]))

    return lambda: {"out": tf.concat([decode_token(token, length) for token, length in zip(layer.tokens, lengths, strict=True)], axis=1)}


VARIANTS: Mapping[str, Factory] = {"in_place": in_place, "concatenate": concatenate, "recompute": recompute}
DEFAULT = "in_place"
