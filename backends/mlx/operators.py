"""One function or layer of MLX for each operator that it has one for, and mx.vjp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
from mlx import nn

from metalbench.backends.base import Factory, Outputs, Step, Unsupported
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads._operators_inputs import EPSILON, GROUPS, LARGEST, LIMIT, MARGIN, REPEATS, SHIFT, THRESHOLD
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.operators import OperatorsCase, differentiated, operands


def holding(layer: nn.Module, **parameters: mx.array) -> Any:
    """The layer with these parameters, since MLX has no function for what it does."""
    return layer.update(parameters)


OPERATORS: Mapping[str, Callable[..., mx.array]] = {
    "add": mx.add,
    "mul": mx.multiply,
    "div": mx.divide,
    "pow": mx.power,
    "maximum": mx.maximum,
    "where": mx.where,
    "sqrt": mx.sqrt,
    "rsqrt": mx.rsqrt,
    "exp": mx.exp,
    "log": mx.log,
    "cos": mx.cos,
    "erf": mx.erf,
    "tanh": mx.tanh,
    "sigmoid": mx.sigmoid,
    "floor": mx.floor,
    "round": mx.round,
    "clamp": lambda x: mx.clip(x, -LIMIT, LIMIT),
    "isnan": mx.isnan,
    "bitwise_and": mx.bitwise_and,
    "relu": nn.relu,
    "silu": nn.silu,
    "gelu": nn.gelu,
    "softshrink": lambda x: nn.softshrink(x, THRESHOLD),
    "softmax": lambda x: mx.softmax(x, axis=-1, precise=True),  # sums in float32
    "log_softmax": nn.log_softmax,
    "sum": lambda x: mx.sum(x, axis=-1),
    "mean": lambda x: mx.mean(x, axis=-1),
    "var": lambda x: mx.var(x, axis=-1),
    "amax": lambda x: mx.max(x, axis=-1),
    "argmax": lambda x: mx.argmax(x, axis=-1),
    "norm": lambda x: mx.linalg.norm(x, axis=-1),
    "logsumexp": lambda x: mx.logsumexp(x, axis=-1),
    "cumsum": lambda x: mx.cumsum(x, axis=-1),
    "topk": lambda x: mx.topk(x, LARGEST),
    "sort": mx.sort,
    "gather": lambda x, index: mx.take_along_axis(x, index, axis=1),
    "index_add": lambda x, index, y: x.at[index].add(y),
    "embedding": lambda weight, index: mx.take(weight, index, axis=0),
    "searchsorted": mx.searchsorted,
    "concat": lambda x, y: mx.concatenate([x, y]),
    "flip": lambda x: mx.flip(x, axis=1),
    "roll": lambda x: mx.roll(x, SHIFT, -1),
    "pad": lambda x: mx.pad(x, list(MARGIN)),
    "repeat_interleave": lambda x: mx.repeat(x, REPEATS, axis=0),
    "tril": mx.tril,
    "linear": lambda x, weight, bias: mx.addmm(bias, x, weight),
    "matmul": mx.matmul,
    "conv1d": lambda x, weight: mx.conv1d(x, weight, padding=1),
    "conv2d": lambda x, weight: mx.conv2d(x, weight, padding=1),
    "conv_transpose2d": lambda x, weight: mx.conv_transpose2d(x, weight, stride=2),
    "max_pool2d": nn.MaxPool2d(2),
    "avg_pool2d": nn.AvgPool2d(2),
    "interpolate": nn.Upsample(2, "linear", align_corners=False),
    "layer_norm": lambda x, weight, bias: mx.fast.layer_norm(x, weight, bias, EPSILON),
    "group_norm": lambda x, weight, bias: holding(
        nn.GroupNorm(GROUPS, x.shape[-1], EPSILON, pytorch_compatible=True), weight=weight, bias=bias
    )(x),
    "batch_norm": lambda x, mean, variance, weight, bias: holding(
        nn.BatchNorm(x.shape[-1], EPSILON).eval(), running_mean=mean, running_var=variance, weight=weight, bias=bias
    )(x),
    "cross_entropy": nn.losses.cross_entropy,
    "mse_loss": nn.losses.mse_loss,
    "triangular_solve": lambda x, y: mx.linalg.solve_triangular(x, y, upper=False),
    "cholesky": mx.linalg.cholesky,
    "inverse": mx.linalg.inv,
}
LACKING: Mapping[str, str] = {
    "signbit": "no function tells −0 from 0",
    "one_hot": "a comparison or a row of mx.eye makes one",
    "histogram": "nothing counts by bins",
    "grid_sample": "its documentation has it as an example of a kernel of one's own",
}
#: Which of our axes each of MLX's is: its weights are [out, height, width, in].
AXES = {"conv1d": (2, 0, 1), "conv2d": (3, 0, 1, 2), "conv_transpose2d": (2, 0, 1, 3)}


def native(device: MlxDevice, case: OperatorsCase, inputs: Arrays) -> Step:
    if case.operator in LACKING:
        raise Unsupported(f"MLX has no public function for {case.operator}: {LACKING[case.operator]}")
    function, axes = OPERATORS[case.operator], AXES.get(case.operator)
    given = {name: _put(device, case, array.transpose(axes) if axes and name == "weight" else array) for name, array in inputs.items()}
    names, derived = operands(case), differentiated(case)
    leaves = [given[name] for name in derived]

    def forward(*leaves: mx.array) -> mx.array:
        values = {**given, **dict(zip(derived, leaves, strict=True))}
        return function(*(values[name] for name in names))

    def step() -> Outputs:
        if not derived:
            return {"out": forward()}
        (out,), found = mx.vjp(forward, leaves, [given["cotangent"]])
        gradients = dict(zip(derived, found, strict=True))
        if axes:
            gradients["weight"] = gradients["weight"].transpose(*map(axes.index, range(len(axes))))
        return {"out": out, **{f"gradient.{name}": gradient for name, gradient in gradients.items()}}

    return step


def _put(device: MlxDevice, case: OperatorsCase, array: Array) -> mx.array:
    return device.put(array, case.dtype if array.dtype.kind == "f" else None)


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
