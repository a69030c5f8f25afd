"""One function of PyTorch for each operator, and torch.autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads._operators_inputs import BINS, EPSILON, GROUPS, LARGEST, LIMIT, MARGIN, REACH, REPEATS, SHIFT, THRESHOLD
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.operators import OperatorsCase, differentiated, operands

OPERATORS: Mapping[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "maximum": torch.maximum,
    "where": torch.where,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "exp": torch.exp,
    "log": torch.log,
    "cos": torch.cos,
    "erf": torch.erf,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "floor": torch.floor,
    "round": torch.round,
    "clamp": lambda x: torch.clamp(x, -LIMIT, LIMIT),
    "signbit": torch.signbit,
    "isnan": torch.isnan,
    "bitwise_and": torch.bitwise_and,
    "relu": functional.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "softshrink": lambda x: functional.softshrink(x, THRESHOLD),
    "softmax": lambda x: functional.softmax(x, dim=-1),
    "log_softmax": lambda x: functional.log_softmax(x, dim=-1),
    "sum": lambda x: torch.sum(x, dim=-1),
    "mean": lambda x: torch.mean(x, dim=-1),
    "var": lambda x: torch.var(x, dim=-1, correction=0),
    "amax": lambda x: torch.amax(x, dim=-1),
    "argmax": lambda x: torch.argmax(x, dim=-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "logsumexp": lambda x: torch.logsumexp(x, dim=-1),
    "cumsum": lambda x: torch.cumsum(x, dim=-1),
    "topk": lambda x: torch.topk(x, LARGEST).values,
    "sort": lambda x: torch.sort(x).values,
    "gather": lambda x, index: torch.gather(x, 1, index),
    "index_add": lambda x, index, y: torch.index_add(x, 0, index, y),
    "embedding": lambda weight, index: functional.embedding(index, weight),
    "one_hot": lambda index: functional.one_hot(index, 256),
    "searchsorted": torch.searchsorted,
    "histogram": lambda x: torch.histc(x, BINS, -REACH, REACH),
    "concat": lambda x, y: torch.cat((x, y)),
    "flip": lambda x: torch.flip(x, (1,)),
    "roll": lambda x: torch.roll(x, SHIFT, -1),
    "pad": lambda x: functional.pad(x, (*MARGIN[1], *MARGIN[0])),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, REPEATS, dim=0),
    "tril": torch.tril,
    "linear": functional.linear,
    "matmul": torch.matmul,
    "conv1d": lambda x, weight: functional.conv1d(x, weight, padding=1),
    "conv2d": lambda x, weight: functional.conv2d(x, weight, padding=1),
    "conv_transpose2d": lambda x, weight: functional.conv_transpose2d(x, weight, stride=2),
    "max_pool2d": lambda x: functional.max_pool2d(x, 2),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 2),
    "interpolate": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
    "grid_sample": lambda x, grid: functional.grid_sample(x, grid, align_corners=False),
    "layer_norm": lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias, EPSILON),
    "group_norm": lambda x, weight, bias: functional.group_norm(x, GROUPS, weight, bias, EPSILON),
    "batch_norm": lambda x, mean, variance, weight, bias: functional.batch_norm(x, mean, variance, weight, bias, eps=EPSILON),
    "cross_entropy": lambda x, index: functional.cross_entropy(x, index, reduction="none"),
    "mse_loss": functional.mse_loss,
    "triangular_solve": lambda x, y: torch.linalg.solve_triangular(x, y, upper=False),
    "cholesky": torch.linalg.cholesky,
    "inverse": torch.linalg.inv,
}
#: Whose images PyTorch wants with channels first, and whose weights from the output's channels to the width.
CHANNELS_FIRST = {
    "linear",
    "conv1d",
    "conv2d",
    "conv_transpose2d",
    "max_pool2d",
    "avg_pool2d",
    "interpolate",
    "grid_sample",
    "group_norm",
    "batch_norm",
}


def native(device: TorchDevice, case: OperatorsCase, inputs: Arrays) -> Step:
    """Transposed on the way to the device, and seen as ours on the way back, which copies nothing."""
    function = OPERATORS[case.operator]
    axes = {name: _axes(case.operator, name, array.ndim) for name, array in inputs.items()}
    given = {name: _put(device, case, name, array.transpose(axes[name])) for name, array in inputs.items()}
    arguments = [given[name] for name in operands(case)]
    leaves = {name: given[name].requires_grad_() for name in differentiated(case)}

    def step() -> Outputs:
        out = function(*arguments)
        if not leaves:
            return {"out": out}
        gradients = torch.autograd.grad(out, list(leaves.values()), given["cotangent"])
        ours = {f"gradient.{name}": _back(gradient, axes[name]) for name, gradient in zip(leaves, gradients, strict=True)}
        return {"out": _back(out, axes["cotangent"]), **ours}

    return step


def _put(device: TorchDevice, case: OperatorsCase, name: str, array: Array) -> torch.Tensor:
    if array.dtype.kind == "f":
        return device.put(array, case.dtype)
    return device.put(array, "int64" if name == "index" else None)  # the only type that every function takes for it


def _axes(operator: str, name: str, dimensions: int) -> tuple[int, ...]:
    """Which of our axes each of PyTorch's is."""
    inner = tuple(range(dimensions))
    if operator not in CHANNELS_FIRST or dimensions < 2 or name == "grid":
        return inner
    return (inner[-1], inner[-2], *inner[:-2]) if name == "weight" else (0, inner[-1], *inner[1:-1])


def _back(tensor: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return tensor.permute([axes.index(axis) for axis in range(tensor.ndim)])


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
