"""The product by 4-bit weights in PyTorch on Metal: torch.mps.compile_shader takes a whole source and binds arguments in their order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from metalbench.kernels.int4_matmul import layout
from metalbench.workloads.base import Array, DType
from metalbench.workloads.int4_matmul import pack_bytes

SOURCE = Path(__file__).with_name("int4_matmul.metal").read_text("utf-8")
DEVICE = "mps"
TYPES = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat"}


@functools.cache
def compiled(dtype: torch.dtype, group: int, rows: int, columns: int, simdgroups: int) -> Any:
    """The kernel for one dtype, group and layout, compiled when it is first asked for."""
    instance = f"int4_matmul_of_tensors<{TYPES[dtype]}, {group}, {rows}, {columns}, {simdgroups}>"
    library = torch.mps.compile_shader(f'{SOURCE}\ntemplate [[host_name("int4_matmul")]] [[kernel]] decltype({instance}) {instance};\n')
    return library.int4_matmul


def int4_matmul(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """x [m, k], scales and offsets [n, k / group] in one of float32, float16 and bfloat16; codes uint8 [n, k / 2] → [m, n] in that dtype.

    All contiguous; ``codes`` begins at a multiple of 4 bytes. Written for m = 1…32, right for any m.
    """
    (m, k), n = x.shape, codes.shape[0]
    how = layout(m, n)
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    run = compiled(x.dtype, k // scales.shape[1], how.rows, how.columns, how.simdgroups)
    run(x, codes, scales, offsets, out, m, n, k, threads=how.grid, group_size=how.threadgroup)
    return out


def by_weights(dtype: DType, codes: Array, scales: Array, offsets: Array) -> Callable[[torch.Tensor], torch.Tensor]:
    """(x [m, k] on the device in ``dtype`` → [m, n]) for codes uint8 [n, k], scales and offsets [n, k / group], of NumPy."""
    packed = torch.tensor(pack_bytes(codes), device=DEVICE)
    parameters = [torch.tensor(array).to(DEVICE, getattr(torch, dtype)) for array in (scales, offsets)]
    return lambda x: int4_matmul(x, packed, *parameters)
