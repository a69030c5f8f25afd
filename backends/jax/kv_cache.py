"""Decoding in JAX: a jitted step a token, driven from Python as a server does, the cache donated to it and updated in place.

Shapes are compiled. What is preallocated keeps its shape, and what isn't valid yet is masked; so does a recomputed history, padded to the
next power of two. A concatenated cache can't: its every length is a program of its own, compiled in the first call. Attention is written
out, with the head before the position: jax.nn.dot_product_attention, whose layout is the other way round, transposes the cache for every
token and has no kernel of its own but for cuDNN's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.jax.attention import attend
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.kv_cache import KvCacheCase, require_room

Weights = Mapping[str, jax.Array]  #: [width, heads, head_size] each, but for wo, [heads · head_size, width]


class Layer:
    def __init__(self, device: JaxDevice, case: KvCacheCase, inputs: Arrays) -> None:
        shape = (case.width, -1, case.head_size)
        self.weights = {name: device.put(inputs[name].reshape(shape), case.dtype) for name in ("wq", "wk", "wv")}
        self.weights["wo"] = device.put(inputs["wo"], case.dtype)
        self.tokens = [device.put(inputs["x"][:, position : position + 1], case.dtype) for position in range(case.tokens)]


def heads(rows: jax.Array, weight: jax.Array) -> jax.Array:
    """[batch, heads, tokens, head_size] of rows [batch, tokens, width]."""
    return (rows @ weight.reshape(len(weight), -1)).reshape(*rows.shape[:2], *weight.shape[1:]).swapaxes(1, 2)


def attended(w: Weights, token: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array | None) -> jax.Array:
    """[batch, 1, width]; ``mask`` [1, keys] is true where there is a key to be seen."""
    found = attend(heads(token, w["wq"]), keys, values, mask)
    return found.swapaxes(1, 2).reshape(token.shape) @ w["wo"]


@jax.jit
def joined(rows: list[jax.Array]) -> jax.Array:
    return jnp.concatenate(rows, axis=1)


@partial(jax.jit, donate_argnames=("keys", "values"))
def token_in_place(
    w: Weights, token: jax.Array, position: int, keys: jax.Array, values: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the token's row, keys, values): the latter are the memory that was given."""
    keys = jax.lax.dynamic_update_slice_in_dim(keys, heads(token, w["wk"]), position, axis=2)
    values = jax.lax.dynamic_update_slice_in_dim(values, heads(token, w["wv"]), position, axis=2)
    return attended(w, token, keys, values, jnp.arange(keys.shape[2])[None] <= position), keys, values


@jax.jit
def token_appended(
    w: Weights, token: jax.Array, keys: jax.Array | None, values: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the token's row, keys, values), one position longer than what was given."""
    k, v = heads(token, w["wk"]), heads(token, w["wv"])
    if keys is not None and values is not None:
        k, v = jnp.concatenate((keys, k), axis=2), jnp.concatenate((values, v), axis=2)
    return attended(w, token, k, v, None), k, v


@partial(jax.jit, static_argnames="length")
def token_recomputed(w: Weights, x: jax.Array, position: int, length: int) -> jax.Array:
    """The row of one token, from the first ``length`` of all, of which it sees those up to its own."""
    rows = x[:, :length]
    token = jax.lax.dynamic_slice_in_dim(x, position, 1, axis=1)
    return attended(w, token, heads(rows, w["wk"]), heads(rows, w["wv"]), jnp.arange(length)[None] <= position)


class Cache:
    """A step with its cache, allocated once."""

    def __init__(self, device: JaxDevice, case: KvCacheCase, inputs: Arrays) -> None:
        self._layer, self._capacity = Layer(device, case, inputs), case.capacity
        self.keys, self.values = (jnp.zeros(case.cache_shape(), case.dtype) for _ in "kv")

    def __call__(self) -> Outputs:
        """Raises IndexError past the end, where JAX would write over the last position."""
        rows = []
        for position, token in enumerate(self._layer.tokens):
            require_room(position, self._capacity)
            row, self.keys, self.values = token_in_place(self._layer.weights, token, position, self.keys, self.values)
            rows.append(row)
        return {"out": joined(rows)}


def in_place(device: JaxDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    return Cache(device, case, inputs)


def concatenate(device: JaxDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer = Layer(device, case, inputs)

    def step() -> Outputs:
        keys = values = None
        rows = []
        for token in layer.tokens:
            row, keys, values = token_appended(layer.weights, token, keys, values)
            rows.append(row)
        return {"out": joined(rows)}

    return step


def recompute(device: JaxDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer, x = Layer(device, case, inputs), device.put(inputs["x"], case.dtype)

    def step() -> Outputs:
        lengths = (min(1 << position.bit_length(), case.tokens) for position in range(case.tokens))
        return {"out": joined([token_recomputed(layer.weights, x, position, length) for position, length in enumerate(lengths)])}

    return step


VARIANTS: Mapping[str, Factory] = {"in_place": in_place, "concatenate": concatenate, "recompute": recompute}
DEFAULT = "in_place"
