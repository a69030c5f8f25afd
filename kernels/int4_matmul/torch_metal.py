"""The product by 4-bit weights in PyTorch on Metal: torch.mps.compile_shader takes a whole source and binds arguments in their order."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

from metalbench.kernels.int4_matmul import layout

SOURCE = Path(__file__).with_name("int4_matmul.metal").read_text("utf-8")
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
