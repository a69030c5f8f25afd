"""Attention in TensorFlow: operator by operator, through XLA, and Keras's operator in a tf.function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from metalbench.backends.base import Factory, Step
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads.attention import AttentionCase, causal_mask
from metalbench.workloads.base import Arrays


def attend(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Shapes as in the case. Query heads of a group are rows of one product, so that no key is copied."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = tf.reshape(q * tf.constant(1 / math.sqrt(size), q.dtype), (batch, kv_heads, heads // kv_heads * queries, size))
    scores = tf.linalg.matmul(grouped, k, transpose_b=True)
    if mask is not None:
        hidden = tf.constant(-np.inf, scores.dtype)
        scores = tf.reshape(tf.where(mask, tf.reshape(scores, (batch, heads, queries, keys)), hidden), scores.shape)
    return tf.reshape(tf.linalg.matmul(tf.nn.softmax(scores), v), q.shape)


def composed(device: TensorflowDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(attend, device, case, inputs)


def compiled(device: TensorflowDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(device.function(attend, jit=True), device, case, inputs)


def fused(device: TensorflowDevice, case: AttentionCase, inputs: Arrays) -> Step:
    """Keras wants [batch, length, heads, size] and as many key/value heads: it repeats them itself in GroupedQueryAttention, so here."""
    q, k, v = (device.put(inputs[name].swapaxes(1, 2), case.dtype) for name in "qkv")
    per_group = case.heads // case.kv_heads
    mask = device.put(causal_mask(case.queries, case.keys)[None, None]) if case.causal and case.queries > 1 else None

    @device.function
    def attend_fused(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        if per_group > 1:
            k, v = keras.ops.repeat(k, per_group, axis=2), keras.ops.repeat(v, per_group, axis=2)
        return keras.ops.swapaxes(keras.ops.dot_product_attention(q, k, v, mask=mask), 1, 2)

    return lambda: {"out": attend_fused(q, k, v, mask)}


def _masked(function: Callable[..., Any], device: TensorflowDevice, case: AttentionCase, inputs: Arrays) -> Step:
    q, k, v = (device.put(inputs[name], case.dtype) for name in "qkv")
    mask = device.put(causal_mask(case.queries, case.keys)) if case.causal and case.queries > 1 else None
    return lambda: {"out": function(q, k, v, mask)}


VARIANTS: Mapping[str, Factory] = {"composed": composed, "compiled": compiled, "fused": fused}
DEFAULT = "fused"
