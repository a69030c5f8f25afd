"""Each operator of the workload ``operators`` in float64 NumPy, from its definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from metalbench.workloads._operators_inputs import BINS, EPSILON, GROUPS, LARGEST, LIMIT, MARGIN, REACH, REPEATS, SHIFT, THRESHOLD
from metalbench.workloads.base import Array

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out


def _logsumexp(x: Array) -> Array:
    """Over the last axis, which stays."""
    highest = x.max(-1, keepdims=True)
    out: Array = highest + np.log(np.exp(x - highest).sum(-1, keepdims=True))
    return out


def _standardized(x: Array, axes: tuple[int, ...]) -> Array:
    out: Array = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPSILON)
    return out


def _group_norm(x: Array, weight: Array, bias: Array) -> Array:
    grouped = x.reshape(*x.shape[:3], GROUPS, -1)
    return _standardized(grouped, (1, 2, 4)).reshape(x.shape) * weight + bias


def _index_add(x: Array, index: Array, y: Array) -> Array:
    out = x.copy()
    np.add.at(out, index, y)
    return out


def _conv1d(x: Array, weight: Array) -> Array:
    windows = sliding_window_view(np.pad(x, ((0, 0), (1, 1), (0, 0))), 3, axis=1)
    out: Array = np.einsum("nlci,ico->nlo", windows, weight, optimize=True)
    return out


def _conv2d(x: Array, weight: Array) -> Array:
    windows = sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), axis=(1, 2))
    out: Array = np.einsum("nhwcij,ijco->nhwo", windows, weight, optimize=True)
    return out


def _conv_transpose2d(x: Array, weight: Array) -> Array:
    """As far apart as its weights are wide, so that no two products meet."""
    batch, height, width, _ = x.shape
    out: Array = np.einsum("nhwc,ijoc->nhiwjo", x, weight, optimize=True)
    return out.reshape(batch, 2 * height, 2 * width, -1)


def _pools(x: Array) -> Array:
    """[batch, height / 2, 2, width / 2, 2, channels]."""
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels)


def _hats(place: Array, size: int) -> Array:
    """How much each of ``size`` pixels counts at a place between them, along a new last axis; none beyond the border."""
    out: Array = np.maximum(0, 1 - np.abs(place[..., None] - np.arange(size)))
    return out


def _interpolate(x: Array) -> Array:
    """Twice as large; between middles of pixels, and the border's own value beyond them."""
    rows, columns = (_hats(np.clip((np.arange(2 * size) + 0.5) / 2 - 0.5, 0, size - 1), size) for size in x.shape[1:3])
    out: Array = np.einsum("ph,qw,nhwc->npqc", rows, columns, x, optimize=True)
    return out


def _grid_sample(x: Array, grid: Array) -> Array:
    """−1 and 1 are the outer borders, (x, y) the order; nothing beyond."""
    columns, rows = (_hats((grid[..., axis] + 1) * size / 2 - 0.5, size) for axis, size in enumerate((x.shape[2], x.shape[1])))
    weights = rows[..., None] * columns[..., None, :]
    return (weights.reshape(*grid.shape[:3], -1) @ x.reshape(len(x), 1, -1, x.shape[3])).reshape(*grid.shape[:3], -1)


REFERENCES: Mapping[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "maximum": np.maximum,
    "where": np.where,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "cos": np.cos,
    "erf": _erf,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "floor": np.floor,
    "round": np.rint,
    "clamp": lambda x: np.clip(x, -LIMIT, LIMIT),
    "signbit": np.signbit,
    "isnan": np.isnan,
    "bitwise_and": lambda x, y: x & y,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - THRESHOLD, 0),
    "softmax": lambda x: np.exp(x - _logsumexp(x)),
    "log_softmax": lambda x: x - _logsumexp(x),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1),
    "amax": lambda x: x.max(-1),
    "argmax": lambda x: x.argmax(-1),
    "norm": lambda x: np.sqrt((x**2).sum(-1)),
    "logsumexp": lambda x: _logsumexp(x)[:, 0],
    "cumsum": lambda x: x.cumsum(-1),
    "topk": lambda x: np.sort(x)[:, -LARGEST:],
    "sort": np.sort,
    "gather": lambda x, index: np.take_along_axis(x, index, -1),
    "index_add": _index_add,
    "embedding": lambda weight, index: weight[index],
    "one_hot": lambda index: index[:, None] == np.arange(256),
    "searchsorted": lambda sorted, x: (sorted < x[..., None]).sum(-1),  # noqa: A006 - the operand's name
    "histogram": lambda x: np.bincount(np.minimum(((x + REACH) / (2 * REACH / BINS)).astype(int), BINS - 1).reshape(-1), minlength=BINS),
    "concat": lambda x, y: np.concatenate((x, y)),
    "flip": lambda x: x[:, ::-1],
    "roll": lambda x: np.roll(x, SHIFT, -1),
    "pad": lambda x: np.pad(x, MARGIN),
    "repeat_interleave": lambda x: np.repeat(x, REPEATS, 0),
    "tril": np.tril,
    "linear": lambda x, weight, bias: x @ weight + bias,
    "matmul": lambda x, y: x @ y,
    "conv1d": _conv1d,
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "max_pool2d": lambda x: _pools(x).max((2, 4)),
    "avg_pool2d": lambda x: _pools(x).mean((2, 4)),
    "interpolate": _interpolate,
    "grid_sample": _grid_sample,
    "layer_norm": lambda x, weight, bias: _standardized(x, (-1,)) * weight + bias,
    "group_norm": _group_norm,
    "batch_norm": lambda x, mean, variance, weight, bias: (x - mean) / np.sqrt(variance + EPSILON) * weight + bias,
    "cross_entropy": lambda x, index: (_logsumexp(x) - np.take_along_axis(x, index[:, None], -1))[:, 0],
    "mse_loss": lambda x, y: np.mean((x - y) ** 2),
    "triangular_solve": lambda x, y: np.linalg.solve(np.tril(x), y),
    "cholesky": np.linalg.cholesky,
    "inverse": np.linalg.inv,
}
