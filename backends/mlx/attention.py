"""Attention in MLX: operator by operator, through mx.compile, and mx.fast.scaled_dot_product_attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import mlx.core as mx

from metalbench.backends.base import Factory, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.attention import AttentionCase, causal_mask
from metalbench.workloads.base import Arrays

Attend = Callable[..., mx.array]


def attend(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None = None) -> mx.array:
    """Shapes as in the case. Query heads of a group are rows of one product, so that no key is copied."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = (q * (1 / math.sqrt(size))).reshape(batch, kv_heads, heads // kv_heads * queries, size)
    scores = grouped @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = mx.where(mask, scores.reshape(batch, heads, queries, keys), mx.array(-math.inf, scores.dtype)).reshape(scores.shape)
    return (mx.softmax(scores, axis=-1) @ v).reshape(q.shape)


def composed(device: MlxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(attend, device, case, inputs)


def compiled(device: MlxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(mx.compile(attend), device, case, inputs)


def fused(device: MlxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    """MLX shares key/value heads among query heads by itself, and its "causal" is aligned at the lower right."""
    q, k, v = _qkv(device, case, inputs)
    scale, mask = 1 / math.sqrt(case.head_size), "causal" if case.causal and case.queries > 1 else None
    return lambda: {"out": mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)}


def _masked(function: Attend, device: MlxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    arguments = _qkv(device, case, inputs)
    if case.causal and case.queries > 1:
        arguments.append(device.put(causal_mask(case.queries, case.keys)))
    return lambda: {"out": function(*arguments)}


def _qkv(device: MlxDevice, case: AttentionCase, inputs: Arrays) -> list[mx.array]:
    return [device.put(inputs[name], case.dtype) for name in "qkv"]


VARIANTS: Mapping[str, Factory] = {"composed": composed, "compiled": compiled, "fused": fused}
DEFAULT = "fused"
