"""Decoding in MLX: slices of a cache are assigned to, mx.fast.scaled_dot_product_attention, and mx.eval after every token.

MLX writes a slice into the array that it has only where nothing else holds that memory, or else into a copy. With mx.async_eval the token
before may still read it, and then every token copies the whole cache. So each is waited for, as it is where it has to be sampled from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import mlx.core as mx

from metalbench.backends.base import Factory, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.kv_cache import KvCacheCase, require_room

Pair = tuple[mx.array, mx.array]  #: keys and values, [batch, kv_heads, tokens, head_size]
History = Callable[[int], Pair]  #: position → keys and values of the tokens up to and including it


class Layer:
    """x [batch, tokens, width] and the weights as nn.Linear keeps them, [out, in]."""

    def __init__(self, device: MlxDevice, case: KvCacheCase, inputs: Arrays) -> None:
        self._x = device.put(inputs["x"], case.dtype)
        self._wq, self._wk, self._wv, self._wo = (device.put(inputs[name].T, case.dtype) for name in ("wq", "wk", "wv", "wo"))
        self._head_size = case.head_size

    def keys_and_values(self, start: int, end: int) -> Pair:
        """Those of the tokens from ``start`` to before ``end``."""
        rows = self._x[:, start:end]
        return self._heads(rows, self._wk), self._heads(rows, self._wv)

    def decode(self, history: History) -> mx.array:
        rows = []
        for position in range(self._x.shape[1]):
            keys, values = history(position)
            q = self._heads(self._x[:, position : position + 1], self._wq)
            attended = mx.fast.scaled_dot_product_attention(q, keys, values, scale=1 / math.sqrt(self._head_size))
            rows.append(mx.flatten(attended.swapaxes(1, 2), 2) @ self._wo.T)
            mx.eval(rows[-1])
        return mx.concatenate(rows, axis=1)

    def _heads(self, rows: mx.array, weight: mx.array) -> mx.array:
        return mx.unflatten(rows @ weight.T, -1, (-1, self._head_size)).swapaxes(1, 2)


class Cache:
    """Allocated once."""

    def __init__(self, case: KvCacheCase) -> None:
        self.keys, self.values = (mx.zeros(case.cache_shape(), getattr(mx, case.dtype)) for _ in "kv")
        mx.eval(self.keys, self.values)

    def update(self, position: int, k: mx.array, v: mx.array) -> Pair:
        """What is valid with this token. Raises IndexError past the end."""
        require_room(position, self.keys.shape[2])
        self.keys[:, :, position : position + 1] = k
        self.values[:, :, position : position + 1] = v
        return self.keys[:, :, : position + 1], self.values[:, :, : position + 1]


class Growing:
    """A new pair of arrays for every token."""

    _keys: mx.array
    _values: mx.array

    def update(self, position: int, k: mx.array, v: mx.array) -> Pair:
        self._keys = mx.concatenate([self._keys, k], axis=2) if position else k
        self._values = mx.concatenate([self._values, v], axis=2) if position else v
        return self._keys, self._values


def remembered(layer: Layer, cache: Cache | Growing) -> History:
    return lambda position: cache.update(position, *layer.keys_and_values(position, position + 1))


def in_place(device: MlxDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer, cache = Layer(device, case, inputs), Cache(case)
    return lambda: {"out": layer.decode(remembered(layer, cache))}


def concatenate(device: MlxDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer = Layer(device, case, inputs)
    return lambda: {"out": layer.decode(remembered(layer, Growing()))}


def recompute(device: MlxDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer = Layer(device, case, inputs)
    return lambda: {"out": layer.decode(lambda position: layer.keys_and_values(0, position + 1))}


VARIANTS: Mapping[str, Factory] = {"in_place": in_place, "concatenate": concatenate, "recompute": recompute}
DEFAULT = "in_place"
