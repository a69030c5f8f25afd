"""What each operator of the workload ``operators`` is given, and the shape of what it gives.

Where an operator has a kink, a jump or a tie, inputs keep a distance from it that every dtype holds: a derivative then means the same to
all, and to the difference quotient that it is held against. So do divisors, bases and roots from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from metalbench.workloads.base import Array

EPSILON = 1e-5  #: added to a variance
GROUPS = 8  #: of channels, in group_norm
LARGEST = 16  #: of topk
LIMIT = 1.0  #: of clamp, either way
THRESHOLD = 0.5  #: of softshrink
BINS, REACH = 64, 4.0  #: of the histogram, from −REACH to REACH
SHIFT = 5  #: of roll, along the last axis
MARGIN = ((1, 1), (2, 2))  #: of pad, by axis, before and after
REPEATS = 3  #: of every row

Draw = Callable[[np.random.Generator], Array]


class Operator(NamedTuple):
    """The operands by name, float32, int32 or bool; the shape of the result; whether there is a derivative worth the name."""

    operands: Mapping[str, Draw]
    out: tuple[int, ...]
    differentiable: bool = True


def normal(*shape: int) -> Draw:
    return lambda rng: rng.standard_normal(shape, dtype=np.float32)


def uniform(low: float, high: float, *shape: int) -> Draw:
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


def integers(low: int, high: int, *shape: int) -> Draw:
    return lambda rng: rng.integers(low, high, shape, dtype=np.int32)


def odd(*shape: int) -> Draw:
    """Along the last axis, of 256, or in each channel of a 16×16 image every odd multiple of 1/128 from −255 to 255, in random order."""
    return lambda rng: _shuffled(np.arange(-255, 256, 2) / 128, shape, rng)


def even(*shape: int) -> Draw:
    """The same of even multiples: never as large as an odd one."""
    return lambda rng: _shuffled(np.arange(-256, 256, 2) / 128, shape, rng)


def quarters(*shape: int) -> Draw:
    """Multiples of 1/4, halves among them, from −32 to 32."""
    return lambda rng: (rng.integers(-128, 128, shape) / 4).astype(np.float32)


def sixteenths(*shape: int) -> Draw:
    """Odd multiples of 1/64 in −1 … 1: on an image 16 wide never on a pixel's middle."""
    return lambda rng: ((2 * rng.integers(-32, 32, shape) + 1) / 64).astype(np.float32)


def ascending(size: int) -> Draw:
    return lambda rng: np.sort(rng.choice(np.arange(-255, 256, 2), size, replace=False)).astype(np.float32) / 64


def sprinkled(value: float, *shape: int) -> Draw:
    """Normal, but for one in eight."""
    return lambda rng: np.where(rng.random(shape) < 1 / 8, value, rng.standard_normal(shape)).astype(np.float32)


def definite(*shape: int) -> Draw:
    """Symmetric matrices I + B·Bᵀ/2, ‖B‖ about 1: eigenvalues from 1 to about 1.5."""
    return lambda rng: _definite(rng.standard_normal(shape) / (2 * np.sqrt(shape[-1])))


def dominant(*shape: int) -> Draw:
    """Matrices I + B, ‖B‖ about 1/2, which they and their triangles are far from being singular for."""
    return lambda rng: (np.eye(shape[-1]) + rng.standard_normal(shape) / (4 * np.sqrt(shape[-1]))).astype(np.float32)


def _shuffled(values: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    image = len(shape) == 4
    rows = (shape[0], shape[3], values.size) if image else shape
    drawn = rng.permuted(np.broadcast_to(values, rows), axis=-1).astype(np.float32)
    return np.moveaxis(drawn.reshape(shape[0], shape[3], *shape[1:3]), 1, -1) if image else drawn


def _definite(b: Array) -> Array:
    return (np.eye(b.shape[-1]) + b @ b.swapaxes(-1, -2) / 2).astype(np.float32)


TABLE = (256, 256)
UNARY = Operator({"x": normal(*TABLE)}, TABLE)
POSITIVE = Operator({"x": uniform(0.5, 2, *TABLE)}, TABLE)
KINKED = Operator({"x": odd(*TABLE)}, TABLE)
ROWS = Operator({"x": normal(*TABLE)}, (256,))
IMAGE = (4, 16, 16, 64)
SCALED = {"weight": uniform(0.5, 2, 64), "bias": normal(64)}

#: Images are [batch, height, width, channels] and weights [height, width, in, out], but those of the transposed convolution
#: [height, width, out, in].
OPERATORS: Mapping[str, Operator] = {
    "add": Operator({"x": normal(*TABLE), "y": normal(*TABLE)}, TABLE),
    "mul": Operator({"x": normal(*TABLE), "y": normal(*TABLE)}, TABLE),
    "div": Operator({"x": normal(*TABLE), "y": uniform(0.5, 2, *TABLE)}, TABLE),
    "pow": Operator({"x": uniform(0.5, 2, *TABLE), "y": normal(*TABLE)}, TABLE),
    "maximum": Operator({"x": odd(*TABLE), "y": even(*TABLE)}, TABLE),
    "where": Operator({"condition": lambda rng: rng.random(TABLE) < 0.5, "x": normal(*TABLE), "y": normal(*TABLE)}, TABLE),
    "sqrt": POSITIVE,
    "rsqrt": POSITIVE,
    "exp": UNARY,
    "log": POSITIVE,
    "cos": UNARY,
    "erf": UNARY,
    "tanh": UNARY,
    "sigmoid": UNARY,
    "floor": Operator({"x": quarters(*TABLE)}, TABLE, differentiable=False),
    "round": Operator({"x": quarters(*TABLE)}, TABLE, differentiable=False),
    "clamp": KINKED,
    "signbit": Operator({"x": sprinkled(-0.0, *TABLE)}, TABLE, differentiable=False),
    "isnan": Operator({"x": sprinkled(np.nan, *TABLE)}, TABLE, differentiable=False),
    "bitwise_and": Operator({"x": integers(0, 1 << 31, *TABLE), "y": integers(0, 1 << 31, *TABLE)}, TABLE, differentiable=False),
    "relu": KINKED,
    "silu": UNARY,
    "gelu": UNARY,
    "softshrink": KINKED,
    "softmax": UNARY,
    "log_softmax": UNARY,
    "sum": ROWS,
    "mean": ROWS,
    "var": ROWS,
    "amax": Operator({"x": odd(*TABLE)}, (256,)),
    "argmax": Operator({"x": odd(*TABLE)}, (256,), differentiable=False),
    "norm": ROWS,
    "logsumexp": ROWS,
    "cumsum": Operator({"x": normal(64, 1024)}, (64, 1024)),
    "topk": Operator({"x": odd(*TABLE)}, (256, LARGEST)),
    "sort": KINKED,
    "gather": Operator({"x": normal(*TABLE), "index": integers(0, 256, 256, 64)}, (256, 64)),
    "index_add": Operator({"x": normal(*TABLE), "index": integers(0, 256, 128), "y": normal(128, 256)}, TABLE),
    "embedding": Operator({"weight": normal(*TABLE), "index": integers(0, 256, 512)}, (512, 256)),
    "one_hot": Operator({"index": integers(0, 256, 256)}, TABLE, differentiable=False),
    "searchsorted": Operator({"sorted": ascending(128), "x": normal(1 << 16)}, (1 << 16,), differentiable=False),
    "histogram": Operator({"x": uniform(-REACH, REACH, *TABLE)}, (BINS,), differentiable=False),
    "concat": Operator({"x": normal(*TABLE), "y": normal(128, 256)}, (384, 256)),
    "flip": UNARY,
    "roll": UNARY,
    "pad": Operator({"x": normal(*TABLE)}, (258, 260)),
    "repeat_interleave": Operator({"x": normal(*TABLE)}, (REPEATS * 256, 256)),
    "tril": UNARY,
    "linear": Operator({"x": normal(*TABLE), "weight": normal(256, 128), "bias": normal(128)}, (256, 128)),
    "matmul": Operator({"x": normal(4, 64, 128), "y": normal(4, 128, 64)}, (4, 64, 64)),
    "conv1d": Operator({"x": normal(8, 256, 16), "weight": normal(3, 16, 32)}, (8, 256, 32)),
    "conv2d": Operator({"x": normal(4, 32, 32, 8), "weight": normal(3, 3, 8, 16)}, (4, 32, 32, 16)),
    "conv_transpose2d": Operator({"x": normal(4, 32, 32, 16), "weight": normal(2, 2, 8, 16)}, (4, 64, 64, 8)),
    "max_pool2d": Operator({"x": odd(*IMAGE)}, (4, 8, 8, 64)),
    "avg_pool2d": Operator({"x": normal(*IMAGE)}, (4, 8, 8, 64)),
    "interpolate": Operator({"x": normal(4, 16, 16, 16)}, (4, 32, 32, 16)),
    "grid_sample": Operator({"x": normal(4, 16, 16, 16), "grid": sixteenths(4, 32, 32, 2)}, (4, 32, 32, 16)),
    "layer_norm": Operator({"x": normal(2048, 64), **SCALED}, (2048, 64)),
    "group_norm": Operator({"x": normal(*IMAGE), **SCALED}, IMAGE),
    "batch_norm": Operator({"x": normal(*IMAGE), "mean": normal(64), "variance": uniform(0.5, 2, 64), **SCALED}, IMAGE),
    "cross_entropy": Operator({"x": normal(*TABLE), "index": integers(0, 256, 256)}, (256,)),
    "mse_loss": Operator({"x": normal(64, 64), "y": normal(64, 64)}, ()),
    "triangular_solve": Operator({"x": dominant(16, 32, 32), "y": normal(16, 32, 8)}, (16, 32, 8)),
    "cholesky": Operator({"x": definite(16, 32, 32)}, (16, 32, 32)),
    "inverse": Operator({"x": dominant(16, 32, 32)}, (16, 32, 32)),
}
