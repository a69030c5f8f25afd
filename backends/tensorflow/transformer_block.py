"""A LLaMA-like block in TensorFlow: composed norm, rotation and attention; the cache is variables, assigned to in slices.

Attention is of products: Keras's operator has no grouped queries, and its sums are in the dtype of its inputs. XLA assigns in place;
without it, TensorFlow copies a variable that is assigned to in slices whenever it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.tensorflow.attention import attend
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.attention import causal_mask
from metalbench.workloads.base import Arrays
from metalbench.workloads.transformer_block import NORM_EPSILON, TransformerBlockCase, rotary_tables


def normalise(x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """In float32 whatever x is."""
    wide = tf.cast(x, tf.float32)
    normal = wide * tf.math.rsqrt(tf.reduce_mean(tf.square(wide), -1, keepdims=True) + NORM_EPSILON)
    return tf.cast(normal, x.dtype) * scale


def rotate(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor) -> tf.Tensor:
    """[…, tokens, head_size], in float32 whatever x is."""
    first, second = tf.split(tf.cast(x, tf.float32), 2, axis=-1)
    return tf.cast(tf.concat((first * cos - second * sin, second * cos + first * sin), -1), x.dtype)


class Block:
    """A step with its cache; ``compiler`` makes the step of a function over the cache's variables."""

    def __init__(self, device: TensorflowDevice, case: TransformerBlockCase, inputs: Arrays, compiler: Callable[..., Any]) -> None:
        norms = {name: device.put(inputs[name], case.dtype) for name in ("attention_norm", "mlp_norm")}
        self._w = {name: device.put(inputs[name].T, case.dtype) for name in case.matrices()} | norms
        self._x = device.put(inputs["x"], case.dtype)
        self._tables = tuple(map(device.put, rotary_tables(case)))
        self._mask = device.put(causal_mask(case.queries, case.keys)) if case.queries > 1 else None
        caches = [device.put(inputs[name], case.dtype) for name in ("k_cache", "v_cache")]
        with tf.device(device.name):
            self._cache = [tf.Variable(cache) for cache in caches]
        self._forward = compiler(self.forward)

    def forward(self, w: Mapping[str, tf.Tensor], x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Products are of matrices, as Keras's layers multiply: a row a token."""
        batch, queries, width = x.shape
        head_size = self._cache[0].shape[-1]
        h = tf.reshape(x, (batch * queries, width))
        normal = normalise(h, w["attention_norm"])
        heads = (tf.reshape(tf.linalg.matmul(normal, w[name]), (batch, queries, -1, head_size)) for name in "qkv")
        q, k, v = (tf.transpose(each, (0, 2, 1, 3)) for each in heads)
        for cache, new in zip(self._cache, (rotate(k, cos, sin), v), strict=True):
            cache[:, :, cache.shape[2] - queries :].assign(new)
        k, v = (cache.value() for cache in self._cache)
        attended = attend(rotate(q, cos, sin), k, v, mask)
        h += tf.linalg.matmul(tf.reshape(tf.transpose(attended, (0, 2, 1, 3)), h.shape), w["o"])
        normal = normalise(h, w["mlp_norm"])
        gated = tf.nn.silu(tf.linalg.matmul(normal, w["gate"])) * tf.linalg.matmul(normal, w["up"])
        return tf.reshape(h + tf.linalg.matmul(gated, w["down"]), x.shape)

    def __call__(self) -> Outputs:
        return {"out": self._forward(self._w, self._x, *self._tables, self._mask)}


def eager(device: TensorflowDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return Block(device, case, inputs, lambda forward: forward)


def compiled(device: TensorflowDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return Block(device, case, inputs, lambda forward: device.function(forward, jit=True))


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "compiled"
