"""Quantized weights in PyTorch: its int4pack and int8pack operators, and unpacking through torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from metalbench.backends.base import Factory, Step, Told, Unsupported, unsupported
from metalbench.backends.torch.device import TorchDevice
from metalbench.backends.torch.int4_matmul import dense, stored, unpack_and_multiply
from metalbench.backends.torch.int4_matmul import native as native_int4
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import pack_bytes
from metalbench.workloads.quantized_matmul import QuantizedMatmulCase


def native(device: TorchDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    if case.scheme == "int4":
        return native_int4(device, case, inputs)
    if case.scheme == "lookup4":
        raise Unsupported("PyTorch has no operator that multiplies by weights from a lookup table")
    if case.group != case.k:
        raise Unsupported(f"PyTorch's _weight_int8pack_mm takes one scale a row, not one for {case.group} weights of {case.k}")
    x, codes = device.put(inputs["x"], case.dtype), device.put(inputs["codes"])
    scales = device.put(inputs["scales"][:, 0], case.dtype)
    product = torch.ops.aten._weight_int8pack_mm  # noqa: SLF001 - PyTorch offers no other name
    return Told(lambda: {"out": product(x, codes, scales)}, figures=stored(codes, scales))


def scale_and_multiply(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """x [m, k]; signed codes, a byte each, [n, k]; scales [n, k / group, 1]."""
    weights = codes.view(*scales.shape[:2], -1).to(x.dtype) * scales
    return x @ weights.view(codes.shape).T


def look_up_and_multiply(x: torch.Tensor, packed: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """x [m, k]; two codes a byte [n, k / 2], the even one in the low half; tables [n / rows, 16], each of so many rows."""
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).view(tables.shape[0], -1)
    weights = torch.gather(tables, 1, codes.long())
    return x @ weights.view(packed.shape[0], -1).T


def dequantize(device: TorchDevice, case: QuantizedMatmulCase, inputs: Arrays) -> Step:
    multiply: Callable[..., torch.Tensor]
    if case.scheme == "int8":
        multiply, codes = scale_and_multiply, device.put(inputs["codes"])
        shared = [device.put(inputs["scales"], case.dtype).unsqueeze(-1)]
    elif case.scheme == "int4":
        multiply, codes = unpack_and_multiply, device.put(pack_bytes(inputs["codes"]))
        shared = [device.put(inputs[name], case.dtype).unsqueeze(-1) for name in ("scales", "offsets")]
    else:
        multiply, codes = look_up_and_multiply, device.put(pack_bytes(inputs["codes"]))
        shared = [device.put(inputs["tables"], case.dtype)]
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    product = torch.compile(multiply, fullgraph=True, dynamic=False)
    x = device.put(inputs["x"], case.dtype)
    return Told(lambda: {"out": product(x, codes, *shared)}, figures=stored(codes, *shared))


VARIANTS: Mapping[str, Factory] = {
    "native": native,
    "dequantize": dequantize,
    "uint4": unsupported("PyTorch converts nothing to torch.uint4: \"copy_\" not implemented for 'UInt4'"),
    "dense": dense,
}
DEFAULT = "dequantize"
