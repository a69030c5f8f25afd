"""Decoding in PyTorch: eager under inference_mode, one pass of the layer a token, F.scaled_dot_product_attention over what is valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from metalbench.backends.base import Factory, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.kv_cache import KvCacheCase, require_room

Pair = tuple[torch.Tensor, torch.Tensor]  #: keys and values, [batch, kv_heads, tokens, head_size]
History = Callable[[int], Pair]  #: position → keys and values of the tokens up to and including it


class Layer:
    """x [batch, tokens, width] and the weights as nn.Linear keeps them, [out, in]."""

    def __init__(self, device: TorchDevice, case: KvCacheCase, inputs: Arrays) -> None:
        self._x = device.put(inputs["x"], case.dtype)
        self._wq, self._wk, self._wv, self._wo = (device.put(inputs[name].T, case.dtype) for name in ("wq", "wk", "wv", "wo"))
        self._head_size, self._grouped = case.head_size, case.heads != case.kv_heads

    def keys_and_values(self, start: int, end: int) -> Pair:
        """Those of the tokens from ``start`` to before ``end``."""
        rows = self._x[:, start:end]
        return self._heads(rows, self._wk), self._heads(rows, self._wv)

    @torch.inference_mode()
    def decode(self, history: History) -> torch.Tensor:
        rows = []
        for position in range(self._x.shape[1]):
            keys, values = history(position)
            q = self._heads(self._x[:, position : position + 1], self._wq)
            attended = functional.scaled_dot_product_attention(q, keys, values, enable_gqa=self._grouped)
            rows.append(functional.linear(attended.transpose(1, 2).flatten(2), self._wo))
        return torch.cat(rows, dim=1)

    def _heads(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, weight).unflatten(-1, (-1, self._head_size)).transpose(1, 2)


class Cache:
    """Allocated once. A slice is assigned to, since index_copy_, which takes positions as a tensor, is missing in older releases on MPS."""

    def __init__(self, device: TorchDevice, case: KvCacheCase) -> None:
        dtype = getattr(torch, case.dtype)
        self.keys, self.values = (torch.zeros(case.cache_shape(), dtype=dtype, device=device.torch_device) for _ in "kv")

    def update(self, position: int, k: torch.Tensor, v: torch.Tensor) -> Pair:
        """Views of what is valid with this token. Raises IndexError past the end."""
        require_room(position, self.keys.shape[2])
        self.keys[:, :, position : position + 1] = k
        self.values[:, :, position : position + 1] = v
        return self.keys[:, :, : position + 1], self.values[:, :, : position + 1]


class Growing:
    """A new pair of tensors for every token."""

    _keys: torch.Tensor
    _values: torch.Tensor

    def update(self, position: int, k: torch.Tensor, v: torch.Tensor) -> Pair:
        self._keys = torch.cat((self._keys, k), dim=2) if position else k
        self._values = torch.cat((self._values, v), dim=2) if position else v
        return self._keys, self._values


def remembered(layer: Layer, cache: Cache | Growing) -> History:
    return lambda position: cache.update(position, *layer.keys_and_values(position, position + 1))


def in_place(device: TorchDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer, cache = Layer(device, case, inputs), Cache(device, case)
    return lambda: {"out": layer.decode(remembered(layer, cache))}


def concatenate(device: TorchDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer = Layer(device, case, inputs)
    return lambda: {"out": layer.decode(remembered(layer, Growing()))}


def recompute(device: TorchDevice, case: KvCacheCase, inputs: Arrays) -> Step:
    layer = Layer(device, case, inputs)
    return lambda: {"out": layer.decode(lambda position: layer.keys_and_values(0, position + 1))}


VARIANTS: Mapping[str, Factory] = {"in_place": in_place, "concatenate": concatenate, "recompute": recompute}
DEFAULT = "in_place"
