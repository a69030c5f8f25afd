"""Softshrink in PyTorch on Metal: torch.mps.compile_shader, which takes a whole source and binds arguments in their order."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

from metalbench.kernels.softshrink import ELEMENTS, THREADS, threads

SOURCE = Path(__file__).with_name("softshrink.metal").read_text("utf-8")
TYPES = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat"}


@functools.cache
def compiled(dtype: torch.dtype) -> Any:
    """The kernel for one dtype, compiled when it is first asked for."""
    instance = f"softshrink_of_tensors<{TYPES[dtype]}, {ELEMENTS}>"
    return torch.mps.compile_shader(
        f'{SOURCE}\ntemplate [[host_name("softshrink")]] [[kernel]] decltype({instance}) {instance};\n'
    ).softshrink


def softshrink(x: torch.Tensor, threshold: float = 0.5) -> torch.Tensor:
    """x in float32, float16 or bfloat16, of any shape and offset → the same shape and dtype. ``threshold`` ≥ 0."""
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():  # Metal starts no empty grid
        compiled(x.dtype)(x, y, x.numel(), float(threshold), threads=threads(x.numel()), group_size=THREADS)
    return y
