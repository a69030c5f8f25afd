"""A LLaMA-like block in JAX: jax.nn.dot_product_attention with grouped queries; compiled, the cache is donated and written in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.attention import causal_mask
from metalbench.workloads.base import Arrays
from metalbench.workloads.transformer_block import NORM_EPSILON, TransformerBlockCase, rotary_tables

Cache = tuple[jax.Array, jax.Array]  #: keys and values, [batch, keys, kv_heads, head_size] as JAX's attention wants them


def normalise(x: jax.Array, scale: jax.Array) -> jax.Array:
    """In float32 whatever x is."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + NORM_EPSILON)).astype(x.dtype) * scale


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """[batch, tokens, heads, head_size], in float32 whatever x is."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1).astype(x.dtype)


def forward(
    w: Mapping[str, jax.Array], x: jax.Array, cache: Cache, cos: jax.Array, sin: jax.Array, mask: jax.Array | None, kernel: str | None
) -> tuple[jax.Array, Cache]:
    """(out, the cache with the tokens of x as its last entries). ``mask`` where there are several after a context."""
    batch, queries, _ = x.shape
    _, keys, _, head_size = cache[0].shape
    normal = normalise(x, w["attention_norm"])
    q, k, v = ((normal @ w[name]).reshape(batch, queries, -1, head_size) for name in "qkv")
    new = rotate(k, cos, sin), v
    k, v = (jax.lax.dynamic_update_slice_in_dim(old, rows, keys - queries, axis=1) for old, rows in zip(cache, new, strict=True))
    attended = jax.nn.dot_product_attention(
        rotate(q, cos, sin),
        k,
        v,
        mask=mask,
        is_causal=queries == keys,  # aligned at the upper left: right for a square only
        implementation=kernel,
    )
    h = x + attended.reshape(x.shape) @ w["o"]
    normal = normalise(h, w["mlp_norm"])
    return h + (jax.nn.silu(normal @ w["gate"]) * (normal @ w["up"])) @ w["down"], (k, v)


class Block:
    """A step with its cache; ``function`` is ``forward`` for one kernel, as it is or compiled."""

    def __init__(self, device: JaxDevice, case: TransformerBlockCase, inputs: Arrays, function: Callable[..., tuple[jax.Array, Cache]]):
        norms = {name: device.put(inputs[name], case.dtype) for name in ("attention_norm", "mlp_norm")}
        self._w = {name: device.put(inputs[name].T, case.dtype) for name in case.matrices()} | norms
        self._x = device.put(inputs["x"], case.dtype)
        k, v = (device.put(inputs[name].swapaxes(1, 2), case.dtype) for name in ("k_cache", "v_cache"))
        self._cache = k, v
        self._cos, self._sin = (device.put(table[:, None]) for table in rotary_tables(case))
        chunk = case.context and case.queries > 1
        self._mask = device.put(causal_mask(case.queries, case.keys)[None, None]) if chunk else None
        self._function = function

    def __call__(self) -> Outputs:
        out, self._cache = self._function(self._w, self._x, self._cache, self._cos, self._sin, self._mask)
        return {"out": out}


def eager(device: JaxDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return Block(device, case, inputs, _forward_on(device, case))


def compiled(device: JaxDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return Block(device, case, inputs, jax.jit(_forward_on(device, case), donate_argnums=2))


def _forward_on(device: JaxDevice, case: TransformerBlockCase) -> Callable[..., tuple[jax.Array, Cache]]:
    return partial(forward, kernel="cudnn" if device.kind == "cuda" and case.dtype != "float32" else None)  # cuDNN has it in 16 bit only


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "compiled"
