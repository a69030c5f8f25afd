"""4-bit weights in PyTorch: the int4pack operators that torchao and torchchat use, and unpacking through torch.compile."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from metalbench.backends.base import Factory, Step, Told, Unsupported
from metalbench.backends.torch.device import TorchDevice
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Arrays
from metalbench.workloads.int4_matmul import Int4MatmulCase, pack_bytes

INNER_TILES = 8  #: k-tiles packed together for the GPU's kernels, the most they take


def native(device: TorchDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    """The operator computes (code − 8)·scale + zero, so its zero is our offset + 8·scale; one pair a group, [k / group, n, 2]."""
    if device.kind == "cuda" and case.dtype != "bfloat16":
        raise Unsupported(f"PyTorch's int4pack product takes bfloat16 activations only on CUDA, not {case.dtype}")
    aten = torch.ops.aten
    x = device.put(inputs["x"], case.dtype)
    zeros = inputs["offsets"] + 8 * inputs["scales"]
    pairs = torch.stack((device.put(inputs["scales"].T, case.dtype), device.put(zeros.T, case.dtype)), dim=-1).contiguous()
    if device.kind == "cpu":
        packed = aten._convert_weight_to_int4pack_for_cpu(device.put(inputs["codes"], "int32"), 1)  # noqa: SLF001 - PyTorch offers no other name
        product = aten._weight_int4pack_mm_for_cpu  # noqa: SLF001 - as above
    else:
        codes = device.put(inputs["codes"])
        packed = aten._convert_weight_to_int4pack((codes[:, ::2] << 4) | codes[:, 1::2], INNER_TILES)  # noqa: SLF001 - as above
        product = aten._weight_int4pack_mm  # noqa: SLF001 - as above
    return Told(lambda: {"out": product(x, packed, case.group, pairs)}, figures=stored(packed, pairs))


def unpack_and_multiply(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """x [m, k]; two codes a byte [n, k / 2], the even one in the low half; scales and offsets [n, k / group, 1]."""
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).view(*scales.shape[:2], -1)
    weights = codes.to(x.dtype) * scales + offsets
    return x @ weights.view(packed.shape[0], -1).T


def dequantize(device: TorchDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    product = torch.compile(unpack_and_multiply, fullgraph=True, dynamic=False)
    x, packed = device.put(inputs["x"], case.dtype), device.put(pack_bytes(inputs["codes"]))
    scales, offsets = (device.put(inputs[name], case.dtype).unsqueeze(-1) for name in ("scales", "offsets"))
    return Told(lambda: {"out": product(x, packed, scales, offsets)}, figures=stored(packed, scales, offsets))


def dense(device: TorchDevice, case: Int4MatmulCase, inputs: Arrays) -> Step:
    x, weights = device.put(inputs["x"], case.dtype), device.put(inputs["weights"], case.dtype)
    return Told(lambda: {"dense": x @ weights.T}, figures=stored(weights))


def stored(*arrays: torch.Tensor) -> dict[str, float]:
    """The figure ``weight_bytes``: of the memory behind the weights and what belongs to them."""
    return {"weight_bytes": sum(array.untyped_storage().nbytes() for array in arrays)}


VARIANTS: Mapping[str, Factory] = {
    "native": native,
    "dequantize": dequantize,
    "dense": dense,
    "kernel": variant("int4_matmul", "torch"),
}
DEFAULT = "native"
