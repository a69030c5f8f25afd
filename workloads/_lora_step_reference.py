"""lora_step in float64: the loss of the model and, by a backward pass written by hand, its derivative by every adapter's element."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metalbench.workloads.attention import causal_mask
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.transformer_block import BASE, NORM_EPSILON, TransformerBlockCase


def loss_and_gradients(
    case: TransformerBlockCase, weights: Arrays, adapters: Arrays, scale: float, dropout: Sequence[Array], tokens: Array
) -> tuple[float, dict[str, Array]]:
    """``case``: of a layer. ``scale``: of what adapters add. ``dropout``: by what the inputs of each layer's q and v are multiplied."""
    embedding, gradients = weights["embedding"], dict[str, Array]()
    h, layers = embedding[tokens[:, :-1]], []
    for number, factors in enumerate(dropout):
        own = {name.partition(".")[2]: array for name, array in {**weights, **adapters}.items() if name.startswith(f"layer{number}.")}
        layers.append(_Layer(case, own, scale, dict(zip("qv", factors, strict=True)), h))
        h = layers[-1].out
    norm = _Norm(h, weights["norm"])
    logits = norm.out @ embedding.T
    logits -= logits.max(-1, keepdims=True)
    targets = tokens[:, 1:, None].astype(np.int64)
    total = np.exp(logits).sum(-1, keepdims=True)
    loss = float(np.mean(np.log(total) - np.take_along_axis(logits, targets, -1)))

    d_logits = np.exp(logits) / total
    np.put_along_axis(d_logits, targets, np.take_along_axis(d_logits, targets, -1) - 1, -1)
    d_h = norm.backward(d_logits @ embedding / targets.size)
    for number, layer in reversed(list(enumerate(layers))):
        d_h, found = layer.backward(d_h)
        gradients |= {f"layer{number}.{name}": gradient for name, gradient in found.items()}
    return loss, gradients


class _Norm:
    """RMS norm over the last axis."""

    def __init__(self, x: Array, scale: Array) -> None:
        self._scale, self._inverse = scale, 1 / np.sqrt(np.mean(x**2, -1, keepdims=True) + NORM_EPSILON)
        self._unit = x * self._inverse
        self.out: Array = self._unit * scale

    def backward(self, d_out: Array) -> Array:
        d_unit = d_out * self._scale
        d_x: Array = self._inverse * (d_unit - self._unit * np.mean(d_unit * self._unit, -1, keepdims=True))
        return d_x


class _Layer:
    """One block with its adapters on h [batch, tokens, width]. Heads are [batch, kv_heads, heads of a group, tokens, head_size]."""

    def __init__(self, case: TransformerBlockCase, weights: Arrays, scale: float, dropout: Arrays, h: Array) -> None:
        self._case, self._w, self._scale, self._dropout = case, weights, scale, dropout
        frequencies = BASE ** (-np.arange(0, case.head_size, 2) / case.head_size)
        self._turn = np.exp(1j * np.arange(case.queries)[:, None] * frequencies)
        self._norms = [_Norm(h, weights["attention_norm"])]
        q, k, self._v = (self._heads(self._projected(name, self._norms[0].out)) for name in "qkv")
        self._q, self._k = _rotated(q, self._turn), _rotated(k, self._turn)
        scores = np.where(causal_mask(case.queries, case.queries), self._q @ self._k.mT / math.sqrt(case.head_size), -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        self._shares = shares / shares.sum(-1, keepdims=True)
        h = h + self._tokens(self._shares @ self._v) @ weights["o"].T
        self._norms.append(_Norm(h, weights["mlp_norm"]))
        self._gate, self._up = (self._norms[1].out @ weights[name].T for name in ("gate", "up"))
        self.out: Array = h + self._gate * _sigmoid(self._gate) * self._up @ weights["down"].T

    def backward(self, d_out: Array) -> tuple[Array, dict[str, Array]]:
        """The derivatives by h, and by the adapters."""
        w, gate, sigmoid = self._w, self._gate, _sigmoid(self._gate)
        d_gated = d_out @ w["down"]
        d_gate, d_up = d_gated * self._up * sigmoid * (1 + gate * (1 - sigmoid)), d_gated * gate * sigmoid
        d_h = d_out + self._norms[1].backward(d_gate @ w["gate"] + d_up @ w["up"])

        d_attended = self._heads(d_h @ w["o"])
        d_shares = d_attended @ self._v.mT
        d_scores = self._shares * (d_shares - np.sum(d_shares * self._shares, -1, keepdims=True)) / math.sqrt(self._case.head_size)
        back = self._turn.conj()
        d_heads = {
            "q": _rotated(d_scores @ self._k, back),
            "k": _rotated(np.sum(d_scores.mT @ self._q, 2, keepdims=True), back),
            "v": np.sum(self._shares.mT @ d_attended, 2, keepdims=True),
        }
        gradients: dict[str, Array] = {}
        d_x = sum(self._projected_back(name, self._tokens(d_head), gradients) for name, d_head in d_heads.items())
        return d_h + self._norms[0].backward(np.asarray(d_x)), gradients

    def _projected(self, name: str, x: Array) -> Array:
        out: Array = x @ self._w[name].T
        if name in self._dropout:
            out = out + self._scale * (x * self._dropout[name]) @ self._w[f"{name}.a"].T @ self._w[f"{name}.b"].T
        return out

    def _projected_back(self, name: str, d_out: Array, gradients: dict[str, Array]) -> Array:
        d_x: Array = d_out @ self._w[name]
        if name in self._dropout:
            a, b, x = self._w[f"{name}.a"], self._w[f"{name}.b"], self._norms[0].out * self._dropout[name]
            d_low = self._scale * d_out @ b
            gradients[f"{name}.a"] = np.einsum("btr,bti->ri", d_low, x)
            gradients[f"{name}.b"] = self._scale * np.einsum("bto,btr->or", d_out, x @ a.T)
            d_x = d_x + (d_low @ a) * self._dropout[name]
        return d_x

    def _heads(self, x: Array) -> Array:
        heads = x.reshape(*x.shape[:2], self._case.kv_heads, -1, self._case.head_size)
        return heads.transpose(0, 2, 3, 1, 4)

    def _tokens(self, heads: Array) -> Array:
        """The inverse of ``_heads``."""
        batch, _, _, tokens, _ = heads.shape
        return heads.transpose(0, 3, 1, 2, 4).reshape(batch, tokens, -1)


def _rotated(heads: Array, turn: Array) -> Array:
    """A pair of elements, half a head apart, as a complex number times ``turn`` [tokens, head_size / 2]."""
    first, second = np.split(heads, 2, -1)
    turned = (first + 1j * second) * turn
    return np.concatenate((turned.real, turned.imag), -1)


def _sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out
