"""Attention in JAX: operator by operator, through jit, and jax.nn.dot_product_attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step, Told
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.attention import AttentionCase, causal_mask
from metalbench.workloads.base import Arrays

Attend = Callable[[jax.Array, jax.Array, jax.Array, jax.Array | None], jax.Array]


def attend(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Shapes as in the case. Query heads of a group are rows of one product, so that no key is copied."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = (q * (1 / math.sqrt(size))).reshape(batch, kv_heads, heads // kv_heads * queries, size)
    scores = jnp.matmul(grouped, k.mT)
    if mask is not None:
        scores = jnp.where(mask, scores.reshape(batch, heads, queries, keys), -jnp.inf).reshape(scores.shape)
    return jnp.matmul(jax.nn.softmax(scores, axis=-1), v).reshape(q.shape)


def composed(device: JaxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(attend, device, case, inputs)


def compiled(device: JaxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(jax.jit(attend), device, case, inputs)


def fused(device: JaxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    """The operator wants [batch, length, heads, size]: inputs are given so, and the output is turned back inside the compiled call."""
    q, k, v = (device.put(inputs[name].swapaxes(1, 2), case.dtype) for name in "qkv")
    square = case.queries == case.keys  # is_causal aligns at the upper left
    visible = causal_mask(case.queries, case.keys)[None, None] if case.causal and not square and case.queries > 1 else None
    mask = None if visible is None else device.put(visible)
    kernel = "cudnn" if device.kind == "cuda" and case.dtype != "float32" else None  # cuDNN has it in 16 bit only

    @jax.jit
    def attend_fused(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None) -> jax.Array:
        out = jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=case.causal and square, implementation=kernel)
        return out.swapaxes(1, 2)

    return Told(lambda: {"out": attend_fused(q, k, v, mask)}, kernel or "xla")


def _masked(function: Attend, device: JaxDevice, case: AttentionCase, inputs: Arrays) -> Step:
    q, k, v = (device.put(inputs[name], case.dtype) for name in "qkv")
    mask = device.put(causal_mask(case.queries, case.keys)) if case.causal and case.queries > 1 else None
    return lambda: {"out": function(q, k, v, mask)}


VARIANTS: Mapping[str, Factory] = {"composed": composed, "compiled": compiled, "fused": fused}
DEFAULT = "fused"
